"""`soltape chain` serves a local chain; `soltape record` keeps any Yellowstone stream."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Coroutine
from contextlib import ExitStack
from pathlib import Path
from random import SystemRandom
from typing import Any, Final
from urllib.parse import urlsplit

import click
import structlog
import uvloop

from infra import memory
from infra import settings as soltape_settings
from infra.chain.account_faults import AccountFaults
from infra.chain.account_filters import AccountLimits
from infra.chain.account_truth import AccountTruth
from infra.chain.faults import Faults
from infra.chain.history import BrokenSource
from infra.chain.market import Knobs, Market, PositionTruth, Truth
from infra.chain.recorded import (
    RecordedTransactions,
    UnreadableFile,
    read_transactions,
    slot_at,
)
from infra.chain.recorder import Recorder, RecordingFailed, recording_request
from infra.chain.recording import RecordedStream, RecordingWriter, is_recording
from infra.chain.server import LocalChain, ServerOptions
from infra.chain.source import Source
from infra.local.process import PortInUse
from infra.settings import Settings
from infra.telemetry import configure_logging, host_of, serve_metrics
from schemas.solana import addresses

log = structlog.get_logger(__name__)

_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_PROBLEMS_SHOWN: Final = 5
_SHARE: Final = click.FloatRange(0, 1)
_COUNT: Final = click.IntRange(0)
_MARKET: Final = Knobs()
_OPTIONS: Final = ServerOptions()
# A market grows, and nothing of it is garbage: walking it all stopped the chain for half a second.
_GC_THRESHOLDS: Final = (100_000, 50, 1_000)


@click.command()
@click.argument("source", type=click.Choice(["simulated", "recorded"]), default="simulated")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path), default=None)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="gRPC port; 0 is any free one  [that of GEYSER_ENDPOINT, or 10000]",
)
@click.option(
    "--rpc-port",
    type=click.IntRange(0, 65535),
    help="JSON-RPC port; 0 is any free one  [that of RPC_ENDPOINT, or 8899]",
)
@click.option(
    "--rate",
    type=click.FloatRange(0, 20_000),
    default=_MARKET.rate,
    show_default=True,
    help="transactions a second",
)
@click.option(
    "--seed", type=click.IntRange(0), help="of the market and the faults  [a new one each time]"
)
@click.option(
    "--loop", is_flag=True, help="recorded answers: start again at the end, under new signatures"
)
@click.option(
    "--speed",
    type=click.FloatRange(0.01, 1000),
    default=1.0,
    show_default=True,
    help="recorded: pace of a recording by `soltape record`",
)
@click.option(
    "--truth",
    type=click.Path(dir_okay=False, path_type=Path),
    help="simulated: write what really happened, as JSON lines",
)
@click.option("--truth-flows", is_flag=True, help="simulated: into it, what every account did")
@click.option(
    "--truth-accounts",
    type=click.Path(dir_okay=False, path_type=Path),
    help="simulated: write what each slot left of every account that it wrote",
)
@click.option(
    "--truth-positions",
    type=click.Path(dir_okay=False, path_type=Path),
    help="simulated: write what demo wallets have in programs, from when the market rests",
)
@click.option("--start-slot", type=click.IntRange(1), help="first slot  [about mainnet's now]")
@click.option(
    "--start-time-ms",
    type=click.IntRange(0),
    help="simulated: time of the first slot, Unix ms  [now]",
)
@click.option(
    "--slot-ms",
    type=click.IntRange(10, 10_000),
    default=_MARKET.slot_ms,
    show_default=True,
    help="simulated: length of a slot",
)
@click.option(
    "--wallets",
    type=click.IntRange(1),
    default=_MARKET.wallets,
    show_default=True,
    help="simulated: wallets that trade",
)
@click.option(
    "--forks",
    type=_SHARE,
    default=_MARKET.forks,
    show_default=True,
    help="simulated: chance that a slot starts an abandoned branch",
)
@click.option(
    "--rolled-back",
    type=_SHARE,
    default=_MARKET.rolled_back,
    show_default=True,
    help="simulated: share of abandoned branches that were confirmed before",
)
@click.option(
    "--skipped",
    type=_SHARE,
    default=_MARKET.skipped,
    show_default=True,
    help="simulated: chance that a slot has no block",
)
@click.option(
    "--failed",
    type=_SHARE,
    default=_MARKET.failed,
    show_default=True,
    help="simulated: share of swaps that fail",
)
@click.option(
    "--damaged",
    type=_SHARE,
    default=_MARKET.malformed,
    show_default=True,
    help="simulated: share of swaps whose venue data is cut short",
)
@click.option(
    "--votes",
    type=_COUNT,
    default=_MARKET.votes,
    show_default=True,
    help="simulated: vote transactions a slot",
)
@click.option(
    "--tempo",
    type=click.FloatRange(0, min_open=True),
    default=_MARKET.tempo,
    show_default=True,
    help="simulated: how many times faster than usual launched coins rise and fall",
)
@click.option(
    "--rhythm",
    type=_SHARE,
    default=_MARKET.rhythm,
    show_default=True,
    help="simulated: share by which the rate rises and falls over a day",
)
@click.option(
    "--duplicates",
    type=_SHARE,
    default=0.0,
    show_default=True,
    help="fault: share of transactions sent twice",
)
@click.option(
    "--reorder",
    type=_COUNT,
    default=0,
    show_default=True,
    help="fault: updates among which the order is shuffled",
)
@click.option(
    "--missing-statuses",
    type=_SHARE,
    default=0.0,
    show_default=True,
    help="fault: share of slot statuses never sent",
)
@click.option(
    "--malformed",
    type=_SHARE,
    default=0.0,
    show_default=True,
    help="fault: share of transactions that a mangled copy accompanies",
)
@click.option(
    "--disconnect-every",
    type=_COUNT,
    default=0,
    show_default=True,
    help="fault: a stream breaks after about so many updates; 0 is never",
)
@click.option(
    "--lag-every",
    type=_COUNT,
    default=0,
    show_default=True,
    help='fault: a stream ends with "lagged" after about so many updates; 0 is never',
)
@click.option(
    "--account-duplicates",
    type=_SHARE,
    default=0.0,
    show_default=True,
    help="fault: share of account updates sent twice",
)
@click.option(
    "--account-late",
    type=_SHARE,
    default=0.0,
    show_default=True,
    help="fault: share of account updates that come after others of their slot",
)
@click.option(
    "--account-reorder", is_flag=True, help="fault: account updates of a slot in any order"
)
@click.option(
    "--nodes",
    type=click.IntRange(1, 8),
    default=_OPTIONS.nodes,
    show_default=True,
    help="gRPC endpoints, at the ports from --port, with write versions of their own",
)
@click.option(
    "--max-account-filters",
    type=_COUNT,
    default=0,
    show_default=True,
    help="account filters a subscription may have; 0 is any number",
)
@click.option(
    "--max-filter-accounts",
    type=_COUNT,
    default=0,
    show_default=True,
    help="accounts an account filter may have; 0 is any number",
)
@click.option(
    "--max-filter-owners",
    type=_COUNT,
    default=0,
    show_default=True,
    help="owners an account filter may have; 0 is any number",
)
@click.option(
    "--refuse-owner",
    "refused_owners",
    multiple=True,
    metavar="KEY",
    help="owner that account filters may not have, as the System program; may be repeated",
)
@click.option(
    "--accounts/--no-accounts",
    default=True,
    show_default=True,
    help="simulated: what transactions wrote; it takes some 10 % of the market's CPU",
)
@click.option(
    "--replay-slots",
    type=click.IntRange(1, 100_000),
    default=_OPTIONS.replay_slots,
    show_default=True,
    help="slots that from_slot can go back",
)
@click.option(
    "--last-node-replay-slots",
    type=click.IntRange(0, 100_000),
    default=_OPTIONS.last_node_replay_slots,
    show_default=True,
    help="fewer of them at the last of several nodes; 0 is as many",
)
@click.option(
    "--history-slots",
    type=click.IntRange(128, 100_000),
    default=_OPTIONS.history_slots,
    show_default=True,
    help="slots that getBlock can go back",
)
@click.option(
    "--memory-mb",
    type=click.IntRange(1, 65_536),
    default=_OPTIONS.memory_bytes >> 20,
    show_default=True,
    help="transactions kept for both, at most",
)
@click.option(
    "--max-lag",
    type=click.IntRange(1),
    default=_OPTIONS.max_lag_updates,
    show_default=True,
    help='updates a subscriber may be behind before "lagged"',
)
@click.option(
    "--ping-interval",
    type=click.FloatRange(0.1, 3600),
    default=_OPTIONS.ping_interval_s,
    show_default=True,
    help="seconds between the server's pings",
)
@click.option(
    "--program-scans/--no-program-scans",
    default=_OPTIONS.program_scans,
    show_default=True,
    help="getProgramAccounts: answered, or refused as some providers do",
)
@click.option("--gzip", is_flag=True, help="compress what is sent")
def chain(source: str, file: Path | None, **options: Any) -> None:
    """Serve a chain on this machine: Yellowstone gRPC and JSON-RPC.

    SOURCE is `simulated`, a seeded market, or `recorded` with a FILE: JSON lines of
    getTransaction answers, which are laid onto new slots at --rate, or a recording of
    `soltape record`, which keeps its slots and its pace; its content says which of both.
    A recording begins when somebody subscribes. SIGUSR1 lets the simulated market rest: blocks go
    on, without trades.

    It serves on loopback, at the ports of GEYSER_ENDPOINT and RPC_ENDPOINT if these are on this
    machine. If GEYSER_X_TOKEN is set, callers must send it. Nothing is kept on disk.
    """
    if (source == "recorded") != (file is not None):
        raise click.UsageError("give a FILE with `recorded`, and only then")
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # failures reach the log with their streams
    settings = soltape_settings.load()
    configure_logging(settings, "chain")
    seed = options["seed"]
    if seed is None:
        seed = options["seed"] = SystemRandom().randrange(1 << 32)
    try:
        with ExitStack() as closing:
            served = _server_options(settings, options, recorded=source == "recorded")
            if file:
                chosen = _recorded(file, options)
            else:
                chosen = _simulated(options, served.rpc_port, closing)
            serve_metrics(settings, "chain")
            log.info("starting", source=source, file=str(file) if file else None, seed=seed)
            notes = _notes(options, closing)
            uvloop.run(_until_signalled(_serve(chosen, served, notes)))
    except (PortInUse, UnreadableFile, BrokenSource, OSError) as error:
        click.echo(f"soltape chain: {error}", err=True)
        sys.exit(1)


@click.command()
@click.argument("url")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--account",
    "accounts",
    multiple=True,
    metavar="KEY",
    help="only transactions that touch this key; may be repeated",
)
@click.option("--failed", is_flag=True, help="failed transactions too")
@click.option("--votes", is_flag=True, help="votes too")
@click.option(
    "--seconds", type=click.FloatRange(0, min_open=True), help="stop after this time  [at Ctrl-C]"
)
def record(
    url: str,
    file: Path,
    accounts: tuple[str, ...],
    failed: bool,
    votes: bool,
    seconds: float | None,
) -> None:
    """Keep a Yellowstone stream in a file.

    What the endpoint at URL sends goes into a new compressed FILE, which
    `soltape chain recorded FILE` replays. GEYSER_X_TOKEN is sent if it is set. A broken stream
    is taken up again where it ended; of the slot that the node executes at that moment, FILE
    lacks the first part. Ctrl-C ends the recording and closes the file.
    """
    try:
        soltape_settings.check_url(url, ("http", "https"), path=False)
    except ValueError as error:
        raise click.UsageError(f"URL: {error}") from None
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # failures are reported when they happen
    settings = soltape_settings.load()
    configure_logging(settings, "record")
    token = settings.geyser_x_token.get_secret_value() if settings.geyser_x_token else None
    request = recording_request(accounts, votes=votes, failed=failed)
    failure = None
    try:
        with RecordingWriter(file) as writer:
            recorder = Recorder(url, token, request, writer)
            try:
                uvloop.run(_until_signalled(_record(recorder, seconds)))
            except RecordingFailed as error:
                failure = str(error)
    except FileExistsError:
        failure = f"{file} exists: choose another name, it is not overwritten"
    except OSError as error:
        failure = f"{file}: {error.strerror}"
    if failure is not None:
        click.echo(f"soltape record: {failure}", err=True)
        sys.exit(1)
    if not writer.updates:
        file.unlink()
        click.echo(f"soltape record: {host_of(url)} sent no update; nothing is kept", err=True)
        sys.exit(1)
    size_mb = file.stat().st_size / 1e6
    click.echo(f"{file}: {writer.updates} updates, {size_mb:.1f} MB", err=True)


def _simulated(options: dict[str, Any], rpc_port: int, closing: ExitStack) -> Source:
    now_ms = time.time_ns() // 1_000_000
    start_time_ms = now_ms if options["start_time_ms"] is None else options["start_time_ms"]
    knobs = Knobs(
        seed=options["seed"],
        rate=options["rate"],
        slot_ms=options["slot_ms"],
        start_slot=options["start_slot"] or slot_at(start_time_ms / 1000),
        start_time_ms=start_time_ms,
        forks=options["forks"],
        rolled_back=options["rolled_back"],
        skipped=options["skipped"],
        failed=options["failed"],
        malformed=options["damaged"],
        votes=options["votes"],
        wallets=options["wallets"],
        tempo=options["tempo"],
        rhythm=options["rhythm"],
        metadata_origin=f"http://{_OPTIONS.host}:{rpc_port}" if rpc_port else "",
    )
    truth = None
    if options["truth"] is not None:
        sink = closing.enter_context(options["truth"].open("wb"))
        truth = Truth(sink, flows=options["truth_flows"])
    positions = None
    if options["truth_positions"] is not None:
        positions = PositionTruth(closing.enter_context(options["truth_positions"].open("wb")))
    return Market(knobs, truth, accounts=options["accounts"], positions=positions)


def _notes(options: dict[str, Any], closing: ExitStack) -> AccountTruth | None:
    if options["truth_accounts"] is None:
        return None
    return AccountTruth(closing.enter_context(options["truth_accounts"].open("wb")))


def _recorded(file: Path, options: dict[str, Any]) -> Source:
    if is_recording(file):
        if options["loop"]:
            raise click.UsageError(f"--loop: {file} is a stream with slots of its own, played once")
        return RecordedStream(file, speed=options["speed"])
    read = read_transactions(file)
    for problem in read.problems[:_PROBLEMS_SHOWN]:
        click.echo(f"soltape chain: {file}: left out {problem}", err=True)
    if len(read.problems) > _PROBLEMS_SHOWN:
        more = len(read.problems) - _PROBLEMS_SHOWN
        click.echo(f"soltape chain: {file}: left out {more} more lines", err=True)
    return RecordedTransactions(
        read.transactions,
        rate=options["rate"],
        loop=options["loop"],
        first_slot=options["start_slot"],
    )


def _server_options(
    settings: Settings, options: dict[str, Any], *, recorded: bool
) -> ServerOptions:
    grpc_port, rpc_port = options["port"], options["rpc_port"]
    if grpc_port is None:
        grpc_port = _port_here(settings.geyser_endpoint, _OPTIONS.grpc_port)
    if rpc_port is None:
        rpc_port = _port_here(settings.rpc_endpoint, _OPTIONS.rpc_port)
    return ServerOptions(
        grpc_port=grpc_port,
        rpc_port=rpc_port,
        x_token=settings.geyser_x_token.get_secret_value() if settings.geyser_x_token else None,
        await_subscriber=recorded,
        compress=options["gzip"],
        ping_interval_s=options["ping_interval"],
        max_lag_updates=options["max_lag"],
        replay_slots=options["replay_slots"],
        history_slots=options["history_slots"],
        memory_bytes=options["memory_mb"] << 20,
        program_scans=options["program_scans"],
        faults=Faults(
            duplicates=options["duplicates"],
            reorder_window=options["reorder"],
            missing_statuses=options["missing_statuses"],
            malformed=options["malformed"],
            disconnect_every=options["disconnect_every"],
            lag_every=options["lag_every"],
            accounts=AccountFaults(
                duplicates=options["account_duplicates"],
                late=options["account_late"],
                reorder=options["account_reorder"],
            ),
            seed=options["seed"],
        ),
        nodes=options["nodes"],
        last_node_replay_slots=options["last_node_replay_slots"],
        account_limits=AccountLimits(
            max_filters=options["max_account_filters"],
            max_accounts=options["max_filter_accounts"],
            max_owners=options["max_filter_owners"],
            refused_owners=_owners(options["refused_owners"]),
        ),
    )


def _owners(texts: tuple[str, ...]) -> frozenset[bytes]:
    try:
        return frozenset(addresses.key(addresses.check(text)) for text in texts)
    except addresses.NoAddress as error:
        raise click.UsageError(f"--refuse-owner {error}") from None


def _port_here(endpoint: str | None, default: int) -> int:
    """Return the port of an endpoint on this machine; that of another one says nothing."""
    parts = urlsplit(endpoint or "")
    return parts.port or default if parts.hostname in _LOOPBACK else default


async def _serve(source: Source, options: ServerOptions, notes: AccountTruth | None) -> None:
    memory.settle(*_GC_THRESHOLDS)
    if isinstance(source, Market):
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, source.rest)
    async with LocalChain(source, options, notes) as local:
        await local.run()
        # A source that ends leaves its last blocks to be asked for.
        await asyncio.Event().wait()


async def _record(recorder: Recorder, seconds: float | None) -> None:
    async def report() -> None:
        began = time.monotonic()
        while True:
            await asyncio.sleep(1)
            writer = recorder.writer
            click.echo(
                f"\r{host_of(recorder.url)} slot {recorder.newest_slot} "
                f"updates {writer.updates} ({writer.update_bytes / 1e6:.1f} MB, "
                f"file {writer.file_bytes() / 1e6:.1f} MB) "
                f"reconnects {recorder.reconnects} {time.monotonic() - began:.0f} s ",
                err=True,
                nl=False,
            )

    progress = asyncio.create_task(report()) if sys.stderr.isatty() else None
    try:
        async with asyncio.timeout(seconds) as limit:
            await recorder.run()
    except TimeoutError:
        if not limit.expired():
            raise
    finally:
        if progress:
            progress.cancel()
            click.echo(err=True)


async def _until_signalled(work: Coroutine[Any, Any, None]) -> None:
    """Run until the work ends or SIGINT or SIGTERM comes; failures of the work are raised."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        if not task.cancelled():
            raise
