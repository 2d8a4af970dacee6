"""An answer that is cut is small enough, keeps its shape, and says what was left out."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from api.mcp.cutting import MOST_BYTES, cut

ENTRIES = st.lists(st.dictionaries(st.text(max_size=5), st.integers(0, 10**6), max_size=4))
ANSWERS = st.fixed_dictionaries(
    {"wallet": st.text(max_size=44), "positions": ENTRIES, "inner": st.fixed_dictionaries(
        {"errors": ENTRIES, "sum": st.integers(0, 10**6) | st.none()}
    )}
)  # fmt: skip


def at(answer: Any, path: str) -> Any:
    for name in path.split("."):
        answer = answer[name]
    return answer


@given(ANSWERS, st.integers(150, 3_000))
def test_lists_lose_their_ends_and_nothing_else_changes(answer, most_bytes) -> None:
    shown, shortened = cut(orjson.dumps(answer), most_bytes)
    lists = ("positions", "inner.errors")
    by_path = {each["list"]: each for each in shortened}
    assert set(by_path) <= set(lists)
    for path in lists:
        whole, part = at(answer, path), at(shown, path)
        assert part == whole[: len(part)]
        if path in by_path:
            assert by_path[path] == {"list": path, "shown": len(part), "of": len(whole)}
            assert 1 <= len(part) < len(whole)
        else:
            assert len(part) == len(whole)
    assert (shown["wallet"], shown["inner"]["sum"]) == (answer["wallet"], answer["inner"]["sum"])
    is_small = len(orjson.dumps(shown)) <= most_bytes
    assert is_small or all(len(at(shown, path)) <= 1 for path in lists)


def test_an_answer_that_fits_is_whole() -> None:
    body = orjson.dumps({"positions": [1, 2, 3]})
    assert cut(body, len(body)) == ({"positions": [1, 2, 3]}, [])
    assert cut(body, len(body) - 1)[1] == [{"list": "positions", "shown": 2, "of": 3}]


def test_of_two_lists_the_longer_one_is_cut() -> None:
    answer = {"short": [1] * 5, "long": ["x" * 50] * 100}
    shown, shortened = cut(orjson.dumps(answer), 2_000)
    assert shown["short"] == answer["short"]
    assert [each["list"] for each in shortened] == ["long"]
    assert len(orjson.dumps(shown)) <= 2_000


def test_an_entry_of_a_thousand_others_leaves_room_for_its_neighbours() -> None:
    def token(number: int, accounts: int) -> dict[str, Any]:
        of = [{"account": f"{each:044d}", "amount_raw": "1"} for each in range(accounts)]
        return {"mint": f"{number:044d}", "accounts": of}

    tokens = [token(0, 1), token(1, 2_000), *(token(number, 1) for number in range(2, 20))]
    shown, shortened = cut(orjson.dumps({"tokens": tokens}))
    assert len(orjson.dumps(shown)) <= MOST_BYTES
    [report] = shortened
    part = shown["tokens"][1]["accounts"]
    assert report == {"list": "tokens.1.accounts", "shown": len(part), "of": 2_000}
    assert len(part) > 50
    assert part == tokens[1]["accounts"][: len(part)]
    assert [*shown["tokens"][:1], *shown["tokens"][2:]] == [*tokens[:1], *tokens[2:]]


def test_of_an_entry_that_goes_no_list_is_reported() -> None:
    entries = [{"text": "x" * 900}, {"inner": [1] * 2_000}]
    shown, shortened = cut(orjson.dumps({"entries": entries}), 1_000)
    assert shown == {"entries": entries[:1]}
    assert shortened == [{"list": "entries", "shown": 1, "of": 2}]
