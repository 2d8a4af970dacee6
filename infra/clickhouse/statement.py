"""The outline of a ClickHouse statement: verb, output format, and where inline data begins.

The engine parses the SQL; the front needs only what decides how to hand it over. Bytes in, bytes
out: the data of an INSERT follows its text in the same body and need not be text at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from infra.clickhouse.errors import Code, refusal

# One alternative a kind of token, so that words inside strings and comments are never keywords.
# Possessive: a string that is never closed must not be tried in every way.
_TOKEN: Final = re.compile(
    rb"""
    (?P<skip> \s+ | (?:--|//)[^\n]* | \#[!\ ][^\n]* | /\*.*?\*/ )
  | (?P<quoted> '(?:[^'\\]++|\\.|'')*+' | "(?:[^"\\]++|\\.|"")*+" | `(?:[^`\\]++|\\.|``)*+`
              | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$ )
  | (?P<word> [A-Za-z_][A-Za-z0-9_]* )
  | (?P<mark> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_BEFORE_DATA: Final = re.compile(rb"[ \t\f]*\r?\n?")

_WITH_RESULT: Final = frozenset(
    {"SELECT", "WITH", "FROM", "SHOW", "DESCRIBE", "DESC", "EXISTS", "EXPLAIN", "CHECK", "KILL"}
)


@dataclass(frozen=True, slots=True)
class Statement:
    """What the front knows about one statement.

    `format` is that of its FORMAT clause. `data_at` is set for an INSERT whose data follows in the
    body: `sql` then ends before FORMAT or VALUES, and the data begins at that offset.
    """

    sql: bytes
    verb: str
    format: str | None = None
    data_at: int | None = None
    has_totals: bool = False  # WITH TOTALS
    creates_temporary: bool = False  # CREATE TEMPORARY TABLE or view

    @property
    def returns_rows(self) -> bool:
        """Whether a result comes back, be it empty."""
        return self.verb in _WITH_RESULT

    @property
    def reads_only(self) -> bool:
        """Whether stopping it half-way loses nothing."""
        return self.verb in _WITH_RESULT - {"KILL"}


def outline(text: bytes) -> Statement:
    """Outline the statement that `text` holds, or begins with if it is an INSERT with data.

    Raises QueryError for more than one statement, as the server does over HTTP.
    """
    found = tokens(text)
    verb = _first_word(found)
    if verb == "INSERT":
        return _outline_insert(text, found)
    format_name: str | None = None
    has_totals = creates_temporary = ended = False
    previous = verb.encode()
    for token in found:
        word = token["word"]
        if ended:
            raise refusal(Code.SYNTAX_ERROR, "Syntax error (Multi-statements are not allowed)")
        if token["mark"] == b";":
            ended = not _only_ends(text[token.end() :])
        elif word and previous == b"FORMAT" and _ends_query(text[token.end() :]):
            format_name = word.decode()
        elif word and word.upper() == b"TOTALS":
            has_totals = True
        elif word and word.upper() == b"TEMPORARY" and previous in (b"CREATE", b"REPLACE"):
            creates_temporary = verb == "CREATE"
        previous = word.upper() if word else b""
    return Statement(
        text, verb, format_name, has_totals=has_totals, creates_temporary=creates_temporary
    )


def verb_of(text: bytes) -> str:
    """Return the first word of a statement that may be incomplete, in upper case, or ''."""
    return _first_word(tokens(text))


def split(text: bytes) -> list[bytes]:
    """Return the statements of a file of SQL, without the semicolons that end them."""
    statements = []
    start: int | None = None
    for token in tokens(text):
        if token["mark"] == b";":
            if start is not None:
                statements.append(text[start : token.start()].rstrip())
            start = None
        elif start is None:
            start = token.start()
    if start is not None:
        statements.append(text[start:].rstrip())
    return statements


def _first_word(found: Iterator[re.Match[bytes]]) -> str:
    first = next((token for token in found if token.group() != b"("), None)
    return first["word"].decode().upper() if first and first["word"] else ""


def _outline_insert(text: bytes, found: Iterator[re.Match[bytes]]) -> Statement:
    depth = 0
    naming = False  # INTO [TABLE] [FUNCTION] name[.name]: a table may be called `values`
    for token in found:
        mark, word = token["mark"], (token["word"] or b"").upper()
        if mark in (b"(", b"{"):
            depth += 1
        elif mark in (b")", b"}"):
            depth -= 1
        if word in (b"INTO", b"TABLE", b"FUNCTION"):
            naming = True
            continue
        if naming or mark == b".":
            naming = mark == b"."
            continue
        if depth or not word:
            continue
        if word in (b"SELECT", b"WITH", b"FROM", b"WATCH"):
            break
        if word == b"VALUES":
            return Statement(text[: token.start()], "INSERT", "Values", token.end())
        if word == b"FORMAT":
            name = next(found, None)
            if name is None or not name["word"]:
                break
            before_data = _BEFORE_DATA.match(text, name.end())
            assert before_data is not None, "the pattern matches the empty string"
            return Statement(
                text[: token.start()], "INSERT", name.group().decode(), before_data.end()
            )
    return Statement(text, "INSERT")


def tokens(text: bytes) -> Iterator[re.Match[bytes]]:
    """Yield what a statement consists of, without space and comments."""
    return (token for token in _TOKEN.finditer(text) if token["skip"] is None)


def _ends_query(rest: bytes) -> bool:
    """Whether a FORMAT clause may end here: nothing more, or SETTINGS."""
    following = next(tokens(rest), None)
    return following is None or following.group().upper() in (b";", b"SETTINGS")


def _only_ends(rest: bytes) -> bool:
    return all(token["mark"] == b";" for token in tokens(rest))
