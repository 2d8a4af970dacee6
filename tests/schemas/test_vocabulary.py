"""The vocabulary comes back as it was packed; anything else is refused."""

from __future__ import annotations

import pytest

from schemas.vocabulary import Slugs, is_slug, unpack


def test_it_is_read_as_it_was_written() -> None:
    slugs = Slugs(("pump-swap", "raydium-amm-v4"), ("letsbonk",))
    assert unpack(slugs.pack()) == slugs


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"{}",
        b'{"dexes":["a"]}',
        b'{"dexes":["a"],"platforms":"a"}',
        b'{"dexes":["a"],"platforms":[1]}',
        b'{"dexes":["a","No Slug"],"platforms":[]}',
    ],
)
def test_another_form_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match="no vocabulary"):
        unpack(value)


def test_slugs_are_kebab_case() -> None:
    for slug in ("pump-fun", "a", "1-dex", "x" * 64):
        assert is_slug(slug)
    for text in ("", "-", "a-", "-a", "a--b", "Pump", "a b", "a\n", "x" * 65, "é", "٣"):
        assert not is_slug(text)
