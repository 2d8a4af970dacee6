"""What `soltape up` runs: systems and roles, in which order, at which addresses.

A system that the user has set is used as it is; the others are started here. Where a port that
the user did not set is taken, another is found; one that was set and is taken is an error.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import Final, Literal
from urllib.parse import urlsplit

from pydantic import SecretStr

from infra.chain import demo_wallets
from infra.clickhouse import embedded as clickhouse
from infra.kafka import apache, embedded, rights, topics
from infra.kafka.client import KafkaUnreachable, as_admin
from infra.local import facilitator, folder_lock, identity, passwords, tape
from infra.local.process import (
    NotReady,
    PortInUse,
    Process,
    require_free_port,
    reserve_free_port,
    reserve_port,
)
from infra.local.running import DEMO_KEY
from infra.redis import embedded as redis
from infra.settings import EVERYWHERE, LOOPBACK, Settings, SettingsError
from infra.telemetry import host_of
from schemas.solana.addresses import text

HOST: Final = LOOPBACK
_SOLTAPE: Final = (sys.executable, "-m", "infra.cli")
# Each system's own customary port.
KAFKA_PORT: Final = 9092
SUBSCRIBERS_PORT: Final = 9094
CLICKHOUSE_PORT: Final = 8123
REDIS_PORT: Final = 6379
GEYSER_PORT: Final = 10_000
RPC_PORT: Final = 8899
IDENTITY_PORT: Final = 8002
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost"})

_MAY_HOLD_KEYS: Final = frozenset(
    {
        *("rpc_endpoint", "clickhouse_url", "redis_url", "access_redis_url"),
        *(
            "kafka_password",
            "kafka_admin_password",
            "clickhouse_password",
            "clickhouse_reader_password",
        ),
    }
)
KAFKA_USER: Final = "soltape"
KAFKA_OPERATOR: Final = "soltape-operator"

ChainKind = Literal["simulated", "recorded"]
BrokerKind = Literal["embedded", "apache"]
_BROKERS: Final = {"embedded": embedded, "apache": apache}
_TAPE_SYSTEMS: Final = ("kafka", "clickhouse", "redis")
# The folder of each broker's log, below the data folder.
_LOGS: Final[dict[BrokerKind, str]] = {"embedded": "kafka", "apache": "apache-kafka/log"}


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line asks for; None leaves it to the settings."""

    chain: ChainKind | None = None
    recording: Path | None = None
    loop: bool = False  # the recording in a loop
    rate: float | None = None
    seed: int | None = None
    broker: BrokerKind | None = None
    stores_only: bool = False  # with what they keep, whatever chain it is of
    accounts: bool = True  # their lane, where the chain has accounts


@dataclass(frozen=True, slots=True)
class Part:
    """A process, and the names of the parts that serve before it starts."""

    process: Process
    after: tuple[str, ...] = ()
    ends_tape: bool = False  # a local chain: it cannot go on where it ended
    # Empties what it keeps of a tape, and returns its process for the next one.
    anew: Callable[[], Process] | None = None


@dataclass(slots=True)
class Stack:
    """All that `soltape up` runs, in starting order."""

    settings: Settings
    user_set: frozenset[str]  # names of the settings that are not left to us
    parts: list[Part] = field(default_factory=list)
    elsewhere: dict[str, str] = field(default_factory=dict)  # systems of the user: name, address
    notes: list[str] = field(default_factory=list)
    begins_tape: bool = False  # what is started here keeps nothing of the last tape
    plays_once: bool = False  # the chain is a recording that ends
    # Settings by which the parts log in to the systems that are started here.
    logins: list[str] = field(default_factory=list)
    # Those that only commands beside them get.
    operators: list[str] = field(default_factory=list)
    stores_only: bool = False  # no chain and no role
    demo_key: Path | None = None  # the file that a key to the API is in once it serves
    demo_wallets: Mapping[str, str] = field(default_factory=dict)  # address -> what it does

    @property
    def keeps_tape_elsewhere(self) -> tuple[str, ...]:
        """Names of the systems that are the user's own, so that nobody empties them here."""
        return tuple(name for name in _TAPE_SYSTEMS if name in self.elsewhere)

    def begin_anew(self) -> None:
        """Empty what keeps the tape; raises what `plan` raises, and OSError."""
        self.parts = [
            replace(part, process=part.anew()) if part.anew else part for part in self.parts
        ]

    def environment(self) -> dict[str, str]:
        """Return the addresses as settings, for the parts and for commands beside them."""
        settings = self.settings
        values: dict[str, str | Path | SecretStr] = {
            "GEYSER_ENDPOINT": settings.geyser_endpoint,
            "RPC_ENDPOINT": settings.rpc_endpoint or "",
            "KAFKA_BOOTSTRAP": settings.kafka_bootstrap,
            "CLICKHOUSE_URL": settings.clickhouse_url,
            "REDIS_URL": settings.redis_url,
            "ACCESS_REDIS_URL": settings.access_redis_url or "",
            "METRICS_PORT_INGEST": str(settings.metrics_port_ingest),
            "METRICS_PORT_INGEST_ACCOUNTS": str(settings.metrics_port_ingest_accounts),
            "METRICS_PORT_AGENTS": str(settings.metrics_port_agents),
            "METRICS_PORT_BOOKS": str(settings.metrics_port_books),
            "METRICS_PORT_CHAIN": str(settings.metrics_port_chain),
            "METRICS_PORT_API": str(settings.metrics_port_api),
            "METRICS_PORT_GATEWAY": str(settings.metrics_port_gateway),
            "METRICS_PORT_WATCH": str(settings.metrics_port_watch),
            "API_PORT": str(settings.api_port),
            "GATEWAY_PORT": str(settings.gateway_port),
            "GATEWAY_URL": settings.gateway_url or "",
            "X402_FACILITATOR_URL": settings.x402_facilitator_url or "",
            "PAY_TO": settings.pay_to or "",
            "PAY_NETWORK": settings.pay_network,
            "METADATA_TRUSTED_ORIGIN": settings.metadata_trusted_origin or "",
            "SIGNIN_ISSUER": settings.signin_issuer or "",
            "SIGNIN_CLIENT_ID": settings.signin_client_id or "",
            "SIGNIN_BASE_URL": settings.signin_base_url or "",
        }
        values |= {name.upper(): getattr(settings, name) for name in self.logins}
        return _as_text(values)

    def published(self) -> dict[str, str]:
        """Return the environment of commands in this folder, without keys of the user's own."""
        kept = {name.upper() for name in _MAY_HOLD_KEYS & self.user_set}
        variables = self.environment() | _as_text(
            {name.upper(): getattr(self.settings, name) for name in self.operators}
        )
        return {name: value for name, value in variables.items() if name not in kept}


def _as_text(values: Mapping[str, str | Path | SecretStr]) -> dict[str, str]:
    return {
        name: value.get_secret_value() if isinstance(value, SecretStr) else str(value)
        for name, value in values.items()
        if value
    }


def plan(settings: Settings, wishes: Wishes) -> Stack:
    """Decide what is started here and where.

    Raises PortInUse where the user chose the port, SettingsError where a setting contradicts,
    FolderInUse where another process works in a folder that would begin anew.
    """
    stack = Stack(settings, frozenset(settings.model_fields_set), stores_only=wishes.stores_only)
    _tape(stack, wishes)
    _kafka(stack, wishes)
    _clickhouse(stack)
    _redis(stack, wishes)
    if wishes.stores_only:
        return stack
    if _keeps_tape_here(stack, wishes) and not _has_tape_to_empty(stack, wishes):
        _note_tape(stack, wishes)
    _chain(stack, wishes)
    _roles(stack, wishes)
    _facilitator(stack, wishes)
    _gateway(stack)  # before the API, which says where it is
    _api(stack)
    _identity(stack)
    if stack.keeps_tape_elsewhere and (stack.begins_tape or not _chain_is_elsewhere(stack, wishes)):
        yours = ", ".join(stack.keeps_tape_elsewhere)
        stack.notes.append(
            f"{yours}: yours, not emptied here. A new tape begins: use empty systems, or two tapes "
            "mix"
        )
    return stack


def _tape(stack: Stack, wishes: Wishes) -> None:
    """Decide whether the stores here begin empty: the tape of a local chain always ends."""
    if wishes.stores_only or not _keeps_tape_here(stack, wishes):
        return
    data = stack.settings.soltape_data
    try:
        kept = tape.owner(data)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{data / tape.FILE} cannot be read: {error}") from None
    is_local = not _chain_is_elsewhere(stack, wishes)
    if is_local and kept not in (None, tape.LOCAL):
        raise SettingsError(
            f"SOLTAPE_DATA={str(data)!r}: it keeps the tape of {kept}, which a local chain would "
            "empty. Set GEYSER_ENDPOINT to continue that tape, or SOLTAPE_DATA to another folder; "
            f"to have it emptied, delete {data / tape.FILE}"
        )
    stack.begins_tape = is_local or kept == tape.LOCAL
    if not is_local and stack.begins_tape:
        stack.notes.append(
            "the stores here kept the tape of a local chain and are emptied; API keys stay"
        )
    if stack.begins_tape:  # all of them before one is emptied
        if not _kafka_is_elsewhere(stack, wishes):
            _require_idle(data / _LOGS[wishes.broker or "embedded"])
        if not _is_set(stack, "clickhouse_url"):
            _require_idle(data / "clickhouse")


def _keeps_tape_here(stack: Stack, wishes: Wishes) -> bool:
    return not (
        _kafka_is_elsewhere(stack, wishes)
        and _is_set(stack, "clickhouse_url")
        and _is_set(stack, "redis_url")
    )


def _has_tape_to_empty(stack: Stack, wishes: Wishes) -> bool:
    """Whether a local chain's tape is still in Redis, where a chain elsewhere shall begin."""
    return (
        stack.begins_tape and _chain_is_elsewhere(stack, wishes) and not _is_set(stack, "redis_url")
    )


def _note_tape(stack: Stack, wishes: Wishes) -> None:
    """Note whose tape the stores here keep from now on; raises SettingsError."""
    data = stack.settings.soltape_data
    owner = _chain_address(stack) if _chain_is_elsewhere(stack, wishes) else tape.LOCAL
    try:
        tape.note(data, owner)
    except OSError as error:
        raise SettingsError(f"{data / tape.FILE} cannot be written: {error}") from None


def _chain_address(stack: Stack) -> str:
    return host_of(stack.settings.geyser_endpoint)


def _kafka_is_elsewhere(stack: Stack, wishes: Wishes) -> bool:
    return wishes.broker is None and _is_set(stack, "kafka_bootstrap")


def _kafka(stack: Stack, wishes: Wishes) -> None:
    if _kafka_is_elsewhere(stack, wishes):
        stack.elsewhere["kafka"] = stack.settings.kafka_bootstrap
        return
    port = _listen(stack, "kafka", "kafka_bootstrap", KAFKA_PORT)
    _change(stack, kafka_bootstrap=f"{HOST}:{port}")
    _log_in(
        stack,
        kafka_security="sasl_plaintext",
        kafka_sasl_mechanism="PLAIN",
        kafka_username=KAFKA_USER,
        kafka_password=SecretStr(_password(stack, "KAFKA_PASSWORD")),
    )
    kind = wishes.broker or "embedded"
    if kind == "apache":
        _open_to_subscribers(stack)

    def anew() -> Process:
        _empty(stack, _LOGS[kind])
        broker: Process = _BROKERS[kind].process(stack.settings)
        return replace(broker, ready=partial(_ready_with_topics, broker, stack.settings))

    stack.parts.append(Part(anew(), anew=anew))


def _open_to_subscribers(stack: Stack) -> None:
    """Give Apache Kafka a user for its operator, and a listener for subscribers, on loopback."""
    port = _listen(stack, "kafka for subscribers", "kafka_public_bootstrap", SUBSCRIBERS_PORT)
    operator = {
        "kafka_admin_username": KAFKA_OPERATOR,
        "kafka_admin_password": SecretStr(_password(stack, "KAFKA_ADMIN_PASSWORD")),
        "kafka_public_bootstrap": f"{HOST}:{port}",
        "kafka_public_ca_file": apache.ca_file(stack.settings),
    }
    _change(stack, **{name: value for name, value in operator.items() if not _is_set(stack, name)})
    stack.operators += operator
    stack.notes.append(
        f"Kafka for subscribers: {stack.settings.kafka_public_bootstrap}; users of it: "
        "`soltape kafka-users create`"
    )


def _empty(stack: Stack, name: str) -> None:
    """Empty a data folder if a tape begins."""
    if not stack.begins_tape:
        return
    folder = stack.settings.soltape_data / name
    _require_idle(folder)
    shutil.rmtree(folder, ignore_errors=True)


def _require_idle(folder: Path) -> None:
    if pid := folder_lock.holder(folder / "lock"):  # `soltape kafka`, say, on another port
        raise folder_lock.FolderInUse(folder, pid)


async def _ready_with_topics(broker: Process, settings: Settings) -> None:
    # Before a role asks for a topic: it would wait for one that is missing.
    await broker.ready()
    try:
        if settings.kafka_admin_username:
            await rights.prepare(as_admin(settings))
        else:
            await topics.create(settings)
    except (KafkaUnreachable, topics.TopicsWrong, rights.NotGranted) as error:
        raise NotReady(str(error)) from None


def _clickhouse(stack: Stack) -> None:
    if _is_set(stack, "clickhouse_url"):
        stack.elsewhere["clickhouse"] = host_of(stack.settings.clickhouse_url)
        return
    port = _listen(stack, "clickhouse", "clickhouse_url", CLICKHOUSE_PORT)
    _change(stack, clickhouse_url=f"http://{HOST}:{port}")
    for name in ("clickhouse_password", "clickhouse_reader_password"):
        _log_in(stack, **{name: SecretStr(_password(stack, name.upper()))})

    def anew() -> Process:
        _empty(stack, "clickhouse")
        return clickhouse.server(stack.settings.soltape_data / "clickhouse", port)

    stack.parts.append(Part(anew(), anew=anew))


def _redis(stack: Stack, wishes: Wishes) -> None:
    if _is_set(stack, "access_redis_url") and (keys := stack.settings.access_redis_url):
        stack.elsewhere["keys"] = host_of(keys)
    if _is_set(stack, "redis_url"):
        stack.elsewhere["redis"] = host_of(stack.settings.redis_url)
        return
    port = _listen(stack, "redis", "redis_url", REDIS_PORT)
    password = _password(stack, "REDIS_PASSWORD")
    url = redis.address(HOST, port, redis.TAPE, password)
    _change(stack, redis_url=url)
    if not _is_set(stack, "access_redis_url"):
        _change(stack, access_redis_url=redis.address(HOST, port, redis.ACCESS, password))

    def anew() -> Process:
        server = redis.valkey(stack.settings.soltape_data / "redis", HOST, port, password)
        if not stack.begins_tape:
            return server
        # Noted once nothing is left of the last tape: a start that ends before empties again.
        return redis.with_new_tape(server, url, then=partial(_note_tape, stack, wishes))

    stack.parts.append(Part(anew(), anew=anew))


def _chain_is_elsewhere(stack: Stack, wishes: Wishes) -> bool:
    return wishes.chain is None and _is_set(stack, "geyser_endpoint")


def _is_simulated(stack: Stack, wishes: Wishes) -> bool:
    return not _chain_is_elsewhere(stack, wishes) and wishes.chain in (None, "simulated")


def _chain(stack: Stack, wishes: Wishes) -> None:
    if _chain_is_elsewhere(stack, wishes):
        stack.elsewhere["chain"] = _chain_address(stack)
        return
    geyser_port = _listen(stack, "chain", "geyser_endpoint", GEYSER_PORT)
    rpc_port = _listen(stack, "chain", "rpc_endpoint", RPC_PORT)
    metrics_port = _listen(stack, "chain", "metrics_port_chain")
    _change(
        stack,
        geyser_endpoint=f"http://{HOST}:{geyser_port}",
        rpc_endpoint=f"http://{HOST}:{rpc_port}",
        metrics_port_chain=metrics_port,
    )
    if _is_simulated(stack, wishes) and not _is_set(stack, "metadata_trusted_origin"):
        # Its coins' URIs lead to the chain's own server, whose address is private.
        _change(stack, metadata_trusted_origin=f"http://{HOST}:{rpc_port}")
    if _is_simulated(stack, wishes):
        stack.demo_wallets = demo_wallets.SHOWN
    source = [wishes.chain or "simulated", *([str(wishes.recording)] if wishes.recording else [])]
    if wishes.loop:
        source.append("--loop")
    elif wishes.recording:
        stack.plays_once = True
        stack.notes.append(f"{wishes.recording} is played once; then the chain is quiet")
    if wishes.rate is not None:
        source += ["--rate", str(wishes.rate)]

    def anew() -> Process:
        # Given here, so that a chain that ends can be run again as it was.
        seed = SystemRandom().randrange(1 << 32) if wishes.seed is None else wishes.seed
        return Process(
            name="chain",
            command=[*_SOLTAPE, "chain", *source, "--seed", str(seed)],
            address=f"{stack.settings.geyser_endpoint} rpc {stack.settings.rpc_endpoint}",
            ready=partial(listens, geyser_port),
        )

    stack.parts.append(Part(anew(), ends_tape=True, anew=anew))


# Roles in starting order: name, command, which systems serve before it.
_ROLES: Final = (
    ("ingest", ("ingest",), ("kafka", "chain")),
    ("ingest_accounts", ("ingest", "accounts"), ("kafka", "redis", "chain")),
    ("agents", ("agents", "live"), ("kafka", "redis")),
    # In a process of their own: what they do in slices would delay what is live.
    ("books", ("agents", "pnl", "market", "store", "accounts"), ("kafka", "clickhouse", "redis")),
    ("watch", ("watch",), ("clickhouse", "redis")),
)
# A recording has no accounts, and what a provider's filters cost is for its user to decide.
_OF_ACCOUNTS: Final = frozenset({"ingest_accounts", "watch"})


def _roles(stack: Stack, wishes: Wishes) -> None:
    here = {part.process.name for part in stack.parts}
    for name, command, needs in _ROLES:
        if name in _OF_ACCOUNTS and not (wishes.accounts and _is_simulated(stack, wishes)):
            continue
        setting = f"metrics_port_{name}"
        port = _listen(stack, name, setting)
        _change(stack, **{setting: port})
        process = Process(
            name=name,
            command=[*_SOLTAPE, *command],
            address=f"http://{stack.settings.metrics_host}:{port}/metrics",
            ready=partial(listens, port, stack.settings.metrics_host),
        )
        stack.parts.append(Part(process, tuple(n for n in needs if n in here)))


def _facilitator(stack: Stack, wishes: Wishes) -> None:
    """Let calls be paid for with simulated dollars, unless the user settles payments elsewhere."""
    if _is_set(stack, "x402_facilitator_url") or not _is_simulated(stack, wishes):
        return
    port = _listen(stack, "facilitator", "x402_facilitator_url", facilitator.PORT)
    url = f"http://{HOST}:{port}"
    _change(
        stack,
        x402_facilitator_url=url,
        pay_to=text(demo_wallets.address(demo_wallets.SELLER)),
        pay_network=facilitator.NETWORK,
    )
    process = Process(
        name="facilitator",
        command=[*_SOLTAPE, "facilitator", "--port", str(port)],
        address=url,
        ready=partial(listens, port),
    )
    stack.parts.append(Part(process, ("chain",)))


def _gateway(stack: Stack) -> None:
    port = _listen(stack, "gateway", "gateway_port")
    metrics_port = _listen(stack, "gateway", "metrics_port_gateway")
    _change(stack, gateway_port=port, metrics_port_gateway=metrics_port)
    url = stack.settings.gateway_url_here
    if not _is_set(stack, "gateway_url"):
        _change(stack, gateway_url=url)
    host = _host_here(stack.settings.gateway_host)
    process = Process(
        name="gateway",
        command=[*_SOLTAPE, "gateway"],
        address=f"{url}/ws",
        ready=partial(listens, port, host),
    )
    here = {part.process.name for part in stack.parts}
    stack.parts.append(Part(process, ("redis",) if "redis" in here else ()))


def _api(stack: Stack) -> None:
    here = {part.process.name for part in stack.parts}
    command = [*_SOLTAPE, "api"]
    if "redis" in here and "keys" not in stack.elsewhere:
        # In keys of the user's own there is none to be made unasked.
        stack.demo_key = stack.settings.soltape_data / DEMO_KEY
        command += ["--demo-key", str(stack.demo_key)]
    port = _listen(stack, "api", "api_port")
    _change(stack, api_port=port, metrics_port_api=_listen(stack, "api", "metrics_port_api"))
    host = _host_here(stack.settings.api_host)
    url = stack.settings.api_url
    process = Process(name="api", command=command, address=url, ready=partial(listens, port, host))
    needs = ("clickhouse", "redis")
    stack.parts.append(Part(process, tuple(name for name in needs if name in here)))


def _identity(stack: Stack) -> None:
    """Plan a provider to sign in with, where the user has none and the keys are kept here."""
    settings = stack.settings
    if _is_set(stack, "signin_issuer") or stack.demo_key is None or not settings.api_dashboard:
        return
    port = _listen(stack, "identity", "signin_issuer", IDENTITY_PORT)
    base_url = settings.signin_base_url or settings.api_url
    issuer = f"http://{HOST}:{port}"
    _change(
        stack,
        signin_issuer=issuer,
        signin_client_id=identity.CLIENT_ID,
        signin_client_secret=None,
        signin_base_url=base_url,
    )
    command = [sys.executable, "-m", "infra.local.identity", str(port), base_url]
    process = Process(
        name="identity", command=command, address=issuer, ready=partial(listens, port)
    )
    stack.parts.append(Part(process))


def _host_here(host: str) -> str:
    """Return where something that listens on a host is reached from this machine."""
    return HOST if host in EVERYWHERE else host


def _is_set(stack: Stack, setting: str) -> bool:
    return setting in stack.user_set


def _change(stack: Stack, **values: object) -> None:
    stack.settings = stack.settings.model_copy(update=values)


def _password(stack: Stack, name: str) -> str:
    """Return one of the folder's passwords; raises SettingsError."""
    return passwords.of(stack.settings.soltape_data)[name]


def _log_in(stack: Stack, **values: object) -> None:
    """Set how the parts log in to a system that is started here, but for what the user set."""
    _change(stack, **{name: value for name, value in values.items() if not _is_set(stack, name)})
    stack.logins += values


def _listen(stack: Stack, part: str, setting: str, default: int | None = None) -> int:
    """Return the port of a part that is started here.

    It is that of the setting if the user set an address of this machine, and then it must be
    free; else the default one, or any free one where that is taken.
    """
    name = setting.upper()
    if _is_set(stack, setting):
        if port := _local_port(getattr(stack.settings, setting)):
            require_free_port(HOST, port, name)
            return port
        stack.notes.append(f"{part} is started here: {name} is not used")
    default = default or Settings.model_fields[setting].default
    try:
        require_free_port(HOST, default, name)
        if not reserve_port(default):
            raise PortInUse(HOST, default, name)
    except PortInUse:
        port = reserve_free_port(HOST)
        stack.notes.append(f"port {default} is in use: {part} takes {port} ({name} sets it)")
        return port
    return default


def _local_port(value: object) -> int | None:
    """Return the port of an address of this machine, None if it is elsewhere."""
    if isinstance(value, int):
        return value
    text = str(value)
    try:
        address = urlsplit(text if "://" in text else f"//{text}")
        return address.port if address.hostname in _LOOPBACK else None
    except ValueError:  # several hosts
        return None


async def listens(port: int, host: str = HOST) -> None:
    """Raise NotReady until something accepts connections there."""
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        raise NotReady(f"nothing listens on {host}:{port} yet") from None
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
