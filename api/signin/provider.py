"""The identity provider: what its discovery says, where it is asked, what its code is worth."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote_plus

from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri, prepare_token_request
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.discovery import get_well_known_url

from api.access.users import Identity
from api.signin import tokens
from api.signin.failures import Failed
from api.signin.fetching import Fetcher
from api.signin.tokens import KeyUnknown, PublicKey

T = TypeVar("T")

SCOPE: Final = "openid email"
_BASIC: Final = "client_secret_basic"
_FRESH_S: Final = 3_600.0  # what discovery says, and the keys
_AGAIN_S: Final = 30.0  # keys after a token of a key that is not among them
_RETRY_S: Final = 2.0  # after a failure


@dataclass(frozen=True, slots=True)
class Endpoints:
    """What discovery says of a provider, as far as it matters here."""

    authorization: str
    token: str
    keys: str
    algorithms: frozenset[str]  # of its ID tokens, that we accept
    auth_method: str  # of a client with a secret
    names_itself: bool  # in what it sends a browser back with (RFC 9207)


class Provider:
    """One issuer, and us as its client. Every method raises Failed."""

    def __init__(
        self, issuer: str, client_id: str, secret: str | None, redirect_uri: str, fetcher: Fetcher
    ) -> None:
        self.issuer = issuer
        self._client_id = client_id
        self._secret = secret
        self._redirect_uri = redirect_uri
        self._fetcher = fetcher
        self._endpoints = _Cached(self._discover)
        self._keys = _Cached(self._fetch_keys)

    async def address(self, state: str, nonce: str, verifier: str) -> str:
        """Return where a browser begins."""
        found: str = prepare_grant_uri(
            (await self._endpoints.get()).authorization,
            self._client_id,
            "code",
            redirect_uri=self._redirect_uri,
            scope=SCOPE,
            state=state,
            nonce=nonce,
            code_challenge=create_s256_code_challenge(verifier),
            code_challenge_method="S256",
        )
        return found

    async def check_issuer(self, named: str | None) -> None:
        """Refuse what a browser comes back with from another issuer (RFC 9207)."""
        endpoints = await self._endpoints.get()
        if named != self.issuer and (named is not None or endpoints.names_itself):
            raise Failed("issuer")

    async def identity(self, code: str, nonce: str, verifier: str) -> Identity:
        """Return whom a code is of."""
        endpoints = await self._endpoints.get()
        answer = await self._exchange(endpoints, code, verifier)
        token, access_token = answer.get("id_token"), answer.get("access_token")
        if not isinstance(token, str):
            raise Failed("token", "there is none")
        for max_age_s in (_FRESH_S, _AGAIN_S):  # it may be signed with a key that is new
            keys = await self._keys.get(max_age_s)
            try:
                return tokens.verify(
                    token,
                    keys,
                    issuer=self.issuer,
                    client_id=self._client_id,
                    nonce=nonce,
                    algorithms=endpoints.algorithms,
                    access_token=access_token if isinstance(access_token, str) else None,
                )
            except KeyUnknown:
                continue
        raise Failed("token", "no key of the provider has signed it")

    async def _exchange(self, endpoints: Endpoints, code: str, verifier: str) -> dict[str, Any]:
        form = prepare_token_request(
            "authorization_code", "", self._redirect_uri, code=code, code_verifier=verifier
        )
        method = endpoints.auth_method if self._secret is not None else "none"
        # RFC 6749, 2.3.1: both are written as in a form, before they are Basic's.
        as_written = quote_plus if method == _BASIC else str
        auth = ClientAuth(as_written(self._client_id), as_written(self._secret or ""), method)
        _, headers, form = auth.prepare("POST", endpoints.token, {}, form)
        status, answer = await self._fetcher.post(endpoints.token, headers, form)
        if status != 200 or not isinstance(answer, dict):
            error = answer.get("error") if isinstance(answer, dict) else None
            if error == "invalid_grant":
                raise Failed("code")
            raise Failed("provider", f"the code's exchange answered {status}: {str(error)[:40]!r}")
        return answer

    async def _discover(self) -> Endpoints:
        found = await self._fetcher.get(get_well_known_url(self.issuer, external=True))
        if not isinstance(found, dict) or found.get("issuer") != self.issuer:
            raise Failed("provider", "discovery is of another issuer")
        if "S256" not in _texts(found, "code_challenge_methods_supported", "S256"):
            raise Failed("provider", "it has no PKCE with S256")
        listed = _texts(found, "id_token_signing_alg_values_supported", "RS256")
        algorithms = tokens.ALGORITHMS & listed
        if not algorithms:
            raise Failed("provider", "it signs ID tokens with no algorithm that is accepted")
        auth = _texts(found, "token_endpoint_auth_methods_supported", _BASIC)
        return Endpoints(
            authorization=self._address(found, "authorization_endpoint"),
            token=self._address(found, "token_endpoint"),
            keys=self._address(found, "jwks_uri"),
            algorithms=algorithms,
            auth_method=_BASIC if _BASIC in auth else "client_secret_post",
            names_itself=found.get("authorization_response_iss_parameter_supported") is True,
        )

    def _address(self, found: dict[str, Any], name: str) -> str:
        address = found.get(name)
        if not isinstance(address, str):
            raise Failed("provider", f"discovery lacks {name}")
        self._fetcher.check(address)
        return address

    async def _fetch_keys(self) -> list[PublicKey]:
        return tokens.public_keys(await self._fetcher.get((await self._endpoints.get()).keys))


class _Cached(Generic[T]):
    """What is fetched now and then: by one at a time, and not at once again after a failure."""

    def __init__(self, fetch: Callable[[], Awaitable[T]]) -> None:
        self._fetch = fetch
        self._lock = asyncio.Lock()
        self._value: T | None = None
        self._fetched_s = 0.0
        self._failed_s = -_RETRY_S

    async def get(self, max_age_s: float = _FRESH_S) -> T:
        async with self._lock:
            now_s = time.monotonic()
            if self._value is not None and now_s - self._fetched_s < max_age_s:
                return self._value
            if now_s - self._failed_s < _RETRY_S:
                raise Failed("provider", "it failed a moment ago")
            try:
                self._value = await self._fetch()
            except Failed:
                self._failed_s = time.monotonic()  # those who wait here ask no slow provider again
                raise
            self._fetched_s = now_s
            return self._value


def _texts(found: dict[str, Any], name: str, otherwise: str) -> set[str]:
    """Return what a list of discovery has; raises Failed."""
    listed = found.get(name, [otherwise])
    if not isinstance(listed, list):
        raise Failed("provider", f"{name} is no list")
    return {each for each in listed if isinstance(each, str)}
