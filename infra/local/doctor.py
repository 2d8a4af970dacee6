"""`soltape doctor`: is every system that is configured there, and what to do where it is not."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click
from dotenv import dotenv_values

from infra.local import running
from infra.local.process import PortInUse, require_free_port
from infra.settings import Settings, load
from infra.telemetry import host_of

TIMEOUT_S: Final = 6.0
_FREE_DISK_BYTES: Final = 2 * 1024**3
_METHOD_NOT_FOUND: Final = -32601  # JSON-RPC
# What serves metrics, by the name of its port's setting: the command that runs it.
_COMMANDS: Final = {
    "ingest": "ingest",
    "ingest_accounts": "ingest accounts",
    "agents": "agents",
    "books": "agents pnl market store accounts",
    "chain": "chain",
    "watch": "watch",
    "api": "api",
    "gateway": "gateway",
}


class Unwell(Exception):
    """What fails and what to do about it."""


@dataclass(frozen=True, slots=True)
class Check:
    """One question; `ask` returns a line about what it found, or raises Unwell."""

    name: str
    ask: Callable[[], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Finding:
    """The answer to a check."""

    name: str
    well: bool
    text: str
    took_ms: float


@click.command()
def doctor() -> None:
    """Check every configured system.

    Says of each whether it answers, and what to do if not; exits with 1 if one does not. Takes
    the settings of this folder: environment, .env, and what runs here as `soltape up`.
    """
    settings = load()
    pid = running.holder(settings.soltape_data)
    click.echo(
        f"`soltape up` runs in this folder, pid {pid}"
        if pid
        else "`soltape up` does not run in this folder: the addresses are those of the settings"
    )
    findings = asyncio.run(examine(checks(settings)))
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        verdict = click.style("ok    ", "green") if finding.well else click.style("failed", "red")
        text = finding.text.replace("\n", "\n" + " " * (width + 10))
        took = f"  ({finding.took_ms:.0f} ms)" if finding.took_ms >= 1 else ""
        click.echo(f"{verdict}  {finding.name:{width}}  {text}{took}")
    sys.exit(0 if all(finding.well for finding in findings) else 1)


async def examine(wanted: list[Check]) -> list[Finding]:
    """Ask all at once, each within TIMEOUT_S."""
    return await asyncio.gather(*(_find(check) for check in wanted))


async def _find(check: Check) -> Finding:
    began = time.monotonic()
    try:
        async with asyncio.timeout(TIMEOUT_S):
            text = await check.ask()
        well = True
    except Unwell as error:
        text, well = str(error), False
    except TimeoutError:
        text, well = f"no answer within {TIMEOUT_S:g} s", False
    return Finding(check.name, well, text, (time.monotonic() - began) * 1000)


def checks(settings: Settings) -> list[Check]:
    """Return the checks of a configuration."""
    return [
        Check("settings", _dotenv),
        Check("data", partial(_data, settings)),
        Check("kafka", partial(_kafka, settings)),
        Check("clickhouse", partial(_clickhouse, settings)),
        Check("redis", partial(_redis, settings.redis_url, "REDIS_URL")),
        *(
            [Check("keys", partial(_redis, keys, "ACCESS_REDIS_URL"))]
            if (keys := settings.access_redis_url)
            else ()
        ),
        Check("geyser", partial(_geyser, settings)),
        Check("rpc", partial(_rpc, settings)),
        *(
            Check(f"{role.replace('_', ' ')} metrics", partial(_metrics, settings, role))
            for role in _COMMANDS
        ),
    ]


async def _dotenv() -> str:
    """Other programs may share .env, so only a name like a Soltape setting is a mistake."""
    path = Path(str(Settings.model_config["env_file"]))
    if not path.is_file():  # noqa: ASYNC240 - an instant
        return "no .env here: environment and defaults (.env.example explains each)"
    ours = [name.upper() for name in Settings.model_fields]
    names = [name for name, value in dotenv_values(path).items() if value]
    for name in names:
        if name.upper() not in ours and (near := get_close_matches(name.upper(), ours, 1, 0.85)):
            raise Unwell(f"{path} sets {name}, which is no setting; {near[0]} is one")
    return f"{path} sets {sum(name.upper() in ours for name in names)} of {len(ours)}"


async def _data(settings: Settings) -> str:
    folder = settings.soltape_data
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        raise Unwell(
            f"{folder} cannot be written ({error.strerror}): set SOLTAPE_DATA to a folder that can"
        ) from None
    if free < _FREE_DISK_BYTES:
        raise Unwell(
            f"{folder} has {free / 1024**3:.1f} GiB free: make room, or set SOLTAPE_DATA elsewhere"
        )
    return f"{folder} can be written, {free / 1024**3:.0f} GiB free"


async def _kafka(settings: Settings) -> str:
    from aiokafka.errors import KafkaError

    from infra.kafka import topics
    from infra.kafka.client import KafkaUnreachable

    try:
        return await topics.check(settings)
    except (KafkaUnreachable, topics.TopicsWrong) as error:
        raise Unwell(str(error)) from None
    except KafkaError as error:
        raise Unwell(
            f"{settings.kafka_bootstrap} refuses to say what its topics have: {error}"
        ) from None


async def _clickhouse(settings: Settings) -> str:
    from infra.clickhouse.client import ClickHouseUnavailable, check

    try:
        return f"{host_of(settings.clickhouse_url)}: {await check(settings)}"
    except ClickHouseUnavailable as error:
        raise Unwell(str(error)) from None


async def _redis(url: str, setting: str) -> str:
    from infra.redis.client import RedisError, check

    address = host_of(url)
    try:
        return f"{address}: {await check(url)}"
    except RedisError as error:
        raise Unwell(
            f"{address}: {error}. Is `soltape up` running? If Redis is elsewhere, set {setting}"
        ) from None


async def _geyser(settings: Settings) -> str:
    import grpc
    import orjson

    from schemas.proto.geyser_pb2 import GetVersionRequest
    from schemas.proto.geyser_pb2_grpc import GeyserStub

    url = urlsplit(settings.geyser_endpoint)
    tls = url.scheme == "https"
    target = f"{url.hostname}:{url.port or (443 if tls else 80)}"
    token = settings.geyser_x_token
    metadata = (("x-token", token.get_secret_value()),) if token else ()
    channel = (
        grpc.aio.secure_channel(target, grpc.ssl_channel_credentials())
        if tls
        else grpc.aio.insecure_channel(target)
    )
    async with channel:
        try:
            ask = GeyserStub(channel).GetVersion  # type: ignore[no-untyped-call]
            answer = await ask(GetVersionRequest(), metadata=metadata, timeout=TIMEOUT_S - 1)
        except grpc.aio.AioRpcError as error:
            raise Unwell(_geyser_trouble(settings, error)) from None
    try:
        version = orjson.loads(answer.version)["version"]
        shown = " ".join(version[key] for key in ("package", "version", "proto") if key in version)
    except (orjson.JSONDecodeError, KeyError, TypeError):
        shown = answer.version
    return f"{host_of(settings.geyser_endpoint)}: {shown[:200]}"


def _geyser_trouble(settings: Settings, error: Any) -> str:
    address = host_of(settings.geyser_endpoint)
    match error.code().name:
        case "UNAUTHENTICATED" | "PERMISSION_DENIED":
            has = "is not accepted" if settings.geyser_x_token else "is not set"
            return f"{address} refuses us ({error.details()}): GEYSER_X_TOKEN {has}"
        case "UNAVAILABLE" | "DEADLINE_EXCEEDED":
            return (
                f"{address} does not answer ({error.details()}). Is `soltape up` running? If the "
                "endpoint is elsewhere, set GEYSER_ENDPOINT, with https:// where it uses TLS"
            )
        case "UNIMPLEMENTED":
            return f"{address} is gRPC but not Yellowstone ({error.details()}): set GEYSER_ENDPOINT"
        case code:
            return f"{address} answers {code}: {error.details()}"


async def _rpc(settings: Settings) -> str:
    import aiohttp

    if not settings.rpc_endpoint:
        return "RPC_ENDPOINT is not set: slots the stream has lost become gaps"
    address = host_of(settings.rpc_endpoint)
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S - 1)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session:
            version = await _call(session, settings.rpc_endpoint, "getVersion")
            health = await _call(session, settings.rpc_endpoint, "getHealth")
    except TimeoutError:
        raise Unwell(f"{address} does not answer in time: check RPC_ENDPOINT") from None
    except (aiohttp.ClientError, ValueError) as error:
        raise Unwell(f"{address} ({error}): check RPC_ENDPOINT") from None
    if "error" in version:
        raise Unwell(f"{address} refuses getVersion: {_message(version)}: check RPC_ENDPOINT")
    # Some providers do not let getHealth through.
    if "error" in health and health["error"].get("code") != _METHOD_NOT_FOUND:
        raise Unwell(f"{address} is not healthy: {_message(health)}: wait, or set RPC_ENDPOINT")
    if not isinstance(version["result"], dict):
        raise Unwell(f"{address} answers getVersion as no node does: check RPC_ENDPOINT")
    return f"{address}: solana-core {version['result'].get('solana-core', '(no version)')}"


async def _call(session: Any, url: str, method: str) -> dict[str, Any]:
    request = {"jsonrpc": "2.0", "id": 1, "method": method}
    async with session.post(url, json=request) as answer:
        body = await answer.json(content_type=None)
    if not isinstance(body, dict) or not isinstance(body.get("error", {}), dict):
        raise ValueError(f"HTTP status {answer.status}, and no JSON-RPC")
    if "error" not in body and "result" not in body:
        raise ValueError(f"HTTP status {answer.status}, and no JSON-RPC")
    return body


def _message(answer: dict[str, Any]) -> str:
    return str(answer["error"].get("message", answer["error"]))[:200]


async def _metrics(settings: Settings, role: str) -> str:
    setting = f"metrics_port_{role}"
    host, port = settings.metrics_host, getattr(settings, setting)
    try:
        require_free_port(host, port, setting.upper())
    except PortInUse as error:
        if not await _serves_metrics(host, port):
            raise Unwell(str(error)) from None
        return f"{host}:{port} serves /metrics"
    return f"{host}:{port} is free: `soltape {_COMMANDS[role]}` does not run"


async def _serves_metrics(host: str, port: int) -> bool:
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S - 1)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"http://{host}:{port}/metrics") as answer,
        ):
            return "soltape_" in await answer.text(errors="replace")
    except (aiohttp.ClientError, TimeoutError):
        return False
