"""Tokens that are all a wallet has of a protocol: Hylo's, Perena's, Huma's and OnRe's."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.protocols import carrot, huma_onre, hylo, perena, solstice
from schemas.protocols.contract import Held, Position, Protocol, World
from schemas.solana.addresses import key, text
from tests.support.exploring import examples

WALLET, OTHER = (bytes([n]) * 32 for n in (1, 2))
WORLD = World(77, 1_790_000_000, 5)
MINTS = {
    hylo.PROTOCOL.name: hylo.MINTS,
    perena.PROTOCOL.name: (perena.USD_STAR, perena.USD_STAR_OF_POOL),
    huma_onre.PROTOCOL.name: (huma_onre.PST, huma_onre.MPST, huma_onre.ONYC),
}
PROTOCOLS = (hylo.PROTOCOL, perena.PROTOCOL, huma_onre.PROTOCOL)
OF_ALL = [mint for of in MINTS.values() for mint in of]


def read(protocol: Protocol, tokens: dict[bytes, int]) -> list[Position]:
    assert protocol.read is not None
    with pytest.raises(StopIteration) as end:
        next(protocol.read(Held(WALLET, [], tokens), WORLD))
    found: list[Position] = end.value.value
    return found


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda each: each.name)
def test_a_balance_is_a_position_that_stands_for_it(protocol: Protocol) -> None:
    mints = MINTS[protocol.name]
    found = read(protocol, {mint: n for n, mint in enumerate(mints, 1)} | {OTHER: 9})
    for n, (mint, position) in enumerate(zip(mints, found, strict=True), 1):
        assert [(each.role, each.mint, each.amount_raw) for each in position.assets] == [
            ("supply", mint, n)
        ]
        assert position.stands_for == {mint: n}
        assert (position.account.address, position.account.slot) == (mint, WORLD.slot)
        assert not position.missing
    assert protocol.reads_tokens
    assert protocol.identified == "guess"


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda each: each.name)
def test_a_wallet_without_the_tokens_has_no_positions(protocol: Protocol) -> None:
    assert read(protocol, {OTHER: 9} | dict.fromkeys(MINTS[protocol.name], 0)) == []


def test_no_token_is_of_two_protocols() -> None:
    seen = Counter([*OF_ALL, carrot.CRT, solstice.EUSX])
    assert set(seen.values()) == {1}


@given(st.dictionaries(st.sampled_from([*OF_ALL, OTHER]), st.integers(0, 2**64 - 1)))
@examples(100)
def test_what_positions_count_is_what_they_take_from_holdings(tokens: dict[bytes, int]) -> None:
    found = [position for protocol in PROTOCOLS for position in read(protocol, tokens)]
    counted: Counter[bytes] = Counter()
    taken: Counter[bytes] = Counter()
    for position in found:
        taken.update(position.stands_for)
        for asset in position.assets:
            counted[asset.mint] += asset.amount_raw or 0
    held = Counter({mint: raw for mint, raw in tokens.items() if raw and mint != OTHER})
    assert counted == taken == held


def test_the_mints_that_hylo_derives_are_those_it_published() -> None:
    assert text(hylo.HYUSD) == "5YMkXAYccHSGnHn9nob9xEvv6Pvka9DZWH7nTbotTu9E"
    assert text(hylo.SHYUSD) == "HnnGv3HrSqjRpgdFmx7vQGjntNEoex1SU4e9Lxcxuihz"
    assert text(hylo.XSOL) == "4sWNB8zGWHkh6UnmwiEtzNxL4XrN7uK9tosbESbJFfVs"
    assert key("2zCo6bUowJMvr89ajxuWsPadAqJ2F9akCkxumNsSdgsL") in hylo.MINTS  # of cbBTC
