"""The dashboard at `/`: its files as they lie in their folder, and what its page asks first.

The page may run nothing but its own files, and talk to this address and to its WebSocket, which its
policy names. Which paths there are is decided as the API starts: those of the folder's files, so
nothing else can be asked for. A file that changes is read anew.

`GET /dashboard.json` says where the WebSocket is, whether this browser has a session and of which
user, and where users sign in. A session of a link begins with `GET /?token=...`, once, and has the
grant of the demo key, which no answer holds.
`POST /websocket-ticket` gives the page, by its key or session, what opens one WebSocket: no key
gets into an address, and no cookie is asked for on another port.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import orjson
import structlog
from fastapi import APIRouter, Request, Response

from api.access.keys import key_id
from api.access.refusals import no_session
from api.access.sessions import Sessions, ticket
from api.access.user_sessions import UserSessions
from api.dashboard import link
from api.http.assets import Asset
from api.http.errors import NOT_FOUND, Problem
from api.http.state import grant, services
from infra.settings import Settings

log = structlog.get_logger(__name__)

FOLDER: Final = Path(str(files("api.dashboard").joinpath("page")))
PAGE: Final = "index.html"
START: Final = "/dashboard.json"
TICKET: Final = "/websocket-ticket"
_POLICY: Final = (
    "default-src 'self'; connect-src {connect}; img-src 'self' data:; object-src 'none'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_POLICY_HEADER: Final = "content-security-policy"
_HEADERS: Final = {
    _POLICY_HEADER: _POLICY.format(connect="'self'"),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_PLACE: Final = re.compile(r"wss?://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?")
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
_NO_STORE: Final = {"cache-control": "no-store"}


class Dashboard:
    """The files that there are as the process starts, by path; none where it is off."""

    def __init__(
        self,
        settings: Settings,
        links: Sessions | None,
        users: UserSessions | None = None,
        sign_in_url: str | None = None,
    ) -> None:
        self.gateway_url = settings.gateway_url
        self.links = links
        self.users = users
        self.sign_in_url = sign_in_url
        self.files: dict[str, _File] = {}
        if not settings.api_dashboard:
            return
        if not (FOLDER / PAGE).is_file():
            log.warning("there is no dashboard", lacking=str(FOLDER / PAGE))
            return
        self.files = {f"/{path.relative_to(FOLDER).as_posix()}": _File(path) for path in _files()}
        self.files["/"] = self.files[f"/{PAGE}"]

    @property
    def sessions(self) -> tuple[UserSessions | Sessions, ...]:
        """Return what knows browsers; a user's session counts before that of a link."""
        return tuple(each for each in (self.users, self.links) if each is not None)

    def router(self) -> APIRouter:
        """Return a route for each path."""
        area = APIRouter(include_in_schema=False)
        if self.files:
            area.add_api_route(START, beginning)
            area.add_api_route(TICKET, websocket_ticket, methods=["POST"])
        for path in self.files:
            area.add_api_route(path, root if path == "/" else file)
        return area

    @property
    def open(self) -> frozenset[str]:
        """Return the paths that need no grant: all that read."""
        return frozenset((START, *self.files)) if self.files else frozenset()


async def beginning(request: Request) -> Response:
    """Answer with what the page asks first.

    `session` is null where no links are served, `account` where nobody can sign in. `account_id` is
    the user's: a page may have a key that another user's account made.
    """
    dashboard: Dashboard = request.app.state.dashboard
    headers = request.headers.raw
    answer: dict[str, object] = {
        "websocket_url": _websocket_url(dashboard.gateway_url, request),
        "session": None,
        "account": None,
        "account_id": None,
        "sign_in_url": dashboard.sign_in_url,
    }
    if dashboard.links is not None:
        answer["session"] = await dashboard.links.holder(headers, _address(request)) is not None
    if dashboard.users is not None:
        user = await dashboard.users.holder(headers, _address(request))
        answer["account"] = user is not None
        answer["account_id"] = None if user is None else key_id(user)
    return _json(answer)


async def websocket_ticket(request: Request) -> Response:
    """Answer with a ticket of the key, or session, that the request was granted by."""
    granted = grant(request)
    assert granted is not None, "the path is not open"
    access = services(request).stores.access
    digest = None
    users: UserSessions | None = request.app.state.dashboard.users
    if users is not None and granted.user == granted.fingerprint:
        session = await users.of(request.headers.raw, _address(request))
        if session is None:  # ended within this request
            raise no_session()
        digest = session.digest
    return _json({"ticket": await ticket(access, granted.fingerprint, digest)})


async def root(request: Request) -> Response:
    """Answer with the page; open a link first, so that its token leaves the address bar."""
    dashboard: Dashboard = request.app.state.dashboard
    if dashboard.links is not None and "token" in request.query_params:
        token = request.query_params["token"]
        destination = request.headers.get("sec-fetch-dest", "")
        return await link.opened(dashboard.links, token, _address(request), destination)
    return await file(request)


async def file(request: Request) -> Response:
    """Answer with the file that a path names."""
    dashboard: Dashboard = request.app.state.dashboard
    answer = dashboard.files[request.scope["path"]].respond(request)
    answer.headers[_POLICY_HEADER] = _policy(dashboard.gateway_url, request)
    return answer


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

    A loopback address is returned with the host name that the caller used.
    """
    if setting is None:
        return None
    url = urlsplit(setting)
    host = _host(request)
    if not host or not _is_loopback(url.hostname or "") or _is_loopback(host):
        return setting.rstrip("/")
    place = f"[{host}]" if ":" in host else host
    return f"{url.scheme}://{place}" + (f":{url.port}" if url.port else "")


def _policy(setting: str | None, request: Request) -> str:
    """Return the policy that names where the page finds the WebSocket."""
    if url := _websocket_url(setting, request):
        parts = urlsplit(url)
        places = [f"{parts.scheme}://{parts.netloc}"]
    else:  # behind a proxy we do not know which of them; browsers differ in whether it is 'self'
        name = request.headers.get("host", "")
        places = [f"{scheme}://{name}" for scheme in ("ws", "wss")]
    named = [place for place in places if _PLACE.fullmatch(place)]
    return _POLICY.format(connect=" ".join(["'self'", *named]))


def _json(answer: dict[str, object]) -> Response:
    return Response(orjson.dumps(answer), 200, _NO_STORE, "application/json")


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _host(request: Request) -> str:
    """Return the name that a caller knows us by, without the port; empty if it sends none."""
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
