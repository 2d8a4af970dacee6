"""Market makers' own AMMs: what is a swap, and what is a quote, a deposit, a withdrawal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.decoders import prop_amms
from pipeline.decoding.reading import Reason, decode_update
from schemas.events import Swap
from tests.support.decoding import builder, examples


def test_quotes_deposits_and_withdrawals_are_no_swaps() -> None:
    for venue in prop_amms.VENUES:
        tx = builder.TransactionBuilder("maker")
        tx.token("maker a", "a", "maker", 900)
        tx.token("vault a", "a", "pool", 900)
        (program,) = venue.programs
        tx.call(program, "maker pool", b"\x0d" * 776)  # a quote: two accounts
        tx.call(program, "", b"")
        deposit = tx.call(program, ["maker"] * 17, b"\x01")
        tx.transfer(deposit, "maker a", "vault a", "maker", 5)
        withdrawal = tx.call(program, ["maker"] * 17, b"\x02")
        tx.transfer(withdrawal, "vault a", "maker a", "pool", 5)
        decoded = decode_update(tx.info(), 1, 2)
        assert not decoded.events
        assert not decoded.undecoded


def test_the_makers_side_may_pay_first() -> None:
    for venue in prop_amms.VENUES:
        for buys in (True, False):
            tx, call = examples.swap(examples.EXAMPLES[venue.dex], buys=buys)
            call.calls.reverse()
            (swap,) = decode_update(tx.info(), 1, 2).events
            assert isinstance(swap, Swap)
            assert swap.amount_raw == examples.TOKEN_RAW
            assert swap.quote_amount_raw == examples.USDC_RAW


def test_a_routers_own_account_trades() -> None:
    """The authority of a router's account signs by the router alone: its place shows it."""
    for venue in prop_amms.VENUES:
        tx, call = examples.swap(examples.EXAMPLES[venue.dex], buys=False)
        trader, vault = builder.address("trader"), builder.address("router's authority")
        for made in (call, *call.calls):
            made.accounts = [vault if name == trader else name for name in made.accounts]
        for side in ("1", "2"):
            tx.tokens[builder.address(f"user {side}")].owner = vault
        (swap,) = decode_update(tx.info(), 1, 2).events
        assert isinstance(swap, Swap)
        assert swap.quote_amount_raw == examples.USDC_RAW
        assert swap.wallet == vault


@pytest.mark.parametrize(
    ("dex", "tag", "accounts"),
    [
        ("zerofi", "10", "pool x x v1 x v2 u1 u2 trader tokens tokens x x"),
        ("scorch", "01", "auth trader u1 u2 v1 v2 x x tokens tokens x pool"),
    ],
)
def test_instructions_with_places_of_their_own(dex: str, tag: str, accounts: str) -> None:
    example = replace(examples.EXAMPLES[dex], tag=tag, accounts=accounts)
    tx, _ = examples.swap(example, routed=True)
    (swap,) = decode_update(tx.info(), 1, 2).events
    assert isinstance(swap, Swap)
    assert swap.pool == builder.address("pool")
    assert swap.amount_raw == examples.TOKEN_RAW


def test_a_swap_whose_trader_is_unknown_is_counted() -> None:
    """An account list that is not the known one, by way of a router: rather none than a guess."""
    for venue in prop_amms.VENUES:
        tx, call = examples.swap(examples.EXAMPLES[venue.dex])
        call.accounts[:0] = [builder.address("new")] * 12
        for made in call.calls:
            made.accounts = [
                builder.address("router's") if name == builder.address("trader") else name
                for name in made.accounts
            ]
        decoded = decode_update(tx.info(), 1, 2)
        assert not decoded.events
        assert [item.reason for item in decoded.undecoded] == [Reason.MALFORMED]
