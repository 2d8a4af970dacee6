"""Whether a payment is on the chain, asked of a node: for settlements whose outcome is unknown.

The transaction's signature is the facilitator's and not known here, so the payer's transactions of
the last minutes are compared by message. A transaction whose blockhash is no longer valid for the
finalized bank can not come to the chain any more.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Any, Final, Literal

import aiohttp
import orjson
from solders.message import to_bytes_versioned
from solders.transaction import VersionedTransaction

from api.pay.payment import Payment

_WITHIN_S: Final = 5.0
_MOST_LOOKED_AT: Final = 100


class NodeAway(Exception):
    """The node does not answer, or with an error."""


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
        valid = await self._ask("isBlockhashValid", payment.blockhash, {"commitment": "finalized"})
        # Asked first: what is not found after the end of the blockhash never will be.
        payer = payment.accounts[1]
        listed = await self._ask(
            "getSignaturesForAddress",
            payer,
            {"limit": _MOST_LOOKED_AT, "commitment": "confirmed"},
        )
        for each in listed:
            if each.get("err") is None and await self._is(each["signature"], payment):
                return str(each["signature"]), None
        return "", "pending" if valid["value"] else "expired"

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
                found = orjson.loads(await answer.read())
                return found["result"]
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError, KeyError) as error:
            raise NodeAway(f"{method}: {type(error).__name__}") from None
