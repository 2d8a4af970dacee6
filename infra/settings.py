"""Every setting of Soltape, from the environment and `.env`, checked before anything starts.

A role reaches its systems by address only, so moving from the embedded default to
production changes these values and no code. `.env.example` explains each one.
"""

from __future__ import annotations

import re
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from infra.credentials import HIDDEN, hide
from infra.local.running import addresses
from infra.metadata_gateways import check_gateway, check_reachable
from schemas.topics import FEWEST_SETTLED, SETTLED_COUNTS, use_settled_partitions

LOOPBACK: Final = "127.0.0.1"
EVERYWHERE: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, not listened on


def _check_partitions(count: int) -> int:
    if count not in SETTLED_COUNTS:
        raise ValueError(f"one of {', '.join(map(str, SETTLED_COUNTS))} is expected")
    return count


Port = Annotated[int, Field(ge=1, le=65535)]


def _blank_is_none(value: object) -> object:
    return None if value == "" else value


def _check_token(token: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[ -~]+", token.get_secret_value()):
        raise ValueError("ASCII without line breaks is expected, as gRPC sends nothing else")
    return token


OptionalSecret = Annotated[SecretStr | None, BeforeValidator(_blank_is_none)]
Token = Annotated[
    Annotated[SecretStr, AfterValidator(_check_token)] | None, BeforeValidator(_blank_is_none)
]
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
OptionalText = Annotated[str | None, BeforeValidator(_blank_is_none)]


def _is_host(text: str) -> bool:
    """Return whether it can be looked up: for `127.0.0..1` Python raises UnicodeError."""
    return all(0 < len(label) < 64 for label in text.removesuffix(".").split("."))


def _check_host(text: str) -> str:
    if not _is_host(text):
        raise ValueError("an address or a name of this machine is expected")
    return text


def check_url(text: str, schemes: tuple[str, ...], *, path: bool = True) -> str:
    """Return the address; raises ValueError, which says what is accepted instead."""
    wanted = f"{' or '.join(f'{scheme}://' for scheme in schemes)}host:port is expected"
    try:
        parts = urlsplit(text)
        found = parts.hostname or (parts.scheme == "unix" and parts.path)
        _ = parts.port  # raises where it is none
    except ValueError:
        raise ValueError(f"{wanted}, with a port from 1 to 65535") from None
    is_host = found and (parts.hostname is None or _is_host(parts.hostname))
    if parts.scheme not in schemes or not is_host or re.search(r"\s", text):
        raise ValueError(wanted)
    if not path and (parts.path.strip("/") or parts.query):
        raise ValueError(f"{wanted}, and nothing behind it")
    return text


def _check_brokers(text: str) -> str:
    for broker in text.split(","):
        host, _, port = broker.rpartition(":")
        if not _is_host(host) or re.search(r"[\s/]", host) or not port.isdecimal():
            raise ValueError("host:port is expected, or several with commas between them")
        if not 1 <= int(port) <= 65535:
            raise ValueError("a port from 1 to 65535 is expected")
    return text


def _check_origins(text: str) -> str:
    for origin in filter(None, text.split(",")):
        if origin != "*" and not re.fullmatch(r"https?://[^/\s@,*]+", origin):
            raise ValueError(
                "* for every origin is expected, or scheme://host[:port] with nothing behind it, "
                "or several with commas between them"
            )
    return text


def _check_origin(text: str) -> str:
    check_url(text, schemes=("http", "https"), path=False)
    if "@" in text or text.endswith("/"):
        raise ValueError("scheme://host[:port] is expected, with nothing behind it")
    return text


_NOT_BEHIND_A_GATEWAY: Final = {
    "metadata_ipfs_gateway": ("/ipfs", "/ipns"),
    "metadata_arweave_gateway": ("/tx",),  # which has facts about a transaction, not its data
}


def _check_gateway(text: str, info: ValidationInfo) -> str:
    check_gateway(text, _NOT_BEHIND_A_GATEWAY[info.field_name or ""])
    if "metadata_trusted_origin" in info.data:  # else that is wrong, and reported
        check_reachable(text, info.data["metadata_trusted_origin"])
    return text


def _check_protected(text: str) -> str:
    """Return an address if nobody on the way can read what is sent there; raises ValueError."""
    parts = urlsplit(text)
    if parts.scheme == "http" and parts.hostname not in (LOOPBACK, "localhost", "::1"):
        raise ValueError("https:// is expected, or http:// at an address of this machine")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError("neither credentials nor a query nor a fragment is expected in it")
    return text


def _check_hosts(text: str) -> str:
    for name in filter(None, text.split(",")):
        if not re.fullmatch(r"[A-Za-z0-9._-]+|[0-9a-fA-F:]+", name):
            raise ValueError("names without scheme and port are expected, with commas between them")
    return text


def _check_networks(text: str) -> str:
    for network in filter(None, text.split(",")):
        try:
            ip_network(network)
        except ValueError as error:
            raise ValueError(f"addresses or networks (10.0.0.0/8) are expected: {error}") from None
    return text


def _check_redis(text: str) -> str:
    clusters = ("redis+cluster", "rediss+cluster")
    check_url(text, schemes=("redis", "rediss", "unix", *clusters))
    parts = urlsplit(text)
    if parts.scheme in clusters and parts.path.strip("/") not in ("", "0"):
        raise ValueError("a cluster has one database: nothing is expected behind its host:port")
    if parts.scheme in ("redis", "rediss") and not re.fullmatch(r"/?[0-9]*/?", parts.path):
        raise ValueError("the number of a database, or nothing, is expected behind host:port")
    return text


_HTTP: Final = ("http", "https")
Host = Annotated[str, Field(min_length=1), AfterValidator(_check_host)]
HttpUrl = Annotated[str, AfterValidator(partial(check_url, schemes=_HTTP))]
GrpcUrl = Annotated[str, AfterValidator(partial(check_url, schemes=_HTTP, path=False))]
WebSocketUrl = Annotated[str, AfterValidator(partial(check_url, schemes=("ws", "wss"), path=False))]
RedisUrl = Annotated[str, AfterValidator(_check_redis)]
OptionalHttpUrl = Annotated[HttpUrl | None, BeforeValidator(_blank_is_none)]
TrustedOrigin = Annotated[
    Annotated[str, AfterValidator(_check_origin)] | None, BeforeValidator(_blank_is_none)
]
Gateway = Annotated[
    Annotated[HttpUrl, AfterValidator(_check_gateway)] | None, BeforeValidator(_blank_is_none)
]
Issuer = Annotated[
    Annotated[HttpUrl, AfterValidator(_check_protected)] | None, BeforeValidator(_blank_is_none)
]
SignInOrigin = Annotated[
    Annotated[str, AfterValidator(_check_origin), AfterValidator(_check_protected)] | None,
    BeforeValidator(_blank_is_none),
]
SettledPartitions = Annotated[int, AfterValidator(_check_partitions)]
Brokers = Annotated[str, AfterValidator(_check_brokers)]
Networks = Annotated[str, AfterValidator(_check_networks)]
HostNames = Annotated[str, AfterValidator(_check_hosts)]
Origins = Annotated[str, AfterValidator(_check_origins)]


_GROUPS: Final = ("positions", "arrays", "tokens")


def _check_groups(text: str) -> str:
    if wrong := set(text.split(",")) - set(_GROUPS):
        raise ValueError(f"some of {', '.join(_GROUPS)} are expected, got {sorted(wrong)[0]!r}")
    return text


def _check_slugs(text: str) -> str:
    for change in filter(None, text.split(",")):
        if not re.fullmatch(r"\s*[a-z][a-z0-9]*=([a-z0-9_]+|-)\s*", change):
            raise ValueError(
                "<slug>=<protocol>, or <slug>=- to switch it off, is expected, or several with "
                "commas between them"
            )
    return text


def _check_addresses(text: str) -> str:
    from schemas.solana.addresses import check  # it loads much, which few commands need

    for each in filter(None, map(str.strip, text.split(","))):
        check(each)
    return text


Slugs = Annotated[str, AfterValidator(_check_slugs)]
AddressList = Annotated[str, AfterValidator(_check_addresses)]
AccountGroups = Annotated[str, AfterValidator(_check_groups)]


class Settings(BaseSettings):
    """The settings of one process. Names are the environment variables, in lower case."""

    model_config = SettingsConfigDict(env_file=".env", extra="ignore", env_ignore_empty=True)

    soltape_data: Path = Field(
        Path(".soltape"), description="where embedded systems keep data, logs and locks"
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="least severe line that is logged"
    )
    log_format: Literal["console", "json"] = Field(
        "console", description="lines for people or for machines"
    )

    # Chain: a Yellowstone endpoint and, for backfill, an RPC endpoint.
    geyser_endpoint: GrpcUrl = Field(
        "http://127.0.0.1:10000", description="Yellowstone gRPC; https:// means TLS"
    )
    geyser_x_token: Token = Field(None, description="sent as metadata x-token")
    rpc_endpoint: Annotated[HttpUrl | None, BeforeValidator(_blank_is_none)] = Field(
        None,
        description="JSON-RPC of a node; empty: gaps are recorded, not filled, and no account can "
        "be asked for",
    )
    geyser_ping_interval_s: float = Field(
        10.0, gt=0, le=60, description="client keepalive on the stream"
    )
    geyser_queue_size: int = Field(
        50_000, ge=100, description="updates waiting between the read loop and the decoder"
    )
    geyser_stale_retries: int = Field(
        3,
        ge=1,
        le=100,
        description="reconnects with the same from_slot before it is given up for backfill",
    )
    geyser_backoff_max_s: float = Field(
        30.0, gt=0, le=600, description="longest pause between reconnects"
    )
    ledger_max_slots: int = Field(
        600,
        ge=32,
        le=100_000,
        description="unsettled slots held before the missing ones become a gap",
    )
    ingest_takeover_s: float = Field(
        5.0, ge=0.5, le=60, description="silence of another ingest after which a standby takes over"
    )

    # Accounts: `soltape ingest accounts`.
    account_filters: Literal["kind", "owner"] = Field(
        "kind", description="a filter a kind of account, or ten programs a filter"
    )
    account_streams: int = Field(
        1, ge=1, le=32, description="connections that share the account filters"
    )
    account_groups: AccountGroups = Field(
        "positions,arrays,tokens", description="groups of account kinds that are subscribed"
    )
    account_tracked_max: int = Field(
        50_000,
        ge=100,
        le=10_000_000,
        description="wallets, and mints, whose accounts are kept: asked for, or mints that trade",
    )
    account_rpc_per_s: float = Field(
        200.0, gt=0, le=100_000, description="requests to RPC_ENDPOINT that accounts may cost"
    )
    account_boot_mib_s: float = Field(
        8.0, gt=0, le=10_000, description="MiB of accounts that bootstrap asks for in a second"
    )

    # Kafka.
    kafka_bootstrap: Brokers = Field("127.0.0.1:9092", description="host:port[,host:port]")
    kafka_security: Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"] = Field(
        "plaintext", description="protocol"
    )
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "SCRAM-SHA-512", description="with SASL"
    )
    kafka_username: OptionalText = Field(None, description="with SASL")
    kafka_password: OptionalSecret = Field(None, description="with SASL")
    kafka_ca_file: Path | None = Field(
        None, description="certificate authority with TLS; empty: the system's"
    )
    kafka_admin_username: OptionalText = Field(
        None, description="user that gives subscribers and roles their rights"
    )
    kafka_admin_password: OptionalSecret = Field(None, description="of that user")
    kafka_public_bootstrap: Annotated[Brokers | None, BeforeValidator(_blank_is_none)] = Field(
        None, description="where subscribers connect; empty: no Kafka for subscribers"
    )
    kafka_public_ca_file: Annotated[Path | None, BeforeValidator(_blank_is_none)] = Field(
        None, description="certificate authority that subscribers are given; empty: a public one"
    )
    kafka_replication: int = Field(1, ge=1, le=9, description="replicas of the topics we create")
    kafka_fetch_wait_ms: int = Field(
        10, ge=1, le=5_000, description="how long a broker may hold a fetch for more data"
    )
    kafka_session_timeout_s: float = Field(
        6.0, ge=1, le=300, description="silence after which a consumer is given up"
    )

    settled_partitions: SettledPartitions = Field(
        FEWEST_SETTLED,
        description="partitions of each settled lane, 8 to 128; see `soltape partitions`",
    )

    # Stores.
    clickhouse_url: HttpUrl = Field("http://127.0.0.1:8123", description="HTTP interface")
    clickhouse_user: str = Field("default", description="writer")
    clickhouse_password: OptionalSecret = Field(None, description="of the writer")
    clickhouse_database: str = Field(
        "soltape", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="our database"
    )
    clickhouse_reader_user: str = Field(
        "reader", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="who may only read"
    )
    clickhouse_reader_password: OptionalSecret = Field(None, description="of the reader")
    clickhouse_replicated: bool = Field(
        False, description="whether tables are made replicated, with macros {shard} and {replica}"
    )
    clickhouse_cluster: Annotated[Identifier | None, BeforeValidator(_blank_is_none)] = Field(
        None, description="servers on all of which replicated tables are made; empty: one"
    )
    clickhouse_swaps_days: int = Field(
        90, ge=0, le=36_500, description="days a swap is kept after it was written; 0: for ever"
    )
    redis_url: RedisUrl = Field("redis://127.0.0.1:6379/0", description="Redis or Valkey")
    access_redis_url: Annotated[RedisUrl | None, BeforeValidator(_blank_is_none)] = Field(
        None, description="where the API's keys live; empty: REDIS_URL"
    )
    pnl_cold_after_days: int = Field(
        7, ge=1, le=3_650, description="days of rest after which a token's positions leave Redis"
    )
    pnl_received_cold_after_hours: int = Field(
        6, ge=1, le=87_600, description="hours of rest after which a wallet without trades leaves"
    )
    market_cold_after_days: int = Field(
        7, ge=2, le=3_650, description="days of rest after which a token's market leaves Redis"
    )
    account_cold_after_days: int = Field(
        90, ge=1, le=3_650, description="days of rest after which a wallet's account leaves Redis"
    )
    books_checkpoint_s: float = Field(
        60,
        ge=1,
        le=3_600,
        description="seconds between checkpoints of a partition's books in ClickHouse",
    )
    live_stream_mib: int = Field(
        64, ge=1, le=100_000, description="history that Redis keeps of each live stream"
    )
    live_hold_mib: int = Field(
        32, ge=1, le=10_000, description="live frames held in memory while Redis is away"
    )

    # Health: from where on a store that fills up makes /api/health say `degraded`.
    health_redis_used_pct: float = Field(
        80, gt=0, le=100, description="share of maxmemory, in percent, that is too much"
    )
    health_clickhouse_parts: int = Field(
        500, ge=1, le=100_000, description="active parts in one partition of a table: too many"
    )
    health_disk_free_pct: float = Field(
        10, ge=0, le=100, description="free share of a store's disk, in percent, that is too little"
    )

    # Tracked wallets: `soltape watch`.
    watch_wallets_max: int = Field(
        5_000, ge=1, le=100_000, description="tracked wallets that are watched, last asked first"
    )
    watch_wallets_per_s: float = Field(
        5.0, gt=0, le=1_000, description="wallets that are read in a second"
    )
    watch_every_s: float = Field(
        10.0, ge=1, le=3_600, description="seconds between two readings of a wallet, at least"
    )

    # Both doors.
    allowed_hosts: HostNames = Field(
        "", description="names that the API and the gateway are reached by, with commas between"
    )

    trusted_proxies: Networks = Field(
        "", description="proxies whose X-Forwarded-For is believed, with commas between"
    )

    # The REST API.
    api_host: Host = Field("127.0.0.1", description="address that the API listens on")
    api_port: Port = Field(8000, description="port of the API")
    api_reuse_port: bool = Field(
        False, description="whether several processes may listen on one address"
    )
    api_cors_origins: Origins = Field(
        "", description="origins of pages that may call the API, with commas between them"
    )
    api_max_body_kib: int = Field(
        64,
        ge=1,
        le=16_384,
        description="largest body of a request, in KiB; API_MAX_CONCURRENT_PER_KEY of one key wait",
    )
    api_timeout_s: float = Field(
        10.0, gt=0, le=300, description="longest time for a body to arrive, and then for the answer"
    )
    api_max_concurrent: int = Field(
        256, ge=1, le=100_000, description="requests that a process answers at once"
    )
    api_max_concurrent_per_key: int = Field(
        64, ge=1, le=100_000, description="requests of one key that a process answers at once"
    )
    api_max_connections: int = Field(
        2_000, ge=1, le=100_000, description="connections that a process holds at once"
    )
    mcp_max_sessions: int = Field(
        500, ge=1, le=100_000, description="sessions of MCP over SSE that a process holds at once"
    )
    mcp_max_sessions_per_key: int = Field(
        16, ge=1, le=100_000, description="those of one key or user that a process holds at once"
    )
    mcp_session_idle_s: float = Field(
        1_800.0, gt=0, le=86_400, description="after which a silent session of MCP ends"
    )
    api_new_accounts: int = Field(
        6_000,
        ge=0,
        le=1_000_000,
        description="wallets and tokens, not followed yet, that a process asks for in a minute",
    )
    api_new_accounts_per_key: int = Field(
        60,
        ge=0,
        le=1_000_000,
        description="of these, the wallets that one API key asks for, and the tokens",
    )
    protocols: Slugs = Field(
        "", description="paths of protocols, renamed or switched off: `p10=flash,p13=-`"
    )
    verified_markets: AddressList = Field(
        "", description="markets that anybody could open, and that count nevertheless, by address"
    )
    metadata_fetch: bool = Field(
        True, description="whether the API fetches what the URIs of tokens' metadata say"
    )
    metadata_trusted_origin: TrustedOrigin = Field(
        None,
        description="scheme://host[:port] that it may fetch from although its address is private",
    )
    # Checked after the origin: they may be it.
    metadata_ipfs_gateway: Gateway = Field(
        None, description="where ipfs:// is fetched, at /ipfs/<cid>; empty: nowhere"
    )
    metadata_arweave_gateway: Gateway = Field(
        None, description="where ar:// is fetched, at /<id>; empty: nowhere"
    )
    metadata_cache_mib: int = Field(
        64, ge=1, le=100_000, description="MiB of metadata and images that Redis keeps"
    )
    api_dashboard: bool = Field(True, description="whether the API serves the dashboard, at /")

    # Pay per call; off without a facilitator.
    x402_facilitator_url: OptionalHttpUrl = Field(
        None, description="x402 facilitator that settles payments; empty: /pay is off"
    )
    pay_to: OptionalText = Field(
        None, description="wallet that payments go to; it needs a token account of PAY_ASSET"
    )
    pay_network: Literal[
        "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
        "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1",
        "solana:4uhcVJyU9pJkvQyS88uRDiswHXSCkY3z",
    ] = Field(
        "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
        description="CAIP-2: mainnet, devnet or testnet, in this order",
    )
    pay_asset: str = Field(
        "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v",
        min_length=32,
        max_length=44,
        description="mint of USDC, with 6 decimals",
    )
    pay_answers_mib: int = Field(
        256, ge=1, le=100_000, description="MiB of paid answers that Redis keeps for their payers"
    )

    # Sign-in and accounts; off without an issuer.
    signin_issuer: Issuer = Field(
        None, description="OpenID Connect issuer that users sign in with; empty: nobody signs in"
    )
    signin_client_id: OptionalText = Field(None, description="as which the issuer knows us")
    signin_client_secret: OptionalSecret = Field(
        None, description="of SIGNIN_CLIENT_ID; empty: the client is a public one"
    )
    signin_base_url: SignInOrigin = Field(
        None, description="scheme://host[:port] by which browsers reach the dashboard"
    )
    signin_max_users: int = Field(
        100_000, ge=1, le=100_000_000, description="users that may have an account"
    )

    # The WebSocket gateway.
    gateway_host: Host = Field("127.0.0.1", description="address that the gateway listens on")
    gateway_port: Port = Field(8001, description="port of the gateway")
    gateway_url: Annotated[WebSocketUrl | None, BeforeValidator(_blank_is_none)] = Field(
        None, description="where the dashboard finds the WebSocket; empty: at its own address"
    )
    gateway_reuse_port: bool = Field(
        False, description="whether several gateways may listen on one address"
    )
    gateway_max_connections: int = Field(
        2_000, ge=1, le=100_000, description="WebSocket connections that a process holds at once"
    )
    gateway_max_connections_per_key: int = Field(
        1_000, ge=1, le=100_000, description="of these, connections of one API key or user"
    )
    gateway_reserved: str = Field(
        "",
        description="connections of a process that are kept for API keys or users: "
        "`<id>:<number>,...`",
    )
    gateway_queue_kib: int = Field(
        4_096,
        ge=1_024,
        le=1_048_576,
        description="what may wait for a client that reads slowly, KiB",
    )
    gateway_queues_mib: int = Field(
        512, ge=1, le=1_048_576, description="what may wait for all clients of a process, MiB"
    )
    gateway_slow_s: float = Field(
        10.0, gt=0, le=600, description="how long a client's queue may be full before it is closed"
    )
    gateway_ping_s: float = Field(
        20.0, gt=0, le=600, description="silence after which a client is sent a ping"
    )
    gateway_idle_s: float = Field(
        60.0, gt=0, le=3_600, description="silence, pongs included, that ends a connection"
    )

    # Prometheus, one loopback port a role.
    metrics_host: Host = Field("127.0.0.1", description="address that /metrics is served on")
    metrics_port_ingest: Port = Field(9101, description="of `soltape ingest`")
    metrics_port_ingest_accounts: Port = Field(9107, description="of `soltape ingest accounts`")
    metrics_port_agents: Port = Field(9102, description="of `soltape agents` with live")
    metrics_port_chain: Port = Field(9103, description="of `soltape chain`")
    metrics_port_books: Port = Field(9104, description="of `soltape agents` without live")
    metrics_port_api: Port = Field(9105, description="of `soltape api`")
    metrics_port_gateway: Port = Field(9106, description="of `soltape gateway`")
    metrics_port_watch: Port = Field(9108, description="of `soltape watch`")

    @property
    def api_url(self) -> str:
        """Where the API is reached from its own machine."""
        return f"http://{_place(self.api_host, self.api_port)}"

    @property
    def gateway_url_here(self) -> str:
        """Where the gateway is reached from its own machine."""
        return f"ws://{_place(self.gateway_host, self.gateway_port)}"


def _place(host: str, port: int) -> str:
    host = LOOPBACK if host in EVERYWHERE else host
    return f"{f'[{host}]' if ':' in host else host}:{port}"


class SettingsError(Exception):
    """A setting holds a value that is not accepted; the text is for the user."""


def load() -> Settings:
    """Read the settings: environment, then .env, then the running stack, then the defaults.

    The running stack is the `soltape up` of this folder, if there is one; its addresses fill in
    what the user left open, so that `soltape tail` and others need no settings beside it.
    Raises SettingsError: it names each variable, its value (secrets hidden) and what is accepted.
    """
    settings = load_own()
    running = {name.lower(): value for name, value in addresses(settings.soltape_data).items()}
    # A login belongs to its address: that of the running stack is for no system of the user's.
    yours = tuple(
        system
        for system, address in (("kafka_", "kafka_bootstrap"), ("clickhouse_", "clickhouse_url"))
        if address in settings.model_fields_set
        and _plain(getattr(settings, address)) != running.get(address)
    )
    found: dict[str, Any] = {
        name: value
        for name, value in running.items()
        if name in Settings.model_fields
        and name not in settings.model_fields_set
        and not name.startswith(yours)
    }
    return Settings(**found) if found else settings


def _plain(address: str) -> str:
    """Return an address as the running stack publishes its own."""
    return address.rstrip("/").replace("localhost", LOOPBACK)


def load_own(**given: str) -> Settings:
    """Read the settings the user gave and the defaults, whatever runs; raises SettingsError.

    `given` are values by name that win over the environment. From here on the process has the
    settled lanes of SETTLED_PARTITIONS.
    """
    values: dict[str, Any] = {**given}
    try:
        settings = Settings(**values)
        use_settled_partitions(settings.settled_partitions)
        return settings
    except ValidationError as error:
        raise SettingsError(_explain(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f".env cannot be read: {error}") from None


def _explain(error: ValidationError) -> str:
    lines = []
    for item in error.errors():
        name = str(item["loc"][0])
        field = Settings.model_fields.get(name)
        value = _shown(name, str(item["input"]))
        about = f" ({field.description})" if field and field.description else ""
        reason = item["msg"].removeprefix("Value error, ")
        lines.append(f"{name.upper()}={value}: {reason}{about}")
    return "\n".join(lines)


def _shown(name: str, value: str) -> str:
    """Return what of a value may be shown; of an address no more than the host."""
    if name.endswith(("_password", "_secret", "_x_token")):
        return HIDDEN
    if name.endswith(("_endpoint", "_url", "_gateway")):  # providers put keys into the path, too
        scheme, between, rest = value.rpartition("://")
        host, *behind = re.split(r"[/?#]", rest.rpartition("@")[2], maxsplit=1)
        value = f"{scheme}{between}{host}" + (f"/{HIDDEN}" if any(behind) else "")
    return hide(repr(value))
