"""`soltape users`: who signed in, and what they may."""

from __future__ import annotations

from typing import Any, Final

import click
import orjson

from api.access import register, users
from api.access.command import moment, run, table
from api.access.keys import PREFIX, KeyMalformed, key_id, parse
from api.access.meant import MEANT
from api.access.users import User
from api.subscribers.following import NotFollowed, follow
from infra.redis.asks import Pipelined
from infra.settings import Settings, load
from schemas.plans import PLANS

_STATES: Final = {True: "suspended: all of their keys are refused", False: "not suspended"}


@click.group("users")
def users_group() -> None:
    """List users who signed in, change their plans, suspend them.

    Users make and revoke keys themselves, on their page of the dashboard (SIGNIN_ISSUER). USER is
    an id as `soltape users list` shows it, or - for one of the user's keys on stdin. Names are what
    the issuer says of a user, and several may have the same.

    Kafka credentials of a user follow the plan, and end with a suspension. That needs the login of
    `soltape kafka-users`, KAFKA_ADMIN_USERNAME and what it lists beside it. Without it all else is
    done, and this command ends with status 1 where the user has such credentials: repeat it where
    the login is, or revoke them with `soltape kafka-users`.

    \b
    Examples:
      soltape users list
      soltape users plan 3f9a0c1d2e4b pro
      soltape users suspend 3f9a0c1d2e4b
      soltape users revoke 90ab12cd34ef --user 3f9a0c1d2e4b
    """


@users_group.command("list")
@click.option("--json", "as_json", is_flag=True, help="JSON lines instead of the table.")
def list_users(as_json: bool) -> None:
    """Show all users, the oldest first."""

    async def read(redis: Pipelined) -> tuple[list[User], str]:
        return await users.read_all(redis), register.month_of(await register.now_ms(redis))

    found, month = run(load(), read)
    if as_json:
        for each in found:
            click.echo(orjson.dumps({"id": each.id, **each.facts()}))
        return
    if not found:
        click.echo("nobody has signed in yet", err=True)
        return
    rows = [
        (
            each.id,
            each.plan,
            f"{each.credits.get(month, 0):,}",
            moment(each.created_ms),
            moment(each.signed_in_ms),
            moment(each.suspended_ms),
            each.name,
            each.issuer,
        )
        for each in found
    ]
    head = ("id", "plan", month, "created", "signed in", "suspended", "name", "issuer")
    table(head, rows)


@users_group.command()
@click.argument("user", type=MEANT)
def keys(user: str) -> None:
    """Show the keys of a user that work."""

    async def read(redis: Pipelined) -> list[Any]:
        return await users.read_keys(redis, (await users.find(redis, user)).fingerprint)

    rows = [
        (each.id, each.display, moment(each.created_ms), moment(each.last_used_ms, "never"),
         each.name)
        for each in run(load(), read)
    ]  # fmt: skip
    if not rows:
        click.echo("the user has no keys", err=True)
        return
    table(("id", "key", "created", "last used", "name"), rows)


@users_group.command()
@click.argument("user", type=MEANT)
@click.argument("plan", type=click.Choice(list(PLANS)))
def plan(user: str, plan: str) -> None:
    """Give a user a plan, from the next request on.

    Kafka credentials get the quotas of the plan; those that it has not are revoked, the newest
    first.
    """
    settings = load()

    async def change(redis: Pipelined) -> tuple[User, str]:
        found = await users.find(redis, user)
        await users.set_plan(redis, found.fingerprint, plan)
        return found, await _follow(settings, redis, found, plan)

    found, trouble = run(settings, change)
    click.echo(f"{found.id} ({found.name}) has the plan {plan}; before, {found.plan}")
    if trouble:
        raise click.ClickException(trouble)


@users_group.command()
@click.argument("user", type=MEANT)
def suspend(user: str) -> None:
    """Refuse all keys of a user, end their sessions, revoke their Kafka credentials."""
    _set(user, is_suspended=True)


@users_group.command()
@click.argument("user", type=MEANT)
def resume(user: str) -> None:
    """End a suspension: keys work again, and the user may sign in.

    Kafka credentials that were revoked do not come back.
    """
    _set(user, is_suspended=False)


@users_group.command()
@click.argument("key", type=MEANT)
@click.option("--user", type=MEANT, help="Whose it is, where KEY is an id.")
def revoke(key: str, user: str | None) -> None:
    """End one key of a user. It cannot be undone.

    KEY is - for the key itself on stdin, or with --user an id, as `soltape users keys` shows it.
    """
    if user is None or key.startswith(PREFIX):
        try:
            id_ = key_id(parse(key))
        except KeyMalformed as reason:
            raise click.ClickException(
                f"{'this' if key.startswith(PREFIX) else key} is no key: {reason}. Of an id say "
                "whose it is, with --user"
            ) from None
    else:
        id_ = key

    async def end(redis: Pipelined) -> tuple[User, bool]:
        found = await users.find(redis, key if user is None else user)
        return found, await users.revoke_key(redis, found.fingerprint, id_)

    found, is_revoked = run(load(), end)
    if not is_revoked:
        raise click.ClickException(f"{found.id} ({found.name}) has no key {id_} that works")
    click.echo(f"{id_}, a key of {found.id} ({found.name}), is refused from now on")


def _set(user: str, *, is_suspended: bool) -> None:
    settings = load()

    async def change(redis: Pipelined) -> tuple[User, str]:
        found = await users.find(redis, user)
        if not is_suspended:
            await users.resume(redis, found.fingerprint)
            return found, ""
        await users.suspend(redis, found.fingerprint)
        return found, await _follow(settings, redis, found, None)

    found, trouble = run(settings, change)
    click.echo(f"{found.id} ({found.name}) is {_STATES[is_suspended]}")
    if trouble:
        raise click.ClickException(trouble)


async def _follow(settings: Settings, redis: Pipelined, user: User, plan: str | None) -> str:
    """Let Kafka credentials of a user follow; return what went wrong, in words."""
    try:
        revoked = await follow(settings, redis, user.id, plan)
    except NotFollowed as trouble:
        return str(trouble)
    if revoked:
        click.echo(f"Kafka credentials revoked: {revoked}")
    return ""
