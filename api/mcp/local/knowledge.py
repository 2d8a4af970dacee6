"""The product's own documents, to be searched: paths, fields, channels, topics, protocols, FIFO.

An index in memory (SQLite's FTS5) over texts that come with the package: no store is needed.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from api.mcp.words import GLOSSARY
from schemas.protocols import registry

FOLDER: Final = "documents"
MOST_WORDS: Final = 16
MOST_CHARACTERS: Final = 1_500  # of one passage
_WORD: Final = re.compile(r"\w+")
_HEADING: Final = re.compile(r"^#+ +(.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document."""

    kind: str  # path, field, protocol, document
    title: str
    text: str


class Knowledge:
    """Passages by the words in them."""

    def __init__(self, passages: Iterator[Passage]) -> None:
        self._index = sqlite3.connect(":memory:", check_same_thread=False)
        self._index.execute(
            "CREATE VIRTUAL TABLE passages USING fts5(kind, title, text, tokenize='porter')"
        )
        self._index.executemany(
            "INSERT INTO passages VALUES (?, ?, ?)",
            ((each.kind, each.title, each.text) for each in passages),
        )

    def search(self, query: str, limit: int) -> list[Passage]:
        """Return the passages that fit best, best first: all words of a query, else any of them."""
        words = _WORD.findall(query)[:MOST_WORDS]
        if not words:
            return []
        quoted = [f'"{word}"' for word in words]  # never an operator
        for asked in (" ".join(quoted), " OR ".join(quoted)):
            rows = self._index.execute(
                "SELECT kind, title, text FROM passages WHERE passages MATCH ? "
                # A thousand fields must not hide a path; the best rank is the most negative.
                "ORDER BY bm25(passages, 0.0, 6.0, 1.0) "
                "* CASE kind WHEN 'field' THEN 0.3 WHEN 'path' THEN 1.5 ELSE 1.0 END LIMIT ?",
                (asked, limit),
            ).fetchall()
            if rows:
                return [Passage(kind, title, text[:MOST_CHARACTERS]) for kind, title, text in rows]
        return []


def passages(document: dict[str, Any]) -> Iterator[Passage]:
    """Yield all there is to know; `document` is the OpenAPI document of REST."""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            parameters = "\n".join(
                f"{each['name']}: {each.get('description', '')}"
                for each in operation.get("parameters", ())
                if "name" in each  # others are headers that all paths share
            )
            about = f"{operation.get('summary', '')}\n{operation.get('description', '')}"
            yield Passage("path", f"{method.upper()} {path}", f"{about}\n{parameters}")
    for name, schema in document["components"]["schemas"].items():
        for field, facts in schema.get("properties", {}).items():
            if about := facts.get("description"):
                yield Passage("field", f"{field} ({name})", about)
    for slug, protocol in registry.SLUGS.items():
        for route in protocol.routes:
            path = f"/api/wallets/{{wallet}}/{slug}/{route.path}"
            yield Passage("protocol", f"{protocol.name}: {path}", route.about)
    for file in sorted(files(__package__).joinpath(FOLDER).iterdir(), key=lambda each: each.name):
        yield from _sections(file.read_text(encoding="utf-8"))
    yield from (
        Passage("document", line.partition(":")[0].removeprefix("- "), line)
        for line in GLOSSARY.splitlines()
        if line.startswith("- ")
    )


def _sections(text: str) -> Iterator[Passage]:
    """Yield a Markdown document by its headings; a section's title begins with the document's."""
    _, *parts = _HEADING.split(text)
    document = parts[0]
    for heading, body in zip(parts[::2], parts[1::2], strict=True):
        if body.strip():
            yield Passage("document", f"{document}: {heading}", body.strip())
