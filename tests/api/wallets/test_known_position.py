"""A position that was read before is answered as one that was read now."""

from __future__ import annotations

from dataclasses import replace

import orjson
from hypothesis import given
from hypothesis import strategies as st

from api.tokens.facts import facts
from api.tokens.reader import STALE_AFTER_MS, Token
from api.wallets.figures import position_answer, valued
from api.wallets.known_position import KnownPosition, KnownPositions
from schemas.positions import Position, pack_position
from schemas.prices import LastPrice

NOW_MS = 1_763_700_000_000
KNOWN = KnownPositions()
POSITION = Position(held_raw=7, held_known_raw=5, bought_raw=9, bought_lamports=3, buys=1)


def asked(decimals: int) -> bytes:
    return orjson.dumps(
        {
            "status": "found",
            "asked_ms": 1,
            "name": "Coin",
            "symbol": "",
            "uri": "",
            "decimals": decimals,
            "supply_raw": None,
            "token_program": "",
        }
    )


def token(mint: str, decimals: int | None, price_sol: float | None, time_ms: int) -> Token:
    price = None if price_sol is None else LastPrice(price_sol, 150 * price_sol, time_ms, 5, "p")
    about = facts(mint, None, None if decimals is None else asked(decimals))
    return Token(mint, about, None, price, "live", b"")


def record(position: Position) -> KnownPosition:
    return KNOWN.unpack(pack_position(position, b""))


TOKENS = st.builds(
    token,
    st.sampled_from(["a", "b"]),
    st.sampled_from([None, 6, 9]),
    st.sampled_from([None, 0.5, 2.0]),
    st.sampled_from([NOW_MS, NOW_MS - STALE_AFTER_MS]),
)


@given(st.lists(st.tuples(TOKENS | st.none(), st.integers(0, 1), st.booleans()), max_size=8))
def test_answers_do_not_depend_on_earlier_ones(steps: list[tuple[Token | None, int, bool]]) -> None:
    """Each token twice, as the stores may say the same again, at a clock that goes on."""
    for about, minutes, is_sold in steps:
        position = replace(POSITION, held_raw=0, held_known_raw=0) if is_sold else POSITION
        mint, now_ms = "a" if about is None else about.mint, NOW_MS + 60_000 * minutes
        for _ in range(2):
            known = record(position)
            assert known.valued(about) == valued(position, about)
            figures = orjson.loads(orjson.dumps(known.answer(mint, about, now_ms)))
            assert figures == position_answer(mint, position, about, now_ms)


def test_the_same_record_is_read_and_answered_once() -> None:
    about = token("a", 6, 0.5, NOW_MS)
    known = record(POSITION)
    assert record(POSITION) is known
    figures = known.answer("a", about, NOW_MS)
    assert record(POSITION).answer("a", about, NOW_MS) is figures
    assert known.answer("b", about, NOW_MS) is not figures  # equal records of two tokens
    about.price = LastPrice(0.75, 110.0, NOW_MS, 6, "p")
    dearer = orjson.loads(orjson.dumps(known.answer("b", about, NOW_MS)))
    assert dearer["price_sol"] == 0.75
