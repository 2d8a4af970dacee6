"""Doves, the oracle of Jupiter Perps: its price feeds, their bytes, and how they are updated.

Layouts: `PriceFeed` and `AgPriceFeed` of its IDL, Anchor. Prices have 8 decimals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from struct import Struct
from typing import Final

from infra.chain.market.runtime.execution import Execution, mask
from infra.chain.market.runtime.programs import (
    DOVES,
    NO_ADDRESS,
    SYSTEM,
    anchor_tag,
    pda,
)
from infra.chain.market.runtime.stake_program import set_native

DECIMALS: Final = 8
MICRO_USD: Final = 100  # a millionth of a dollar
FEED_RENT_LAMPORTS: Final = (128 + 104) * 6_960
AG_FEED_RENT_LAMPORTS: Final = (128 + 266) * 6_960

_FEED_TAG: Final = bytes.fromhex("bd67fc179823f39c")
_AG_FEED_TAG: Final = bytes.fromhex("70f98bd9d7d0f936")
_FEED: Final = Struct("<8s32s33sQbqBIB").pack
_AG_FEED: Final = Struct("<8s32s32s32s32s32sQbqIIQB32s32s").pack
_UPDATE: Final = anchor_tag("update_with_signer")
_UPDATE_AG: Final = anchor_tag("update_ag_price2")
_MESSAGE: Final = Struct("<B64sQbqB").pack


@dataclass(frozen=True, slots=True)
class PriceFeed:
    """A price that one signer reports."""

    pair: str
    price: int
    time_s: int

    @property
    def owner(self) -> bytes:
        """Return the oracle's program."""
        return DOVES.address

    def data(self) -> bytes:
        """Return the account's data."""
        pair = self.pair.encode().ljust(32, b"\0")
        return _FEED(
            *(_FEED_TAG, pair, b"\2" + bytes(32), self.price, -DECIMALS, self.time_s, 255, 0, 0)
        )


@dataclass(frozen=True, slots=True)
class AgPriceFeed:
    """A price that several feeds agree on."""

    mint: bytes
    feed: bytes
    price: int
    time_s: int

    @property
    def owner(self) -> bytes:
        """Return the oracle's program."""
        return DOVES.address

    def data(self) -> bytes:
        """Return the account's data."""
        return _AG_FEED(
            *(_AG_FEED_TAG, self.mint, *[NO_ADDRESS] * 3, bytes(32)),
            *(self.price, -DECIMALS, self.time_s, 60, 60, 100, 255, self.feed, NO_ADDRESS),
        )


def feed_address(pair: str) -> bytes:
    """Return where the price of a pair is, as SOLUSD."""
    return pda(DOVES, b"feed", pair.encode().ljust(32, b"\0"))


def ag_feed_address(mint: bytes) -> bytes:
    """Return where the price of a token is that several feeds agree on."""
    return pda(DOVES, b"ag_feed", mint)


def update(tx: Execution, signer: bytes, feed: bytes, price: int) -> None:
    """Report a price."""
    data = _UPDATE + _MESSAGE(0, bytes(64), price, -DECIMALS, tx.time_s, 1)
    tx.enter(DOVES, (signer, feed, SYSTEM.address), data, mask("-w-"))
    tx.log("Program log: Instruction: UpdateWithSigner")
    before = tx.ledger.natives[feed]
    assert isinstance(before, PriceFeed)
    set_native(tx, feed, replace(before, price=price, time_s=tx.time_s))
    tx.leave(25_000)


def aggregate(tx: Execution, signer: bytes, ag_feed: bytes, feed: bytes) -> None:
    """Take over what a feed reports."""
    accounts = (signer, ag_feed, feed, NO_ADDRESS, NO_ADDRESS)
    tx.enter(DOVES, accounts, _UPDATE_AG, mask("-w---"))
    tx.log("Program log: Instruction: UpdateAgPrice2")
    before, source = tx.ledger.natives[ag_feed], tx.ledger.natives[feed]
    assert isinstance(before, AgPriceFeed)
    assert isinstance(source, PriceFeed)
    set_native(tx, ag_feed, replace(before, price=source.price, time_s=source.time_s))
    tx.leave(8_000)
