"""The attacks: what is sent, to which door, over how many connections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Final

import orjson

from api.access import keys
from schemas.solana.base58 import encode

API: Final = "api"
GATEWAY: Final = "gateway"
DOORS: Final = (API, GATEWAY)
NOTHING: Final = b""
OVERLOADED: Final = 503  # which any request may get
_WALLETS_A_BATCH: Final = 50
_BODY_BYTES: Final = 4_000
_AT_ONCE: Final = 64  # requests of one key: API_MAX_CONCURRENT_PER_KEY
_HEAD_WITHIN_S: Final = 10.0  # the API waits so long for a head

Requests = Callable[[str], Iterator[bytes]]  # of the attacker's own key


@dataclass(frozen=True, slots=True)
class Attack:
    """One way to attack.

    `refused`: statuses that count as a refusal; where there are none, connections are ended. A
    bound may let in so many requests `at_once`, which are waited for or `answered`.
    """

    name: str
    door: str  # API or GATEWAY
    connections: int
    requests: Requests
    refused: tuple[int, ...] = ()
    about: str = ""
    answered: tuple[int, ...] = ()
    at_once: int = 0
    ended_after_s: float = 0.0  # how long a connection may stay that is not refused
    asks_once: bool = False
    """Whether an answer is the last of its connection: the rest of the request is still due."""


def _head(path: str, *fields: str, method: str = "GET", host: str = "127.0.0.1") -> bytes:
    return "\r\n".join((f"{method} {path} HTTP/1.1", f"host: {host}", *fields, "", "")).encode()


def _forged_keys(_key: str) -> Iterator[bytes]:
    while True:
        yield _head("/api/usage", f"x-api-key: {keys.new()}")


def _invented_paths(_key: str) -> Iterator[bytes]:
    for number in count():
        yield _head(f"/api/invented/{number}")


def _foreign_hosts(_key: str) -> Iterator[bytes]:
    for number in count():
        yield _head("/api/health", host=f"rebound-{number}.example")


def _withheld_bodies(key: str) -> Iterator[bytes]:
    fields = (f"x-api-key: {key}", "content-type: application/json")
    while True:
        yield _head("/api/wallets/batch", *fields, f"content-length: {_BODY_BYTES}", method="POST")


def _dear_batches(key: str) -> Iterator[bytes]:
    random = Random(1)  # noqa: S311 - figures to be had again
    while True:
        wallets = [encode(random.randbytes(32)) for _ in range(_WALLETS_A_BATCH)]
        body = orjson.dumps({"wallets": wallets})
        fields = ("content-type: application/json", f"content-length: {len(body)}")
        yield _head("/api/wallets/batch", f"x-api-key: {key}", *fields, method="POST") + body


def _silence(_key: str) -> Iterator[bytes]:
    while True:
        yield NOTHING


def _half_heads(_key: str) -> Iterator[bytes]:
    while True:
        yield b"GET /ws HTTP/1.1\r\nhost: 127.0.0.1\r\n"


def _forged_upgrades(_key: str) -> Iterator[bytes]:
    upgrade = ("upgrade: websocket", "connection: upgrade", "sec-websocket-version: 13")
    while True:
        fields = (*upgrade, "sec-websocket-key: c29sdGFwZSBhdHRhY2tlcg==")
        yield _head("/ws", *fields, f"x-api-key: {keys.new()}")


ATTACKS: Final = (
    Attack("forged-keys", API, 32, _forged_keys, (401, 429), "keys with a valid checksum"),
    Attack("invented-paths", API, 32, _invented_paths, (401,), "no key, paths that do not exist"),
    Attack("foreign-hosts", API, 32, _foreign_hosts, (400, 421), "DNS rebinding: another Host"),
    Attack(
        *("withheld-bodies", API, 200, _withheld_bodies, (429,), "bodies never sent"),
        answered=(408,),
        at_once=_AT_ONCE,
        asks_once=True,
    ),
    Attack(
        *("dear-batches", API, 96, _dear_batches, (429,), "batches of 50 wallets with one key"),
        answered=(200,),
        at_once=_AT_ONCE,
    ),
    Attack(
        *("silent-api", API, 1_000, _silence),
        about="sockets that send nothing",
        ended_after_s=_HEAD_WITHIN_S,
    ),
    Attack("silent-gateway", GATEWAY, 1_000, _silence, about="sockets that send nothing"),
    Attack("half-heads", GATEWAY, 1_000, _half_heads, about="handshakes that never end"),
    Attack("forged-upgrades", GATEWAY, 32, _forged_upgrades, (401, 429), "handshakes, forged keys"),
)
