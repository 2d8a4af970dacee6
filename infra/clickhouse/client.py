"""Connections to ClickHouse, server or embedded, with a limit on every wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import clickhouse_connect
from clickhouse_connect.driver import options
from clickhouse_connect.driver.asyncclient import AsyncClient
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError

from infra.settings import Settings
from infra.telemetry import host_of

CONNECT_TIMEOUT_S: Final = 5
ANSWER_TIMEOUT_S: Final = 60

# The driver imports NumPy and pandas, where they are, to see whether rows are made of theirs: a
# second without an answer at the first insert, and 60 MiB. chdb brings them; our rows are tuples.
vars(options).update(np=None, pd=None, pd_time_test=None)

__all__ = [
    "ClickHouseError",
    "ClickHouseUnavailable",
    "check",
    "connect",
    "connect_async",
    "ping",
]


class ClickHouseUnavailable(Exception):
    """No ClickHouse can be used at the address; the text says why and what to do."""


def connect(
    settings: Settings, database: str | None = None, *, answer_timeout_s: int = ANSWER_TIMEOUT_S
) -> Client:
    """Return a client. Raises ClickHouseError if the server or the database is not there.

    `database` is that of the settings unless another is named: "default" is always there.
    """
    arguments = _arguments(settings, database) | {"send_receive_timeout": answer_timeout_s}
    return clickhouse_connect.get_client(**arguments)


async def connect_async(settings: Settings, database: str | None = None) -> AsyncClient:
    """Return a client for asyncio, otherwise as `connect`."""
    return await clickhouse_connect.get_async_client(**_arguments(settings, database))


def _arguments(settings: Settings, database: str | None) -> dict[str, Any]:
    address = urlsplit(settings.clickhouse_url)
    secure = address.scheme == "https"
    password = settings.clickhouse_password
    return {
        "interface": address.scheme,
        "host": address.hostname,
        "port": address.port or (8443 if secure else 8123),
        "proxy_path": address.path.strip("/"),
        "username": settings.clickhouse_user,
        "password": password.get_secret_value() if password else "",
        "database": settings.clickhouse_database if database is None else database,
        "connect_timeout": CONNECT_TIMEOUT_S,
        "send_receive_timeout": ANSWER_TIMEOUT_S,
        "compress": "lz4",
        "client_name": "soltape",
        "tz_mode": "aware",
        # A session refuses concurrent queries, and we keep nothing in one.
        "autogenerate_session_id": False,
    }


async def ping(url: str, timeout_s: float = 2.0) -> None:
    """Ask once whether a server takes queries; no credentials needed.

    Raises ClickHouseUnavailable.
    """
    status, text, _ = await _ask(url, "/ping", timeout_s)
    if status != 200 or text != "Ok.":
        raise ClickHouseUnavailable(f"what answers at {host_of(url)} is no ClickHouse")


async def check(settings: Settings, timeout_s: float = 2.0) -> str:
    """Ask once who the server is, as the configured user, and return its name and version.

    Raises ClickHouseUnavailable.
    """
    url = settings.clickhouse_url
    password = settings.clickhouse_password
    headers = {
        "X-ClickHouse-User": settings.clickhouse_user,
        "X-ClickHouse-Key": password.get_secret_value() if password else "",
    }
    status, text, answered = await _ask(url, "/?query=SELECT+version()", timeout_s, headers)
    if status in (401, 403):
        raise ClickHouseUnavailable(
            f"ClickHouse at {host_of(url)} refuses user {settings.clickhouse_user!r}: "
            "check CLICKHOUSE_USER and CLICKHOUSE_PASSWORD"
        )
    if "X-ClickHouse-Query-Id" not in answered:
        raise ClickHouseUnavailable(
            f"what answers at {host_of(url)} is no ClickHouse HTTP interface: check CLICKHOUSE_URL"
        )
    if status != 200:
        raise ClickHouseUnavailable(f"ClickHouse at {host_of(url)} answers {status}: {text[:200]}")
    return f"ClickHouse {text}"


async def _ask(
    url: str, path: str, timeout_s: float, headers: dict[str, str] | None = None
) -> tuple[int, str, Mapping[str, str]]:
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"{url.rstrip('/')}{path}", headers=headers) as answer,
        ):
            return answer.status, (await answer.text(errors="replace")).strip(), answer.headers
    except TimeoutError:
        raise ClickHouseUnavailable(
            f"{host_of(url)} does not answer within {timeout_s:g} s: check CLICKHOUSE_URL"
        ) from None
    except aiohttp.ClientError as error:
        raise ClickHouseUnavailable(
            f"nothing serves ClickHouse at {host_of(url)} ({error}): start it with "
            "`soltape clickhouse`, or set CLICKHOUSE_URL"
        ) from None
