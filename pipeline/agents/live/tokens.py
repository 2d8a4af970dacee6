"""What live swaps say of their token: symbol and launch platform.

A creation shows both. Its word is kept in memory and in Redis beside the mint's last price, where
a restarted process finds it. Of other mints the market's token and the answer of RPC are read, all
mints of a batch that are not in memory in one trip. What neither knows is asked again after some
seconds, then less and less often: agent `market` may write it by then.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import orjson
import structlog
from redis.asyncio import Redis

from infra.redis.client import RedisError, ask
from pipeline.agents.live.streams import LiveStreams
from pipeline.domain.launchpad import Launchpad
from schemas.money import SYMBOLS
from schemas.proto import tape_pb2
from schemas.redis_keys import MARKET, METADATA, PRICE, mint_tag

log = structlog.get_logger(__name__)

MINTS_IN_MEMORY: Final = 50_000
ASK_AGAIN_FIRST_S: Final = 5.0
ASK_AGAIN_MAX_S: Final = 600.0
NOTHING_NAMED: Final = Launchpad()


@dataclass(slots=True)
class Token:
    """What is known of a mint; with `ask_at_s`, by time.monotonic(), when to ask for more."""

    symbol: str | None = None
    launchpad: Launchpad = NOTHING_NAMED
    ask_at_s: float = 0.0
    pause_s: float = ASK_AGAIN_FIRST_S


class Tokens:
    """The tokens that trade on our partitions."""

    def __init__(self, redis: Redis, streams: LiveStreams) -> None:
        self._redis = redis
        self._streams = streams
        # Least recently traded first. No LRUCache: a batch may be larger than the bound, and of the
        # 100 us of a live swap look-ups and load would take 3, for 0.2.
        # The first of a plain dict is found behind the places of all that left before.
        self._tokens: OrderedDict[str, Token] = OrderedDict()

    async def load(self, mints: Iterable[str]) -> None:
        """Have these mints in memory; what Redis does not answer is not known."""
        wanted = {
            mint: self._tokens.pop(mint) if mint in self._tokens else Token()
            for mint in dict.fromkeys(mints)
        }
        now_s = time.monotonic()
        due = {mint: token for mint, token in wanted.items() if token.ask_at_s <= now_s}
        if due and not self._streams.away:
            try:
                await self._ask(due, now_s)
            except (RedisError, OSError) as error:
                self._streams.lost_touch(error)
        self._tokens |= wanted
        while len(self._tokens) > max(MINTS_IN_MEMORY, len(wanted)):
            self._tokens.popitem(last=False)

    def created(self, creation: tape_pb2.Creation) -> None:
        """Take the creation of a loaded mint."""
        token = self._tokens[creation.mint]
        if not (creation.symbol or creation.platform):
            return
        token.launchpad = token.launchpad.with_creation(creation.platform)
        if creation.symbol:
            token.symbol, token.ask_at_s = creation.symbol, math.inf
        key = PRICE.make(mint=creation.mint)
        self._streams.state(f"{key} token", partial(_commands, key, creation))

    def migrated(self, migration: tape_pb2.Migration) -> None:
        """Take the migration of a loaded mint."""
        token = self._tokens[migration.mint]
        token.launchpad = token.launchpad.with_migration(migration.platform)

    def platform(self, swap: tape_pb2.Swap) -> str:
        """Return the launch platform of a loaded mint, as of a swap; empty: not known."""
        return self._tokens[swap.mint].launchpad.of_swap(swap.platform)

    def symbol(self, mint: str) -> str | None:
        """Return the symbol of a loaded mint; None: not known."""
        return self._tokens[mint].symbol

    def clear(self) -> None:
        """Forget everything: others take the creations from here on."""
        self._tokens.clear()

    async def _ask(self, tokens: Mapping[str, Token], now_s: float) -> None:
        commands: list[tuple[Any, ...]] = []
        for mint in tokens:
            names = {"tag": mint_tag(mint), "mint": mint}
            commands += [
                ("HMGET", PRICE.make(mint=mint), "symbol", "platform"),
                ("HGET", MARKET.make(**names), "token"),
                ("GET", METADATA.make(**names)),
            ]
        answers = iter(await ask(self._redis, commands))
        for mint, token in tokens.items():
            stored, market, asked = next(answers), next(answers), next(answers)
            try:
                _take(token, mint, stored, market, asked)
            except (KeyError, TypeError, ValueError) as error:
                log.warning("stored token cannot be read", mint=mint, reason=repr(error))
            is_known = token.symbol is not None and (market is not None or token.launchpad.created)
            token.ask_at_s = math.inf if is_known else now_s + token.pause_s
            token.pause_s = min(2 * token.pause_s, ASK_AGAIN_MAX_S)


def _take(
    token: Token,
    mint: str,
    stored: Sequence[bytes | None],
    market: bytes | None,
    asked: bytes | None,
) -> None:
    """Take what Redis has of a mint: our own word, the market's token, RPC's answer."""
    symbol, platform = ((value or b"").decode(errors="replace") for value in stored)
    launchpad = token.launchpad.with_creation(platform)
    if record := _record(mint, market, "symbol", "platform", "created_slot"):
        symbol = symbol or record["symbol"]
        take = (
            launchpad.with_migration if record["created_slot"] is None else launchpad.with_creation
        )
        launchpad = take(record["platform"])
    if not symbol and (record := _record(mint, asked, "symbol")):
        symbol = record["symbol"]
    token.symbol = token.symbol or symbol or SYMBOLS.get(mint)
    token.launchpad = launchpad


def _record(mint: str, packed: bytes | None, *fields: str) -> dict[str, Any]:
    """Return a stored record with some fields, an empty one where there is none to be read."""
    if packed is None:
        return {}
    try:
        record = orjson.loads(packed)
        return {name: record[name] for name in fields}
    except (ValueError, KeyError, TypeError) as error:
        log.warning("stored token cannot be read", mint=mint, reason=repr(error))
        return {}


def _commands(key: str, creation: tape_pb2.Creation) -> Iterator[tuple[Any, ...]]:
    yield ("HSET", key, "symbol", creation.symbol, "platform", creation.platform)
    yield ("EXPIRE", key, PRICE.ttl_s)
