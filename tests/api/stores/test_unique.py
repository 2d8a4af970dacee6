"""Rows that may be there twice: each once, whatever the limit, and no more asked than needed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from api.stores.unique import read_unique


class Table:
    """Rows by descending place, as a query returns them."""

    def __init__(self, places):
        self.places = sorted(places, reverse=True)
        self.asked = []

    async def ask(self, before, limit):
        self.asked.append(limit)
        return [{"at": at} for at in self.places if at < before][:limit]


@given(st.lists(st.integers(0, 30)), st.integers(1, 40), st.integers(0, 31))
async def test_each_once(places, most, before):
    table = Table(places)
    rows = await read_unique(table.ask, lambda row: row["at"], before, most)
    expected = sorted({at for at in places if at < before}, reverse=True)
    assert [row["at"] for row in rows] == expected[:most]
    assert all(0 < limit <= most for limit in table.asked)


async def test_one_question_where_nothing_is_twice():
    table = Table(range(100))
    assert len(await read_unique(table.ask, lambda row: row["at"], 50, 20)) == 20
    assert table.asked == [20]
    assert len(await read_unique(table.ask, lambda row: row["at"], 10, 20)) == 10
    assert table.asked == [20, 20]
