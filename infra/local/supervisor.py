"""`soltape up`: everything on this machine, started in order, watched, stopped together."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Final

import click
import structlog

from infra.kafka import topics
from infra.kafka.apache import ApacheUnavailable
from infra.kafka.client import KafkaUnreachable
from infra.local import live_line, running
from infra.local.child import Child, NeverServed, TapeEnded, put_aside
from infra.local.folder_lock import FolderInUse
from infra.local.screen import Screen
from infra.local.stack import Stack, Wishes, plan
from infra.local.tether import tethered
from infra.settings import load_own
from infra.telemetry import configure_logging

log = structlog.get_logger(__name__)

# From Ctrl-C to the last process gone, with a margin to the five seconds we promise.
STOP_WITHIN_S: Final = 4.0
_STOP_SYSTEMS_S: Final = 1.2  # of which are kept for the systems, which stop after the roles

# A chain that ends so soon so often ends always.
_SHORT_TAPE_S: Final = 60.0
_SHORT_TAPES: Final = 3

# First requests. They read the key from its file: every user sees the arguments of all processes.
_CURL: Final = "sed 's/^/x-api-key: /' {file} | curl -H @- '{url}/api/tokens/trending?limit=3'"
_LISTEN: Final = (
    "python -c 'import json, sys, websockets.sync.client as client; "
    'swaps = client.connect(sys.argv[1], additional_headers={"x-api-key": input()}).__enter__(); '
    'swaps.send(json.dumps({"action": "subscribe", "channel": "swaps"})); '
    "[*map(print, swaps)]'"
)


@click.command()
@click.option(
    "--chain",
    metavar="simulated|recorded FILE|URL",
    help="Where the chain comes from: a seeded market, a recording, or a Yellowstone endpoint.  "
    "[default: GEYSER_ENDPOINT if it is set, else simulated]",
)
@click.option(
    "--broker",
    metavar="embedded|apache|HOST:PORT,...",
    help="Which Kafka: our small one, Apache Kafka (needs Java 17 and Maven), or yours.  "
    "[default: KAFKA_BOOTSTRAP if it is set, else embedded]",
)
@click.option(
    "--rate",
    type=click.FloatRange(0, 20_000),
    help="Transactions a second of a local chain.  [default: 300]",
)
@click.option(
    "--seed", type=click.IntRange(0), help="Seed of the simulated market.  [default: random]"
)
@click.option("--loop", is_flag=True, help="Play a file of transactions in a loop.")
@click.option(
    "--stores",
    is_flag=True,
    help="Start Kafka, ClickHouse and Redis alone, with what they keep: for `soltape rebuild` or "
    "`soltape keys` while nothing else runs.",
)
@click.option(
    "--no-accounts",
    is_flag=True,
    help="Follow trades alone: no lane of accounts, so no holdings and positions.",
)
@click.argument(
    "file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
def up(
    chain: str | None,
    broker: str | None,
    rate: float | None,
    seed: int | None,
    loop: bool,
    stores: bool,
    no_accounts: bool,
    file: Path | None,
) -> None:
    """Run the whole pipeline on this machine, until Ctrl-C.

    Starts Kafka, ClickHouse, Redis and a chain, each unless a setting says where yours is, then
    `soltape ingest`, `soltape agents`, `soltape watch`, `soltape api` and `soltape gateway`. It
    prints where each part is, a link to the page and a first request to try, then one line a
    second: the newest slot, transactions and swaps a second, how long a transaction takes from the
    chain to ingest, and how many slots Redis and ClickHouse are behind what is confirmed.

    A part that ends is started again. When a local chain ends, its tape is over: everything starts
    again on a new chain, with empty stores and the same API keys. Everything it keeps is in
    SOLTAPE_DATA (.soltape).

    \b
      soltape up
      soltape up --chain recorded transactions.jsonl --loop
      soltape up --chain https://my-yellowstone:443 --broker kafka-1:9092,kafka-2:9092
    """
    os.umask(0o077)  # for all that the systems keep: what asks for a password is no open file
    wishes, given = _wishes(chain, file, broker, rate, seed, loop=loop)
    if stores:
        if chain is not None or rate is not None or seed is not None:
            raise click.UsageError("--stores starts no chain: leave out --chain, --rate and --seed")
        wishes = replace(wishes, stores_only=True)
    if no_accounts:
        wishes = replace(wishes, accounts=False)
    settings = load_own(**given)
    screen = Screen()
    configure_logging(settings, "up", screen)
    try:
        with running.hold(settings.soltape_data):
            stack = plan(settings, wishes)
            if "kafka" in stack.elsewhere:
                asyncio.run(topics.create(settings))
            failure = _run(stack, screen)
    except _REFUSALS as error:
        raise click.ClickException(str(error)) from None
    if failure:
        click.echo(f"Error: {failure}", err=True)
    # Threads may still wait for a broker that has gone; nothing is left for them to do.
    os._exit(1 if failure else 0)


def _run(stack: Stack, screen: Screen) -> Exception | None:
    loop = asyncio.new_event_loop()  # asyncio.run would wait for the threads
    try:
        loop.run_until_complete(supervise(stack, screen))
    except (NeverServed, TapeLost, *_REFUSALS) as failure:
        return failure
    return None


_REFUSALS: Final = (
    running.AlreadyRunning,
    running.FolderUnusable,
    ApacheUnavailable,
    FolderInUse,
    KafkaUnreachable,
    topics.TopicsWrong,
)


def _wishes(
    chain: str | None,
    file: Path | None,
    broker: str | None,
    rate: float | None,
    seed: int | None,
    *,
    loop: bool,
) -> tuple[Wishes, dict[str, str]]:
    """Return what is started here, and the settings that the command line gives instead."""
    wishes = Wishes(recording=file, rate=rate, seed=seed, loop=loop)
    given = {}
    match chain:
        case None:
            pass
        case "simulated" | "recorded":
            wishes = replace(wishes, chain=chain)
        case _ if "://" in chain:
            given["geyser_endpoint"] = chain
        case _:
            raise click.UsageError(
                f"--chain must be simulated, recorded FILE, or a URL, got {chain!r}"
            )
    match broker:
        case None:
            pass
        case "embedded" | "apache":
            wishes = replace(wishes, broker=broker)
        case _:
            given["kafka_bootstrap"] = broker
    if chain == "recorded" and file is None:
        raise click.UsageError("--chain recorded needs the recording: --chain recorded FILE")
    if chain != "recorded" and loop:
        raise click.UsageError("--loop plays a recording again: --chain recorded FILE --loop")
    if chain != "recorded" and file is not None:
        raise click.UsageError(f"{file}: a recording is played with --chain recorded FILE")
    if "geyser_endpoint" in given and (rate is not None or seed is not None):
        raise click.UsageError("--rate and --seed are for a chain that is started here")
    return wishes, given


class TapeLost(Exception):
    """The tape ended and no new one can begin; the text says why, and what to do."""


async def supervise(stack: Stack, screen: Screen) -> None:
    """Run the stack until SIGINT, SIGTERM or SIGHUP, and leave no process.

    When a local chain ends, its tape is over: everything stops, what keeps the tape is emptied, and
    everything starts again. Raises NeverServed, TapeLost, and what `plan` raises.
    """
    stop = asyncio.Event()
    children: list[Child] = []

    def on_signal() -> None:
        if stop.is_set():  # asked twice: at once
            for child in children:
                child.kill()
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, on_signal)
    short = 0  # tapes in a row
    while True:
        children[:] = _children(stack, screen)
        running.publish(stack.settings.soltape_data, stack.published())
        screen.say(_overview(stack, children))
        began_s = time.monotonic()
        ended = await _run_tape(stack, children, screen, stop)
        if ended is None:
            return
        short = short + 1 if time.monotonic() - began_s < _SHORT_TAPE_S else 0
        if short == _SHORT_TAPES:
            raise TapeLost(
                f"{short} tapes in a row ended within {_SHORT_TAPE_S:.0f} s; the last: {ended}\n"
                f"The chain's log: {ended.log}"
            )
        if yours := stack.keeps_tape_elsewhere:
            raise TapeLost(
                f"a new tape needs empty systems, and these are yours: {', '.join(yours)}. Empty "
                "them, then start `soltape up` again"
            )
        stack.begin_anew()
        screen.say(
            "A new tape begins: broker and stores are emptied, every part starts again, API keys "
            "stay.\n"
        )


async def _run_tape(
    stack: Stack, children: Sequence[Child], screen: Screen, stop: asyncio.Event
) -> TapeEnded | None:
    """Run every part until `stop` is set, or until the chain ends; raises NeverServed."""
    tasks: list[asyncio.Task[object]] = [asyncio.create_task(stop.wait())]
    try:
        tasks += [asyncio.create_task(child.keep_running()) for child in children]
        report = _report_stores if stack.stores_only else _report
        tasks += [asyncio.create_task(report(stack, children, screen))]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in () if stop.is_set() else done:
            task.result()  # raises what went wrong
    except TapeEnded as ended:
        screen.say(_describe_end(ended))
        return ended
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await _stop(children, screen)
    return None


def _describe_end(ended: TapeEnded) -> str:
    aside = put_aside(ended.log)  # where the next start moves it
    lines = [f"The tape is over: {ended}"]
    if ended.last_lines:
        lines += [f"  The last lines of its log, kept in {aside}:"]
        lines += [f"    {line}" for line in ended.last_lines]
    else:
        lines += [f"  Its log is kept in {aside}"]
    return "\n".join(["", *lines])


def _children(stack: Stack, screen: Screen) -> list[Child]:
    logs = stack.settings.soltape_data / "logs"
    children: dict[str, Child] = {}
    for part in stack.parts:
        process = replace(part.process, env={**stack.environment(), **part.process.env})
        children[process.name] = Child(
            process,
            logs / f"{process.name}.log",
            screen.say,
            after=[children[name] for name in part.after],
            ends_tape=part.ends_tape,
        )
    return list(children.values())


def _overview(stack: Stack, children: Sequence[Child]) -> str:
    rows = [(name, address, "yours") for name, address in stack.elsewhere.items()]
    rows += [(child.name, child.process.address, str(child.log)) for child in children]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = [f"soltape up, pid {os.getpid()}. Ctrl-C stops everything.", ""]
    lines += [f"  {name:{widths[0]}}  {address:{widths[1]}}  {log}" for name, address, log in rows]
    lines += ["", *stack.notes, *([""] if stack.notes else [])]
    return "\n".join(lines)


def _welcome(stack: Stack, link: str) -> str:
    """Return what to do first, once everything serves."""
    settings = stack.settings
    url = settings.api_url
    lines = ["", f"  The API serves at {url}, its documentation at {url}/docs"]
    if settings.api_dashboard:
        again = "   (opens once; `soltape keys link` prints another)" if link else ""
        lines.insert(1, f"  Watch it live at {link or url + '/'}{again}")
    if stack.demo_key is not None and stack.demo_key.exists():
        file = quote(str(stack.demo_key))
        lines.append(f"  A key to try it with is in {stack.demo_key}")
        lines.append(f"  {_CURL.format(file=file, url=url)}")
        lines.append(f"  {_LISTEN} {settings.gateway_url_here}/ws < {file}")
    else:
        lines.append("  A key to it: soltape keys create")
    if settings.signin_issuer and settings.signin_base_url:
        lines.append(f"  Sign in for a key of your own: {settings.signin_base_url}/#/account")
    for address, habit in stack.demo_wallets.items():
        page = f"{url}/#/wallet/{address}" if settings.api_dashboard else address
        lines.append(f"  A wallet that {habit}: {page}")
    return "\n".join([*lines, ""])


async def _link(stack: Stack) -> str:
    """Return a one-time link to the page; empty where there is none."""
    if stack.demo_key is None or not stack.settings.api_dashboard:
        return ""
    process = await asyncio.create_subprocess_exec(
        *tethered([sys.executable, "-m", "infra.cli", "keys", "link"]),
        env={**os.environ, **stack.environment()},
        start_new_session=True,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode:
        log.warning("no link to the page", reason=said.decode().strip())
    return out.decode().strip()


async def _report_stores(_: Stack, children: Sequence[Child], screen: Screen) -> None:
    for child in children:
        await child.served.wait()
    screen.say("The stores serve; no chain and no role runs.\n")
    await asyncio.get_running_loop().create_future()


async def _report(stack: Stack, children: Sequence[Child], screen: Screen) -> None:
    host = f"http://{stack.settings.metrics_host}"
    ingest = f"{host}:{stack.settings.metrics_port_ingest}/metrics"
    books = f"{host}:{stack.settings.metrics_port_books}/metrics"
    chain = f"{host}:{stack.settings.metrics_port_chain}/metrics"
    has_ended = False
    before = None
    moved_s = time.monotonic()
    is_welcomed = False
    while True:
        if not is_welcomed and all(child.served.is_set() for child in children):
            is_welcomed = True
            screen.say(_welcome(stack, await _link(stack)))
        now, behind = await asyncio.gather(live_line.read(ingest), live_line.read_stores_lag(books))
        if now is None or before is None or now.slot != before.slot:
            moved_s = time.monotonic()
        if stack.plays_once and not has_ended and await live_line.has_chain_ended(chain):
            has_ended = True
            screen.say(
                "The recording has ended. What it held is still served until Ctrl-C; --loop "
                "repeats a file of transactions"
            )
        still_s = time.monotonic() - moved_s
        screen.live(live_line.describe(before, now, still_s, behind, has_ended=has_ended))
        before = now
        await asyncio.sleep(1.0)


async def _stop(children: Sequence[Child], screen: Screen) -> None:
    """Stop in reverse order: first those that no running child relies on."""
    began = time.monotonic()
    try:
        while alive := [child for child in children if child.pid is not None]:
            relied_on = {other for child in alive for other in child.after}
            wave = [child for child in alive if child not in relied_on]
            within_s = began + STOP_WITHIN_S - time.monotonic()
            if len(wave) < len(alive):
                within_s -= _STOP_SYSTEMS_S
            stopped = await asyncio.gather(*(child.end(max(within_s, 0.1)) for child in wave))
            for child, by_itself in zip(wave, stopped, strict=True):
                if not by_itself:
                    screen.say(f"{child.name} did not stop in time and was killed")
    finally:
        for child in children:
            child.kill()
    screen.say(f"stopped after {time.monotonic() - began:.1f} s")
