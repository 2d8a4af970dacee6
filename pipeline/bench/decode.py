"""`soltape bench decode`: from SubscribeUpdate bytes to events, on one core."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import click
import orjson

from infra.bench import median, progress, report
from infra.chain.market import Knobs, Market
from infra.chain.source import SlotTransactions
from infra.settings import load
from pipeline.decoding.reading import decode_update
from schemas.proto.geyser_pb2 import SubscribeUpdate, SubscribeUpdateTransactionInfo
from schemas.solana.addresses import text
from schemas.solana.rpc_json import transaction_from_json, transaction_to_json

DEFAULT_CORPUS: Final = Path("../shared/corpus/transactions.jsonl")


@dataclass(slots=True)
class Sample:
    """Transactions to be decoded, as the stream carries them."""

    name: str
    updates: list[bytes]


def corpus(path: Path) -> Sample:
    """Read getTransaction answers as updates."""
    updates = []
    for line in path.read_bytes().splitlines():
        answer = transaction_from_json(orjson.loads(line))
        updates.append(_update(answer.info, answer.slot or 0))
    return Sample("corpus", updates)


def simulated(count: int) -> Sample:
    """Take transactions from the simulated market."""
    updates: list[bytes] = []
    market = Market(Knobs(seed=1, failed=0.0))
    for _, event in market.stream():
        if isinstance(event, SlotTransactions):
            for transaction in event.transactions:
                if transaction.is_vote:  # the subscription leaves votes out
                    continue
                info = SubscribeUpdateTransactionInfo.FromString(transaction.info)
                updates.append(_update(info, event.slot))
        if len(updates) >= count:
            break
    return Sample("simulated", updates[:count])


def _update(info: SubscribeUpdateTransactionInfo, slot: int) -> bytes:
    update = SubscribeUpdate()
    update.transaction.transaction.CopyFrom(info)
    update.transaction.slot = slot
    return update.SerializeToString()


def decode_all(updates: Sequence[bytes]) -> int:
    """Decode updates and return how many events they held."""
    events = 0
    for data in updates:
        transaction = SubscribeUpdate.FromString(data).transaction
        events += len(decode_update(transaction.transaction, transaction.slot, 0).events)
    return events


def walk_all(updates: Sequence[bytes]) -> int:
    """Parse updates and touch every instruction: what any decoder in Python has to pay."""
    touched = 0
    for data in updates:
        info = SubscribeUpdate.FromString(data).transaction.transaction
        message = info.transaction.message
        touched += len(list(message.account_keys))
        for outer in message.instructions:
            touched += outer.program_id_index + len(outer.accounts) + len(outer.data)
        for group in info.meta.inner_instructions:
            for inner in group.instructions:
                touched += inner.program_id_index + len(inner.accounts) + len(inner.data)
    return touched


def per_second(work: Callable[[Sequence[bytes]], int], updates: Sequence[bytes]) -> float:
    """Time one run in CPU seconds, with no address remembered from the last one."""
    text.cache_clear()
    start = time.process_time()
    work(updates)
    return len(updates) / (time.process_time() - start)


def peer_per_second(updates: Sequence[bytes], runs: int) -> dict[str, Any]:
    """Time solana-dex-parser on the same transactions.

    Raises click.ClickException where Node.js, npm or the package cannot be had.
    """
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise click.ClickException(f"--peer needs {program}: install Node.js 20 or newer")
    folder = load().soltape_data / "peer"
    folder.mkdir(parents=True, exist_ok=True)
    source = files("pipeline.bench").joinpath("peer")
    for name in ("package.json", "time.mjs"):
        (folder / name).write_text(source.joinpath(name).read_text())
    if not (folder / "node_modules" / "solana-dex-parser").exists():
        progress("installing solana-dex-parser ...")
        install = subprocess.run(
            ["npm", "install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"],
            cwd=folder, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        if install.returncode:
            raise click.ClickException(f"npm install failed: {install.stderr.strip()[-300:]}")
    with tempfile.NamedTemporaryFile("wb", suffix=".jsonl") as lines:
        for data in updates:
            transaction = SubscribeUpdate.FromString(data).transaction
            answer = transaction_to_json(transaction.transaction)
            answer |= {"slot": transaction.slot, "blockTime": 0}
            lines.write(orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE))
        lines.flush()
        run = subprocess.run(
            ["node", "time.mjs", lines.name, str(runs)],
            cwd=folder, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
    if run.returncode:
        raise click.ClickException(f"the peer failed: {run.stderr.strip()[-300:]}")
    result: dict[str, Any] = json.loads(run.stdout)
    return result


@click.command()
@click.option("--quick", is_flag=True, help="Fewer runs: rougher figures within 45 seconds.")
@click.option("--peer", is_flag=True, help="Also time npm's solana-dex-parser on the same bytes.")
@click.option(
    "--corpus",
    "corpus_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=f"getTransaction answers, one a line.  [default: {DEFAULT_CORPUS} where it exists]",
)
def decode(quick: bool, peer: bool, corpus_file: Path | None) -> None:
    """Measure decoding: SubscribeUpdate bytes to events, transactions per CPU second.

    Half of the transactions are real ones where a corpus is there, the rest comes from the
    simulated market. The baseline is the parsing and walking that any decoder has to do, or
    with --peer another parser on the same transactions in the same run.
    """
    runs = 9 if quick else 31
    if corpus_file is None and DEFAULT_CORPUS.exists():
        corpus_file = DEFAULT_CORPUS
    samples = [] if corpus_file is None else [corpus(corpus_file)]
    progress("generating the simulated market ...")
    samples.append(simulated(len(samples[0].updates) if samples else 500))
    updates = [data for sample in samples for data in sample.updates]
    mixed, parts, walked = [], {sample.name: [] for sample in samples}, []  # type: ignore[var-annotated]
    events = decode_all(updates)
    for run in range(runs):
        progress(f"run {run + 1} of {runs}")
        mixed.append(per_second(decode_all, updates))
        walked.append(per_second(walk_all, updates))
        for sample in samples:
            parts[sample.name].append(per_second(decode_all, sample.updates))
    value = median(mixed)
    baseline = {"name": "parse and walk", "value": round(median(walked))}
    if peer:
        progress("timing the peer ...")
        timed = peer_per_second(updates, 5 if quick else 15)
        baseline = {
            "name": "solana-dex-parser 2.6.7",
            "value": round(median(timed["perSecond"])),
            "trades": timed["trades"],
            "errors": timed["errors"],
        }
    report(
        "decode",
        round(value),
        "tx/s",
        baseline=baseline,
        ratio=round(value / baseline["value"], 2),  # type: ignore[operator]
        per_second={name: round(median(values)) for name, values in parts.items()},
        counts={
            "transactions": len(updates),
            "events": events,
            "bytes": sum(map(len, updates)),
        },
        runs=runs,
    )
