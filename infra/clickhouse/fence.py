"""Keeps every statement inside the embedded engine's own tables.

The front checks each statement before it runs: no function, table engine, clause or setting that
reads or writes outside the data directory. `access` holds the engine itself to most of that, also
where a statement carries another one inside a string; only the fence knows of clauses and settings
that ask for no grant, like INTO OUTFILE. The engine's database `default` is out of bounds as well,
so that no name works here that is a file's in an engine without `access`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final

from infra.clickhouse.access import ENGINES
from infra.clickhouse.errors import Code, QueryError, refusal
from infra.clickhouse.statement import Statement, tokens

FILES_DATABASE: Final = "default"
"""The engine opens with it: there, what is not one of its tables is a file of that name."""

# Table functions that make or reshape rows, and reach nothing.
_INNER_FUNCTIONS: Final = frozenset(
    {
        *("numbers", "numbers_mt", "zeros", "zeros_mt", "primes", "null", "values", "format"),
        *("generaterandom", "generateseries", "generate_series", "view", "input"),
    }
)
_INNER_ENGINES: Final = frozenset({*map(str.lower, ENGINES), "atomic"})
_NAMES_ENGINE: Final = frozenset({"CREATE", "REPLACE", "ALTER"})
_REFUSED_VERBS: Final = frozenset({"ATTACH", "BACKUP", "RESTORE", "EXECUTE"})
_TAKES_AWAY: Final = frozenset({"DROP", "DETACH", "RENAME"})
_REFUSED_KINDS: Final = frozenset({"dictionary", "collection"})  # CREATE DICTIONARY, NAMED C.
# The last one joins a second statement to the first, of another verb.
_REFUSED_CLAUSES: Final = frozenset({("into", "outfile"), ("from", "infile"), ("parallel", "with")})
# Settings that name files or addresses, and the one that chooses another language than SQL.
_REFUSED_SETTINGS: Final = re.compile(
    r"format_schema\w*|output_format_schema|format_template_(row|resultset)|format_avro_schema\w*"
    r"|input_format_record_errors_file_path|url_base|dialect|disk|table_disk|storage_policy"
)


class Fence:
    """Checks statements of one engine; `functions` and `engines` are all that it has."""

    def __init__(self, functions: Iterable[str], engines: Iterable[str]) -> None:
        outer = {name.lower() for name in functions} - _INNER_FUNCTIONS
        self._functions = frozenset({*outer, "file", "disk"})
        self._engines = frozenset(map(str.lower, engines)) - _INNER_ENGINES

    def require_inside(
        self, statement: Statement, settings: Mapping[str, str], parameters: Mapping[str, str]
    ) -> None:
        """Raise QueryError for what reaches outside the tables, with the word that does."""
        if statement.verb in _REFUSED_VERBS:
            raise _outside(statement.verb)
        for setting in settings:
            if _REFUSED_SETTINGS.fullmatch(setting.lower()):
                raise _outside(setting)
        for value in parameters.values():  # one may replace a name: {database:Identifier}
            if value.strip("`\"'").partition(".")[0].strip("`\"'") == FILES_DATABASE:
                raise _outside(FILES_DATABASE)
        names_engine = statement.verb in _NAMES_ENGINE
        words = [*_words(statement.sql), ""]
        takes_database = statement.verb in _TAKES_AWAY and words[1].lower() == "database"
        before, engine_is_next = "", False
        for word, following in pairwise(words):
            name = word.lower()
            if (
                (following == "(" and name in self._functions)
                or (following == "." and word == FILES_DATABASE)
                or (before in ("use", "database") and word == FILES_DATABASE)
                or (takes_database and word in (FILES_DATABASE, "{"))  # connections begin in it
                or (before, name) in _REFUSED_CLAUSES
                or (following == "=" and _REFUSED_SETTINGS.fullmatch(name))
                or (engine_is_next and name in self._engines)
                or (names_engine and name in _REFUSED_KINDS and before in _BEFORE_KIND)
            ):
                raise _outside(word)
            engine_is_next = names_engine and (name == "engine" or (engine_is_next and word == "="))
            before = name


_BEFORE_KIND: Final = frozenset({"create", "replace", "temporary", "named", "alter"})


def _words(sql: bytes) -> Iterator[str]:
    """Yield names without their quotes, and marks; for each string one quote.

    Raises QueryError for what the engine may read differently: a quoted name with an escape in it
    (`fil\x65` is `file`), `$` (in a name, or around a string), and a character beyond ASCII outside
    quotes (spaces and quotes of Unicode count as such).
    """
    for token in tokens(sql):
        text = token.group().decode(errors="replace")
        if token["quoted"] is None:
            if text > "~" or text < " ":
                raise _unreadable(text)
            yield text
        elif text[0] == "$":
            raise _unreadable(text)
        elif text[0] == "'":
            yield "'"  # as a table it is one of the current database
        elif "\\" in text:
            raise _unreadable(text)
        else:
            yield text[1:-1]


def _unreadable(text: str) -> QueryError:
    return refusal(
        Code.SYNTAX_ERROR,
        f"The embedded engine accepts no {text[:40]!r} outside quotes, and no escape in a name",
    )


def _outside(word: str) -> QueryError:
    return refusal(
        Code.ACCESS_DENIED,
        f"{word}: the embedded engine reaches its own tables only, no file, address or program",
    )
