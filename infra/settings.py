"""Every setting of Soltape, from the environment and `.env`, checked before anything starts.

A role reaches its systems by address only, so moving from the embedded default to
production changes these values and no code. `.env.example` explains each one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from infra.credentials import HIDDEN, hide
from infra.running import addresses

Port = Annotated[int, Field(ge=1, le=65535)]


def _blank_is_none(value: object) -> object:
    return None if value == "" else value


OptionalSecret = Annotated[SecretStr | None, BeforeValidator(_blank_is_none)]
OptionalText = Annotated[str | None, BeforeValidator(_blank_is_none)]


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
    geyser_endpoint: str = Field(
        "http://127.0.0.1:10000",
        pattern=r"^https?://[^/\s]+/?$",
        description="Yellowstone gRPC; https:// means TLS",
    )
    geyser_x_token: OptionalSecret = Field(None, description="sent as metadata x-token")
    rpc_endpoint: OptionalText = Field(
        None,
        pattern=r"^https?://\S+$",
        description="JSON-RPC for backfill by getBlock; empty: gaps are recorded, not filled",
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

    # Kafka.
    kafka_bootstrap: str = Field(
        "127.0.0.1:9092",
        pattern=r"^[^\s,]+:\d+(,[^\s,]+:\d+)*$",
        description="host:port[,host:port]",
    )
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
    kafka_replication: int = Field(1, ge=1, le=9, description="replicas of the topics we create")
    kafka_fetch_wait_ms: int = Field(
        10, ge=1, le=5_000, description="how long a broker may hold a fetch for more data"
    )
    kafka_session_timeout_s: float = Field(
        6.0, ge=1, le=300, description="silence after which a consumer is given up"
    )

    # Stores.
    clickhouse_url: str = Field(
        "http://127.0.0.1:8123", pattern=r"^https?://\S+$", description="HTTP interface"
    )
    clickhouse_user: str = Field("default", description="writer")
    clickhouse_password: OptionalSecret = Field(None, description="of the writer")
    clickhouse_database: str = Field(
        "soltape", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="our database"
    )
    redis_url: str = Field(
        "redis://127.0.0.1:6379/0", pattern=r"^(rediss?|unix)://\S+$", description="Redis or Valkey"
    )

    # Prometheus, one loopback port a role.
    metrics_host: str = Field("127.0.0.1", description="address that /metrics is served on")
    metrics_port_ingest: Port = Field(9101, description="of `soltape ingest`")
    metrics_port_agents: Port = Field(9102, description="of `soltape agents`")
    metrics_port_chain: Port = Field(9103, description="of `soltape chain`")


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
    found: dict[str, Any] = {
        name: value
        for name, value in running.items()
        if name in Settings.model_fields and name not in settings.model_fields_set
    }
    return Settings(**found) if found else settings


def load_own(**given: str) -> Settings:
    """Read the settings the user gave and the defaults, whatever runs; raises SettingsError.

    `given` are values by name that win over the environment.
    """
    values: dict[str, Any] = {**given}
    try:
        return Settings(**values)
    except ValidationError as error:
        raise SettingsError(_explain(error)) from None


def _explain(error: ValidationError) -> str:
    lines = []
    for item in error.errors():
        name = str(item["loc"][0])
        field = Settings.model_fields.get(name)
        secret = name.endswith(("_password", "_x_token"))
        value = HIDDEN if secret else hide(repr(item["input"]))
        about = f" ({field.description})" if field and field.description else ""
        lines.append(f"{name.upper()}={value}: {item['msg']}{about}")
    return "\n".join(lines)
