"""Keys as texts: what is one, what is none and why, and what may be shown."""

import re
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.access import keys
from api.access.keys import KeyMalformed, Record, new, parse
from infra.credentials import hide

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
KEY = new()


def test_a_key_is_found_by_secret_scanners_and_known_by_its_hash():
    assert re.fullmatch(r"soltape_[0-9A-Za-z]{39}", KEY)
    assert parse(KEY) == sha256(KEY.encode()).hexdigest()


def test_no_two_are_alike_and_all_have_one_length():
    made = {new() for _ in range(500)}
    assert len(made) == 500
    assert {len(each) for each in made} == {keys.LENGTH}
    # 192 bits: the secret's first characters vary as well, so none of them is padding.
    assert len({each[len(keys.PREFIX) : len(keys.PREFIX) + 3] for each in made}) > 100


def test_the_smallest_and_the_greatest_secret_are_keys(monkeypatch):
    for number in (0, 2**keys.SECRET_BITS - 1):
        monkeypatch.setattr(keys.secrets, "randbits", lambda _, number=number: number)
        assert parse(new())


@given(st.data())
def test_any_character_changed_is_refused(data):
    at = data.draw(st.integers(0, keys.LENGTH - 1))
    other = data.draw(st.characters().filter(lambda each: each != KEY[at]))
    with pytest.raises(KeyMalformed):
        parse(KEY[:at] + other + KEY[at + 1 :])


def test_every_letter_or_digit_in_every_place_is_refused_by_the_checksum():
    for at in range(len(keys.PREFIX), keys.LENGTH):
        for other in ALPHABET.replace(KEY[at], ""):
            with pytest.raises(KeyMalformed, match="checksum"):
                parse(KEY[:at] + other + KEY[at + 1 :])


@given(st.integers(8, keys.LENGTH - 2))
def test_neighbours_that_were_swapped_are_refused(at):
    swapped = KEY[:at] + KEY[at + 1] + KEY[at] + KEY[at + 2 :]
    if swapped != KEY:
        with pytest.raises(KeyMalformed, match="checksum"):
            parse(swapped)


@given(st.text(max_size=80))
def test_no_text_is_a_key(text):
    with pytest.raises(KeyMalformed):
        parse(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "begins with soltape_"),
        ("sk_" + KEY[8:], "begins with soltape_"),
        ("Soltape_" + KEY[8:], "begins with soltape_"),
        (" " + KEY, "begins with soltape_"),
        (KEY[:-1], "has 47 characters, got 46"),
        (KEY + "\n", "has 47 characters, got 48"),
        (KEY * 1000, "has 47 characters, got 47000"),
        (KEY[:20] + "-" + KEY[21:], "only letters and digits"),
        (KEY[:20] + "é" + KEY[21:], "only letters and digits"),
        (KEY[:20] + "²" + KEY[21:], "only letters and digits"),
        (KEY[:-6] + "000000", "checksum"),
    ],
    ids=range(11),  # the texts are others each time, and the ids of tests may not be
)
def test_what_is_wrong_is_said_and_the_text_is_not(text, reason):
    with pytest.raises(KeyMalformed, match=reason) as raised:
        parse(text)
    assert KEY[8:20] not in str(raised.value)


def test_what_is_shown_has_four_characters_of_the_key():
    record = Record(parse(KEY), "name", "free", "", KEY[-4:], 0)
    assert record.display == f"soltape_...{KEY[-4:]}"
    assert record.id == sha256(KEY.encode()).hexdigest()[:12]
    assert KEY[8:] not in repr(record)


def test_a_key_that_gets_into_a_log_line_is_hidden():
    assert hide(f"GET /api/{KEY}?x={KEY} failed") == "GET /api/(hidden)?x=(hidden) failed"


@pytest.mark.parametrize("words", ["line\nbreak", "\x1b[31mred", "tab\t", "x" * 101, "\u202e"])
def test_names_that_would_spoil_a_line_are_refused(words):
    with pytest.raises(ValueError, match=r"cannot be shown|longer than 100"):
        keys.check_words(words)
