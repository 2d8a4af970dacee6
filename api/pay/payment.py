"""A payment as a client sends it: headers to values. Nothing is asked of anybody here."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import orjson
from solders.message import to_bytes_versioned
from solders.transaction import VersionedTransaction

from api.pay.terms import PRICE_RAW, SCHEME, Terms

HEADERS: Final = (b"payment-signature", b"x-payment")
"""Of version 2 and version 1; a client of either may send either."""
_LONGEST: Final = 8 * 1024
_DEEPEST: Final = 32
"""Levels of a payment's JSON: what is read deeper can not be written for the facilitator again."""
_LONGEST_TRANSACTION: Final = 1_644  # in base64: a packet of 1,232 bytes, so a dozen signatures


class NoPayment(Exception):
    """What was sent is no payment for these terms; the text is for the client."""


@dataclass(frozen=True, slots=True)
class Payment:
    """A transaction that its payer signed and the facilitator will sign and send."""

    version: int  # of x402: 1 or 2
    payload: dict[str, Any]  # as it was sent, for the facilitator
    fee_payer: str  # the transaction's
    blockhash: str  # that the transaction names; it is valid for about a minute
    message: bytes  # what every signer signs
    accounts: tuple[str, ...]  # that the transaction names itself

    @property
    def id(self) -> str:
        """The SHA-256 of the message, in hex: the same whatever the signatures are."""
        return sha256(self.message).hexdigest()


def sent(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """Return the header that has the payment, None without one; raises NoPayment."""
    found = [value for name, value in headers if name in HEADERS]
    if len(set(found)) > 1:
        raise NoPayment("send one payment, in `PAYMENT-SIGNATURE`")
    return found[0] if found else None


def parse(value: bytes, terms: Terms) -> Payment:
    """Return the payment in a header; raises NoPayment."""
    if len(value) > _LONGEST:
        raise NoPayment(f"the payment header has more than {_LONGEST} bytes")
    try:
        payload = orjson.loads(b64decode(value, validate=True))
    except ValueError:
        raise NoPayment("the payment header is not base64 of JSON") from None
    if not isinstance(payload, dict):
        raise NoPayment("the payment is not an object")
    if _is_deep(payload):
        raise NoPayment("the payment is nested too deeply")
    match payload.get("x402Version"):
        case 2:
            _check(payload.get("accepted"), _wanted(terms))
        case 1:
            _check(payload, {"scheme": SCHEME, "network": terms.old_network})
        case _:
            raise NoPayment("`x402Version` must be 2 or 1")
    inner = payload.get("payload")
    text = inner.get("transaction") if isinstance(inner, dict) else None
    if not isinstance(text, str):
        raise NoPayment("`payload.transaction` is missing")
    if len(text) > _LONGEST_TRANSACTION:
        raise NoPayment("`payload.transaction` has more than 1,232 bytes")
    try:
        transaction = VersionedTransaction.from_bytes(b64decode(text, validate=True))
        message = transaction.message
        accounts = tuple(str(each) for each in message.account_keys)
        fee_payer = accounts[0]
        signed = transaction.verify_with_results()[1:]  # the fee payer signs last
    except Exception:  # solders raises its own kinds, with no common base
        raise NoPayment("`payload.transaction` is not a transaction in base64") from None
    if not signed or not all(signed):
        raise NoPayment("the transaction is not signed by its payer")
    return Payment(
        payload["x402Version"],
        payload,
        fee_payer,
        str(message.recent_blockhash),
        bytes(to_bytes_versioned(message)),
        accounts,
    )


def _is_deep(value: Any) -> bool:
    """Return whether JSON has more levels than a payment may have."""
    level = [value]
    for _ in range(_DEEPEST):
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner += each.values()
            elif isinstance(each, list):
                inner += each
        if not inner:
            return False
        level = inner
    return any(isinstance(each, dict | list) for each in level)


def _wanted(terms: Terms) -> dict[str, str]:
    return {
        "scheme": SCHEME,
        "network": terms.network,
        "asset": terms.asset,
        "amount": str(PRICE_RAW),
        "payTo": terms.pay_to,
    }


def _check(accepted: Any, wanted: dict[str, str]) -> None:
    """Refuse a payment that accepts other terms than ours."""
    if not isinstance(accepted, dict):
        raise NoPayment("`accepted` is missing")
    for name, value in wanted.items():
        if accepted.get(name) != value:
            raise NoPayment(f"`{name}` of the payment is not that of the challenge")
