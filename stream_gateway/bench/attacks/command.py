"""`soltape bench attacks`: each door attacked from outside, and what other users notice."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import urlsplit

import click
import orjson

from infra.bench import progress, report
from infra.bench.api.data import stores
from infra.bench.api.endpoints import HOT, read_pairs
from infra.bench.api.serving import serve_api
from infra.bench.api.world import World
from infra.bench.roles import BenchFailed
from infra.clickhouse import client as clickhouse_client
from stream_gateway.bench import serving
from stream_gateway.bench.attacks.bars import MAX_P99_MS, REFUSED_WITHIN_S, broken
from stream_gateway.bench.attacks.kinds import API, ATTACKS, GATEWAY, Attack
from stream_gateway.bench.attacks.others import Others
from stream_gateway.bench.serving import Store

_SWAPS: Final = 5_000
_FILES: Final = 3_000
_CONNECTIONS: Final = 2_000
_REST_S: Final = 5.0  # between attacks: batches that were let in take seconds
_AFTERWARDS_S: Final = 2.0  # how long an attack goes on when its first connections are ended


@click.command("attacks")
@click.option("--quick", is_flag=True, help="Three seconds of each: rough, and no bars of time.")
@click.option(
    "--seconds", type=click.FloatRange(1), help="Of each attack.  [default: 15]", default=None
)
@click.option(
    "--attack",
    "names",
    type=click.Choice([each.name for each in ATTACKS]),
    multiple=True,
    help="Which; may be given several times.  [default: all]",
)
def attacks(quick: bool, seconds: float | None, names: Sequence[str]) -> None:
    """Attack the API and the gateway; measure what other users notice.

    `soltape api` and `soltape gateway` run as in production over an embedded Valkey and ClickHouse.
    One process, on one core of its own, attacks from one address without a pause. Meanwhile a user
    with a key and another address asks the API 20 times a second and opens four WebSockets a
    second. The line has for each attack its rate, its answers by status, the slowest refusal, and
    the latency of the other user, beside the latency with nobody attacking.

    It fails where an attack is let in or refused after more than 2 s, where the other user is left
    without an answer, or where the p99 of the other user is more than 100 ms.
    """
    serving.require(_FILES)
    length = seconds or (3.0 if quick else 15.0)
    kinds = [each for each in ATTACKS if not names or each.name in names]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soltape-bench-")))
        progress(f"a data set of {_SWAPS:,} swaps")
        filled = stack.enter_context(stores(folder))
        filled.fill(World(_SWAPS))
        with clickhouse_client.connect(filled.settings) as clickhouse:
            pairs = read_pairs(clickhouse, _SWAPS)
        api = stack.enter_context(serve_api(filled, folder))
        store = Store(filled.settings, filled.env, folder)
        gateway = stack.enter_context(serving.gateway(store, _CONNECTIONS))
        gateway_url, _, query = gateway.url.partition("?")
        others = Others(
            api.url,
            gateway_url,
            api.key,
            [request.path for each in HOT for request in each.requests(pairs)[:20]],
        )
        # The attacker has a key without limits of a plan: what bounds it is what bounds everybody.
        key_file = folder / "attacker.key"
        key_file.touch(mode=0o600)
        key_file.write_text(query.removeprefix("api_key="))
        ports = {API: urlsplit(api.url).port, GATEWAY: urlsplit(gateway.url).port}
        asyncio.run(others.ask(2.0))  # what is asked for the first time takes longer
        calm = asyncio.run(others.ask(length))
        if failures := [text for each in calm.values() for text in each["failures"]]:
            raise BenchFailed(f"with nobody attacking: {', '.join(failures)}")
        progress(f"nobody attacks: {_words(calm)}")
        found: dict[str, Any] = {}
        bars: list[str] = []
        for kind in kinds:
            asyncio.run(others.ask(min(length, _REST_S)))  # what was asked before is done by then
            long = kind.ended_after_s + _AFTERWARDS_S if kind.ended_after_s else length
            found[kind.name] = _attacked(
                kind, ports[kind.door] or 0, max(long, length), key_file, others, folder
            )
            bars += broken(kind, found[kind.name], is_timed=not quick)
            per_s = found[kind.name]["per_s"]
            progress(f"{kind.name}, {per_s:,}/s: {_words(found[kind.name]['others'])}")
            for role in (api.role, gateway.role):
                role.check()
    worst = [
        each["others"][door]["p99_ms"] or float("inf")
        for each in found.values()
        for door in ("api", "gateway")
    ]
    base = max(calm[door]["p99_ms"] for door in ("api", "gateway"))
    report(
        "attacks",
        max(worst),
        "p99 ms of other users, worst",
        baseline=base,
        ratio=round(max(worst) / base, 2),
        unanswered=sum(
            each["others"][door]["failed"] for each in found.values() for door in ("api", "gateway")
        ),
        slowest_refusal_s=max(each["slowest_refusal_s"] for each in found.values()),
        limits={"p99_ms": MAX_P99_MS, "refused_within_s": REFUSED_WITHIN_S, "unanswered": 0},
        calm=calm,
        attacks=found,
        seconds=length,
    )
    if bars:
        raise BenchFailed("; ".join(bars))


def _attacked(
    kind: Attack, port: int, seconds: float, key_file: Path, others: Others, folder: Path
) -> dict[str, Any]:
    """Attack, and ask as others do meanwhile; return the figures of both."""
    command = [sys.executable, "-m", "stream_gateway.bench.attacks.attacker", kind.name, str(port)]
    log = folder / f"{kind.name}.log"
    with log.open("wb") as errors:
        child = subprocess.Popen(
            [*command, str(seconds), str(key_file)], stdout=subprocess.PIPE, stderr=errors
        )
        try:
            assert child.stdout
            _hear(child.stdout, log)
            noticed = asyncio.run(others.ask(seconds))
            return {**_hear(child.stdout, log), "connections": kind.connections, "others": noticed}
        finally:
            child.kill()
            child.wait()


def _hear(stream: IO[bytes], log: Path) -> dict[str, Any]:
    line = stream.readline()
    if not line:
        raise BenchFailed(f"the attacker ended: {log.read_text(errors='replace')[-600:]}")
    found: dict[str, Any] = orjson.loads(line)
    return found


def _words(figures: dict[str, Any]) -> str:
    return "; ".join(
        f"{door} p99 {each['p99_ms']} ms, {each['failed']} of"
        f" {each['answered'] + each['failed']} failed"
        for door, each in figures.items()
    )
