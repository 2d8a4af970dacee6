"""Texts of tokens as agents get them: without characters that hide or turn other text, and cut.

The maker of a token chooses them, up to 512 characters on the chain, and a description beside it.
REST returns the chain's bytes; an agent reads a result as it reads its task, hidden characters
included. Links of `metadata` are plain already: `api.metadata.documents` takes no others.
"""

from __future__ import annotations

import re
from typing import Final

import orjson

from api.metadata.documents import MAX_DESCRIPTION, MAX_NAME, plain

_LONGEST: Final = {
    b"name": MAX_NAME,
    b"symbol": MAX_NAME,
    b"uri": 512,
    b"description": MAX_DESCRIPTION,
}
# In a document without spaces. Quotes within a text have a backslash: no text looks like a field.
# What is printable ASCII and short stays as it is, and costs no call.
_FIELD: Final = re.compile(
    rb'"(%b)":(?!"[ !#-\[\]-~]{0,%d}")("(?:[^"\\]|\\.)*+")' % (b"|".join(_LONGEST), MAX_NAME)
)


def clean(body: bytes) -> bytes:
    """Return an answer's JSON with texts of tokens made plain; null where nothing is left."""
    return _FIELD.sub(_cleaned, body)


def _cleaned(field: re.Match[bytes]) -> bytes:
    name, text = field.groups()
    return b'"%b":%b' % (name, orjson.dumps(plain(orjson.loads(text), _LONGEST[name])))
