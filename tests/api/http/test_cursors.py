"""Cursors come back as they went; nothing else is taken for one."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from struct import Struct

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from api.http.cursors import Place, place, seal, unseal
from api.http.errors import INVALID_CURSOR, Problem

OF = "swaps of a wallet"
u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1)
places = st.builds(Place, u64, u64, u32, u64, u64, u64)


@given(places)
def test_there_and_back(there):
    assert place(there.cursor(OF), OF) == there
    assert there.cursor(OF).isascii()
    assert len(there.cursor(OF)) <= 64


@given(places, st.integers(0), st.characters(codec="ascii"))
def test_a_changed_cursor_is_refused(there, at, other):
    cursor = there.cursor(OF)
    at %= len(cursor)
    changed = cursor[:at] + other + cursor[at + 1 :]
    try:
        found = place(changed, OF)
    except Problem:
        return
    assert (found, changed) == (there, cursor)


@given(places, st.text(), st.text())
def test_a_cursor_of_another_list_is_refused(there, one, other):
    assume(one != other)
    with pytest.raises(Problem, match="of a page of this list") as refused:
        place(there.cursor(one), other)
    assert refused.value.kind is INVALID_CURSOR


@given(places, st.integers(0), st.sampled_from("=!\n +/.%"))
def test_a_cursor_with_something_added_is_refused(there, at, added):
    cursor = there.cursor(OF)
    at %= len(cursor) + 1
    with pytest.raises(Problem):
        place(cursor[:at] + added + cursor[at:], OF)


def test_one_text_stands_for_a_place():
    cursor = seal(b"1234", OF)  # whose last character has bits to spare
    assert unseal(cursor, Struct("4s"), OF) == (b"1234",)
    last = chr(ord(cursor[-1]) + 1)
    assert urlsafe_b64decode(f"{cursor[:-1]}{last}=") == urlsafe_b64decode(f"{cursor}=")
    for other in (cursor[:-1] + last, f"{cursor}=", f"{cursor}===="):
        with pytest.raises(Problem):
            unseal(other, Struct("4s"), OF)


@given(st.text(max_size=200))
def test_text_is_no_cursor(text):
    with pytest.raises(Problem, match="must be the unchanged `next_cursor`") as refused:
        place(text, OF)
    assert refused.value.kind is INVALID_CURSOR
