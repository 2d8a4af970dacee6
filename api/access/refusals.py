"""Why a key is refused, in the words that every door uses.

`how` says where a key belongs at that door.
"""

from __future__ import annotations

from typing import Final

from api.access.problem_kinds import SESSION_MISSING, TOKEN_MISSING
from api.http.errors import (
    KEY_MALFORMED,
    KEY_MISSING,
    KEY_REVOKED,
    KEY_UNKNOWN,
    NOT_IN_PLAN,
    RATE_EXCEEDED,
    STORE_UNAVAILABLE,
    TOO_MANY_FAILURES,
    USER_SUSPENDED,
    Problem,
)

__all__ = [
    "Problem",
    "malformed",
    "missing",
    "no_session",
    "no_token",
    "plan_gone",
    "revoked",
    "signed_out",
    "store_unavailable",
    "suspended",
    "too_fast",
    "too_many_failures",
    "too_many_tickets",
    "unknown",
]

# A 401 must name a way to authenticate (RFC 9110); this is how ours is called in OpenAPI.
_CHALLENGE: Final = {"WWW-Authenticate": 'ApiKey in="header", name="x-api-key"'}
RETRY_AFTER_S: Final = 2


def missing(how: str) -> Problem:
    """Return the problem of a request without a key."""
    return Problem(KEY_MISSING, how, headers=_CHALLENGE)


def malformed(reason: str) -> Problem:
    """Return the problem of a malformed key; the reason never repeats it."""
    return Problem(KEY_MALFORMED, reason, headers=_CHALLENGE)


def unknown() -> Problem:
    """Return the problem of a key that was not made here."""
    return Problem(
        KEY_UNKNOWN, "The key is well formed, but it was never created here", headers=_CHALLENGE
    )


def revoked() -> Problem:
    """Return the problem of a key that was revoked."""
    return Problem(KEY_REVOKED, "The key no longer works; use another one")


def suspended() -> Problem:
    """Return the problem of an account that the operator suspended."""
    return Problem(USER_SUSPENDED, "The account is suspended; ask the operator of this service")


def no_session() -> Problem:
    """Return the problem of a browser that is not signed in, where a user's session is needed."""
    return Problem(
        SESSION_MISSING,
        "Sign in first: this path takes the session of a browser, and no API key",
        headers=_CHALLENGE,
    )


def signed_out() -> Problem:
    """Return the problem of a WebSocket whose session has ended before it was open."""
    return Problem(SESSION_MISSING, "The session has ended; sign in again", headers=_CHALLENGE)


def no_token() -> Problem:
    """Return the problem of a change to an account without its CSRF token."""
    return Problem(TOKEN_MISSING, "Send the `csrf` of /account.json in the header `x-csrf-token`")


def too_fast(window_s: int) -> Problem:
    """Return the problem of a caller that asks for sign-in or accounts too often."""
    return Problem(
        RATE_EXCEEDED,
        f"Too many requests for accounts; retry in {window_s} s",
        headers={"Retry-After": str(window_s)},
    )


def too_many_failures(retry_after_s: int) -> Problem:
    """Return the problem of an address of which too many keys and sessions were refused."""
    return Problem(
        TOO_MANY_FAILURES,
        "Too many API keys or sessions from this address were refused; check the key, and retry in "
        f"{retry_after_s} s",
        headers={"Retry-After": str(retry_after_s)},
    )


def too_many_tickets(retry_after_s: int) -> Problem:
    """Return the problem of an address of which too many tickets were refused."""
    return Problem(
        TOO_MANY_FAILURES,
        "Too many tickets from this address were used before, or had expired; get a new one, and "
        f"retry in {retry_after_s} s",
        headers={"Retry-After": str(retry_after_s)},
    )


def plan_gone(plan: str) -> Problem:
    """Return the problem of a key whose plan is not among those that are sold."""
    return Problem(NOT_IN_PLAN, f"The plan {plan} of the key no longer exists")


def store_unavailable(store: str) -> Problem:
    """Return the problem of a caller that cannot be looked up, or answered, as a store is away."""
    return Problem(
        STORE_UNAVAILABLE,
        f"{store} does not answer; retry in {RETRY_AFTER_S} s",
        headers={"Retry-After": str(RETRY_AFTER_S)},
    )
