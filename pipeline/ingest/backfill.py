"""Fetches slots that the stream did not bring, by JSON-RPC `getBlock`.

Answers are handed over in ascending order, as the ledger wants them, while a few requests
are under way. What RPC can not have *now* (an outage, a rate limit, a node behind) is asked
for again for as long as the ledger waits; what it will never have is unavailable at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, Protocol

import aiohttp
import structlog

from infra.backoff import Backoff
from infra.settings import Settings
from infra.solana_rpc import client as rpc
from infra.solana_rpc.client import NotNow
from pipeline.ingest import metrics
from pipeline.ingest.ledger import Missing
from pipeline.ingest.subscription import SUBSCRIBED
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from schemas.solana.addresses import key
from schemas.solana.rpc_json import transaction_info_from_json

log = structlog.get_logger(__name__)

CONCURRENCY: Final = 4
MAX_REQUESTS_PER_S: Final = 20.0
BACKOFF_S: Final = (0.25, 10.0)
NOT_YET_TRIES: Final = 6  # about ten seconds: a node that far behind does not have the block
TRANSACTIONS_BEFORE_YIELD: Final = 32
DETAIL_MOST: Final = 200  # characters that the log has of what cannot be read

# JSON-RPC error codes, as in Agave's rpc-client-api custom_error.rs.
_CLEANED_UP: Final = -32001
_NOT_AVAILABLE: Final = -32004
_SKIPPED: Final = frozenset({-32007, -32009})
_REFUSED: Final = frozenset({-32600, -32601, -32602, -32015})  # asking again would not help

_PROGRAMS: Final = frozenset(SUBSCRIBED)
_OF_STAKE: Final = frozenset({"Staking", "Voting"})  # rewards that the bank pays to accounts


@dataclass(frozen=True, slots=True)
class Block:
    """A confirmed block, reduced to the transactions that the stream would have brought."""

    slot: int
    parent: int
    blockhash: str
    block_time_ms: int
    transactions: list[SubscribeUpdateTransactionInfo]
    rewarded: list[bytes] = field(default_factory=list)  # stake and vote accounts, where asked for
    parent_blockhash: str = ""


class Unavailable(Exception):
    """The block can not be had; the text says why, and users see it: none of it is a provider's."""


class Receiver(Protocol):
    """Receiver of the answers, slot by slot ascending."""

    def is_wanted(self, slot: int) -> bool:
        """Say whether a slot is still waited for."""

    async def fetched(self, block: Block) -> None:
        """Take a block."""

    def unavailable(self, first: int, last: int, reason: str) -> None:
        """Take the answer that slots can not be had."""


class Backfill:
    """Answers the ledger's `Missing`, one range after the other."""

    def __init__(
        self,
        settings: Settings,
        receiver: Receiver,
        programs: frozenset[str] = _PROGRAMS,
        *,
        rewards: bool = False,
    ) -> None:
        self._programs = programs
        self._rewards = rewards
        self._endpoint = settings.rpc_endpoint
        self._receiver = receiver
        self._ranges: asyncio.Queue[Missing] = asyncio.Queue()
        self._pace = rpc.Pace(MAX_REQUESTS_PER_S)

    def ask(self, missing: Missing) -> None:
        """Queue a range."""
        if self._endpoint is None:
            reason = "missed by the stream, and no RPC_ENDPOINT is set"
            self._receiver.unavailable(missing.first, missing.last, reason)
        else:
            self._ranges.put_nowait(missing)

    async def run(self) -> None:
        """Fetch what is asked for, until cancelled; without an endpoint there is nothing to do."""
        if self._endpoint is None:
            return
        async with rpc.session() as session:
            client = RpcClient(
                session, self._endpoint, self._pace, self._programs, rewards=self._rewards
            )
            while True:
                missing = await self._ranges.get()
                log.info("backfill", first_slot=missing.first, last_slot=missing.last)
                await self._fill(client, missing)

    async def _fill(self, client: RpcClient, missing: Missing) -> None:
        first = await self._skip_pruned(client, missing)
        wanted = (slot for slot in range(first, missing.last + 1) if self._receiver.is_wanted(slot))
        async for slot, answer in _in_order(wanted, lambda slot: self._fetch(client, slot)):
            if isinstance(answer, Block):
                metrics.BACKFILLED.labels("fetched").inc()
                await self._receiver.fetched(answer)
            else:
                metrics.BACKFILLED.labels("unavailable").inc()
                self._receiver.unavailable(slot, slot, str(answer))

    async def _skip_pruned(self, client: RpcClient, missing: Missing) -> int:
        """Give up what the node has pruned at once, instead of slot by slot."""
        try:
            available = await client.call("getFirstAvailableBlock", [])
        except (Unavailable, NotNow):
            return missing.first  # getBlock will show
        if not isinstance(available, int) or available <= missing.first:
            return missing.first
        last = min(available - 1, missing.last)
        reason = f"RPC's first available block is {available}"
        self._receiver.unavailable(missing.first, last, reason)
        return last + 1

    async def _fetch(self, client: RpcClient, slot: int) -> Block | Unavailable:
        backoff = Backoff(*BACKOFF_S)
        while True:
            try:
                return await client.block(slot)
            except Unavailable as answer:
                return answer
            except NotNow as failure:
                if not self._receiver.is_wanted(slot):
                    return Unavailable("RPC did not answer in time")
                pause_s = backoff.next_s()
                log.warning(
                    "RPC failed, will ask again",
                    slot=slot,
                    detail=str(failure),
                    retry_in_s=round(pause_s, 2),
                )
                await asyncio.sleep(pause_s)


class RpcClient:
    """The two JSON-RPC methods that backfill needs."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        endpoint: str,
        pace: rpc.Pace,
        programs: frozenset[str] = _PROGRAMS,
        *,
        rewards: bool = False,
    ) -> None:
        self._programs = programs
        self._rewards = rewards
        self._session = session
        self._endpoint = endpoint
        self._pace = pace

    async def block(self, slot: int) -> Block:
        """Fetch a confirmed block; raises Unavailable or NotNow."""
        options = {
            "encoding": "json",
            "transactionDetails": "full",
            "rewards": self._rewards,
            "commitment": "confirmed",
            "maxSupportedTransactionVersion": 1,
        }
        backoff = Backoff(*BACKOFF_S, jitter=False)
        for _ in range(NOT_YET_TRIES):
            try:
                answer = await self.call("getBlock", [slot, options])
            except _NotYet:
                await backoff.wait()
                continue
            if answer is None:
                raise Unavailable("RPC has no confirmed block")
            return await _read_block(slot, answer, self._programs)
        raise Unavailable("RPC says the block is not available")

    async def call(self, method: str, parameters: list[Any]) -> Any:
        """Return the result of one call; raises Unavailable or NotNow."""
        await self._pace.wait()
        try:
            return await rpc.call(self._session, self._endpoint, method, parameters)
        except rpc.RpcRefused as refusal:
            _raise_rpc_error(method, refusal)


class _NotYet(Exception):
    """The node does not have the block, or not yet: it does not say which."""


def _raise_rpc_error(method: str, refusal: rpc.RpcRefused) -> NoReturn:
    code = refusal.code
    if code in _SKIPPED:
        raise Unavailable("RPC says the slot was skipped")
    if code == _NOT_AVAILABLE:
        raise _NotYet(refusal.text)
    if code == _CLEANED_UP or code in _REFUSED:
        log.warning("RPC refuses", method=method, code=code, detail=refusal.text)
        raise Unavailable(f"RPC {method}: error {code}")
    raise NotNow(f"RPC {method}: {refusal}")


async def _read_block(slot: int, answer: Any, programs: frozenset[str]) -> Block:
    """Read a `getBlock` answer, in slices: a block takes longer than the live lane should wait."""
    try:
        infos = []
        for index, item in enumerate(answer["transactions"]):
            if _concerns_us(item, programs):
                infos.append(transaction_info_from_json(item, index))
                if len(infos) % TRANSACTIONS_BEFORE_YIELD == 0:
                    await asyncio.sleep(0)
        return Block(
            slot=slot,
            parent=int(answer["parentSlot"]),
            blockhash=str(answer["blockhash"]),
            block_time_ms=int(answer.get("blockTime") or 0) * 1000,
            transactions=infos,
            rewarded=[
                key(each["pubkey"])
                for each in answer.get("rewards") or ()
                if each.get("rewardType") in _OF_STAKE
            ],
            parent_blockhash=str(answer.get("previousBlockhash") or ""),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        log.error("RPC's block can not be read", slot=slot, detail=repr(error)[:DETAIL_MOST])
        raise Unavailable(f"RPC's block can not be read ({type(error).__name__})") from None


def _concerns_us(item: dict[str, Any], programs: frozenset[str]) -> bool:
    """Say whether the subscription's filter would have let a transaction through."""
    meta = item.get("meta") or {}
    if meta.get("err") is not None:
        return False
    keys = item["transaction"]["message"]["accountKeys"]
    if not programs.isdisjoint(keys):
        return True
    loaded = meta.get("loadedAddresses") or {}
    return not (
        programs.isdisjoint(loaded.get("readonly", ()))
        and programs.isdisjoint(loaded.get("writable", ()))
    )


async def _in_order(
    slots: Iterator[int], fetch: Callable[[int], Awaitable[Block | Unavailable]]
) -> Any:
    """Yield (slot, answer) ascending, with a few requests under way."""
    under_way: deque[tuple[int, asyncio.Future[Block | Unavailable]]] = deque()
    try:
        while True:
            while len(under_way) < CONCURRENCY and (slot := next(slots, None)) is not None:
                under_way.append((slot, asyncio.ensure_future(fetch(slot))))
            if not under_way:
                return
            slot, answer = under_way[0]
            yield slot, await answer
            under_way.popleft()
    finally:
        for _, answer in under_way:
            answer.cancel()
