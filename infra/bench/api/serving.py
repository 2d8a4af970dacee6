"""The processes that are asked: the API over a data set, and the bare route with its answers."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import orjson

from infra.bench.api.data import Stores
from infra.bench.api.load import LoadFailed, Request
from infra.bench.roles import Role, role, system, wait_ready
from infra.local.process import NotReady, Process, free_port
from schemas.plans import ENTERPRISE

_HOST: Final = "127.0.0.1"
_AT_ONCE: Final = 4  # answers fetched


@dataclass(frozen=True, slots=True)
class Served:
    """A server and where it is."""

    role: Role
    url: str
    key: str = ""
    metrics: str = ""  # where its metrics are; empty: it has none


@contextmanager
def serve_api(stores: Stores, folder: Path) -> Iterator[Served]:
    """Run `soltape api` as anybody would, access log and all, with a key that no limit stops."""
    key = _make_key(stores)
    port, metrics = free_port(), free_port()
    env = {**stores.env, "API_PORT": str(port), "METRICS_PORT_API": str(metrics)}
    with role("api", folder, ["api"], **env) as running:
        wait_ready(running, lambda: _listens(port))
        yield Served(running, f"http://{_HOST}:{port}", key, f"http://{_HOST}:{metrics}/metrics")


@contextmanager
def serve_bare(
    answers: Mapping[str, Any], folder: Path, module: str = "api.http.bare"
) -> Iterator[Served]:
    """Run the bare route of a module with these answers."""
    listed = folder / "answers.json"
    listed.write_bytes(orjson.dumps(answers))
    port = free_port()
    command = [sys.executable, "-m", module, str(listed)]
    env = {**os.environ, "API_PORT": str(port)}
    process = Process("bare", command, "", lambda: _listens(port), env=env)
    with system(process, folder) as running:
        wait_ready(running, process.ready)
        yield Served(running, f"http://{_HOST}:{port}")


def fetch(served: Served, requests: Sequence[Request]) -> dict[str, str]:
    """Return the answers to requests by path; raises LoadFailed where one is no success."""
    return asyncio.run(_fetch(served, requests))


async def _fetch(served: Served, requests: Sequence[Request]) -> dict[str, str]:
    answers: dict[str, str] = {}
    left = iter(requests)
    headers = {
        "x-api-key": served.key,
        "accept-encoding": "identity",
        "content-type": "application/json",
    }

    async def ask(session: aiohttp.ClientSession) -> None:
        for request in left:
            async with session.request(
                request.method, served.url + request.path, data=request.body or None
            ) as answer:
                text = await answer.text()
                if answer.status != 200:
                    raise LoadFailed(f"{request.path} is answered {answer.status}: {text[:300]}")
                answers[request.path] = text

    async with aiohttp.ClientSession(headers=headers) as session:
        await asyncio.gather(*(ask(session) for _ in range(_AT_ONCE)))
    return answers


def _make_key(stores: Stores) -> str:
    """Return a key without limits, made as an operator makes one."""
    command = [sys.executable, "-m", "infra.cli", "keys", "create"]
    made = subprocess.run(
        [*command, "--name", "bench", "--plan", ENTERPRISE.name],
        env={**os.environ, **stores.env},
        capture_output=True,
        text=True,
        check=True,
    )
    return made.stdout.strip()


async def _listens(port: int) -> None:
    """Raise NotReady while nothing listens on a port."""
    try:
        with socket.create_connection((_HOST, port), timeout=1):
            pass
    except OSError as error:
        raise NotReady(str(error)) from None
