"""Whether a payment is on the chain, asked of a node: for settlements whose outcome is unknown.

The transaction's signature is the facilitator's and not known here, so the payer's transactions of
the last hour are compared by message. A transaction whose blockhash is valid neither for the newest
bank nor for the finalized one can not come to the chain any more, if the node has seen that
blockhash: one that lags says the same of a blockhash that it does not know yet. So the node is
asked before a payment is settled (`Sight`), and nothing has expired before the finalized bank is
past that.
"""

from __future__ import annotations

import asyncio
import time
from base64 import b64decode
from dataclasses import dataclass
from typing import Any, Final, Literal

import aiohttp
import orjson
from solders.message import to_bytes_versioned
from solders.transaction import VersionedTransaction

from api.pay.payment import Payment
from schemas.times import HOUR_S

_WITHIN_S: Final = 5.0
PAGE: Final = 1_000
"""Transactions that are listed at once, which is a node's most."""
_MOST_PAGES: Final = 3
FETCHED: Final = 300
"""Listed transactions that one look fetches, those of the payment's time first."""
_LOOKED_BACK_S: Final = HOUR_S + 300  # longer than a payment is kept whose outcome is unknown


UNSEEN_SLOTS: Final = 450
"""Slots after which a blockhash that a node never saw has expired: it lives for 150, and a node is
taken to lag by 300 at most, two minutes."""
_BEFORE_SIGHT_SLOTS: Final = 300
"""Slots before a sight that a payment may be in: its blockhash lives for 150 blocks, and not every
slot has one."""
_SIGHT_WITHIN_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Sight:
    """What a node knew of a blockhash before the payment that names it was settled."""

    slot: int  # of the bank that was asked
    is_known: bool  # the blockhash is of this slot or an older one


class NodeAway(Exception):
    """The node does not answer, or with an error, or with what decides nothing."""


Absent = Literal["pending", "unseen", "expired"]
"""It may come; it may come, for all that a node knows that may lag; it can not come any more."""


class Chain:
    """A node that is asked over JSON-RPC."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Give the connections back."""
        if self._client is not None:
            await self._client.close()

    async def sight(self, payment: Payment) -> Sight | None:
        """Return what the node knows of a payment's blockhash, None if it does not answer soon."""
        try:
            async with asyncio.timeout(_SIGHT_WITHIN_S):
                return Sight(*await self._look(payment.blockhash, "processed"))
        except (NodeAway, TimeoutError):
            return None

    async def find(self, payment: Payment, sight: Sight | None) -> tuple[str, Absent | None]:
        """Return the signature of a payment's transaction, or "" and whether it may still come.

        Raises NodeAway.
        """
        try:
            # Asked first: what is not found after the end of the blockhash never will be.
            absent, slot = await self._absent(payment.blockhash, sight)
            listed, is_whole = await self._listed(payment.accounts[1], slot, sight)
            for each in listed[:FETCHED]:
                if await self._is(each["signature"], payment):
                    return str(each["signature"]), None
            if not is_whole or len(listed) > FETCHED:
                raise NodeAway("the payer has more transactions than are looked at")
        except NodeAway:
            raise
        except Exception as error:  # a node's answer, and solders' own kinds of errors
            raise NodeAway(f"it cannot be read: {error!r}"[:500]) from None
        return "", absent

    async def _absent(self, blockhash: str, sight: Sight | None) -> tuple[Absent, int]:
        """Return whether a bank may take a blockhash, and the finalized slot that says so.

        The finalized bank does not know those of the last seconds, which clients name; the newest
        one does not take what a block before it, which is not final yet, may have taken. The server
        behind an address may be another one with each answer, so the slot decides, not the order.
        """
        _, is_valid = await self._look(blockhash, "processed")
        slot, is_valid_still = await self._look(blockhash, "finalized")
        if is_valid or is_valid_still:
            return "pending", slot
        if sight is None or slot < sight.slot + (0 if sight.is_known else UNSEEN_SLOTS):
            return "unseen", slot
        return "expired", slot

    async def _look(self, blockhash: str, commitment: str) -> tuple[int, bool]:
        """Return the slot of a bank, and whether it takes a blockhash; raises NodeAway."""
        found = await self._ask("isBlockhashValid", blockhash, {"commitment": commitment})
        try:
            slot, is_valid = found["context"]["slot"], found["value"]
        except (LookupError, TypeError) as error:
            raise NodeAway(f"isBlockhashValid cannot be read: {error!r}"[:500]) from None
        if type(slot) is not int or type(is_valid) is not bool:
            raise NodeAway("isBlockhashValid answers neither yes nor no, as of a slot")
        return slot, is_valid

    async def _listed(self, payer: str, slot: int, sight: Sight | None) -> tuple[list[Any], bool]:
        """Return a payer's transactions that are not older than a payment may be, of a node that
        has come to a slot, and whether these are all; raises NodeAway.

        Those of the payment's time are first: it is settled within seconds of its sight.
        """
        # A sight of later than the first attempt says nothing of when the payment was made.
        is_early = sight is not None and sight.is_known
        oldest_slot = sight.slot - _BEFORE_SIGHT_SLOTS if sight is not None and is_early else 0
        oldest_s = time.time() - _LOOKED_BACK_S
        found: list[Any] = []
        is_whole = False
        before: dict[str, str] = {}
        for _ in range(_MOST_PAGES):
            config = {"limit": PAGE, "commitment": "confirmed", "minContextSlot": slot, **before}
            page = await self._ask("getSignaturesForAddress", payer, config)
            recent = [
                each
                for each in page
                if each["slot"] >= oldest_slot and (each.get("blockTime") or oldest_s) >= oldest_s
            ]
            found += [each for each in recent if each["err"] is None]
            is_whole = len(page) < PAGE or len(recent) < len(page)
            if is_whole:
                break
            before = {"before": page[-1]["signature"]}
        if sight is not None and is_early:
            seen = sight.slot
            found.sort(key=lambda each: abs(each["slot"] - seen))
        return found, is_whole

    async def _is(self, signature: str, payment: Payment) -> bool:
        found = await self._ask(
            "getTransaction",
            signature,
            {
                "encoding": "base64",
                "commitment": "confirmed",
                "maxSupportedTransactionVersion": 0,
            },
        )
        if found is None:
            raise NodeAway("a listed transaction is not there")
        wire = b64decode(found["transaction"][0])
        message = VersionedTransaction.from_bytes(wire).message
        return bytes(to_bytes_versioned(message)) == payment.message

    async def _ask(self, method: str, *params: Any) -> Any:
        if self._client is None:
            self._client = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        try:
            async with self._client.post(
                self._url,
                data=orjson.dumps(call),
                headers={"content-type": "application/json"},
                timeout=aiohttp.ClientTimeout(total=_WITHIN_S),
            ) as answer:
                return orjson.loads(await answer.read())["result"]
        except (
            aiohttp.ClientError,
            TimeoutError,
            OSError,
            LookupError,
            TypeError,  # JSON that is no object
            ValueError,
        ) as error:
            raise NodeAway(f"{method}: {type(error).__name__}") from None
