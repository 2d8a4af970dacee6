"""The dashboard at `/`: its files as they lie in their folder, and what its page asks first.

The page may run nothing but its own files, and talk to this address and to WebSockets. Which paths
there are is decided as the API starts: those of the folder's files, so nothing else can be asked
for. A file that changes is read anew.

`GET /dashboard.json` tells where the WebSocket is, and a key to try things with where all of it is
one person's machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import orjson
import structlog
from fastapi import APIRouter, Request, Response

from api.http.assets import Asset
from api.http.errors import NOT_FOUND, Problem
from infra.settings import Settings

log = structlog.get_logger(__name__)

FOLDER: Final = Path(str(files("api.dashboard").joinpath("page")))
PAGE: Final = "index.html"
START: Final = "/dashboard.json"
_POLICY: Final = (
    "default-src 'self'; connect-src 'self' ws: wss:; img-src 'self' data:; object-src 'none'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_MEDIA_TYPES: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".ico": "image/x-icon",
    ".js": "text/javascript",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
# Who comes through a proxy is no neighbour, whatever address the proxy itself has.
_OF_PROXIES: Final = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")


class Dashboard:
    """The files that there are as the process starts, by path; none where it is off."""

    def __init__(self, settings: Settings, demo_key: str | None) -> None:
        self.gateway_url = settings.gateway_url
        self.demo_key = demo_key
        self.files: dict[str, _File] = {}
        if not settings.api_dashboard:
            return
        if not (FOLDER / PAGE).is_file():
            log.warning("there is no dashboard", lacking=str(FOLDER / PAGE))
            return
        self.files = {f"/{path.relative_to(FOLDER).as_posix()}": _File(path) for path in _files()}
        self.files["/"] = self.files[f"/{PAGE}"]

    def router(self) -> APIRouter:
        """Return a route for each path."""
        area = APIRouter(include_in_schema=False)
        if self.files:
            area.add_api_route(START, beginning)
        for path in self.files:
            area.add_api_route(path, file)
        return area

    @property
    def open(self) -> frozenset[str]:
        """Return the paths that need no grant: all of them."""
        return frozenset((START, *self.files)) if self.files else frozenset()


async def beginning(request: Request) -> Response:
    """Answer with what the page asks first."""
    dashboard: Dashboard = request.app.state.dashboard
    answer = {
        "websocket_url": _websocket_url(dashboard.gateway_url, request),
        "demo_key": dashboard.demo_key if _is_at_home(request) else None,
    }
    return Response(orjson.dumps(answer), 200, {"cache-control": "no-store"}, "application/json")


async def file(request: Request) -> Response:
    """Answer with the file that a path names."""
    dashboard: Dashboard = request.app.state.dashboard
    return dashboard.files[request.scope["path"]].respond(request)


class _File:
    """A file of the dashboard, read again when it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._asset: Asset | None = None

    def respond(self, request: Request) -> Response:
        """Return the file; raises Problem where it was taken away."""
        try:
            status = self._path.stat()
            seen = (status.st_mtime_ns, status.st_size)
            if self._asset is None or seen != self._seen:
                media_type = _MEDIA_TYPES[self._path.suffix]
                self._asset = Asset(self._path.read_bytes(), media_type, _HEADERS)
                self._seen = seen
        except OSError:
            raise Problem(NOT_FOUND, "The dashboard no longer has this file") from None
        return self._asset.respond(request)


def _files() -> Iterator[Path]:
    for path in sorted(FOLDER.rglob("*")):
        hidden = any(part.startswith((".", "_")) for part in path.relative_to(FOLDER).parts)
        if path.suffix in _MEDIA_TYPES and path.is_file() and not hidden:
            yield path


def _websocket_url(setting: str | None, request: Request) -> str | None:
    """Return where the page finds the WebSocket; None: at its own address.

    An address of this machine is told with the name that the caller knows the machine by.
    """
    if setting is None:
        return None
    url = urlsplit(setting)
    host = _host(request)
    if not host or not _is_loopback(url.hostname or "") or _is_loopback(host):
        return setting.rstrip("/")
    place = f"[{host}]" if ":" in host else host
    return f"{url.scheme}://{place}" + (f":{url.port}" if url.port else "")


def _is_at_home(request: Request) -> bool:
    """Tell whether a request comes from a page or program of this very machine.

    The address alone does not say so: a proxy is a neighbour of ours, and so is a browser that
    shows a stranger's page, which would be told by its origin, or by the name it gives us.
    """
    headers = request.headers
    here = f"http://{headers.get('host', '')}"
    return (
        request.client is not None
        and _is_loopback(request.client.host)
        and _is_loopback(_host(request))
        and not any(name in headers for name in _OF_PROXIES)
        and headers.get("origin", here) == here
        and headers.get("sec-fetch-site", "none") in ("none", "same-origin")
    )


def _host(request: Request) -> str:
    """Return the name that a caller knows us by, without the port; empty where he says none."""
    try:
        return urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback
