"""What strangers write is taken as bounded text, and links only of the web."""

from __future__ import annotations

import unicodedata

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.metadata.documents import plain, read_document, web_link
from api.metadata.failures import Failed


def test_a_document_as_launchpads_write_it():
    found = read_document(
        orjson.dumps(
            {
                "name": "Some Coin",
                "symbol": "SOME",
                "description": "first line\nsecond",
                "image": " https://images.example/1.png ",
                "showName": True,
                "twitter": "https://x.com/some",
                "telegram": "@some_coin",
                "website": "https://some.example",
            }
        )
    )
    assert (found.name, found.symbol) == ("Some Coin", "SOME")
    assert found.description == "first line second"
    assert found.image_uri == "https://images.example/1.png"
    assert found.twitter == "https://x.com/some"
    assert found.telegram == "https://t.me/some_coin"
    assert found.website == "https://some.example"
    assert found.discord is None


def test_links_of_extensions_and_external_url():
    found = read_document(
        orjson.dumps(
            {
                "external_url": "https://outer.example/",
                "extensions": {"twitter": "@inner", "discord": "https://discord.gg/a"},
            }
        )
    )
    assert found.website == "https://outer.example/"
    assert found.twitter == "https://x.com/inner"
    assert found.discord == "https://discord.gg/a"


def test_texts_of_other_kinds_are_left_out():
    found = read_document(
        orjson.dumps(
            {"name": 5, "symbol": ["x"], "description": None, "image": {"a": 1}, "extensions": []}
        )
    )
    assert {getattr(found, name) for name in found.__slots__} == {None}


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b'"x"', b"<html>", b"{", b'{"a":"\xff"}', b'{"a":"\\ud800"}',
     b"[" * 60_000, b'{"a":' * 10_000],
)  # fmt: skip
def test_what_is_no_json_object(body):
    with pytest.raises(Failed) as caught:
        read_document(body)
    assert caught.value.reason == "not_json"


def test_what_acts_on_readers_is_taken_out():
    hostile = (
        "\u202eevil\u202c\u2066a\u2069\u200f\u200b\ufeff\x00\x1b[31m\x85\u2028b\U000e0041\ue000"
    )
    assert plain(hostile, 64) == "evila[31m b"
    assert plain("\u200d" * 3, 64) == "\u200d" * 3
    assert plain("a" * 100, 64) == "a" * 64
    assert plain(" \n\t", 64) is None


@given(st.text(), st.integers(1, 50))
def test_any_text_comes_out_bounded(text, longest):
    found = plain(text, longest)
    if found is not None:
        assert 0 < len(found) <= longest
        assert not {unicodedata.category(each) for each in found} & {"Cc", "Cs", "Zl", "Zp"}
        assert not {"\u202a", "\u202e", "\u2066", "\u2067"} & set(found)


@pytest.mark.parametrize(
    "text",
    ["javascript:alert(1)", "JavaScript:alert(1)", "data:text/html,x", "//some.example",
     "https://user@some.example/", "https://", "https://localhost/", "https://some.example\\x",
     'https://some.example/"><script>', "https://some.example/ x",
     "https://some.example/\u202e", "https://s\u00f6me.example/", "vbscript:x",
     "https://some.example/" + "a" * 300, "https://[::1]/", None, 5, {"a": 1}],
)  # fmt: skip
def test_what_is_no_link(text):
    assert web_link(text) is None
