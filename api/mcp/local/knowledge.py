"""The product's own documents, to be searched: paths, fields, channels, topics, protocols, FIFO.

An index in memory (SQLite's FTS5) over texts that come with the package: no store is needed. The
documents are those that clients read: the guide of REST, the WebSocket protocol, Kafka for
subscribers, and those of this folder.
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
OF_OTHER_ROOMS: Final = (
    ("stream_gateway", "PROTOCOL.md"),
    ("infra.kafka", "SUBSCRIBERS.md"),
)
"""Read as text, by the name of the package that they come with."""
GUIDE: Final = ("api.docs", "guide.md")
MOST_WORDS: Final = 16
MOST_CHARACTERS: Final = 1_500  # of one passage
_WORD: Final = re.compile(r"\w+")
_HEADING: Final = re.compile(r"#+ +(.+)")
_FENCE: Final = re.compile(r"```(\w*)")
_EMPTY_WORDS: Final = frozenset(
    [
        *("a", "an", "and", "are", "as", "at", "be", "by", "can", "do", "does", "for", "from"),
        *("how", "i", "in", "is", "it", "me", "my", "of", "on", "or", "that", "the", "to"),
        *("what", "when", "where", "which", "with"),
    ]
)


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document."""

    kind: str  # path, field, protocol, document, program
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
        found = _WORD.findall(query)
        words = [each for each in found if each.lower() not in _EMPTY_WORDS] or found
        if not words:
            return []
        del words[MOST_WORDS:]
        quoted = [f'"{word}"' for word in words]  # never an operator
        for asked in (" ".join(quoted), " OR ".join(quoted)):
            rows = self._index.execute(
                "SELECT kind, title, text FROM passages WHERE passages MATCH ? "
                # A thousand fields must not hide a path, nor a program what is said about it; the
                # best rank is the most negative.
                "ORDER BY bm25(passages, 0.0, 6.0, 1.0) * CASE kind WHEN 'field' THEN 0.3 "
                "WHEN 'program' THEN 0.3 WHEN 'path' THEN 1.5 ELSE 1.0 END LIMIT ?",
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
    for text in _documents():
        yield from _sections(text)
    yield from (
        Passage("document", line.partition(":")[0].removeprefix("- "), line)
        for line in GLOSSARY.splitlines()
        if line.startswith("- ")
    )


def _documents() -> Iterator[str]:
    """Yield texts in Markdown that begin with their title."""
    package, name = GUIDE
    yield "# Guide of REST\n" + files(package).joinpath(name).read_text(encoding="utf-8")
    for package, name in OF_OTHER_ROOMS:
        yield files(package).joinpath(name).read_text(encoding="utf-8")
    for file in sorted(files(__package__).joinpath(FOLDER).iterdir(), key=lambda each: each.name):
        yield file.read_text(encoding="utf-8")


def _sections(text: str) -> Iterator[Passage]:
    """Yield a Markdown document by its headings: what is said in pieces, and each program.

    A passage's title begins with the document's.
    """
    document = title = ""
    said: list[str] = []
    program: list[str] | None = None
    for line in text.splitlines():
        fence = _FENCE.fullmatch(line)
        if program is not None:
            if fence is None:
                program.append(line)
            else:
                yield from _pieces("program", title, program)
                program = None
        elif fence is not None and fence[1]:  # messages have no language
            program = []
        elif heading := _HEADING.fullmatch(line):
            yield from _pieces("document", title, said)
            title = f"{document}: {heading[1]}" if document else heading[1]
            document = document or heading[1]
            said = []
        else:
            said.append(line)
    yield from _pieces("document", title, said)


def _pieces(kind: str, title: str, lines: list[str]) -> Iterator[Passage]:
    """Yield some lines in pieces that a search shows whole."""
    piece = ""
    for line in lines:
        if len(piece) + len(line) >= MOST_CHARACTERS and piece.strip():
            yield Passage(kind, title, piece.strip())
            piece = ""
        piece += f"{line}\n"
    if piece.strip():
        yield Passage(kind, title, piece.strip())
