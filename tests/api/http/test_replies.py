"""What identifies an answer, and which clients have it already."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from fastapi import Request
from hypothesis import given
from hypothesis import strategies as st

from api.http.assets import Asset
from api.http.encoding import encode
from api.http.replies import send


def request(*tags: bytes) -> Request:
    headers = [(b"if-none-match", tag) for tag in tags]
    return Request({"type": "http", "method": "GET", "headers": headers})


def at(slot: int | None, **facts: Any) -> dict[str, Any]:
    time_ms = None if slot is None else 1_763_700_000_000 + 400 * slot
    return {**facts, "as_of_slot": slot, "as_of_ms": time_ms, "page": {"has_more": False}}


def test_the_same_at_a_later_slot_is_what_the_caller_has() -> None:
    before = encode(at(341_204_118, price=1.5))
    later = at(341_204_119, price=1.5)
    again = send(request(before.etag), encode(later))
    assert (again.status_code, again.body) == (304, b"")
    assert (b"etag", before.etag) in again.raw_headers
    assert orjson.loads(encode(later).body) == later  # sent, to clients that lack it
    assert send(request(before.etag), encode(at(341_204_118, price=1.6))).status_code == 200
    assert encode(at(None, price=1.5)).etag == before.etag


def test_equal_answers_are_recognized_where_the_slot_comes_first() -> None:
    def first(slot: int, price: float) -> dict[str, Any]:
        return {"as_of_slot": slot, "as_of_ms": 400 * slot, "price": price}

    assert encode(first(1, 1.5)).etag == encode(first(22, 1.5)).etag
    assert encode(first(1, 1.5)).etag != encode(first(1, 1.6)).etag


@given(st.text(), st.integers(0, 2**40))
def test_no_text_is_taken_for_the_figures(text: str, slot: int) -> None:
    named = f'x","as_of_slot":1,"as_of_ms":{slot}{text}'
    tags = {
        encode(at(slot, name=named)).etag,
        encode(at(slot, name=f"{named}0")).etag,
        encode({"name": named}).etag,
        encode({"name": f"{named}0"}).etag,
    }
    assert len(tags) == 4


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ([b"%b"], 304),
        ([b"W/%b"], 304),
        ([b"*"], 304),
        ([b" * "], 304),
        ([b'"other", W/"*", W/%b'], 304),
        ([b'%b,W/"other"'], 304),
        ([b'"other"', b"%b"], 304),
        ([], 200),
        ([b""], 200),
        ([b'"other", W/"another"'], 200),
        ([b'"*"'], 200),
    ],
)
def test_a_client_that_has_it_says_so_in_any_way_of_http(sent: list[bytes], status: int) -> None:
    encoded = encode(at(1))
    tag = encoded.etag.removeprefix(b"W/")
    assert (
        send(request(*(each.replace(b"%b", tag) for each in sent)), encoded).status_code == status
    )
    asset = Asset(b"body", "text/css")
    tag = dict(asset.respond(request()).raw_headers)[b"etag"].removeprefix(b"W/")
    asked = request(*(each.replace(b"%b", tag) for each in sent))
    assert asset.respond(asked).status_code == status


def test_a_part_of_the_tag_is_another_tag() -> None:
    encoded = encode(at(1))
    tag = encoded.etag[3:-1]
    for other in (tag, b'"%b"' % tag[1:], b'"x%b"' % tag, b'"%bx"' % tag):
        assert send(request(other), encoded).status_code == 200
