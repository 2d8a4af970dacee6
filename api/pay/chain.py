"""Whether a payment is on the chain, asked of a node: for settlements whose outcome is unknown.

The transaction's signature is the facilitator's and not known here, so the payer's transactions of
the last hour are compared by message. A transaction whose blockhash is valid neither for the newest
bank nor for the finalized one can not come to the chain any more.
"""

from __future__ import annotations

import time
from base64 import b64decode
from collections.abc import AsyncIterator
from typing import Any, Final, Literal

import aiohttp
import orjson
from solders.message import to_bytes_versioned
from solders.transaction import VersionedTransaction

from api.pay.payment import Payment
from schemas.times import HOUR_S

_WITHIN_S: Final = 5.0
PAGE: Final = 100
"""Transactions that are asked for at once."""
_MOST_PAGES: Final = 3
_LOOKED_BACK_S: Final = HOUR_S + 300  # longer than a payment is kept whose outcome is unknown


class NodeAway(Exception):
    """The node does not answer, or with an error, or with what decides nothing."""


Absent = Literal["pending", "expired"]


class Chain:
    """A node that is asked over JSON-RPC."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Give the connections back."""
        if self._client is not None:
            await self._client.close()

    async def find(self, payment: Payment) -> tuple[str, Absent | None]:
        """Return the signature of a payment's transaction, or "" and whether it may still come.

        Raises NodeAway.
        """
        try:
            # Asked first: what is not found after the end of the blockhash never will be.
            may_land = await self._may_land(payment.blockhash)
            async for each in self._listed(payment.accounts[1]):
                if each["err"] is None and await self._is(each["signature"], payment):
                    return str(each["signature"]), None
        except NodeAway:
            raise
        except Exception as error:  # a node's answer, and solders' own kinds of errors
            raise NodeAway(f"it cannot be read: {error!r}"[:500]) from None
        return "", "pending" if may_land else "expired"

    async def _may_land(self, blockhash: str) -> bool:
        """Return whether a bank takes a blockhash.

        The finalized one does not know those of the last seconds, which clients name; the newest
        one does not take what a block before it, which is not final yet, may have taken.
        """
        for commitment in ("processed", "finalized"):
            found = await self._ask("isBlockhashValid", blockhash, {"commitment": commitment})
            if found["value"]:
                return True
        return False

    async def _listed(self, payer: str) -> AsyncIterator[Any]:
        """Yield a payer's transactions of the last hour, newest first; raises NodeAway."""
        oldest_s = time.time() - _LOOKED_BACK_S
        before: dict[str, str] = {}
        for _ in range(_MOST_PAGES):
            config = {"limit": PAGE, "commitment": "confirmed", **before}
            page = await self._ask("getSignaturesForAddress", payer, config)
            for each in page:
                yield each
            if len(page) < PAGE or (page[-1].get("blockTime") or oldest_s) < oldest_s:
                return
            before = {"before": page[-1]["signature"]}
        raise NodeAway("the payer has more transactions than are looked at")

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
        except (aiohttp.ClientError, TimeoutError, OSError, LookupError, ValueError) as error:
            raise NodeAway(f"{method}: {type(error).__name__}") from None
