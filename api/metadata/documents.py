"""What a token's JSON says of it, as data: bounded, without what acts on those who read it.

Sources: Metaplex token standard (name, symbol, description, image, external_url, extensions) and
what launchpads write (twitter, telegram, website, discord beside it).
"""

from __future__ import annotations

import re
import unicodedata
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
_ACTING: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
# Letters that nobody sees: fillers, a grapheme joiner, a blank of Braille. They become spaces, as
# on the dashboard (`lib/format.js`).
_SPACES: Final = re.compile(
    r"[\s\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufffc\U00016fe4\U0001d159]+"
)
# Variation selectors: 256 of them, so each carries a byte that nobody sees.
_SELECTORS: Final = re.compile(r"[\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_EMOJI_STYLE: Final = "\ufe0f"  # the selector that shows a symbol as an emoji; it stays there
_JOINER: Final = "\u200d"  # stays between emoji; it acts on nothing else
# Blocks with symbols that these two act on. Of digits it is left out: a keycap shows without it.
_SYMBOL: Final = re.compile(
    r"[\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf"
    r"\u2934\u2935\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
)
_MARKS_A_LETTER: Final = 2
"""Combining marks; more of them cover their neighbours, or carry what nobody reads."""
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
    last, marks, is_joined = "space", 0, False
    for character in _SPACES.sub(" ", text[: 4 * longest]):
        kind = _kind(character)
        match kind:
            case "letter":
                marks = 0
            case "symbol":
                marks = 0
                if is_joined:
                    kept.append(_JOINER)
            case "space" if last == "space":
                continue
            case "style" if last != "symbol":
                continue
            case "joiner":
                is_joined = last in ("symbol", "style")
                continue
            case "mark":
                marks += 1
                if marks > _MARKS_A_LETTER or last == "space":
                    continue
            case "hidden":
                continue
        kept.append(character)
        last, is_joined = kind, False
    return "".join(kept)[:longest].rstrip(f" {_JOINER}") or None


@lru_cache(4_096)
def _kind(character: str) -> str:
    if character == " ":
        return "space"
    if character == _JOINER:
        return "joiner"
    if character == _EMOJI_STYLE:
        return "style"
    category = unicodedata.category(character)
    if category in _ACTING or _SELECTORS.match(character):
        return "hidden"
    if category[0] == "M":
        return "mark"
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
