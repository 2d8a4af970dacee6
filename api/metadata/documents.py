"""What a token's JSON says of it, as data: bounded, without what acts on those who read it.

Sources: Metaplex token standard (name, symbol, description, image, external_url, extensions) and
what launchpads write (twitter, telegram, website, discord beside it).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from api.metadata.failures import Failed

MAX_NAME: Final = 64
MAX_SYMBOL: Final = 32
MAX_DESCRIPTION: Final = 1_000
MAX_LINK: Final = 300
MAX_IMAGE_URI: Final = 2_048
# What follows is in `lib/format.js` of the dashboard, too; `tests/api/metadata/foreign_texts.json`
# holds both to the same. Characters that nobody sees are named: how Unicode classes them depends on
# the version that a Python has.
_ACTING: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Letters that nobody sees: fillers, a grapheme joiner, blanks of Braille and of hieroglyphs.
_SPACES: Final = re.compile(
    r"[\s\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufffc\U00013441\U00013442\U00016fe4"
    r"\U0001d159]+"
)
# Variation selectors: 256 of them, so each carries a byte that nobody sees. And marks that turn,
# thicken or join letters which they are not made for.
_HIDDEN: Final = re.compile(
    r"[\u180b-\u180d\u180f\u2d7f\ufe00-\ufe0f\U0001107f\U00013440\U0001bc9d\U000e0100-\U000e01ef]"
)
_EMOJI_STYLE: Final = "\ufe0f"  # the selector that shows a symbol as an emoji; it stays there
_JOINER: Final = "\u200d"
_NON_JOINER: Final = "\u200c"
# Blocks with symbols that the two of emoji act on. Of digits the style is left out: a keycap shows
# without it.
_SYMBOL: Final = re.compile(
    r"[\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf"
    r"\u2934\u2935\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
)
# Letters of Arabic, and those of them that join the next one: only there a non-joiner is seen.
_ARABIC: Final = re.compile(r"[\u0620-\u063f\u0641-\u064a\u066e-\u06d3\u06d5\u0750-\u077f]")
_JOINS_NO_OTHER: Final = re.compile(
    r"[\u0621-\u0625\u0627\u0629\u062f-\u0632\u0648\u0671-\u0677\u0688-\u0699\u06c0\u06c3-\u06cb"
    r"\u06cd\u06cf\u06d2\u06d3\u06d5]"
)
_MARKS_A_LETTER: Final = 5
"""Combining marks: scripts need up to five (Burmese, Tibetan); more carry what nobody reads."""
_PILED: Final = 2
"""Of those above a letter, and of those around it, as of Latin: more cover their neighbours."""
_PILES_FROM: Final = 200  # of canonical combining classes: below are those of single scripts
_ABOVE: Final = range(221, 231)
_VIRAMA: Final = 9  # a mark that kills a vowel, and joins consonants
_HOST: Final = re.compile(r"[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})+(:\d{1,5})?")
_HANDLE: Final = re.compile(r"@?([A-Za-z0-9_]{1,32})")
_AT: Final = {"twitter": "https://x.com/", "telegram": "https://t.me/"}
_LINKS: Final = {
    "website": ("website", "external_url"),
    "twitter": ("twitter", "x"),
    "telegram": ("telegram",),
    "discord": ("discord",),
}


@dataclass(frozen=True, slots=True)
class Document:
    """What is taken from a token's JSON; what it does not say, or not so, is None."""

    name: str | None
    symbol: str | None
    description: str | None
    website: str | None
    twitter: str | None
    telegram: str | None
    discord: str | None
    image_uri: str | None


def read_document(body: bytes) -> Document:
    """Return what a token's JSON says; raises Failed."""
    try:
        found = orjson.loads(body.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise Failed("not_json", "it is no JSON object")
    image = found.get("image")
    links = {name: _link(found, name) for name in _LINKS}
    return Document(
        name=plain(found.get("name"), MAX_NAME),
        symbol=plain(found.get("symbol"), MAX_SYMBOL),
        description=plain(found.get("description"), MAX_DESCRIPTION),
        image_uri=image.strip()
        if isinstance(image, str) and 0 < len(image.strip()) <= MAX_IMAGE_URI
        else None,
        **links,
    )


def plain(text: object, longest: int) -> str | None:
    """Return a text without what controls, hides or turns text, cut; None where nothing is left."""
    if not isinstance(text, str):
        return None
    kept: list[str] = []
    last, base, joiner = "space", "", ""
    marks: Counter[str] = Counter()
    for character in _SPACES.sub(" ", text[: 4 * longest]):
        kind = _kind(character)
        match kind:
            case "hidden":
                continue
            case "space" if last == "space":
                continue
            case "style" if last != "symbol":
                continue
            case "joiner" if last == "virama":
                pass
            case "joiner":
                joiner = "" if last == "joiner" else character
                continue
            case "mark" | "virama" | "above" | "around":
                if last == "space" or marks.total() >= _MARKS_A_LETTER:
                    continue
                if kind in ("above", "around") and marks[kind] >= _PILED:
                    continue
                marks[kind] += 1
            case _:
                marks.clear()
        if joiner and _acts(joiner, last, base, kind, character):
            kept.append(joiner)
        kept.append(character)
        last, joiner = kind, ""
        if kind in ("letter", "symbol", "space"):
            base = character
    found = "".join(kept)[:longest]
    while found and (found[-1] == " " or _is_loose(found)):
        found = found[:-1]
    return found or None


def _acts(joiner: str, last: str, base: str, kind: str, character: str) -> bool:
    """Return whether a joiner between what is kept last and the next character changes them."""
    if joiner == _JOINER:
        if kind == "virama":  # as in Bengali and Kannada
            return last == "letter"
        return kind == "symbol" and last in ("symbol", "style")
    joins = _ARABIC.match(base) and not _JOINS_NO_OTHER.match(base)
    return bool(joins and kind == "letter" and _ARABIC.match(character))


def _is_loose(text: str) -> bool:
    """Return whether a text ends with a joiner that lost to the cut what it acts on."""
    return _kind(text[-1]) == "joiner" and _kind(text[-2:-1] or " ") != "virama"


@lru_cache(4_096)
def _kind(character: str) -> str:
    if character == " ":
        return "space"
    if character in (_JOINER, _NON_JOINER):
        return "joiner"
    if character == _EMOJI_STYLE:
        return "style"
    category = unicodedata.category(character)
    if category in _ACTING or _HIDDEN.match(character):
        return "hidden"
    if category[0] == "M":
        place = unicodedata.combining(character)
        if place < _PILES_FROM:
            return "virama" if place == _VIRAMA else "mark"
        return "above" if place in _ABOVE else "around"
    return "symbol" if _SYMBOL.match(character) else "letter"


def web_link(text: object) -> str | None:
    """Return an http or https address as it may be linked to; None for anything else."""
    if not isinstance(text, str):
        return None
    address = text.strip()
    if not address.isascii() or not address.isprintable() or len(address) > MAX_LINK:
        return None
    if any(character in ' \\"<>`' for character in address):
        return None
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not _HOST.fullmatch(parts.netloc):
        return None
    return address


def _link(found: dict[str, Any], name: str) -> str | None:
    extensions = found.get("extensions")
    for source in (found, extensions if isinstance(extensions, dict) else {}):
        for field in _LINKS[name]:
            text = source.get(field)
            if link := web_link(text):
                return link
            if name in _AT and isinstance(text, str) and (handle := _HANDLE.fullmatch(text)):
                return _AT[name] + handle[1]
    return None
