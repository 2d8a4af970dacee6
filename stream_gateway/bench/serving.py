"""What is measured: the gateway and the baseline over a real Valkey, each a process of its own."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from api.access import keys, register
from api.access.keys import Record
from infra.bench.roles import Role, role, system, wait_ready
from infra.local.process import Process, free_port
from infra.local.stack import listens
from infra.redis import embedded
from infra.settings import Settings
from schemas.plans import ENTERPRISE
from stream_gateway.bench import feed

HOST: Final = "127.0.0.1"
_SPARE_FILES: Final = 500  # beside the connections


@dataclass(frozen=True, slots=True)
class Store:
    """A Valkey; `env` leads to it."""

    settings: Settings
    env: dict[str, str]
    folder: Path


@dataclass(frozen=True, slots=True)
class Served:
    """A server of live events and where it is."""

    role: Role
    url: str
    metrics_url: str = ""


def require(connections: int) -> None:
    """Raise ClickException where the machine lacks something that is needed."""
    if importlib.util.find_spec("websockets") is None:
        raise click.ClickException(
            "the baseline needs the package websockets: pip install -c constraints.txt websockets"
        )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _SPARE_FILES
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise click.ClickException(f"{wanted} open files are needed, {hard} allowed (ulimit -n)")
    if soft < wanted:  # the processes started from here have it from us
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@contextmanager
def store(folder: Path) -> Iterator[Store]:
    """Run an empty Valkey."""
    port = free_port()
    url = f"redis://{HOST}:{port}"
    env = {"SOLTAPE_DATA": str(folder), "REDIS_URL": f"{url}/0", "ACCESS_REDIS_URL": f"{url}/1"}
    values: dict[str, Any] = {name.lower(): value for name, value in env.items()}
    settings = Settings(_env_file=None, **values)  # type: ignore[call-arg]
    process = embedded.valkey(folder / "redis", HOST, port)
    with system(process, folder) as running:
        wait_ready(running, process.ready)
        yield Store(settings, env, folder)


@contextmanager
def gateway(store: Store, connections: int, **settings: str) -> Iterator[Served]:
    """Run `soltape gateway` as a user would, with a key that may connect as often as it likes."""
    feed.prepare(store.settings)
    key = asyncio.run(_make_key(store.settings))
    port, metrics = free_port(), free_port()
    env = {
        **store.env,
        "GATEWAY_PORT": str(port),
        "GATEWAY_MAX_CONNECTIONS": str(connections),
        "GATEWAY_MAX_CONNECTIONS_PER_KEY": str(connections),
        "METRICS_PORT_GATEWAY": str(metrics),
        **settings,
    }
    with role("gateway", store.folder, ["gateway"], **env) as running:
        wait_ready(running, lambda: listens(port, HOST))
        url = f"ws://{HOST}:{port}/ws?api_key={key}"
        yield Served(running, url, f"http://{HOST}:{metrics}/metrics")


@contextmanager
def bare(store: Store) -> Iterator[Served]:
    """Run the baseline."""
    feed.prepare(store.settings)
    port = free_port()
    command = [sys.executable, "-m", "stream_gateway.bench.bare", str(port)]
    env = {**os.environ, **store.env}
    process = Process("bare", command, "", lambda: listens(port, HOST), env=env)
    with system(process, store.folder) as running:
        wait_ready(running, process.ready)
        yield Served(running, f"ws://{HOST}:{port}/ws")


async def _make_key(settings: Settings) -> str:
    text = keys.new()
    redis = register.connect(settings)
    try:
        created_ms = await register.now_ms(redis)
        record = Record(keys.parse(text), "bench", ENTERPRISE.name, "", text[-4:], created_ms)
        await register.put(redis, record)
    finally:
        await redis.aclose()
    return text
