"""An answer that is cut is small enough, keeps its shape, and says what was left out."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from api.mcp.cutting import cut

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
