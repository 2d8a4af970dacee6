"""`soltape accounts`: look at the lane of accounts, and feed it."""

from __future__ import annotations

import asyncio
import math
import shutil
import sys
import time
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click
from redis.asyncio import Redis

from infra.bench import progress
from infra.redis.client import RedisError, ask, connect
from infra.settings import Settings, load
from infra.solana_rpc import client as solana_rpc
from infra.telemetry import configure_logging, host_of
from pipeline.ingest.accounts.counting import Counted, count
from pipeline.ingest.accounts.parts import answers_of, kinds_of, part_name
from pipeline.ingest.accounts.recorded import BadRecording, file_of, last_of, recording
from pipeline.ingest.accounts.rpc import AccountsRpc, BadAnswer
from schemas.account_reading import (
    as_of_slot,
    covered_since,
    living,
    partition_state,
    questions,
)
from schemas.accounts import BadAccount, unpack
from schemas.protocols.contract import Kind
from schemas.protocols.registry import KINDS, kind_of
from schemas.redis_keys import (
    ACCOUNT,
    ASKED_ACCOUNTS,
    BOOTSTRAP,
    COVERED,
    account_tag,
    account_tags,
)
from schemas.solana.addresses import NoAddress, check, key, text

LOOK_S: Final = 0.5
HINT_AFTER_S: Final = 30.0
TRIES: Final = 3
BEGINS_WITHIN_S: Final = 15.0  # a connection has 10; then the log has said why there is none
NO_RPC: Final = "RPC_ENDPOINT is not set: it is what accounts are asked of"

_ALL: Final = tuple(kind for of_program in KINDS.values() for kind in of_program)
_BOOTED: Final = sorted({text(kind.program) for kind in _ALL if kind.group != "tokens"})


class _Address(click.ParamType):
    name = "address"

    def convert(self, value: str, param: Any, ctx: Any) -> bytes:
        try:
            return key(check(value))
        except NoAddress as error:
            self.fail(str(error), param, ctx)


ADDRESS: Final = _Address()


@click.group()
def accounts() -> None:
    """Look at the accounts that Soltape keeps, and have more of them asked for.

    `soltape ingest accounts` writes them, `soltape agents accounts` keeps them in Redis.
    """


@accounts.command("count")
@click.option("--seconds", type=click.IntRange(1, 86_400), default=60, show_default=True)
def count_updates(seconds: int) -> None:
    """Count account updates by kind: the first thing to run on a new endpoint.

    Subscribes to GEYSER_ENDPOINT as `soltape ingest accounts` would (ACCOUNT_FILTERS,
    ACCOUNT_STREAMS, ACCOUNT_GROUPS) and prints updates and megabytes a second of each kind.
    Ctrl-C prints what was counted so far. The time runs once all connections have an update;
    where one has none, the command ends with an error.
    """
    settings = load()
    configure_logging(settings, "accounts")
    counted = Counted()
    with suppress(KeyboardInterrupt):
        asyncio.run(_count(settings, counted, seconds))
    click.echo("\n".join(counted.table()))


async def _count(settings: Settings, counted: Counted, seconds: int) -> None:
    counting = asyncio.create_task(count(settings, counted))
    began_s = time.monotonic()
    while counted.seconds < seconds:
        done, _ = await asyncio.wait((counting,), timeout=1.0)
        if done:
            counting.result()
        if counted.silent and time.monotonic() - began_s > BEGINS_WITHIN_S:
            counting.cancel()
            await asyncio.gather(counting, return_exceptions=True)
            raise click.ClickException(
                f"no update within {BEGINS_WITHIN_S:g} s over {counted.silent} of "
                f"{counted.connections} connections to {host_of(settings.geyser_endpoint)}: check "
                "GEYSER_ENDPOINT, GEYSER_X_TOKEN and ACCOUNT_STREAMS"
            )
        progress(f"{counted.updates.total():,} updates, {counted.seconds:.0f} of {seconds} s")
    counting.cancel()
    await asyncio.gather(counting, return_exceptions=True)


@accounts.command()
@click.option("--program", "programs", multiple=True, type=click.Choice(_BOOTED), metavar="ADDRESS")
@click.option(
    "--from",
    "file",
    type=click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path),
    metavar="FILE",
    help="A recording (`soltape accounts record`); it is copied into SOLTAPE_DATA, where the "
    "process of ingest must see it.",
)
def bootstrap(programs: tuple[str, ...], file: Path | None) -> None:
    """Have all accounts of programs asked for again.

    `soltape ingest accounts` does it by getProgramAccounts, at ACCOUNT_BOOT_MIB_S, for the programs
    given or for all; programs without coverage it bootstraps by itself. With --from the accounts
    come from a recording, for a node that has no getProgramAccounts; it must have been made while
    that process ran. This shows how far it is. Ctrl-C ends the showing alone.

    Example: soltape accounts bootstrap --program Stake11111111111111111111111111111111111111
    """
    recorded = None if file is None else _recorded(file)
    _run(_bootstrap(load(), recorded or programs or tuple(_BOOTED), file))


def _recorded(file: Path) -> tuple[str, ...]:
    """Return the programs that a recording has whole."""
    try:
        last = last_of(file)
    except BadRecording as error:
        raise click.ClickException(str(error)) from None
    return tuple(text(each.address) for each in last.covered)


async def _bootstrap(settings: Settings, programs: tuple[str, ...], file: Path | None) -> None:
    redis = connect(settings)
    try:
        if file is not None:
            before = {program: await _given(redis, program) for program in programs}
            there = file_of(settings, f"accounts-{time.time_ns()}.zst")
            there.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            await asyncio.to_thread(shutil.copyfile, file, there)
            await redis.xadd(ASKED_ACCOUNTS.make(), {"file": there.name}, maxlen=10_000)
            progress(f"{file}: `soltape ingest accounts` reads it; its log says if it refuses")
            waiting = set(programs)
            said = _Said()
            while waiting:
                for program in sorted(waiting):
                    if await _given(redis, program) > before[program]:
                        waiting.discard(program)
                        said.now(f"{program}: covered")
                said.nothing_new()
                await asyncio.sleep(LOOK_S)
            there.unlink(missing_ok=True)
            return
        before = {program: await _given(redis, program) for program in programs}
        for program in programs:
            await redis.xadd(ASKED_ACCOUNTS.make(), {"program": key(program)}, maxlen=10_000)
        said = _Said()
        for program in programs:
            while (given := await _given(redis, program)) <= before[program]:
                done = await redis.hlen(BOOTSTRAP.make(program=program))
                said.now(f"{program}: {done} answers are in the lane")
                said.nothing_new()
                await asyncio.sleep(LOOK_S)
            said.now(f"{program}: covered, as slot {given} says")
    finally:
        await redis.aclose()


class _Said:
    """Prints a line of progress when it changes, and a hint when it has not for a while."""

    def __init__(self) -> None:
        self._last = ""
        self._hint_s = time.monotonic() + HINT_AFTER_S

    def now(self, news: str) -> None:
        """Print a line unless it is the one printed last."""
        if news != self._last:
            progress(news)
            self._last = news
            self._hint_s = time.monotonic() + HINT_AFTER_S

    def nothing_new(self) -> None:
        """Print the hint, once, when no new line came for HINT_AFTER_S."""
        if time.monotonic() >= self._hint_s:
            progress(
                f"nothing new for {HINT_AFTER_S:g} s: do `soltape ingest accounts` and "
                "`soltape agents accounts` run on this Redis and Kafka? What is asked for waits "
                "for them"
            )
            self._hint_s = math.inf


async def _given(redis: Redis, program: str) -> int:
    """Return the least slot that said, of the partitions, that a program is covered."""
    names = [COVERED.make(tag=tag, address=program) for tag in account_tags()]
    return min(
        int(at or -1) for at in await ask(redis, [("HGET", name, "given") for name in names])
    )


@accounts.command()
@click.argument("file", type=click.Path(dir_okay=False, writable=True, path_type=Path))
@click.option("--program", "programs", multiple=True, type=click.Choice(_BOOTED), metavar="ADDRESS")
def record(file: Path, programs: tuple[str, ...]) -> None:
    """Record all accounts of programs from RPC_ENDPOINT into FILE.

    A recording that is interrupted has no end, and is refused by what reads it.

    Example: soltape accounts record accounts.zst
    """
    _run(_record(load(), file, programs or tuple(_BOOTED)))


async def _record(settings: Settings, file: Path, programs: tuple[str, ...]) -> None:
    if settings.rpc_endpoint is None:
        raise click.ClickException(NO_RPC)
    pace = solana_rpc.Pace(settings.account_rpc_per_s)
    covered = {}
    total = 0
    async with solana_rpc.session() as session:
        rpc = AccountsRpc(session, settings.rpc_endpoint, pace)
        # From here on outages are waited for without an end: is it a node at all?
        await rpc.bounded(TRIES).multiple([key(programs[0])], 0)
        with recording(file) as writer:
            for program in programs:
                slots = []
                for kind in kinds_of(_ALL, key(program)):
                    async for part, (slot, found) in answers_of(rpc, kind, 0):
                        slots.append(slot)
                        total += len(found)
                        writer.part(slot, found)
                        progress(f"{program}: {part_name(part)}, {total:,} accounts")
                        size = sum(len(update.data) for update in found)
                        await asyncio.sleep(size / (settings.account_boot_mib_s * (1 << 20)))
                covered[key(program)] = min(slots)
            writer.covered(covered)
    click.echo(f"{file}: {total:,} accounts")


@accounts.command()
@click.argument("address", type=ADDRESS)
def show(address: bytes) -> None:
    """Show what is kept of a wallet, a mint or an account.

    Of an account: its last version. Of a wallet or mint: coverage, and the accounts that name it.
    """
    _run(_show(load(), address))


async def _show(settings: Settings, address: bytes) -> None:
    redis = connect(settings)
    try:
        [stored] = await ask(redis, [("GET", _name(account_tag(text(address)), address))])
        if stored is not None:
            click.echo("\n".join(_lines(address, stored)))
        states = await _states(redis, address)
        as_of = as_of_slot(states)
        if as_of is None:
            raise click.ClickException("agent group `accounts` has not begun: nothing is kept yet")
        since, reason = covered_since(states, address)
        said = f"complete since slot {since}" if since is not None else f"not complete {reason}"
        click.echo(f"{text(address)}: {said}; as of slot {as_of}")
        for state, tag in zip(states, account_tags(), strict=True):
            found = sorted(state.found)
            names = [_name(tag, each) for each in found]
            kept = await ask(redis, [("MGET", *names)]) if names else [[]]
            alive = living(address, state, dict(zip(found, kept[0], strict=True)))
            for each, (kind, account, _) in alive.accounts.items():
                size = f"{account.size} bytes"
                click.echo(f"  {text(each):<45}{kind.name:<22}slot {account.slot:<12}{size}")
            for each, wrong in alive.unreadable.items():
                click.echo(f"  {text(each):<45}unreadable: {wrong}")
    finally:
        await redis.aclose()


def _lines(address: bytes, stored: bytes) -> list[str]:
    try:
        account = unpack(stored)
        data = account.data()
    except BadAccount as error:
        return [f"{text(address)}: unreadable: {error}"]
    if account.closed:
        return [f"{text(address)}: closed at slot {account.slot}"]
    kind: Kind | None = kind_of(address, account.program, data)
    lines = [
        f"{text(address)}: {kind.name if kind else 'of no protocol file'}",
        f"  slot {account.slot}, {account.lamports} lamports, {account.size} bytes, "
        f"{len(account.frame)} stored",
        f"  program {text(account.program)}",
    ]
    return lines + [f"  found by {text(each)}" for each in (kind.found_by(data) if kind else ())]


def _name(tag: str, address: bytes) -> str:
    return ACCOUNT.make(tag=tag, address=text(address))


async def _states(redis: Redis, address: bytes) -> list[Any]:
    return [
        partition_state(address, await ask(redis, questions(tag, address)))
        for tag in account_tags()
    ]


def _run(work: Coroutine[Any, Any, None]) -> None:
    try:
        asyncio.run(work)
    except KeyboardInterrupt:
        sys.exit(130)
    except RedisError as error:
        raise click.ClickException(f"REDIS_URL: {error}") from None
    except (solana_rpc.NotNow, solana_rpc.RpcRefused, BadAnswer) as error:
        raise click.ClickException(f"RPC_ENDPOINT: {error}") from None
    except OSError as error:
        raise click.ClickException(str(error)) from None
