"""What a position is worth: our price, else the protocol's, and sums of what has one."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from api.positions.records import mints_of, record
from api.tokens.facts import facts
from api.tokens.reader import Token, Tokens
from schemas.prices import LastPrice
from schemas.protocols.contract import Account, Asset, Kind, Position, Role
from schemas.solana.addresses import text

COIN, DUST, UNKNOWN = (bytes([n]) * 32 for n in (1, 2, 3))
ACCOUNT = Account(b"a" * 32, Kind("thing", b"p" * 32, size=1), 1, b"", 5)


def tokens() -> Tokens:
    price = LastPrice(0.01, 2.0, 1, 1, "")
    coin = Token(text(COIN), facts(text(COIN), None, None), None, price, "live", b"")
    return Tokens({coin.mint: coin}, 9, 9, 9, 150.0)


def answered(*assets: Asset) -> Any:
    return record("p99", Position("lending", ACCOUNT, assets=[*assets]), tokens())


def test_debts_are_taken_off() -> None:
    found = answered(
        Asset(Role.SUPPLY, COIN, 5_000_000, 6),
        Asset(Role.LOCKED, COIN, 1_000_000, 6),
        Asset(Role.REWARD, COIN, 500_000, 6),
        Asset(Role.BORROW, COIN, 8_000_000, 6),
    )
    told = [found[f"{name}_usd"] for name in ("supplied", "rewards", "borrowed", "value")]
    assert told == [12.0, 1.0, 16.0, -3.0]
    assert found["value_usd_micros"] == "-3000000"


def test_where_we_have_no_price_the_protocol_has_one() -> None:
    found = answered(Asset(Role.SUPPLY, DUST, 7, 1, oracle_usd=Fraction(1, 3)))
    [asset] = found["assets"]
    assert (asset["price_source"], asset["amount"]) == ("protocol", 0.7)
    assert asset["value_usd_micros"] == str(7 * 10**6 // 30)
    both = answered(Asset(Role.SUPPLY, COIN, 10, 1, oracle_usd=Fraction(9)))["assets"][0]
    assert (both["price_source"], both["value_usd"]) == ("market", 2.0)


@pytest.mark.parametrize("asset", [Asset(Role.SUPPLY, UNKNOWN, 7, 1), Asset(Role.SUPPLY, COIN, 7)])
def test_without_price_or_decimals_nothing_is_summed(asset: Asset) -> None:
    found = answered(asset)
    assert found["assets"][0]["value_usd"] is None
    assert (found["supplied_usd"], found["value_usd"]) == (None, None)


def test_all_mints_are_asked_for_once() -> None:
    lines = [Asset(Role.SUPPLY, COIN, 1), Asset(Role.BORROW, COIN, 1), Asset(Role.REWARD, DUST, 1)]
    assert mints_of([Position("a", ACCOUNT, assets=lines)]) == {text(COIN), text(DUST)}
