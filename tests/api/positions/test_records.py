"""What a position is worth: our price, else the protocol's, and sums of what has one."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.http.encoding import encode
from api.positions.prices import Prices
from api.positions.records import has_unknown, record
from api.tokens.answers import PriceSource
from api.tokens.facts import facts
from api.tokens.pool_price import PoolPrice
from api.tokens.reader import Token, Tokens
from schemas.prices import LastPrice
from schemas.protocols.contract import (
    Account,
    Asset,
    Health,
    Kind,
    Lock,
    Position,
    Range,
    Role,
    Stake,
)
from schemas.solana.addresses import text
from tests.support.exploring import examples

COIN, DUST, UNKNOWN = (bytes([n]) * 32 for n in (1, 2, 3))
ACCOUNT = Account(b"a" * 32, Kind("thing", b"p" * 32, size=1), 1, b"", 5)


PRICE_SLOT = 8


def token(mint: bytes, price_usd: float, source: PriceSource = "live") -> Token:
    price = LastPrice(price_usd / 150, price_usd, 1, PRICE_SLOT, "")
    return Token(text(mint), facts(text(mint), None, None), None, price, source, b"")


def prices(*of: Token, verified: bool = True) -> Prices:
    known = {each.mint: each for each in of or (token(COIN, 2.0),)}
    return Prices(Tokens(known, 9, 9, 9, 150.0), frozenset(known if verified else ()), {})


def answered(*assets: Asset, of: Prices | None = None) -> Any:
    return record("p99", Position("lending", ACCOUNT, assets=[*assets]), of or prices())


def test_debts_are_taken_off() -> None:
    found = answered(
        Asset(Role.SUPPLY, COIN, 5_000_000, 6),
        Asset(Role.LOCKED, COIN, 1_000_000, 6),
        Asset(Role.REWARD, COIN, 500_000, 6),
        Asset(Role.BORROW, COIN, 8_000_000, 6),
    )
    figures = [found[f"{name}_usd"] for name in ("supplied", "rewards", "borrowed", "value")]
    assert figures == [12.0, 1.0, 16.0, -3.0]
    assert found["value_usd_micros"] == "-3000000"


def test_where_we_have_no_price_the_protocol_has_one() -> None:
    found = answered(Asset(Role.SUPPLY, DUST, 7, 1, oracle_usd=Fraction(1, 3)))
    [asset] = found["assets"]
    assert (asset["price_source"], asset["amount"]) == ("protocol", 0.7)
    assert asset["value_usd_micros"] == str(7 * 10**6 // 30)
    both = answered(Asset(Role.SUPPLY, COIN, 10, 1, oracle_usd=Fraction(9)))["assets"][0]
    assert (both["price_source"], both["value_usd"]) == ("market", 2.0)
    assert (asset["price_slot"], both["price_slot"]) == (None, PRICE_SLOT)


@pytest.mark.parametrize("asset", [Asset(Role.SUPPLY, UNKNOWN, 7, 1), Asset(Role.SUPPLY, COIN, 7)])
def test_without_price_or_decimals_nothing_is_summed(asset: Asset) -> None:
    found = answered(asset)
    assert found["assets"][0]["value_usd"] is None
    known = found["assets"][0]["price_usd"] is not None
    assert found["assets"][0]["price_slot"] == (PRICE_SLOT if known else None)
    assert (found["supplied_usd"], found["value_usd"]) == (None, None)


def test_a_price_that_is_not_verified_is_shown_and_in_no_sum() -> None:
    """Anybody can make a token, trade it at any price, and send it or a lock of it to anybody."""
    supply = Asset(Role.LOCKED, COIN, 10**12, 6)
    found = answered(supply, of=prices(verified=False))
    [asset] = found["assets"]
    assert (asset["price_usd"], asset["price_source"]) == (2.0, "market")
    assert (asset["is_verified"], asset["value_usd"]) == (False, None)
    assert (found["supplied_usd"], found["value_usd"]) == (None, None)
    assert not has_unknown(found)
    owed = answered(supply, Asset(Role.BORROW, COIN, 1, 6), of=prices(verified=False))
    assert (owed["borrowed_usd"], owed["value_usd"], has_unknown(owed)) == (None, None, True)
    with_oracle = Asset(Role.SUPPLY, COIN, 10, 1, oracle_usd=Fraction(9))
    [asset] = answered(with_oracle, of=prices(verified=False))["assets"]
    assert (asset["price_source"], asset["value_usd"], asset["is_verified"]) == (
        "protocol",
        9.0,
        True,
    )


def test_a_dollar_coin_is_taken_for_a_dollar_where_the_protocol_has_no_price() -> None:
    of = prices(token(COIN, 1.0, "par"))
    [asset] = answered(Asset(Role.SUPPLY, COIN, 10, 1), of=of)["assets"]
    assert (asset["price_source"], asset["value_usd"]) == ("par", 1.0)
    [asset] = answered(Asset(Role.SUPPLY, COIN, 10, 1, Fraction(9, 10)), of=of)["assets"]
    assert (asset["price_source"], asset["value_usd"]) == ("protocol", 0.9)


def test_a_share_of_a_pool_is_its_part_of_the_pool() -> None:
    share = token(COIN, 1 / 3, "pool")
    share.pool_price = PoolPrice(3, Fraction(7), Fraction(10**6), "", 1, 1, 1, 1)
    [asset] = answered(Asset(Role.SUPPLY, COIN, 3, 0), of=prices(share))["assets"]
    assert (asset["price_source"], asset["value_usd_micros"]) == ("pool", "1000000")
    assert asset["price_slot"] == PRICE_SLOT


def test_a_share_of_a_pool_has_its_worth_without_the_decimals_of_its_mint() -> None:
    """As in the wallet: a deposit must not change what the wallet is worth."""
    share = token(COIN, 1.0)
    share.price = share.source = None
    share.pool_price = PoolPrice(3, Fraction(7), Fraction(10**6), "", 1, 1, 1, 1)
    supply = Asset(Role.SUPPLY, COIN, 2)
    found = answered(supply, of=prices(share))
    [asset] = found["assets"]
    assert (asset["amount"], asset["price_usd"], asset["price_source"]) == (None, None, None)
    assert asset["value_usd_micros"] == found["value_usd_micros"] == "666666"
    assert answered(supply, of=prices(share, verified=False))["value_usd"] is None
    assert answered(Asset(Role.SUPPLY, COIN, None), of=prices(share))["value_usd"] is None


def test_what_has_matured_is_worth_nothing_whatever_a_market_paid() -> None:
    found = answered(Asset(Role.SUPPLY, COIN, 10**12, 6, is_worthless=True))
    [asset] = found["assets"]
    assert (asset["price_usd"], asset["price_source"], asset["value_usd"]) == (0.0, "protocol", 0.0)
    assert found["value_usd"] == 0.0


@pytest.mark.parametrize("role", [Role.SUPPLY, Role.LOCKED, Role.PENDING])
def test_beside_a_debt_what_has_no_price_makes_no_value(role: Role) -> None:
    """Else a loan against it would be a loss."""
    debt = Asset(Role.BORROW, COIN, 5_000_000, 6)
    found = answered(Asset(role, UNKNOWN, 7, 1), debt)
    assert (found["supplied_usd"], found["borrowed_usd"], found["value_usd"]) == (None, 10.0, None)
    assert has_unknown(found)
    for other in (Asset(role, UNKNOWN, 0, 1), Asset(Role.REWARD, UNKNOWN, 7, 1)):
        found = answered(other, debt)
        assert (found["value_usd"], has_unknown(found)) == (-10.0, False)
    alone = answered(Asset(role, UNKNOWN, 7, 1))
    assert (alone["value_usd"], has_unknown(alone)) == (None, False)


@pytest.mark.parametrize(
    "others",
    [
        [Asset(Role.SUPPLY, UNKNOWN, 7, 1)],
        [Asset(Role.SUPPLY, COIN, None, 6)],
        [Asset(Role.BORROW, UNKNOWN, 7, 1), Asset(Role.SUPPLY, COIN, 5_000_000, 6)],
    ],
    ids=("unpriced", "unknown", "unpriced debt"),
)
def test_a_loan_that_anybody_could_give_the_wallet_makes_nothing_unknown(
    others: list[Asset],
) -> None:
    """It is worth nothing at least: its owner need not pay it. Known to be worth less, it is."""
    debt = Asset(Role.BORROW, COIN, 1_000_000, 6)
    given = Position("lending", ACCOUNT, assets=[debt, *others], can_be_given=True)
    found = record("p99", given, prices())
    names = ("supplied", "borrowed", "rewards")
    assert [found[f"{name}_usd_micros"] for name in names] == [None] * 3
    assert (found["value_usd_micros"], has_unknown(found)) == ("0", False)
    assert found["assets"][0]["amount_raw"] == "1000000"
    assert "counts 0" in found["unsupported_fields"][-1]
    given.missing = [b"b" * 32]
    assert record("p99", given, prices())["value_usd"] is None
    known = Position("lending", ACCOUNT, assets=[debt], can_be_given=True)
    assert record("p99", known, prices())["value_usd"] == -2.0
    alone = Position("lending", ACCOUNT, assets=[others[-1]], can_be_given=True)
    assert record("p99", alone, prices())["unsupported_fields"] == []


@pytest.mark.parametrize(
    "other", [Asset(Role.SUPPLY, COIN, None, 6), Asset(Role.LOCKED, UNKNOWN, 7)]
)
def test_a_loan_that_known_deposits_cover_counts_without_what_is_not_known(other: Asset) -> None:
    """What is not known of deposits can only be more, and takes nothing from the rest."""
    debt, supply = Asset(Role.BORROW, COIN, 1_000_000, 6), Asset(Role.SUPPLY, COIN, 9_000_000, 6)
    loan = Position("lending", ACCOUNT, assets=[supply, debt, other], can_be_given=True)
    found = record("p99", loan, prices())
    sums = [found[f"{name}_usd"] for name in ("supplied", "borrowed", "rewards", "value")]
    assert (sums, has_unknown(found)) == ([18.0, 2.0, None, 16.0], False)
    assert "without what is not known" in found["unsupported_fields"][-1]
    loan.assets.append(Asset(Role.BORROW, UNKNOWN, 1, 6))
    found = record("p99", loan, prices())
    assert (found["supplied_usd"], found["borrowed_usd"], found["value_usd"]) == (None, None, 0.0)
    assert not has_unknown(found)


def test_a_loan_of_less_than_a_millionth_of_a_dollar_that_anybody_could_give_is_one() -> None:
    assets = [Asset(Role.BORROW, COIN, 1, 9), Asset(Role.SUPPLY, COIN, None, 6)]
    found = record("p99", Position("lending", ACCOUNT, assets=assets, can_be_given=True), prices())
    assert found["assets"][0]["value_usd_micros"] == "0"
    assert (found["value_usd_micros"], has_unknown(found)) == ("0", False)


def test_an_amount_that_is_not_known_makes_no_sum() -> None:
    found = answered(Asset(Role.SUPPLY, COIN, 5_000_000, 6), Asset(Role.REWARD, COIN, None, 6))
    assert (found["supplied_usd"], found["rewards_usd"], found["value_usd"]) == (10.0, None, None)
    assert found["assets"][1]["amount_raw"] is None
    assert found["assets"][1]["price_usd"] == 2.0


def test_a_debt_without_a_price_makes_no_value() -> None:
    supply = Asset(Role.SUPPLY, COIN, 5_000_000, 6)
    found = answered(supply, Asset(Role.BORROW, UNKNOWN, 7, 1))
    assert (found["supplied_usd"], found["borrowed_usd"], found["value_usd"]) == (10.0, None, None)
    assert answered(supply, Asset(Role.BORROW, UNKNOWN, 0, 1))["value_usd"] == 10.0


def test_a_position_that_lacks_an_account_has_no_sums() -> None:
    """What it owes may be with the account that is not known."""
    lines = [
        Asset(Role.SUPPLY, COIN, 5_000_000, 6),
        Asset(Role.BORROW, COIN, 1_000_000, 6),
        Asset(Role.REWARD, COIN, 1_000_000, 6),
    ]
    lending = Position("lending", ACCOUNT, assets=lines, missing=[b"b" * 32])
    found = record("p99", lending, prices())
    names = ("supplied", "borrowed", "rewards", "value")
    assert [found[f"{name}_usd_micros"] for name in names] == [None] * 4
    assert [asset["value_usd"] for asset in found["assets"]] == [10.0, 2.0, 2.0]
    assert any(each.startswith("sums: ") for each in found["unsupported_fields"])
    assert answered(*lines)["unsupported_fields"] == []


def test_a_position_is_known_by_its_own_id() -> None:
    nft = bytes([9]) * 32
    found = record("p99", Position("liquidity", ACCOUNT, id=nft), prices())
    assert found["position_id"] == text(nft)
    assert answered()["position_id"] == text(ACCOUNT.address)


def test_health_range_and_locks_are_answered() -> None:
    position = Position(
        "liquidity",
        ACCOUNT,
        health=Health(Fraction(3, 4), Fraction(1, 2), Fraction(3, 8)),
        range=Range(COIN, DUST, -5, None, 7, Fraction(1, 4), None, Fraction(2), is_in_range=True),
        locks=[Lock("vesting", 2**100, 5, 1_790_000_000_000)],
        unsupported_fields=["rewards: the farm is not known"],
    )
    found = record("p99", position, prices())
    assert found["health"] == {
        "health_factor": 0.75,
        "ltv": 0.5,
        "liquidation_ltv": 0.375,
        "at_risk": True,
        "prices": "protocol",
    }
    assert found["range"] == {
        "base": text(COIN),
        "quote": text(DUST),
        "lower_index": -5,
        "upper_index": None,
        "current_index": 7,
        "lower": 0.25,
        "upper": None,
        "current": 2.0,
        "is_in_range": True,
    }
    assert found["locks"] == [
        {
            "kind": "vesting",
            "locked_raw": str(2**100),
            "claimable_raw": "5",
            "ends_ms": 1_790_000_000_000,
            "ends_slot": None,
        }
    ]
    assert found["unsupported_fields"] == ["rewards: the farm is not known"]


def test_at_risk_is_said_of_the_exact_ratio() -> None:
    just_below = Fraction(10**30 - 1, 10**30)
    for factor, at_risk in ((just_below, True), (Fraction(1), False), (None, None)):
        health = record("p", Position("a", ACCOUNT, health=Health(factor, None, None)), prices())
        assert health["health"] is not None
        assert health["health"]["at_risk"] is at_risk


def test_no_ratio_or_price_is_too_large_to_be_answered() -> None:
    huge = Fraction(10**400)
    position = Position("a", ACCOUNT, health=Health(huge, huge, 1 / huge))
    position.assets = [Asset(Role.SUPPLY, DUST, 2**64, 0, oracle_usd=huge)]
    found = record("p", position, prices())
    assert found["health"] is not None
    assert (found["health"]["health_factor"], found["health"]["liquidation_ltv"]) == (None, 0.0)
    assert found["assets"][0]["price_usd"] is None
    assert (found["assets"][0]["value_usd"], found["value_usd"]) == (None, None)


ASSETS = st.builds(
    Asset,
    st.sampled_from(Role),
    st.sampled_from([COIN, DUST, UNKNOWN]),
    st.none() | st.integers(0, 2**64 - 1),
    st.none() | st.integers(0, 255),
    st.none() | st.fractions(min_value=-9, max_denominator=2**48),
)


def clear_sum(assets: list[Any]) -> int | None:
    """Return what assets are worth together, read from how each is answered."""
    if any(
        (each["amount_raw"] is None and (each["is_verified"] or each["role"] == "borrow"))
        or (each["role"] == "borrow" and not each["value_usd_micros"] and each["amount_raw"] != "0")
        for each in assets
    ):
        return None
    known = [int(each["value_usd_micros"]) for each in assets if each["value_usd_micros"]]
    return sum(known) if known else None


def owed_against_unpriced(found: Any) -> bool:
    """Return whether there is a debt beside something without a worth that is no reward."""
    return int(found["borrowed_usd_micros"] or 0) != 0 and any(
        each["role"] in ("supply", "locked", "pending")
        and not each["value_usd_micros"]
        and each["amount_raw"] != "0"
        for each in found["assets"]
    )


@given(st.lists(ASSETS, max_size=5))
@examples(300)
def test_sums_are_those_of_the_assets_as_they_are_answered(assets: list[Asset]) -> None:
    found = answered(*assets)
    for asset, answer in zip(assets, found["assets"], strict=True):
        if answer["price_source"] == "protocol" and answer["value_usd_micros"] is not None:
            assert asset.amount_raw is not None
            assert asset.decimals is not None
            assert asset.oracle_usd is not None
            exact = Fraction(asset.amount_raw * 10**6, 10**asset.decimals) * asset.oracle_usd
            assert answer["value_usd_micros"] == str(int(exact))
        if asset.amount_raw is not None and asset.decimals is not None:
            assert answer["amount"] == float(Fraction(asset.amount_raw, 10**asset.decimals))
    by_role = {
        role.value: [each for each in found["assets"] if each["role"] == role.value]
        for role in Role
    }
    supplied = [each for each in found["assets"] if each["role"] not in ("borrow", "reward")]
    parts = {
        "supplied": clear_sum(supplied),
        "borrowed": clear_sum(by_role["borrow"]),
        "rewards": clear_sum(by_role["reward"]),
    }
    for name, micros in parts.items():
        assert found[f"{name}_usd_micros"] == (None if micros is None else str(micros)), name
    value = None
    if clear_sum(found["assets"]) is not None and not owed_against_unpriced(found):
        value = sum(each or 0 for each in parts.values()) - 2 * (parts["borrowed"] or 0)
    assert found["value_usd_micros"] == (None if value is None else str(value))


def test_no_end_of_a_lock_is_too_late_or_early_to_be_answered() -> None:
    most = (1 << 53) - 1
    locks = [
        Lock("term", ends_slot=(1 << 64) + 5),
        Lock("term", ends_ms=-(1 << 80)),
        Lock("term", ends_slot=most),
    ]
    stake = Stake(None, "inactive", 0, None, None, "staker", 9, 9, (1 << 74), (1 << 64) - 1)
    found = record("p99", Position("lending", ACCOUNT, locks=locks, stake=stake), prices())
    answer = orjson.loads(encode(found).body)
    assert [each["ends_slot"] for each in answer["locks"]] == [most, None, most]
    assert answer["locks"][1]["ends_ms"] == -most
    assert [answer["stake"][f"locked_until_{each}"] for each in ("ms", "epoch")] == [most, most]


def in_market(market: bytes, *assets: Asset, verified: bytes = b"v" * 32) -> Any:
    position = Position("lending", ACCOUNT, assets=[*assets], open_markets=[market])
    return record("p99", position, prices()._replace(markets=frozenset({verified})))


def test_what_is_in_a_market_that_anybody_could_open_counts_where_that_is_verified() -> None:
    """The owner of a market sets its prices and its interest: any supply, and any debt."""
    lines = (
        Asset(Role.SUPPLY, COIN, 5_000_000, 6),
        Asset(Role.SUPPLY, UNKNOWN, 10**18, 6, oracle_usd=Fraction(10**6)),
        Asset(Role.BORROW, COIN, 10**18, 6),
        Asset(Role.BORROW, UNKNOWN, 1, 6),
        Asset(Role.REWARD, COIN, None, 6),
    )
    found = in_market(b"m" * 32, *lines)
    names = ("supplied", "borrowed", "rewards", "value")
    assert [found[f"{name}_usd_micros"] for name in names] == [None] * 4
    assert [each["value_usd"] for each in found["assets"]] == [None] * 5
    assert not any(each["is_verified"] for each in found["assets"])
    assert found["is_verified_market"] is False
    assert "not verified" in found["unsupported_fields"][-1]
    assert not has_unknown(found), "it is in no sum, and makes none unknown"
    assert in_market(b"v" * 32, *lines)["supplied_usd"] == 10.0 + 10**18
    assert in_market(b"v" * 32, *lines)["is_verified_market"] is True
    assert answered(*lines)["is_verified_market"] is True, "nobody could open its market"
    assert has_unknown(in_market(b"v" * 32, *lines))


def test_an_unknown_amount_of_what_would_not_count_makes_nothing_unknown() -> None:
    coin = Asset(Role.SUPPLY, COIN, 5_000_000, 6)
    found = answered(coin, Asset(Role.SUPPLY, UNKNOWN, None, 6))
    assert (found["value_usd"], has_unknown(found)) == (10.0, False)
    priced = Asset(Role.SUPPLY, UNKNOWN, None, 6, oracle_usd=Fraction(2))
    assert has_unknown(answered(coin, priced))
    assert has_unknown(answered(coin, Asset(Role.BORROW, UNKNOWN, None, 6)))
    debt = Asset(Role.BORROW, COIN, 1_000_000, 6)
    assert has_unknown(answered(coin, debt, Asset(Role.SUPPLY, UNKNOWN, None, 6)))


GROUPS = {
    "supplied": (Role.SUPPLY, Role.LOCKED, Role.PENDING),
    "borrowed": (Role.BORROW,),
    "rewards": (Role.REWARD,),
}
LINES = st.builds(
    Asset,
    st.sampled_from(Role),
    st.sampled_from([COIN, DUST, UNKNOWN]),
    st.none() | st.integers(0, 10**12),
    st.sampled_from([None, 0, 6]),
    st.none() | st.fractions(-10, 10, max_denominator=1000),
)


@given(st.lists(LINES, max_size=5))
@examples(300)
def test_sums_are_those_of_the_lines(assets: list[Asset]) -> None:
    found = answered(*assets)
    sums: dict[str, int | None] = {}
    is_known = True
    for name, roles in GROUPS.items():
        of_role = [
            (asset, line["value_usd_micros"], line["is_verified"])
            for asset, line in zip(assets, found["assets"], strict=True)
            if asset.role in roles
        ]
        unknown = any(
            (not worth and asset.amount_raw != 0)
            if name == "borrowed"
            else (asset.amount_raw is None and is_verified)
            for asset, worth, is_verified in of_role
        )
        worths = [int(worth) for _, worth, _ in of_role if worth is not None]
        sums[name] = sum(worths) if worths and not unknown else None
        is_known = is_known and not unknown
    is_known = is_known and not owed_against_unpriced(found)
    value = None
    if is_known and any(each is not None for each in sums.values()):
        value = (sums["supplied"] or 0) + (sums["rewards"] or 0) - (sums["borrowed"] or 0)
    for name, expected in {**sums, "value": value}.items():
        assert found[f"{name}_usd_micros"] == (None if expected is None else str(expected))
