"""Drift v2: what positions paid and received as funding, from the events of its log.

Any instruction that touches a position settles its funding first, so all of them are read. A log
that the runtime cut off may lack payments: the wallet is named where the instruction has one user
account and the one who owns it signed, else it may be anybody's. Source: the program's IDL.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from pipeline.decoding.contract import (
    UNREADABLE,
    Fact,
    FundingPaid,
    Instruction,
    Unread,
    Venue,
    named,
)
from schemas.solana.addresses import key, text
from schemas.solana.borsh import Reader
from schemas.solana.derived import derived

PROGRAM: Final = "dRiftyHA39MWEi3m9aunc5MzRF1JYuBsbn6VPcn33UH"
FUNDING_PAYMENT_RECORD: Final = bytes.fromhex("083b601489c9385f")
USER: Final = 1  # of the instructions below
SIGNERS: Final = 4  # of a transaction, whose sub-accounts are compared with that account:
SUB_ACCOUNTS: Final = 8  # of each

_KEY: Final = key(PROGRAM)
_SUB_ACCOUNT: Final = Struct("<H").pack
_OF_ONE_USER: Final = named(
    "cancel_orders",
    "deposit",
    "modify_order",
    "place_orders",
    "place_perp_order",
    "settle_funding_payment",
    "settle_multiple_pnls",
    "settle_pnl",
    "withdraw",
)


def _funding(ix: Instruction) -> Iterator[Fact]:
    for log_index, body in enumerate(ix.log_events()):
        if body[:8] != FUNDING_PAYMENT_RECORD:
            continue
        try:
            yield _paid(log_index, Reader(body, 8))
        except UNREADABLE as error:
            yield Unread("malformed event", malformed=f"FundingPaymentRecord: {error}")
    if fault := ix.log_fault():
        yield Unread(fault, _wallets(ix))


def _paid(log_index: int, body: Reader) -> FundingPaid:
    body.skip(8)  # time
    return FundingPaid(
        log_index=log_index,
        wallet=body.pubkey(),
        account=body.pubkey(),
        market_index=body.u16(),
        payment_raw=body.i64(),
        base_raw=body.i64(),
        last_cumulative_funding=body.i64(),
        cumulative_funding_long=body.i128(),
        cumulative_funding_short=body.i128(),
    )


def _wallets(ix: Instruction) -> tuple[str, ...]:
    """Return whose funding the instruction settles, where its bytes say so."""
    if ix.data[:8] not in _OF_ONE_USER:
        return ()
    user = ix.tx.keys[ix.account(USER)]
    for signer in ix.tx.keys[: min(ix.tx.signers, SIGNERS)]:
        for number in range(SUB_ACCOUNTS):
            if derived(_KEY, b"user", signer, _SUB_ACCOUNT(number)) == user:
                return (text(signer),)
    return ()


def _read(ix: Instruction) -> tuple[Fact, ...] | None:
    return tuple(_funding(ix)) or None


VENUES: Final = (Venue(dex="drift", programs=(PROGRAM,), any_tag=_read, has_perps=True),)
