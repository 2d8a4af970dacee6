"""A process that attacks: `python -m ...attacker NAME PORT SECONDS KEY_FILE`.

It runs on the last core alone, prints one JSON line when all its connections were opened once, and
another at its end. A connection that is closed is opened again. Each attack has an address of its
own.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

import orjson

from stream_gateway.bench.attacks.bars import REFUSED_WITHIN_S
from stream_gateway.bench.attacks.kinds import ATTACKS, NOTHING, Attack

_FIRST_SOURCE: Final = 32  # 127.0.0.32: what one attack did to its address is not the next one's
_AGAIN_S: Final = 0.05  # before a refused connection is opened again


class Attacker:
    """The connections of one attack, and what became of their requests."""

    def __init__(self, attack: Attack, port: int, key: str) -> None:
        self._attack = attack
        self._port = port
        self._requests = attack.requests(key)
        self._source = f"127.0.0.{_FIRST_SOURCE + ATTACKS.index(attack)}"
        self.opened = 0
        self.closed = 0  # by the other side, before an answer
        self._asked_s: dict[int, float] = {}  # what has no answer yet: when, by connection
        self.all_opened = asyncio.Event()
        self.sent = 0
        self.statuses: Counter[int] = Counter()
        self.slowest_refusal_s = 0.0

    async def connection(self, number: int) -> None:
        """Repeat the attack over one connection at a time."""
        while True:
            try:
                await self._once(number)
            except (OSError, asyncio.IncompleteReadError):
                await asyncio.sleep(_AGAIN_S)

    def waiting(self) -> int:
        """Return how many requests have had no answer for longer than a refusal may take."""
        now_s = time.monotonic()
        return sum(now_s - asked_s > REFUSED_WITHIN_S for asked_s in self._asked_s.values())

    async def _once(self, number: int) -> None:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self._port, local_addr=(self._source, 0)
        )
        self.opened += 1
        if self.opened >= self._attack.connections:
            self.all_opened.set()
        try:
            while True:
                request = next(self._requests)
                began = time.monotonic()
                if request is not NOTHING:
                    writer.write(request)
                    self.sent += 1
                    self._asked_s[number] = began
                status, closes = await _answer(reader)
                self._asked_s.pop(number, None)
                self.statuses[status] += 1
                if status in self._attack.refused:
                    self.slowest_refusal_s = max(self.slowest_refusal_s, time.monotonic() - began)
                if closes or self._attack.asks_once:
                    return
        except (OSError, asyncio.IncompleteReadError):
            self.closed += 1
            raise
        finally:
            self._asked_s.pop(number, None)
            writer.transport.abort()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bool]:
    """Read one answer; return its status and whether the connection ends with it."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = 0
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name == b"content-length":
            length = int(value)
    await reader.readexactly(length)
    return int(head.split(b" ", 2)[1]), b"connection: close" in head


async def attack(kind: Attack, port: int, seconds: float, key: str) -> None:
    """Attack for so long; print what is going on."""
    attacker = Attacker(kind, port, key)
    tasks = [asyncio.create_task(attacker.connection(n)) for n in range(kind.connections)]
    await attacker.all_opened.wait()
    _say({"opened": attacker.opened})
    before, began = attacker.sent + attacker.opened, time.monotonic()
    await asyncio.sleep(seconds)
    took_s, waiting = time.monotonic() - began, attacker.waiting()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    _say(
        {
            "per_s": round((attacker.sent + attacker.opened - before) / took_s),
            "sent": attacker.sent,
            "opened": attacker.opened,
            "closed": attacker.closed,
            "waiting": waiting,
            "statuses": {str(status): n for status, n in sorted(attacker.statuses.items())},
            "slowest_refusal_s": round(attacker.slowest_refusal_s, 3),
        }
    )


def _say(line: dict[str, object]) -> None:
    sys.stdout.write(orjson.dumps(line).decode() + "\n")
    sys.stdout.flush()


def main() -> None:
    """Run as a process."""
    name, port, seconds, key_file = sys.argv[1:]
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    [kind] = [each for each in ATTACKS if each.name == name]
    key = Path(key_file).read_text().strip()
    asyncio.run(attack(kind, int(port), float(seconds), key))


if __name__ == "__main__":
    main()
