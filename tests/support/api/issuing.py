"""An issuer that lies as a test asks: real HTTP, real signatures, wrong where a test wants it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

from infra.local.process import free_port
from tests.support.waiting import WITHIN_S

CLIENT = "soltape"


class Issuer:
    """What it says next; each attribute may be changed by a test."""

    def __init__(self) -> None:
        self.issuer = ""
        self.base_url = ""
        self.api_port = free_port()
        self.key: Any = RSAKey.generate_key(2048, {"use": "sig"}, auto_kid=True)
        self.reset()

    def reset(self) -> None:
        """Say the truth again."""
        self.discovery: dict[str, Any] = {}
        self.claims: dict[str, Any] = {}  # None takes one away
        self.head: dict[str, Any] = {}
        self.signer = self.key
        self.algorithm = "RS256"
        self.keys: list[dict[str, Any]] = [self.key.as_dict(private=False)]
        self.raw_token: Any = ...  # in place of the signed one
        self.answers: dict[str, tuple[int, bytes, dict[str, str]]] = {}  # by path
        self.asked: list[tuple[str, dict[str, str]]] = []  # path and form, of all requests
        self.is_open = Event()  # while it is not set, nothing is answered
        self.is_open.set()
        self.nonce = ""  # of the sign-in under way, as the browser brought it

    def token(self, nonce: str) -> str:
        now_s = int(time.time())
        claims = {
            "iss": self.issuer,
            "sub": "mallory",
            "aud": CLIENT,
            "iat": now_s,
            "exp": now_s + 300,
            "nonce": nonce,
            "email": "mallory@example.com",
            **self.claims,
        }
        payload = {name: value for name, value in claims.items() if value is not None}
        head = {"alg": self.algorithm, "kid": self.signer.kid, **self.head}
        head = {name: value for name, value in head.items() if value is not None}
        return jwt.encode(head, payload, self.signer, algorithms=[self.algorithm])

    def answer(self, path: str, form: dict[str, str]) -> tuple[int, bytes, dict[str, str]]:
        self.asked.append((path, form))
        self.is_open.wait(WITHIN_S)
        if path in self.answers:
            return self.answers[path]
        body: Any = None
        if path == "/.well-known/openid-configuration":
            body = {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/jwks",
                **self.discovery,
            }
        elif path == "/jwks":
            body = {"keys": self.keys}
        elif path == "/token":
            token = self.token(self.nonce) if self.raw_token is ... else self.raw_token
            body = {"access_token": "access", "token_type": "Bearer", "id_token": token}
        if body is None:
            return 404, b"{}", {}
        return 200, json.dumps(body).encode(), {}


@contextmanager
def issuing() -> Iterator[Issuer]:
    """Run an issuer on a free port of loopback."""
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["content-length"])).decode()
            self._answer({name: values[0] for name, values in parse_qs(text).items()})

        def _answer(self, form: dict[str, str]) -> None:
            status, body, headers = issuer.answer(urlsplit(self.path).path, form)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer.issuer = f"http://127.0.0.1:{server.server_port}"
    issuer.base_url = f"http://127.0.0.1:{issuer.api_port}"
    serving = Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        serving.join()
