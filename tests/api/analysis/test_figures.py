"""Holdings without what positions stand for."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from api.accounts.following import FollowState
from api.analysis.figures import amounts_of, categories, without
from api.wallets.held import HeldAccount, HeldAccounts
from schemas.protocols.contract import Shape

_MINTS = st.sampled_from(["a", "b", "c"])
_AMOUNTS = st.integers(0, 2**64)


def _held(tokens: list[HeldAccount]) -> HeldAccounts:
    count = len(tokens)
    return HeldAccounts("w", 1, 1, 0, 1, tokens, count, count, True, 1, None, FollowState.COMPLETE)


@given(
    st.lists(st.tuples(_MINTS, st.integers(1, 2**64)), max_size=8),
    st.dictionaries(_MINTS, _AMOUNTS),
)
def test_what_is_left_and_what_is_taken_are_what_was_there(
    accounts: list[tuple[str, int]], amounts: dict[str, int]
) -> None:
    held = _held(
        [
            HeldAccount(bytes([at]) * 32, mint, amount_raw, 0, is_token_2022=False)
            for at, (mint, amount_raw) in enumerate(accounts)
        ]
    )
    before = amounts_of(held)
    own, taken = without(held, amounts)
    assert Counter(amounts_of(own)) + Counter(taken) == Counter(before)
    assert taken == {
        mint: least
        for mint, amount in amounts.items()
        if (least := min(amount, before.get(mint, 0)))
    }
    assert amounts_of(held) == before, "what it was given is not changed"
    assert all(each.amount_raw for each in own.tokens)


def test_a_kind_with_a_route_that_nothing_reads_is_not_complete() -> None:
    record = {
        "protocol": "p01",
        "route": "staking",
        "value_usd_micros": "5000000",
        "is_verified_market": True,
        "unsupported_fields": [],
        "assets": [],
    }
    loan = {**record, "route": "lending", "value_usd_micros": "7000000"}
    shapes = {
        ("p01", "staking"): Shape.STAKING,
        ("p01", "lending"): Shape.LENDING,
        ("p06", "staking"): Shape.STAKING,
    }
    found: Any = {
        "positions": [record, loan],
        "protocols": [
            {"protocol": "p01", "routes": ["staking", "lending"], "is_complete": True},
        ],
        "pending": [
            {"protocol": "p06", "route": "staking"},
            {"protocol": "p99", "route": "gone"},
        ],
    }

    def shown() -> dict[str, tuple[float | None, bool]]:
        listed = categories(found, lambda slug, route: shapes.get((slug, route)))
        return {each["category"]: (each["value_usd"], each["is_complete"]) for each in listed}

    assert shown() == {"lending": (7.0, True), "staking": (5.0, False)}
    found["protocols"][0]["is_complete"] = False
    assert shown() == {"lending": (None, False), "staking": (None, False)}
