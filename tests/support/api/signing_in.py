"""Signing in over HTTP as a browser does: redirects, cookies, and the provider's own forms."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urljoin, urlsplit

import httpx
from pydantic import SecretStr

from infra.local.process import free_port
from tests.support.api.served import Served
from tests.support.systems import bound
from tests.support.waiting import eventually

CLIENT = "soltape"
SECRET = SecretStr("a secret: with / and %20")
_FORM = re.compile(r'<form[^>]*\baction="([^"]*)"[^>]*>(.*?)</form>', re.DOTALL)
_HIDDEN = re.compile(r'<input type="hidden" name="([^"]*)" value="([^"]*)"')
_PATIENT_S = 240.0
_NUMBERS = count()


@dataclass(frozen=True)
class Certified:
    """The running provider of npm's `oidc-provider`."""

    issuer: str
    base_url: str  # of the API that it leads back to
    api_port: int


@contextmanager
def certified(folder: Path, log: Path, code_s: int = 60) -> Iterator[Certified]:
    """Run the provider, for an API that is started at `api_port`."""
    port, api_port = free_port(), free_port()
    base_url = f"http://127.0.0.1:{api_port}"
    command = ["node", "serve.js", str(port), f"{base_url}/signin/callback", str(code_s)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            bound(command), cwd=folder, env=os.environ, stdout=output, stderr=output
        )
    try:
        eventually(lambda: "ready" in log.read_text() or process.poll() is not None, log.read_text)
        assert process.poll() is None, log.read_text()
        yield Certified(f"http://127.0.0.1:{port}", base_url, api_port)
    finally:
        process.terminate()
        process.wait(60)


def signin_settings(provider: Any, **changed: object) -> dict[str, object]:
    """Settings of an API that users sign in to with a provider."""
    return {
        "api_port": provider.api_port,
        "api_reuse_port": True,  # as it is given
        "trusted_proxies": "127.0.0.1",
        "signin_issuer": provider.issuer,
        "signin_client_id": CLIENT,
        "signin_client_secret": SECRET,
        "signin_base_url": provider.base_url,
        **changed,
    }


class Person:
    """A user with a browser: cookies by host and port, and pages that are read."""

    def __init__(self, served: Served) -> None:
        self.served = served
        # Of an address of their own, so that nobody waits for another's pace.
        self.headers = {"x-forwarded-for": f"198.51.100.{next(_NUMBERS) % 250 + 1}"}
        self.client = httpx.Client(base_url=served.url, timeout=_PATIENT_S, headers=self.headers)
        self._provider = httpx.Client(timeout=_PATIENT_S)

    def __enter__(self) -> Person:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self._provider.close()

    def begin(self) -> str:
        """Follow the link "Sign in"; return where the provider is."""
        answer = self.client.get("/signin")
        assert answer.status_code == 303, answer.text
        return answer.headers["location"]

    def agree(self, address: str, login: str = "ann") -> str:
        """Do what the provider's pages ask for; return the address that it leads back to."""
        answer = self._provider.get(address)
        for _ in range(20):
            if answer.is_redirect:
                address = urljoin(str(answer.url), answer.headers["location"])
                if address.startswith(self.served.url):
                    return address
                answer = self._provider.get(address)
                continue
            assert answer.status_code == 200, answer.text
            [(action, fields)] = _FORM.findall(answer.text)
            form = {name: unescape(value) for name, value in _HIDDEN.findall(fields)}
            if 'name="login"' in fields:
                form |= {"login": login, "password": "any"}
            answer = self._provider.post(urljoin(str(answer.url), unescape(action)), data=form)
        raise AssertionError("the provider leads nowhere")

    def finish(self, address: str) -> httpx.Response:
        """Come back from the provider."""
        return self.client.get(address)

    def sign_in(self, login: str = "ann") -> httpx.Response:
        """Sign in from the beginning to the end."""
        return self.finish(self.agree(self.begin(), login))

    def account(self) -> dict[str, Any]:
        answer = self.client.get("/account.json")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def post(self, path: str, body: object = None, **headers: str) -> httpx.Response:
        """Change something, as the page does."""
        token = {"x-csrf-token": self.account()["csrf"]}
        return self.client.post(path, json=body, headers={**token, **headers})

    def new_key(self, name: str = "first") -> str:
        answer = self.post("/account/keys", {"name": name})
        assert answer.status_code == 201, answer.text
        key: str = answer.json()["key"]
        return key

    def ask(self, key: str, path: str = "/api/usage") -> httpx.Response:
        """Ask the API with a key, without cookies."""
        return httpx.get(f"{self.served.url}{path}", headers={"x-api-key": key}, timeout=_PATIENT_S)


def query_of(address: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(address).query))
