"""`soltape kafka-users`: who may read the public topics, and what the pipeline's own users may."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

import click
import orjson
from redis.exceptions import RedisError

from api.access import register as keys
from api.subscribers import properties, register
from api.subscribers.issuing import Issuer, NoSuchUser, NotIssued
from api.subscribers.register import KafkaUser
from infra.kafka import rights, topics
from infra.kafka.client import KafkaUnreachable, as_admin
from infra.kafka.subscribers import BrokerFailed, SubscribersOff
from infra.local import private_file
from infra.redis.asks import Pipelined
from infra.settings import Settings, SettingsError, load
from infra.telemetry import configure_logging
from schemas.plans import KAFKA

T = TypeVar("T")

ANSWER_TIMEOUT_S: Final = 10.0


@click.group("kafka-users")
def kafka_users() -> None:
    """Make, list and revoke users of Kafka for subscribers.

    A user reads the public topics, in consumer groups of its account, and may do nothing else. It
    connects to KAFKA_PUBLIC_BOOTSTRAP by TLS and SCRAM. Kafka keeps a salted hash of its password,
    and nothing else keeps the password: it is shown once. This command logs in to KAFKA_BOOTSTRAP
    as KAFKA_ADMIN_USERNAME. It needs Apache Kafka: the embedded broker serves this machine only.

    \b
    Examples:
      soltape kafka-users setup
      soltape kafka-users create --account acme --plan business --name prod --file acme.properties
      soltape kafka-users list
      soltape kafka-users revoke sub-4b1c09d2a7f3e581-90ab12cd
    """


@kafka_users.command()
def setup() -> None:
    """Create the topics, and give the pipeline's users their rights.

    Before the roles start for the first time, and after every update; it may be repeated. The users
    are soltape-ingest for `soltape ingest` and `soltape ingest accounts`, soltape-agents for
    `soltape agents`, and soltape where all share one. Each role names its own as KAFKA_USERNAME.
    """
    try:
        created = asyncio.run(rights.prepare(as_admin(load())))
    except (KafkaUnreachable, topics.TopicsWrong, rights.NotGranted, SettingsError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{len(created)} topics created; rights given to {', '.join(rights.ROLES)}")


@kafka_users.command()
@click.option("--account", required=True, help="Whose it is; its users share the plan's bytes.")
@click.option(
    "--plan",
    type=click.Choice(list(KAFKA)),
    required=True,
    help="Of an account that signs in, the plan of that counts (`soltape users plan`).",
)
@click.option("--name", required=True, help="What it is for, in your words.")
@click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write what to connect with to this new file, for its owner alone; else to stdout.",
)
def create(account: str, plan: str, name: str, file: Path | None) -> None:
    """Make a user and print what to connect with, this one time.

    That is a properties file of Kafka's clients; it works from the next moment on.
    """
    settings = load()
    if file is not None and file.exists():
        raise click.ClickException(f"{file} exists; credentials are written to new files only")

    async def make(issuer: Issuer, _: Pipelined) -> tuple[KafkaUser, str]:
        credentials = await issuer.issue(account, plan, name)
        try:
            return credentials.user, properties.text(settings, credentials)
        except SettingsError:
            await issuer.revoke(credentials.user.account, credentials.user.user)
            raise

    user, text = _run(settings, make)
    click.echo(f"user {user.user}, plan {plan}. Its password is not shown again.", err=True)
    click.echo(f"Its consumer groups begin with {user.group_prefix}", err=True)
    if file is None:
        click.echo(text, nl=False)
        return
    try:
        is_written = private_file.create(file, text)
    except OSError as error:
        is_written, reason = False, error.strerror or str(error)
    else:
        reason = "it exists"
    if not is_written:
        _run(settings, lambda issuer, _: issuer.revoke(user.account, user.user))
        raise click.ClickException(f"{file}: {reason}; the user was revoked")
    click.echo(f"written to {file}", err=True)


@kafka_users.command("list")
@click.option("--json", "as_json", is_flag=True, help="JSON lines instead of the table.")
def list_users(as_json: bool) -> None:
    """Show all users, the oldest first; then those that the broker has and Redis does not."""

    async def read(issuer: Issuer, redis: Pipelined) -> tuple[list[KafkaUser], list[str]]:
        return await register.read_all(redis), await issuer.strangers()

    users, strangers = _run(load(), read)
    if as_json:
        for each in users:
            click.echo(orjson.dumps({**asdict(each), "group_prefix": each.group_prefix}))
        for user in strangers:
            click.echo(orjson.dumps({"user": user, "account": None}))
        return
    for each in users:
        made = f"{datetime.fromtimestamp(each.created_ms / 1000, UTC):%Y-%m-%d %H:%M}"
        state = "" if each.is_active else "  unfinished: revoke it"
        click.echo(f"{each.user}  {each.plan:10}  {made}  {each.account}  {each.name}{state}")
    for user in strangers:
        click.echo(f"{user}  unknown here: the broker has it, Redis does not")
    if not users and not strangers:
        click.echo("there are no users yet: soltape kafka-users create", err=True)


@kafka_users.command()
@click.argument("user")
def revoke(user: str) -> None:
    """End a user: what it asks next is refused, on connections that are open as well."""

    async def end(issuer: Issuer, redis: Pipelined) -> None:
        found = await register.read(redis, user)
        if found is None:
            await issuer.revoke_stranger(user)
        else:
            await issuer.revoke(found.account, user)

    _run(load(), end)
    click.echo(f"{user} is refused from now on")


def _run(settings: Settings, work: Callable[[Issuer, Pipelined], Awaitable[T]]) -> T:
    configure_logging(settings, "kafka-users")  # on stderr

    async def connected() -> T:
        redis = keys.connect(settings, answer_timeout_s=ANSWER_TIMEOUT_S)
        try:
            return await work(Issuer(settings, redis), redis)
        finally:
            await redis.aclose()

    try:
        return asyncio.run(connected())
    except (SubscribersOff, NotIssued, NoSuchUser, SettingsError) as error:
        raise click.ClickException(str(error)) from None
    except BrokerFailed as error:
        raise click.ClickException(
            f"Kafka at {settings.kafka_bootstrap} does not do it: {error}"
        ) from None
    except (RedisError, OSError) as error:
        raise click.ClickException(f"the keys' Redis does not do it: {error}") from None
