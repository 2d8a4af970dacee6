"""How many account updates come, by kind: what a subscription would cost."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Final

from infra.settings import Settings
from pipeline.ingest.accounts.streams import streams_of, subscription_of
from pipeline.ingest.intake import Connected
from pipeline.ingest.stream import Stream
from schemas.proto.geyser_pb2 import SubscribeUpdate
from schemas.protocols.registry import kind_of

CLOSED: Final = "closed"
UNWANTED: Final = "of no kind"


class Counted:
    """Updates and their bytes on the wire, by kind, from when all connections have some."""

    def __init__(self) -> None:
        self.connections = self.silent = 0
        """How many there are, and over how many of them no update came yet."""
        self.updates: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self.slots = 0
        self.began_s: float | None = None

    def take(self, raw: bytes) -> None:
        """Count a message; raises DecodeError."""
        if self.began_s is None:
            return
        update = SubscribeUpdate.FromString(raw)
        if update.HasField("block_meta"):
            self.slots += 1
        if not update.HasField("account"):
            return
        account = update.account.account
        if not account.lamports:
            name = CLOSED
        else:
            kind = kind_of(account.pubkey, account.owner, account.data)
            name = UNWANTED if kind is None else kind.name
        self.updates[name] += 1
        self.bytes[name] += len(raw)

    def heard(self) -> None:
        """Note that a connection has its first update."""
        self.silent -= 1
        if not self.silent:
            self.began_s = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long updates were counted."""
        return 0.0 if self.began_s is None else time.monotonic() - self.began_s

    def table(self) -> list[str]:
        """Return a line a kind, most updates first, and the sum."""
        seconds = max(self.seconds, 0.001)
        lines = [f"{'kind':<24}{'updates/s':>12}{'MB/s':>10}{'bytes each':>12}"]
        rows = [(name, count, self.bytes[name]) for name, count in self.updates.most_common()]
        rows.append(("all", self.updates.total(), self.bytes.total()))
        for name, count, size in rows:
            each = size / count if count else 0
            lines.append(
                f"{name:<24}{count / seconds:>12.1f}{size / seconds / 1e6:>10.3f}{each:>12.0f}"
            )
        lines.append(f"{self.slots} slots in {seconds:.1f} s")
        return lines


async def count(settings: Settings, counted: Counted) -> None:
    """Count what comes until cancelled; the time runs once all connections have an update."""
    streams = streams_of(settings, subscription_of(settings))
    counted.connections = counted.silent = len(streams)
    works = [stream.start() for stream in streams]
    works += [asyncio.create_task(_take(stream, counted)) for stream in streams]
    try:
        done, _ = await asyncio.wait(works, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in works:
            task.cancel()
        await asyncio.gather(*works, return_exceptions=True)


async def _take(stream: Stream, counted: Counted) -> None:
    heard = False
    while True:
        for item in await stream.intake.take(100):
            if isinstance(item, Connected):
                if not heard:
                    heard = True
                    counted.heard()
            else:
                counted.take(item)
        await asyncio.sleep(0)
