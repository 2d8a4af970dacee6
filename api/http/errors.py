"""What can go wrong for a caller, as RFC 9457 problems with stable codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import orjson

MEDIA_TYPE: Final = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of problem. The code never changes its meaning; the title is for people."""

    code: str
    status: int
    title: str


MALFORMED_REQUEST: Final = Kind("malformed_request", 400, "The request is not valid HTTP/1.1")
MALFORMED_JSON: Final = Kind("malformed_json", 400, "The body is not valid JSON")
KEY_MISSING: Final = Kind("key_missing", 401, "An API key is required")
KEY_MALFORMED: Final = Kind("key_malformed", 401, "The API key is malformed")
KEY_UNKNOWN: Final = Kind("key_unknown", 401, "The API key does not exist")
KEY_REVOKED: Final = Kind("key_revoked", 403, "The API key was revoked")
USER_SUSPENDED: Final = Kind("user_suspended", 403, "The account was suspended")
NOT_IN_PLAN: Final = Kind("not_in_plan", 403, "The plan of the API key does not include this")
NOT_FOUND: Final = Kind("not_found", 404, "The path does not exist")
UNKNOWN_TOKEN: Final = Kind("unknown_token", 404, "The token is unknown")
NO_IMAGE: Final = Kind("no_image", 404, "There is no image of the token")
NO_POSITION: Final = Kind("no_position", 404, "The wallet has no position in this token")
PAYMENT_BUSY: Final = Kind("payment_busy", 409, "The payment is being used, or was used")
METHOD_NOT_ALLOWED: Final = Kind("method_not_allowed", 405, "The path does not accept this method")
REQUEST_TIMED_OUT: Final = Kind("request_timed_out", 408, "The request did not arrive in time")
BODY_TOO_LARGE: Final = Kind("body_too_large", 413, "The body is too large")
MISDIRECTED: Final = Kind("misdirected", 421, "The server does not answer to this name")
INVALID_ADDRESS: Final = Kind("invalid_address", 422, "An address is not valid")
INVALID_PARAMETER: Final = Kind("invalid_parameter", 422, "A parameter is not valid")
INVALID_BODY: Final = Kind("invalid_body", 422, "The body is not valid")
INVALID_CURSOR: Final = Kind("invalid_cursor", 422, "The cursor is not valid for this list")
TOO_MANY_HOLDERS: Final = Kind("too_many_holders", 422, "The token has too many holders to rank")
TOO_COSTLY: Final = Kind("too_costly", 422, "The answer takes more than one request may use")
RATE_EXCEEDED: Final = Kind("rate_exceeded", 429, "Too many requests in 60 seconds")
CONCURRENCY_EXCEEDED: Final = Kind(
    "concurrency_exceeded", 429, "Too many requests of the API key at once"
)
TOO_MANY_FAILURES: Final = Kind(
    "too_many_failures", 429, "Too many keys or sessions from this address were refused"
)
CREDITS_SPENT: Final = Kind("credits_spent", 429, "The credits of this month are used up")
HEADERS_TOO_LARGE: Final = Kind("headers_too_large", 431, "The headers are too large")
INTERNAL: Final = Kind("internal", 500, "The server failed")
STORE_UNAVAILABLE: Final = Kind("store_unavailable", 503, "A data store is not available")
QUARANTINED: Final = Kind("quarantined", 503, "What is stored of a wallet or token is unreadable")
PAYMENT_UNSETTLED: Final = Kind("payment_unsettled", 503, "The payment's outcome is not known yet")
PAYMENTS_FULL: Final = Kind("payments_full", 503, "No further payments are taken now")
NO_FACILITATOR: Final = Kind("no_facilitator", 503, "Payments cannot be taken now")
TIMED_OUT: Final = Kind("timed_out", 503, "The answer took too long")
BUSY: Final = Kind("busy", 503, "Too many requests at once")


class Problem(Exception):
    """Ends a request with an error answer; `detail` says what to do about it."""

    def __init__(
        self, kind: Kind, detail: str, *, headers: dict[str, str] | None = None, **members: Any
    ) -> None:
        super().__init__(f"{kind.code}: {detail}")
        self.kind = kind
        self.detail = detail
        self.headers = headers or {}
        self.members = members  # extension members of the answer

    def body(self, request_id: str, path: str) -> bytes:
        """Return the answer's body."""
        return orjson.dumps(
            {
                "type": f"urn:soltape:problem:{self.kind.code}",
                "title": self.kind.title,
                "status": self.kind.status,
                "detail": self.detail,
                "instance": path,
                "code": self.kind.code,
                "request_id": request_id,
                **self.members,
            }
        )
