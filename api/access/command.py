"""`soltape keys`: who may ask the API."""

from __future__ import annotations

import asyncio
import errno
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence, Set
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import click
import orjson
from redis.connection import parse_url
from redis.exceptions import RedisError

from api.access import demo, durability, passes, register, restoring, transfer, users
from api.access.keys import Record, check_words, new, parse
from api.access.meant import MEANT
from api.access.register import IdTaken, NoSuchKey
from api.access.restoring import Account
from api.access.users import NoSuchUser
from infra.local.running import DEMO_KEY
from infra.redis.asks import Pipelined
from infra.redis.nodes import node_url
from infra.settings import Settings, load
from infra.telemetry import host_of
from schemas.plans import FREE, PLANS, Plan
from schemas.redis_keys import API_LINK

T = TypeVar("T")

ANSWER_TIMEOUT_S: Final = 10.0
_BAD_LINES_SHOWN: Final = 10


def _shown(limit: int | None) -> str:
    return "unlimited" if limit is None else f"{limit:,}"


def _row(plan: Plan) -> str:
    price = "agreed" if plan.price_usd_a_month is None else f"${plan.price_usd_a_month}"
    credits_shown, rate = _shown(plan.credits_a_month), _shown(plan.requests_a_minute)
    return f"  {plan.name:12}{price:>7}{credits_shown:>16}{rate:>16}{_shown(plan.connections):>14}"


_HEAD: Final = f"  {'plan':12}{'a month':>7}{'credits':>16}{'requests/min':>16}{'WebSockets':>14}"
_PLAN_TABLE: Final = "\n".join([_HEAD, *map(_row, PLANS.values())])


@click.group()
def keys() -> None:
    """Make, list and revoke the keys of the API.

    A request sends its key in the header x-api-key. Redis keeps what a key may and has spent, and
    never the key itself: it is shown once, when it is made. Keys live where ACCESS_REDIS_URL
    leads, else where REDIS_URL does; in the folder of a running `soltape up` they are found by
    themselves. Where nothing says where they are, a warning does.

    \b
    Examples:
      soltape keys create --name dashboard --plan pro --owner ann@example.com
      soltape keys list
      soltape keys usage --month 2026-11
      soltape keys revoke 3f9a0c1d2e4b
      soltape keys link                  # lets a browser in, beside `soltape up`
      soltape keys export keys.jsonl     # and into another Redis:
      soltape keys import keys.jsonl
    """


def _words(_: click.Context, __: click.Parameter, value: str) -> str:
    try:
        return check_words(value.strip())
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _name(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if not (name := _words(context, parameter, value)):
        raise click.BadParameter("it is empty")
    return name


@keys.command(epilog=f"\b\nPlans:\n{_PLAN_TABLE}")
@click.option("--name", required=True, callback=_name, help="What it is for, in your words.")
@click.option(
    "--plan",
    type=click.Choice(list(PLANS)),
    default=FREE.name,
    show_default=True,
    help="What it may; credits are of a calendar month, UTC.",
)
@click.option("--owner", default="", callback=_words, help="Whose it is: an address, a name.")
def create(name: str, plan: str, owner: str) -> None:
    """Make a key and print it, this one time.

    The key alone goes to stdout, all else to stderr, so that a script can take it:

    \b
      KEY=$(soltape keys create --name ci)

    It works at once. Says so where the Redis of the keys would lose them.
    """
    settings = load()
    text = new()

    async def make(redis: Pipelined) -> tuple[Record, list[str]]:
        record = Record(
            parse(text), name, plan, owner, text[-4:], created_ms=await register.now_ms(redis)
        )
        await register.put(redis, record)
        return record, await durability.doubts(redis)

    record, doubts = run(settings, make)
    _say(f"key {record.id}, plan {plan}. It is not shown again:\n")
    click.echo(text)
    # Not in arguments: every user of the machine sees those of all processes.
    _say("\nTry it, with the key in KEY:\n")
    _say(f'  echo "x-api-key: $KEY" | curl -H @- {settings.api_url}/api/usage\n')
    if not doubts:
        _say(f"Redis at {_place(settings)} has it in its append-only file.")
    for doubt in doubts:
        _say(click.style(f"Redis at {_place(settings)} may lose keys: {doubt}.", fg="yellow"))
    if doubts:
        _say("Keep a copy elsewhere: soltape keys export keys.jsonl")


@keys.command("list")
@click.option("--json", "as_json", is_flag=True, help="JSON lines instead of the table.")
def list_keys(as_json: bool) -> None:
    """Show all keys, the oldest first, and the WebSocket connections that are open with each.

    Of the key itself the last four characters are shown: nothing more of it is known here.
    """

    async def read(redis: Pipelined) -> tuple[list[Record], list[int]]:
        records = await register.read_all(redis)
        return records, await register.connections(redis, records)

    records, connections = run(load(), read)
    if as_json:
        for each, count in zip(records, connections, strict=True):
            click.echo(orjson.dumps({**_about(each), "connections": count}))
        return
    if not records:
        _say("there are no keys yet: soltape keys create --name NAME")
        return
    rows = [
        (
            each.id,
            each.display,
            each.plan,
            moment(each.created_ms),
            moment(each.last_used_ms, "never"),
            moment(each.revoked_ms),
            str(count or "-"),
            each.name,
            each.owner,
        )
        for each, count in zip(records, connections, strict=True)
    ]
    head = ("id", "key", "plan", "created", "last used", "revoked", "open", "name", "owner")
    table(head, rows)


@keys.command()
@click.argument("key", type=MEANT)
def revoke(key: str) -> None:
    """End a key: the next request with it is refused.

    KEY is its id, what `soltape keys list` shows of it, or - for the key itself on stdin. It cannot
    be undone.
    """

    async def end(redis: Pipelined) -> Record:
        record = await register.find(redis, key)
        await register.revoke(redis, record.fingerprint, await register.now_ms(redis))
        return record

    record = run(load(), end)
    since = record.revoked_ms
    state = "refused from now on" if since is None else f"revoked since {moment(since)}"
    click.echo(f"{record.id} ({record.display}, {record.name}) is {state}")


@keys.command()
def link() -> None:
    """Print a link that lets one browser in, once, within an hour.

    For the page of `soltape up`, in its folder: who can read the demo key there (SOLTAPE_DATA)
    can let a browser use it. That browser is let in for 30 days; revoking the demo key ends that.
    """
    settings = load()
    file = settings.soltape_data / DEMO_KEY
    try:
        key = demo.read(file)
    except (OSError, demo.DemoKeyUnusable) as error:
        raise click.ClickException(str(error)) from None
    if key is None:
        raise click.ClickException(
            f"{file} does not exist. `soltape up` makes a demo key where it starts Redis; for an "
            "API elsewhere give the page a key: soltape keys create --name browser"
        )

    async def make(redis: Pipelined) -> str:
        record = await register.read(redis, parse(key))
        if record is None or record.revoked_ms is not None:
            state = "not known here" if record is None else "revoked"
            raise NoSuchKey(f"the key in {file} is {state}: start `soltape up` again")
        return await passes.issue(redis, API_LINK, record.fingerprint)

    click.echo(f"{settings.api_url}/?token={run(settings, make)}")


@keys.command()
@click.argument("key", type=MEANT, required=False)
@click.option("--month", metavar="YYYY-MM", help="Of this month alone.")
@click.option("--json", "as_json", is_flag=True, help="JSON lines instead of the table.")
def usage(key: str | None, month: str | None, as_json: bool) -> None:
    """Show what was spent, by key and month.

    Of one KEY (as in `soltape keys revoke`) or of all: credits of calendar months, UTC.
    """
    if month is not None and not _is_month(month):
        raise click.UsageError(f"--month {month}: give it as 2026-11")

    async def read(redis: Pipelined) -> list[Record]:
        return [await register.find(redis, key)] if key else await register.read_all(redis)

    found = [
        (each, in_month, spent)
        for each in run(load(), read)
        for in_month, spent in each.credits.items()
        if month in (None, in_month)
    ]
    if as_json:
        for each, in_month, spent in found:
            line = {"id": each.id, "plan": each.plan, "month": in_month, "credits": spent}
            click.echo(orjson.dumps(line))
        return
    if not found:
        _say("nothing was spent" + (f" in {month}" if month else ""))
        return
    rows = [
        (
            each.id,
            each.display,
            in_month,
            f"{spent:,}",
            _shown(PLANS[each.plan].credits_a_month) if each.plan in PLANS else "-",
            each.plan,
            each.name,
        )
        for each, in_month, spent in found
    ]
    table(("id", "key", "month", "credits", "of", "plan", "name"), rows)


@keys.command("export")
@click.argument(
    "file",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    default=Path("-"),
)
@click.option("--force", is_flag=True, help="Replace FILE even if it has more than Redis.")
def export_keys(file: Path, force: bool) -> None:
    """Write all keys and users to a file as JSON lines.

    To FILE, or to stdout. The lines have hashes, names, owners, plans and what was spent, of users
    who signed in also issuer and subject: no key can be had from them, and they bring all back into
    an empty Redis but sessions. A FILE with keys or users that Redis does not have stays as it is:
    it may be the only copy of them.
    """
    settings = load()

    async def read(redis: Pipelined) -> tuple[list[Record], list[Account]]:
        return await register.read_all(redis), await restoring.read_all(redis)

    records, accounts = run(settings, read)
    if str(file) == "-":
        for line in transfer.write(records, accounts):
            click.echo(line, nl=False)
    else:
        if not force:
            here = {_fingerprint(each) for each in [*records]} | {
                _fingerprint(each) for each in accounts
            }
            _require_no_loss(file, here, settings)
        try:
            _put(file, transfer.write(records, accounts))
        except OSError as error:
            raise click.ClickException(f"{file}: {error.strerror}") from None
    also = f" and {_count(len(accounts), 'user')}" if accounts else ""
    _say(f"{_count(len(records))}{also} exported; hashes only, no key can be had from them")


def _put(file: Path, lines: Iterable[bytes]) -> None:
    """Write a file whole or not at all: the one before may be the only copy there is."""
    if file.exists() and not file.is_file():  # a pipe keeps nothing, and must not be replaced
        with file.open("wb") as opened:
            opened.writelines(lines)
        return
    try:
        file = file.resolve()  # a link stays one
    except RuntimeError:  # so Python 3.11 names links that lead to each other
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
    beside = file.with_name(f"{file.name}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.writelines(lines)
        opened.flush()
        os.fsync(opened.fileno())
    beside.replace(file)


def _fingerprint(of: Record | Account) -> str:
    return of.fingerprint if isinstance(of, Record) else of.user.fingerprint


def _require_no_loss(file: Path, here: Set[str], settings: Settings) -> None:
    """Refuse to replace a file by less than it has."""
    if not file.is_file():  # there is none, or it keeps nothing: /dev/stdout
        return
    try:
        with file.open("rb") as opened:
            before = [*transfer.read(opened)]
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from None
    keys_, users_ = (
        {_fingerprint(each) for each in found} - here
        for found in (
            [each for each in before if isinstance(each, Record)],
            [each for each in before if isinstance(each, Account)],
        )
    )
    if keys_ or users_:
        lacking = [_count(len(keys_))] if keys_ else []
        lacking += [_count(len(users_), "user")] if users_ else []
        raise click.ClickException(
            f"{file} has {' and '.join(lacking)} that Redis at {_place(settings)} has not; it "
            "stays as it is.\nExport to another file, bring them back with "
            f"`soltape keys import {file}`, or replace it with --force."
        )
    if bad := [str(each) for each in before if isinstance(each, transfer.BadLine)]:
        raise click.ClickException(
            f"{file} is no export of keys ({bad[0]}); it stays as it is.\n"
            "Export to another file, or replace it with --force."
        )


@keys.command("import")
@click.argument("file", type=click.File("rb"))
def import_keys(file: IO[bytes]) -> None:
    """Bring exported keys and users into this Redis.

    From FILE, or from stdin (-). It may be done again: a key that is here stays as it is, one that
    was revoked on either side is revoked, and of what was spent and when it was used the greater
    counts. A user who is here since before the file keeps their plan, and gets no key back that is
    not known here any more: it may have been revoked. A file with a line that is not ours is
    refused whole.
    """
    records: list[Record] = []
    accounts: list[Account] = []
    bad: list[transfer.BadLine] = []
    for each in transfer.read(file):
        if isinstance(each, Record):
            records.append(each)
        elif isinstance(each, Account):
            accounts.append(each)
        else:
            bad.append(each)
    if bad:
        for line in bad[:_BAD_LINES_SHOWN]:
            _say(f"{file.name}: {line}")
        if len(bad) > _BAD_LINES_SHOWN:
            _say(f"{file.name}: and {len(bad) - _BAD_LINES_SHOWN} more")
        raise click.ClickException("nothing was imported")
    settings = load()

    at_large: list[str] = []

    async def bring(redis: Pipelined) -> tuple[int, Counter[str], list[str]]:
        added, outcomes = 0, Counter[str]()
        for record in records:
            added += await register.put(redis, record)
        for account in accounts:
            outcomes += await restoring.put(redis, account)
            if account.user.suspended_ms is not None:
                user = await users.read(redis, account.user.fingerprint)
                if user is not None and user.suspended_ms is None:
                    at_large.append(user.id)
        return added, outcomes, await durability.doubts(redis)

    added, outcomes, doubts = run(settings, bring)
    click.echo(f"{_count(added)} added, {_count(len(records) - added)} were here already")
    if accounts:
        new, here = outcomes["user new"], outcomes["user here"]
        were = "was" if here == 1 else "were"
        click.echo(f"{_count(new, 'user')} added, {_count(here, 'user')} {were} here already")
        click.echo(f"{_count(outcomes['key new'])} of users added")
    if rest := outcomes["key room"]:
        _say(f"{_count(rest)} of users not added: they have as many as they may")
    if rest := outcomes["key taken"]:
        _say(f"{_count(rest)} of users not added: of somebody else here")
    if at_large:
        _say(
            "suspended in the file, and not here: " + ", ".join(at_large) + "; unless they were "
            "resumed since, `soltape users suspend` them"
        )
    for doubt in doubts:
        _say(click.style(f"Redis at {_place(settings)} may lose keys: {doubt}.", fg="yellow"))


def run(settings: Settings, work: Callable[[Pipelined], Awaitable[T]]) -> T:
    """Return what work does at the Redis of the keys; raises ClickException."""
    if not settings.model_fields_set & {"access_redis_url", "redis_url"}:
        _say(
            click.style(
                "Neither ACCESS_REDIS_URL nor REDIS_URL is set, and no `soltape up` in this folder "
                f"says where its keys are: this is Redis at {_place(settings)}.",
                fg="yellow",
            )
        )

    async def connected() -> T:
        redis = register.connect(settings, answer_timeout_s=ANSWER_TIMEOUT_S)
        try:
            return await work(redis)
        finally:
            await redis.aclose()

    try:
        return asyncio.run(connected())
    except (NoSuchKey, NoSuchUser, IdTaken) as error:
        raise click.ClickException(str(error)) from None
    except (RedisError, OSError) as error:
        raise click.ClickException(
            f"the keys' Redis at {_place(settings)} does not do it: {error}\n"
            "Is `soltape up` running here? Else set ACCESS_REDIS_URL or REDIS_URL."
        ) from None


def _place(settings: Settings) -> str:
    url = settings.access_redis_url or settings.redis_url
    database = parse_url(node_url(url)).get("db", 0)  # type: ignore[no-untyped-call]
    return f"{host_of(url)} (database {database})"


def _about(record: Record) -> dict[str, Any]:
    return {
        "id": record.id,
        "key": record.display,
        "name": record.name,
        "plan": record.plan,
        "owner": record.owner,
        "created_ms": record.created_ms,
        "last_used_ms": record.last_used_ms,
        "revoked_ms": record.revoked_ms,
    }


def moment(time_ms: int | None, missing: str = "-") -> str:
    """Return a time as people read it, UTC."""
    if time_ms is None:
        return missing
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M}"


def _is_month(text: str) -> bool:
    try:
        datetime.strptime(text, "%Y-%m")
    except ValueError:
        return False
    return len(text) == len("2026-11")


def _count(number: int, noun: str = "key") -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print rows below their head."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, *rows):
        cells = (f"{cell:{width}}" for cell, width in zip(row, widths, strict=True))
        click.echo(click.style("  ".join(cells).rstrip(), dim=row is head))


def _say(words: str) -> None:
    click.echo(words, err=True)
