"""What a zstd dictionary trained per kind would save of the frames that accounts are kept in.

Half of the accounts of a kind train its dictionary, the other half are measured: with it, and as
`schemas.accounts` compresses them.
"""

from __future__ import annotations

import base64
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import click
import zstandard

from infra.bench import progress
from infra.chain.market import Knobs, Market
from infra.chain.source import SlotCompleted, SlotTransactions
from schemas.accounts import compress, decompress
from schemas.protocols.registry import kind_of
from schemas.solana.addresses import key

LEVEL: Final = 3  # of `schemas.accounts`
DICTIONARY_BYTES: Final = 8 << 10
LEAST_ACCOUNTS: Final = 16  # of a kind; fewer train nothing
EVENTS: Final = 6_000  # of the simulated chain, so that its accounts differ
_MEASURED_S: Final = 0.1

Accounts = dict[str, list[bytes]]
"""Data of accounts by kind, each account once."""


def measure(dumps: Path | None) -> dict[str, Any]:
    """Return the figures of the simulated chain, and of a folder of accounts as RPC dumps them."""
    sources = {"chain": of_chain()}
    if dumps is not None:
        sources["dumps"] = of_dumps(dumps)
    figures = {}
    for source, accounts in sources.items():
        figures[source] = found = {
            kind: saved
            for kind, data in sorted(accounts.items())
            if len(data) >= LEAST_ACCOUNTS and (saved := of_kind(data)) is not None
        }
        for kind, saved in found.items():
            progress(f"{source} {kind}: {saved}")
        few = sum(len(data) for kind, data in accounts.items() if kind not in found)
        progress(f"{source}: {few} accounts of kinds with fewer than {LEAST_ACCOUNTS}")
    return figures


def of_chain() -> Accounts:
    """Return the accounts of the simulated chain after a while."""
    market = Market(Knobs(seed=1, forks=0))
    last = {each.address: (each.owner, each.data) for each in market.genesis_accounts()}
    for _, event in islice(market.stream(), EVENTS):
        writes = list(event.writes) if isinstance(event, SlotCompleted) else []
        if isinstance(event, SlotTransactions):
            writes += [each for tx in event.transactions for each in tx.writes]
        last.update((each.address, (each.owner, each.data)) for each in writes if each.lamports)
    return _by_kind((address, owner, data) for address, (owner, data) in sorted(last.items()))


def of_dumps(folder: Path) -> Accounts:
    """Return the accounts of a folder of getAccountInfo's answers; raises ClickException."""
    return _by_kind(_dumped(folder))


def _dumped(folder: Path) -> Iterator[tuple[bytes, bytes, bytes]]:
    for file in sorted(folder.rglob("*.json")):
        try:
            account = json.loads(file.read_text())["account"]
            # Without its address: a dump may lack it, and no kind of many accounts needs it.
            yield bytes(32), key(account["owner"]), base64.b64decode(account["data"][0])
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise click.ClickException(f"{file}: no account as RPC dumps it ({error})") from None


def _by_kind(accounts: Iterable[tuple[bytes, bytes, bytes]]) -> Accounts:
    by_kind: defaultdict[str, list[bytes]] = defaultdict(list)
    for address, owner, data in accounts:
        if (kind := kind_of(address, owner, data)) is not None:
            by_kind[kind.name].append(data)
    return dict(by_kind)


def of_kind(accounts: Sequence[bytes]) -> dict[str, Any] | None:
    """Return what a dictionary saves; None where zstd makes none of so few bytes."""
    training, measured = accounts[::2], accounts[1::2]
    size = min(DICTIONARY_BYTES, sum(map(len, training)) // 8)
    try:
        dictionary = zstandard.train_dictionary(size, list(training), level=LEVEL)
    except zstandard.ZstdError:
        return None
    compressor = zstandard.ZstdCompressor(level=LEVEL, dict_data=dictionary)
    decompressor = zstandard.ZstdDecompressor(dict_data=dictionary)
    plain = [compress(data) for data in measured]
    packed = [compressor.compress(data) for data in measured]
    assert [decompressor.decompress(frame) for frame in packed] == measured
    without, within = (sum(map(len, frames)) / len(measured) for frames in (plain, packed))
    sizes = [len(data) for data in measured]
    return {
        "accounts": len(measured),
        "bytes": round(sum(sizes) / len(sizes)),
        "frame_bytes": round(without, 1),
        "frame_bytes_dictionary": round(within, 1),
        "compress_us": _us(compress, measured),
        "compress_us_dictionary": _us(compressor.compress, measured),
        "decompress_us": _us(lambda at: decompress(plain[at], sizes[at]), range(len(plain))),
        "decompress_us_dictionary": _us(
            lambda at: decompressor.decompress(packed[at], max_output_size=sizes[at]),
            range(len(packed)),
        ),
    }


def _us(work: Callable[[Any], object], over: Sequence[Any]) -> float:
    """Return the microseconds of CPU time that a call takes, over all of some."""
    calls, began = 0, time.thread_time()
    while (took_s := time.thread_time() - began) < _MEASURED_S:
        for each in over:
            work(each)
        calls += len(over)
    return round(took_s / calls * 1e6, 2)
