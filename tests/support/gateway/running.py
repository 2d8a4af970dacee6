"""A gateway as `soltape gateway` runs it, on a Valkey of its own, and what writes its streams."""

from __future__ import annotations

import asyncio
import os
import signal
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis as sync_redis
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from infra.local.process import free_port
from infra.redis.nodes import is_cluster, node_url
from infra.settings import Settings
from schemas import channels
from schemas.channels import Channel, LiveEvent
from schemas.redis_keys import VOCABULARY
from schemas.vocabulary import Slugs
from tests.support.api.in_process import new_key
from tests.support.forked import Forked
from tests.support.waiting import WITHIN_S, eventually

SLUGS = Slugs(("pump-fun", "pump-swap", "raydium-cpmm"), ("pump-fun", "bonk", "moonit"))


class Gateway:
    """A running gateway; `settings` lead to it and its Redis."""

    def __init__(self, settings: Settings, folder: Path, environment: Mapping[str, str]) -> None:
        self.settings = settings
        self.log = folder / "gateway.log"
        self.port = settings.gateway_port
        self._environment = environment
        self.child: Forked | None = None
        make: Any = sync_redis.RedisCluster if is_cluster(settings.redis_url) else sync_redis.Redis
        self.redis: sync_redis.Redis = make.from_url(node_url(settings.redis_url))

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def begin(self) -> None:
        """Start it without waiting until it is ready."""
        self.child = Forked(("gateway",), {**os.environ, **self._environment}, self.log)

    def start(self) -> None:
        self.begin()
        child = self.child
        assert child
        eventually(lambda: self._is_ready() or child.poll() is not None, self.said)
        assert child.poll() is None, self.said()

    def stop(self) -> None:
        assert self.child
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            self.child.wait(WITHIN_S)

    def kill(self) -> None:
        assert self.child
        self.child.kill()
        self.child.wait()

    def said(self) -> str:
        return self.log.read_text()

    def _is_ready(self) -> bool:
        try:
            # For a moment, as its server of metrics starts, it answers /ready with metrics.
            return self.get_metrics("/ready").startswith('{"ready":true')
        except OSError:  # not there yet, or not ready: 503
            return False

    def get_metrics(self, path: str = "/metrics") -> str:
        url = f"http://127.0.0.1:{self.settings.metrics_port_gateway}{path}"
        with urllib.request.urlopen(url, timeout=120) as answer:
            return answer.read().decode()

    def metric(self, name: str, **labels: str) -> float:
        """The value of a metric, 0 where it was not counted yet."""
        for line in self.get_metrics().splitlines():
            head, _, value = line.rpartition(" ")
            if head.partition("{")[0] == name and all(
                f'{label}="{wanted}"' in head for label, wanted in labels.items()
            ):
                return float(value)
        return 0.0

    def key(self, plan: str = "enterprise") -> str:
        """The text of a new key."""
        return asyncio.run(new_key(self.settings, plan))

    def publish(self, channel: Channel, *events: LiveEvent, epoch: str = "e1") -> str:
        """Write events as one entry, as the pipeline does; return its id."""
        fields: Any = channels.pack(epoch, events)
        entry_id: bytes = self.redis.xadd(channel.stream, fields)
        return entry_id.decode()


def swap(
    dex: str = "pump-fun",
    mint: str = "m",
    wallet: str = "w",
    number: int = 0,
    filler: str = "",
    quote: str = "q",
) -> LiveEvent:
    """A swap, as far as the gateway looks at it."""
    data = {"dex": dex, "mint": mint, "wallet": wallet, "number": number, "filler": filler}
    return LiveEvent((dex, mint, wallet, "", f"s{number}", 0, quote), channels.SWAPS.frame(data))


@contextmanager
def running_gateway(folder: Path, redis: int | str, **given: Any) -> Iterator[Gateway]:
    """Run a gateway with settings of one's own, on a server by its port, or a cluster by its URL.

    Keys are in the server's database 1, unless `access_redis_url` is given.
    """
    is_port = isinstance(redis, int)
    chosen: dict[str, Any] = {
        "soltape_data": folder,
        "redis_url": f"redis://127.0.0.1:{redis}/0" if is_port else redis,
        "access_redis_url": f"redis://127.0.0.1:{redis}/1" if is_port else redis,
        "gateway_port": free_port(),
        "metrics_port_gateway": free_port(),
        **given,
    }
    settings = Settings(_env_file=None, **chosen)
    environment = {name.upper(): str(getattr(settings, name)) for name in chosen}
    gateway = Gateway(settings, folder, environment)
    gateway.redis.set(VOCABULARY.make(), SLUGS.pack())
    gateway.start()
    try:
        yield gateway
    finally:
        gateway.stop()
        gateway.redis.close()


def opened(gateway: Gateway, key: str, path: str = "/ws", **options: Any) -> connect:
    """A client of `websockets`, to be awaited or entered."""
    return connect(f"{gateway.url}{path}?api_key={key}", max_size=None, **options)


async def closing(client: ClientConnection) -> tuple[int, str]:
    """Read until the gateway closes; return the code and the reason."""
    try:
        async with asyncio.timeout(WITHIN_S):
            while True:
                await client.recv()
    except ConnectionClosed:
        assert client.close_code is not None
        return client.close_code, client.close_reason or ""


def events(messages: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The numbers of swaps, in the order they came."""
    return [message["data"]["number"] for message in messages if message["type"] == "swap"]
