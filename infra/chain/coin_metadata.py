"""What the URIs of simulated coins lead to: JSON, an image, and now and then what goes wrong.

Of some coins the server misbehaves, as those of strangers do: by its address a coin has the same
fault for ever.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any, Final

import orjson
from aiohttp import web

from infra.chain.coin_image import coin_image
from infra.chain.source import Describes
from schemas.solana.base58 import decode

_FILE: Final = re.compile(r"([1-9A-HJ-NP-Za-km-z]{32,44})\.(json|png|svg)")
_FAULTS: Final = (
    "missing",
    "too_large",
    "redirects_inward",
    "slow",
    "page",
    "image_missing",
    "image_too_large",
    "image_is_svg",
    "hostile_words",
    "redirects",
)
_ONE_OF: Final = 32  # coins; the others are as they should be
_LARGE_BYTES: Final = 4 << 20
_SLOW_S: Final = 120.0
_PAGE: Final = b"<!doctype html><title>Coin</title><script>alert(1)</script>"
_SVG: Final = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
_INWARD: Final = "http://127.0.0.1:9/latest/meta-data/"


def fault_of(mint: bytes) -> str | None:
    """Return what goes wrong with a coin's metadata, None for most."""
    number = sha256(b"metadata" + mint).digest()[0] % _ONE_OF
    return _FAULTS[number] if number < len(_FAULTS) else None


class CoinMetadata:
    """Answers for the coins of a source."""

    def __init__(self, source: Describes) -> None:
        self._source = source

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer with a file: `<mint>.json` or `<mint>.png`."""
        found = _FILE.fullmatch(request.match_info["file"])
        try:
            mint = decode(found[1]) if found else b""
        except ValueError:
            mint = b""
        texts = self._source.described(mint)
        if found is None or texts is None:
            raise web.HTTPNotFound
        fault = fault_of(mint)
        if found[2] == "svg":
            return web.Response(body=_SVG, content_type="image/svg+xml")
        if found[2] == "png":
            return _image(mint, fault)
        misbehave = _MISBEHAVIOURS.get(fault or "")
        if misbehave is not None and "again" not in request.query:
            return await misbehave(request)
        return web.json_response(body=_document(found[1], *texts, fault, request))


def _document(mint: str, name: str, symbol: str, fault: str | None, request: web.Request) -> bytes:
    place = f"http://{request.host}/metadata/{mint}"
    handle = re.sub(r"[^a-z0-9]", "", name.lower())[:15] or "coin"
    said: dict[str, Any] = {
        "name": name,
        "symbol": symbol,
        "description": f"{name} is a coin of the simulated market.",
        "image": f"{place}.svg" if fault == "image_is_svg" else f"{place}.png",
        "external_url": f"https://{handle}.example/",
        "extensions": {"telegram": f"https://t.me/{handle}"},
        "twitter": f"https://x.com/{handle}",
    }
    if fault == "hostile_words":
        said["description"] = "\u202e<img src=x onerror=alert(1)>\x00\u2066 " + "long " * 1_000
        said["external_url"] = "javascript:alert(1)"
    return orjson.dumps(said)


def _image(mint: bytes, fault: str | None) -> web.Response:
    if fault == "image_missing":
        raise web.HTTPNotFound
    data = coin_image(mint)
    if fault == "image_too_large":
        data += bytes(_LARGE_BYTES)
    return web.Response(body=data, content_type="image/png")


async def _missing(_: web.Request) -> web.StreamResponse:
    raise web.HTTPNotFound


async def _too_large(_: web.Request) -> web.StreamResponse:
    return web.Response(body=b" " * _LARGE_BYTES, content_type="application/json")


async def _redirects_inward(_: web.Request) -> web.StreamResponse:
    raise web.HTTPFound(_INWARD)


async def _redirects(request: web.Request) -> web.StreamResponse:
    raise web.HTTPFound(f"{request.path}?again")


async def _slow(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "application/json"})
    await response.prepare(request)
    for _ in range(int(_SLOW_S)):
        await response.write(b" ")
        await asyncio.sleep(1)
    return response


async def _page(_: web.Request) -> web.StreamResponse:
    return web.Response(body=_PAGE, content_type="text/html")


_MISBEHAVIOURS: Final[Mapping[str, Callable[[web.Request], Awaitable[web.StreamResponse]]]] = {
    "missing": _missing,
    "too_large": _too_large,
    "redirects_inward": _redirects_inward,
    "redirects": _redirects,
    "slow": _slow,
    "page": _page,
}
