"""What is believed of an identity provider, against one that lies."""

from __future__ import annotations

import hmac
import json
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator

import pytest
from joserfc import jws
from joserfc.jwk import ECKey, OKPKey, RSAKey

from api.signin.failures import REASONS, Failed
from api.signin.fetching import MOST_BYTES, Fetcher
from api.signin.provider import Provider
from tests.support.api.issuing import CLIENT, Issuer, issuing

NONCE = "n" * 43
DAY_S = 86_400  # more than any run of all tests takes: claims are made when it starts
CALLBACK = "https://soltape.example.com/signin/callback"


@pytest.fixture(scope="module")
def running() -> Iterator[Issuer]:
    with issuing() as issuer:
        yield issuer


@pytest.fixture
def issuer(running: Issuer) -> Issuer:
    running.reset()
    running.nonce = NONCE
    return running


def provider(issuer: Issuer, secret: str | None = "secret") -> Provider:
    return Provider(issuer.issuer, CLIENT, secret, CALLBACK, Fetcher(issuer.issuer))


async def refused(issuer: Issuer, reason: str = "token") -> str:
    with pytest.raises(Failed) as failed:
        await provider(issuer).identity("code", NONCE, "verifier")
    assert failed.value.reason == reason
    return failed.value.detail


def encoded(value: object) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


async def test_the_identity_is_that_of_the_token(issuer):
    found = await provider(issuer).identity("code", NONCE, "verifier")
    assert (found.issuer, found.subject) == (issuer.issuer, "mallory")
    assert found.name == "mallory@example.com"
    [form] = [form for path, form in issuer.asked if path == "/token"]
    assert (form["code"], form["code_verifier"], form["redirect_uri"]) == (
        *("code", "verifier"),
        CALLBACK,
    )


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [
        ("PS256", None),
        ("ES256", ECKey.generate_key("P-256")),
        ("ES384", ECKey.generate_key("P-384")),
        ("EdDSA", OKPKey.generate_key("Ed25519")),
    ],
)
async def test_other_asymmetric_algorithms_are_accepted_where_it_says_that_it_uses_them(
    issuer, algorithm, key
):
    issuer.algorithm = algorithm
    issuer.signer = key or issuer.key
    issuer.keys = [issuer.signer.as_dict(private=False)]
    await refused(issuer)
    issuer.discovery = {"id_token_signing_alg_values_supported": [algorithm]}
    assert (await provider(issuer).identity("code", NONCE, "verifier")).subject == "mallory"


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://other.example.com"},
        {"iss": None},
        {"aud": "another client"},
        {"aud": ["another", "client"]},
        {"aud": []},
        {"aud": None},
        {"aud": [CLIENT, "another"]},  # and no azp
        {"aud": [CLIENT, "another"], "azp": "another"},
        {"azp": "another"},
        {"exp": int(time.time()) - 120},
        {"exp": None},
        {"exp": "soon"},
        {"exp": True},
        {"nbf": int(time.time()) + DAY_S},
        {"iat": None},
        {"iat": int(time.time()) + DAY_S},
        {"nonce": "m" * 43},
        {"nonce": None},
        {"nonce": ["n" * 43]},
        {"nonce": ""},
        {"sub": None},
        {"sub": ""},
        {"sub": "s" * 256},
        {"sub": ["mallory"]},
        {"sub": 7},
        {"sub": "a\x1b[2J"},
        {"at_hash": "of another token"},
    ],
)
async def test_claims_that_are_not_right_are_refused(issuer, claims):
    issuer.claims = claims
    await refused(issuer)


async def test_a_subject_that_is_half_of_a_pair_is_no_text(issuer):
    now_s = int(time.time())
    claims = {"iss": issuer.issuer, "sub": "\ud800", "aud": CLIENT, "nonce": NONCE}
    payload = json.dumps({**claims, "iat": now_s, "exp": now_s + 300})
    issuer.raw_token = jws.serialize_compact(
        {"alg": "RS256", "kid": issuer.key.kid}, payload, issuer.key
    )
    await refused(issuer)


async def test_several_audiences_with_us_as_the_party_are_right(issuer):
    issuer.claims = {"aud": [CLIENT, "another"], "azp": CLIENT}
    assert (await provider(issuer).identity("code", NONCE, "verifier")).subject == "mallory"


async def test_an_unsigned_token_is_refused(issuer):
    _, claims, _ = issuer.token(NONCE).split(".")
    for algorithm in ("none", "None", "NONE", ""):
        issuer.raw_token = f"{encoded({'alg': algorithm})}.{claims}."
        await refused(issuer)
    issuer.discovery = {"id_token_signing_alg_values_supported": ["none", "HS256"]}
    await refused(issuer, "provider")
    issuer.discovery = {"id_token_signing_alg_values_supported": ["none", "RS256"]}
    issuer.raw_token = f"{encoded({'alg': 'none'})}.{claims}."
    await refused(issuer)


async def test_a_public_key_is_no_secret_to_sign_with(issuer):
    """The attack on verifiers that let the token say which kind of key theirs is."""
    issuer.discovery = {"id_token_signing_alg_values_supported": ["HS256", "RS256"]}
    _, claims, _ = issuer.token(NONCE).split(".")
    own = issuer.key.as_dict(private=False)
    for secret in (issuer.key.as_pem(private=False), b"secret"):
        signed = f"{encoded({'alg': 'HS256', 'kid': issuer.key.kid})}.{claims}"
        mac = hmac.digest(secret, signed.encode(), "sha256")
        issuer.raw_token = f"{signed}.{urlsafe_b64encode(mac).rstrip(b'=').decode()}"
        shared = {"kty": "oct", "k": urlsafe_b64encode(secret).decode(), "kid": issuer.key.kid}
        for keys in ([own], [own, shared], [shared]):
            issuer.keys = keys
            await refused(issuer)


async def test_a_token_brings_no_key_along(issuer):
    own = RSAKey.generate_key(2048, auto_kid=True)
    issuer.signer = own
    for head in (
        {"jwk": own.as_dict(private=False)},
        {"jku": f"{issuer.issuer}/jwks"},
        {"jku": f"{issuer.issuer}/jwks", "kid": issuer.key.kid},
        {"kid": None},
        {"kid": issuer.key.kid},
        {"crit": ["b64"], "b64": False, "kid": issuer.key.kid},
    ):
        issuer.head = head
        await refused(issuer)


async def test_signatures_are_looked_at(issuer):
    head, claims, signature = issuer.token(NONCE).split(".")
    other = encoded({**json.loads(_decoded(claims)), "sub": "ann"})
    for token in (
        f"{head}.{other}.{signature}",
        f"{head}.{claims}.",
        f"{head}.{claims}.{signature[:-4]}AAAA",
        f"{head}.{claims}",
        f"{head}.{claims}.{signature}.{signature}.{signature}",  # as if it was encrypted
        "x" * 20_000,
        "..",
        "",
        "\u00e9.\u00e9.\u00e9",
    ):
        issuer.raw_token = token
        await refused(issuer)
    for token in (None, 7, ["x"], {}):
        issuer.raw_token = token
        await refused(issuer)


def _decoded(part: str) -> bytes:
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


@pytest.mark.parametrize(
    "changed",
    [
        {"use": "enc"},
        {"alg": "RS512"},
        {"kty": "oct"},
        {"n": "AQAB"},
        {"n": "A" * 5_000},
        {"e": "A" * 20},
        {"n": 7},
    ],
)
async def test_keys_of_no_use_are_left_out(issuer, changed):
    issuer.keys = [{**issuer.key.as_dict(private=False), **changed}]
    await refused(issuer)


async def test_keys_that_cannot_be_read_do_not_take_the_others_along(issuer):
    issuer.keys = [{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}, {}, *issuer.keys]
    issuer.keys[1:1] = [None, 7, {"kty": "RSA"}]  # type: ignore[list-item]
    assert (await provider(issuer).identity("code", NONCE, "verifier")).subject == "mallory"


async def test_a_new_key_is_fetched_once_it_signs(issuer, monkeypatch):
    asked = provider(issuer)
    await asked.identity("code", NONCE, "verifier")
    new = RSAKey.generate_key(2048, auto_kid=True)
    issuer.signer, issuer.keys = new, [new.as_dict(private=False)]
    # private `_AGAIN_S`: lets the keys be fetched again at once.
    monkeypatch.setattr("api.signin.provider._AGAIN_S", 0.0)
    assert (await asked.identity("code", NONCE, "verifier")).subject == "mallory"


async def test_unknown_keys_do_not_cause_repeated_fetches(issuer):
    asked = provider(issuer)
    issuer.head = {"kid": "of nobody"}
    for _ in range(5):
        with pytest.raises(Failed):
            await asked.identity("code", NONCE, "verifier")
    assert [path for path, _ in issuer.asked].count("/jwks") == 1


@pytest.mark.parametrize(
    "discovery",
    [
        {"issuer": "https://other.example.com"},
        {"issuer": None},
        {"token_endpoint": None},
        {"token_endpoint": 7},
        {"token_endpoint": "http://127.0.0.1:1/token"},  # of another port, in clear text
        {"token_endpoint": "http://10.0.0.1/token"},
        {"token_endpoint": "https://10.0.0.1/token"},
        {"token_endpoint": "https://169.254.169.254/token"},
        {"token_endpoint": "https://[::1]/token"},
        {"token_endpoint": "https://localhost/token"},
        {"token_endpoint": "file:///etc/passwd"},
        {"token_endpoint": "https://user:pass@example.com/token"},
        {"jwks_uri": "https://127.0.0.1/jwks"},
        {"jwks_uri": "gopher://127.0.0.1/jwks"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "http://evil.example.com/"},
        {"code_challenge_methods_supported": ["plain"]},
        {"code_challenge_methods_supported": "S256"},
        {"id_token_signing_alg_values_supported": ["HS256"]},
    ],
)
async def test_discovery_that_leads_elsewhere_is_refused(issuer, discovery):
    issuer.discovery = discovery
    await refused(issuer, "provider")
    assert all(path != "/token" for path, _ in issuer.asked) or "jwks_uri" in discovery


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/jwks", "/token"])
@pytest.mark.parametrize(
    "answer",
    [
        (200, b"[]", {}),
        (200, b"not json", {}),
        (200, b"{" + b" " * MOST_BYTES + b"}", {}),
        (200, b"", {}),
        (302, b"", {"location": "http://169.254.169.254/"}),
        (307, b"", {"location": "/elsewhere"}),
        (500, b"oops", {}),
        (429, b"{}", {}),
    ],
)
async def test_answers_that_are_none_are_the_providers_fault(issuer, path, answer):
    issuer.answers = {path: answer}
    with pytest.raises(Failed) as failed:
        await provider(issuer).identity("code", NONCE, "verifier")
    assert failed.value.reason in ("provider", "token")
    assert {asked for asked, _ in issuer.asked} <= {
        *("/.well-known/openid-configuration", "/jwks", "/token"),
    }


async def test_a_code_that_it_no_longer_accepts(issuer):
    issuer.answers = {"/token": (400, b'{"error": "invalid_grant"}', {})}
    await refused(issuer, "code")


async def test_an_answer_that_never_comes_is_given_up(issuer, monkeypatch):
    monkeypatch.setattr("api.signin.fetching.WITHIN_S", 0.0)
    await refused(issuer, "provider")


async def test_after_a_failure_it_is_not_asked_at_once_again(issuer):
    issuer.discovery = {"issuer": "https://other.example.com"}
    asked = provider(issuer)
    for _ in range(5):
        with pytest.raises(Failed):
            await asked.address("state", NONCE, "verifier")
    assert len(issuer.asked) == 1


async def test_what_a_browser_brings_back_names_the_issuer(issuer):
    asked = provider(issuer)
    await asked.check_issuer(None)
    await asked.check_issuer(issuer.issuer)
    for named in ("https://other.example.com", "", f"{issuer.issuer}/"):
        with pytest.raises(Failed, match="issuer"):
            await asked.check_issuer(named)
    issuer.discovery = {"authorization_response_iss_parameter_supported": True}
    with pytest.raises(Failed, match="issuer"):
        await provider(issuer).check_issuer(None)


@pytest.mark.parametrize(
    ("claims", "name"),
    [
        ({"email": None, "preferred_username": "mal"}, "mal"),
        ({"email": "x" * 101, "name": "Mal"}, "Mal"),
        ({"email": "a\nb"}, "mallory"),
        ({"email": ["a"]}, "mallory"),
        ({"email": "\u202eevil"}, "mallory"),
    ],
)
async def test_a_name_is_one_line_that_can_be_shown(issuer, claims, name):
    issuer.claims = claims
    assert (await provider(issuer).identity("code", NONCE, "verifier")).name == name


def test_words_of_failures_are_our_own():
    for reason, (status, words) in REASONS.items():
        assert status in (400, 403, 429, 503)
        assert Failed(reason, "detail").words == words
        assert "<" not in words
