"""The ID token: what an issuer says of somebody, believed once all of it is verified.

Signature by a key of the issuer's own set, with an asymmetric algorithm; then issuer, audience,
times, nonce, authorized party and the access token's hash, by Authlib. Keys of the set that are of
no use here, or of a size that makes a check slow or worthless, are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, GuestProtocol, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from api.access.keys import MAX_WORDS
from api.access.users import Identity
from api.signin.failures import Failed

ALGORITHMS: Final = frozenset(
    {
        *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
        *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
    }
)
LEEWAY_S: Final = 60
MOST_KEYS: Final = 50
MOST_CHARACTERS: Final = 16 << 10
_LONGEST_SUBJECT: Final = 255  # OpenID Connect Core, 2
_RSA_CHARACTERS: Final = range(342, 1_367)  # base64url of 2,048 to 8,192 bits
_EXPONENT_CHARACTERS: Final = 6  # of 32 bits
_NAMES: Final = (
    "email",
    "preferred_username",
    "name",
    "sub",
)  # shown, never used to identify users

PublicKey = RSAKey | ECKey | OKPKey
_TYPES: Final[dict[str, Any]] = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}


def public_keys(answer: Any) -> list[PublicKey]:
    """Return the keys of a set that may verify a signature; raises Failed."""
    found = answer.get("keys") if isinstance(answer, dict) else None
    if not isinstance(found, list) or len(found) > MOST_KEYS:
        raise Failed("provider", "its keys are no set, or too many")
    return [key for each in found if (key := _public_key(each)) is not None]


def _public_key(jwk: Any) -> PublicKey | None:
    if not isinstance(jwk, dict) or jwk.get("use", "sig") != "sig" or "d" in jwk:
        return None
    kind = jwk.get("kty")
    if kind not in _TYPES or (kind == "RSA" and not _is_sound(jwk)):
        return None
    try:
        key: PublicKey = _TYPES[kind].import_key(jwk)
        key.public_key  # noqa: B018 - raises where the numbers are of no key
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    return key


def _is_sound(jwk: Mapping[str, Any]) -> bool:
    modulus, exponent = jwk.get("n"), jwk.get("e")
    return (
        isinstance(modulus, str)
        and len(modulus) in _RSA_CHARACTERS
        and isinstance(exponent, str)
        and len(exponent) <= _EXPONENT_CHARACTERS
    )


class KeyUnknown(Exception):
    """No key of the set has signed it, as far as its head says: the set may be older."""


def verify(
    token: str,
    keys: Collection[PublicKey],
    *,
    issuer: str,
    client_id: str,
    nonce: str,
    algorithms: Collection[str],
    access_token: str | None,
) -> Identity:
    """Return whom a token is of; raises Failed, KeyUnknown."""
    if len(token) > MOST_CHARACTERS or token.count(".") != 2 or not token.isascii():
        raise Failed("token", "it is no signed JWT")

    def of(asked: GuestProtocol) -> PublicKey:
        head = asked.headers()
        fitting = [
            key
            for key in keys
            if head.get("kid") in (key.kid, None) and key.alg in (head.get("alg"), None)
        ]
        if not fitting:
            raise KeyUnknown
        if len(fitting) > 1:
            raise Failed("token", "several keys may have signed it")
        return fitting[0]

    allowed = [*(ALGORITHMS & set(algorithms))]
    registry = JWSRegistry(algorithms=allowed, strict_check_header=False)
    try:
        decoded = jwt.decode(token, of, registry=registry)
        if not isinstance(decoded.claims, dict):
            raise Failed("token", "it has no claims")
        claims = CodeIDToken(
            decoded.claims,
            decoded.header,
            {
                "iss": {"essential": True, "value": issuer},
                "aud": {"essential": True, "value": client_id},
            },
            {"nonce": nonce, "client_id": client_id, "access_token": access_token},
        )
        claims.validate(leeway=LEEWAY_S)
    except (JoseError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise Failed("token", f"{type(error).__name__}: {error}") from None
    subject = claims["sub"]
    if (
        not isinstance(subject, str)
        or not 0 < len(subject) <= _LONGEST_SUBJECT
        or not subject.isprintable()  # half of a surrogate pair, for one, is no text
    ):
        raise Failed("token", "its subject is none")
    return Identity(issuer, subject, _shown(claims))


def _shown(claims: Mapping[str, Any]) -> str:
    for name in _NAMES:
        words = claims.get(name)
        if isinstance(words, str) and 0 < len(words) <= MAX_WORDS and words.isprintable():
            return words
    return "user"
