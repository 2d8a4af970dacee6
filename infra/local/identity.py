"""A small identity provider for trying sign-in on this machine: loopback only, without passwords.

    python -m infra.local.identity <port> <origin of the API>

OpenID Connect's code flow with PKCE for one public client that returns to one address. Whoever
opens its page says who they are, and is believed: so it is for one machine and for no other. Its
key is made as it starts; codes are spent once, within a minute.
"""

from __future__ import annotations

import hmac
import sys
import time
from base64 import urlsafe_b64encode
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from secrets import token_urlsafe
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from aiohttp import web
from joserfc import jwt
from joserfc.jwk import ECKey

from infra.hosts import Hosts
from infra.settings import LOOPBACK

CLIENT_ID: Final = "soltape"
CALLBACK: Final = "/signin/callback"
CODE_S: Final = 60.0
MOST_CODES: Final = 100
TOKEN_S: Final = 300
_ASKED: Final = ("state", "nonce", "code_challenge")
_LONGEST: Final = 512
_LONGEST_NAME: Final = 64
_MAX_BODY: Final = 8 << 10
_ALGORITHM: Final = "ES256"
_PAGE: Final = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sign in for trying</title></head>
<body><main>
<h1>Sign in for trying</h1>
<p>This provider runs on this machine alone, and asks for no password. Say who you are.</p>
<form method="post" action="/authorize">{hidden}
<label>Name <input name="name" required maxlength="64" value="ann" autofocus></label>
<button type="submit">Sign in</button>
</form>
</main></body>
</html>
"""


@dataclass(frozen=True, slots=True)
class _Grant:
    name: str
    nonce: str
    challenge: str
    ends_s: float


class Provider:
    """One issuer, one client."""

    def __init__(self, issuer: str, base_url: str) -> None:
        self._issuer = issuer
        self._redirect_uri = f"{base_url}{CALLBACK}"
        self._return_origin = base_url
        self._key = ECKey.generate_key("P-256", {"use": "sig", "alg": _ALGORITHM}, auto_kid=True)
        self._codes: OrderedDict[str, _Grant] = OrderedDict()
        self._hosts = Hosts(urlsplit(issuer).hostname or "")

    def application(self) -> web.Application:
        """Return what is served."""

        @web.middleware
        async def guarded(request: web.Request, handler: Any) -> web.StreamResponse:
            if not self._hosts.accepts(request.headers.get("host", "")):
                raise web.HTTPMisdirectedRequest
            answer: web.StreamResponse = await handler(request)
            answer.headers.update(self._headers())
            return answer

        app = web.Application(middlewares=[guarded], client_max_size=_MAX_BODY)
        app.router.add_get("/.well-known/openid-configuration", self._discovery)
        app.router.add_get("/jwks", self._jwks)
        app.router.add_get("/authorize", self._ask)
        app.router.add_post("/authorize", self._agree)
        app.router.add_post("/token", self._token)
        return app

    def _headers(self) -> dict[str, str]:
        return {
            "cache-control": "no-store",
            "referrer-policy": "no-referrer",
            "x-content-type-options": "nosniff",
            # A form's redirect counts as its action.
            "content-security-policy": "default-src 'none'; base-uri 'none'; frame-ancestors "
            f"'none'; form-action 'self' {self._return_origin}",
        }

    async def _discovery(self, _: web.Request) -> web.Response:
        return web.json_response(
            {
                "issuer": self._issuer,
                "authorization_endpoint": f"{self._issuer}/authorize",
                "token_endpoint": f"{self._issuer}/token",
                "jwks_uri": f"{self._issuer}/jwks",
                "response_types_supported": ["code"],
                "subject_types_supported": ["public"],
                "scopes_supported": ["openid", "email"],
                "id_token_signing_alg_values_supported": [_ALGORITHM],
                "token_endpoint_auth_methods_supported": ["none"],
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": True,
            }
        )

    async def _jwks(self, _: web.Request) -> web.Response:
        return web.json_response({"keys": [self._key.as_dict(private=False)]})

    async def _ask(self, request: web.Request) -> web.Response:
        asked = self._checked(request.query)
        hidden = "".join(
            f'<input type="hidden" name="{name}" value="{escape(value)}">'
            for name, value in asked.items()
        )
        return web.Response(text=_PAGE.format(hidden=hidden), content_type="text/html")

    async def _agree(self, request: web.Request) -> web.Response:
        form = await request.post()
        asked = self._checked(form)
        name = str(form.get("name", "")).strip()
        if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
            raise web.HTTPBadRequest(text="A name of 1 to 64 printable characters is expected")
        code = token_urlsafe(32)
        while len(self._codes) >= MOST_CODES:
            self._codes.popitem(last=False)
        self._codes[code] = _Grant(
            name, asked["nonce"], asked["code_challenge"], time.monotonic() + CODE_S
        )
        query = {"code": code, "state": asked["state"], "iss": self._issuer}
        raise web.HTTPSeeOther(f"{self._redirect_uri}?{urlencode(query)}", headers=self._headers())

    async def _token(self, request: web.Request) -> web.Response:
        form = await request.post()
        grant = self._codes.pop(str(form.get("code", "")), None)
        verifier = str(form.get("code_verifier", ""))
        is_right = (
            form.get("grant_type") == "authorization_code"
            and form.get("client_id") == CLIENT_ID
            and form.get("redirect_uri") == self._redirect_uri
            and grant is not None
            and time.monotonic() < grant.ends_s
            and hmac.compare_digest(_challenge(verifier), grant.challenge.encode())
        )
        if not is_right or grant is None:
            return web.json_response({"error": "invalid_grant"}, status=400)
        now_s = int(time.time())
        claims = {
            "iss": self._issuer,
            "sub": grant.name,
            "aud": CLIENT_ID,
            "iat": now_s,
            "exp": now_s + TOKEN_S,
            "nonce": grant.nonce,
            "name": grant.name,
        }
        head = {"alg": _ALGORITHM, "kid": self._key.kid}
        token = jwt.encode(head, claims, self._key, algorithms=[_ALGORITHM])
        return web.json_response(
            {
                "access_token": token_urlsafe(32),
                "token_type": "Bearer",
                "expires_in": TOKEN_S,
                "id_token": token,
            }
        )

    def _checked(self, sent: Any) -> dict[str, str]:
        """Return what a sign-in asks for, whole; raises HTTPBadRequest."""
        wanted = {
            "client_id": CLIENT_ID,
            "redirect_uri": self._redirect_uri,
            "response_type": "code",
            "code_challenge_method": "S256",
        }
        for name, value in wanted.items():
            if sent.get(name) != value:
                raise web.HTTPBadRequest(text=f"{name} must be {value}")
        found = {**wanted, **{name: str(sent.get(name, "")) for name in _ASKED}}
        for name in _ASKED:
            if not 0 < len(found[name]) <= _LONGEST:
                raise web.HTTPBadRequest(text=f"{name} of 1 to {_LONGEST} characters is expected")
        return found


def _challenge(verifier: str) -> bytes:
    digest = sha256(verifier.encode("utf-8", "replace")).digest()
    return urlsafe_b64encode(digest).rstrip(b"=")


def main(port: int, base_url: str) -> None:
    """Serve until a signal."""
    provider = Provider(f"http://{LOOPBACK}:{port}", base_url)
    web.run_app(provider.application(), host=LOOPBACK, port=port, print=None, access_log=None)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
