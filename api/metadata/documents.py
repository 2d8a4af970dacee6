"""What a token's JSON says of it, as data: bounded, without what acts on those who read it.

Sources: Metaplex token standard (name, symbol, description, image, external_url, extensions) and
what launchpads write (twitter, telegram, website, discord beside it).
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
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
_JOINER: Final = "\u200d"  # within emoji; it acts on nothing else
_SPACES: Final = re.compile(r"\s+")
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
    """Return a text without control and direction characters, cut; None where nothing is left."""
    if not isinstance(text, str):
        return None
    spaced = _SPACES.sub(" ", text[: 4 * longest])
    kept = (
        character
        for character in spaced
        if character == _JOINER or unicodedata.category(character) not in _ACTING
    )
    return "".join(kept).strip()[:longest].strip() or None


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
