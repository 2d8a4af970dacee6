"""Lines of files that others wrote."""

import io

import pytest

from schemas import json_lines
from schemas.json_lines import numbered_lines, parse_line


def test_blank_lines_are_counted_but_not_given():
    assert list(numbered_lines(io.BytesIO(b"1\n\n \n2"))) == [(1, b"1\n"), (4, b"2")]


@pytest.mark.parametrize("end", [b"", b"\n3\n"])
def test_a_line_too_long_is_refused_and_held_only_in_part(monkeypatch, end):
    monkeypatch.setattr(json_lines, "MAX_LINE_BYTES", 10)
    (first, long, *after) = numbered_lines(io.BytesIO(b"1\n" + b"2" * 35 + end))
    assert first == (1, b"1\n")
    assert long == (2, b"2" * 11)
    assert after == ([(3, b"3\n")] if end else [])
    with pytest.raises(ValueError, match="longer than"):
        parse_line(long[1])


def test_a_line_of_the_greatest_length_is_read(monkeypatch):
    monkeypatch.setattr(json_lines, "MAX_LINE_BYTES", 10)
    (line,) = numbered_lines(io.BytesIO(b"123456789\n"))
    assert parse_line(line[1]) == 123456789
