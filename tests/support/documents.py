"""The documents of the repository: their blocks, the commands in them, and what they refer to."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("schemas", "infra", "pipeline", "api", "stream_gateway", "tests")
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(path for room in ROOMS for path in (ROOT / room).rglob("*.md"))]
)

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"\s+# .*$")
_ASSIGNMENT = re.compile(r"^[A-Z][A-Z0-9_]*=")
_CODE = re.compile(r"`([^`\n]+)`")
_BETWEEN = {"|", "&&", ";", "||"}


@dataclass(frozen=True)
class Block:
    """A fenced block: its language and its text."""

    document: Path
    language: str
    text: str


@dataclass(frozen=True)
class Command:
    """One program with its arguments, as a document has it."""

    document: Path
    line: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{name(self.document)}: {' '.join(self.words)[:70]}"


def name(document: Path) -> str:
    """Return a document's path below the repository."""
    return str(document.relative_to(ROOT))


def blocks(document: Path) -> list[Block]:
    """Return the fenced blocks of a document."""
    return [Block(document, *found) for found in _BLOCK.findall(document.read_text())]


def prose(document: Path) -> str:
    """Return a document without its blocks."""
    return _BLOCK.sub("", document.read_text())


def lines(document: Path) -> list[str]:
    """Return the lines of a document's `sh` blocks."""
    found = (block.text.splitlines() for block in blocks(document) if block.language == "sh")
    return [line for block in found for line in block if line.strip()]


def commands(document: Path) -> list[Command]:
    """Return every command of a document's `sh` blocks."""
    return [Command(document, line, words) for line in lines(document) for words in split(line)]


def mentioned(document: Path) -> list[Command]:
    """Return the commands of Soltape and `make` that a document's text mentions."""
    found = [text for text in _CODE.findall(prose(document)) if re.match(r"(soltape|make) ", text)]
    return [Command(document, text, words) for text in found for words in split(text)]


def split(line: str) -> Iterator[tuple[str, ...]]:
    """Take a shell line apart: its programs, without settings before them and redirections."""
    lexer = shlex.shlex(_COMMENT.sub("", line), posix=True, punctuation_chars="|&;")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if word not in _BETWEEN:
            if words or not _ASSIGNMENT.match(word):
                words.append(word)
            continue
        for at, each in enumerate(words):
            if each == ">" or (each[:1] in "<>" and not each.endswith(">")):
                words = words[:at]
                break
        if words:
            yield tuple(words)
        words = []


def paths(document: Path) -> list[str]:
    """Return what a document's text has in backticks and looks like a file or folder."""
    endings = "py|sql|lua|toml|md|proto|yaml|js|css|json|gz|cjs|png"
    wanted = re.compile(rf"[\w.-]+(/[\w.*-]+)*(\.({endings})|/)")
    return [text for text in _CODE.findall(prose(document)) if wanted.fullmatch(text)]


def links(document: Path) -> list[str]:
    """Return the targets of a document's links and pictures."""
    return re.findall(r"\]\(([^)\s]+)\)", prose(document))


def anchors(document: Path) -> set[str]:
    """Return the anchors that GitHub gives a document's headings."""
    headings = re.findall(r"^#+ (.*)$", prose(document), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}
