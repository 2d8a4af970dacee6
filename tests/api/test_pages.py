"""Cursors come back as they went; nothing else is taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.errors import INVALID_CURSOR, Problem
from api.pages import Place, place

u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
places = st.builds(Place, u64, u64, u32, u64, u64, u64)


@given(places)
def test_there_and_back(there):
    assert place(there.cursor()) == there
    assert there.cursor().isascii()
    assert len(there.cursor()) <= 64


@given(places, st.integers(0), st.characters(codec="ascii"))
def test_a_changed_cursor_is_refused(there, at, other):
    cursor = there.cursor()
    at %= len(cursor)
    changed = cursor[:at] + other + cursor[at + 1 :]
    try:
        found = place(changed)
    except Problem:
        return
    assert found == there


@given(st.text(max_size=200))
def test_text_is_no_cursor(text):
    with pytest.raises(Problem, match="as it was") as refused:
        place(text)
    assert refused.value.kind is INVALID_CURSOR
