"""Who may use the broker: SASL/PLAIN with its one user (KIP-43, KIP-152), or everybody."""

from __future__ import annotations

import hmac
from datetime import timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode

from infra.kafka.broker.answers import answer

HANDSHAKE: Final = 17
AUTHENTICATE: Final = 36
MECHANISM: Final = "PLAIN"

User = tuple[str, str]
"""Name and password."""


class Login:
    """The login of one connection."""

    def __init__(self, user: User | None) -> None:
        self._user = user
        self._has_shaken_hands = False
        self.done = user is None
        self.refused = False

    def handshake(self, request: Any) -> Any:
        """Agree on the mechanism."""
        error = ErrorCode.none
        if self._user is None:
            error = ErrorCode.illegal_sasl_state
        elif request.mechanism != MECHANISM:
            error = ErrorCode.unsupported_sasl_mechanism
        self._has_shaken_hands = error is ErrorCode.none
        return answer(request, "SaslHandshakeResponse", error_code=error, mechanisms=(MECHANISM,))

    def authenticate(self, request: Any) -> Any:
        """Check name and password; the caller closes the connection after a refusal."""
        error, message = ErrorCode.none, None
        if not self._has_shaken_hands:
            error, message = ErrorCode.illegal_sasl_state, "SaslHandshake comes first"
        elif not self._matches(request.auth_bytes):
            error = ErrorCode.sasl_authentication_failed
            message = "Authentication failed: invalid username or password"
        self.done = error is ErrorCode.none
        self.refused = not self.done
        return answer(
            request,
            "SaslAuthenticateResponse",
            error_code=error,
            error_message=message,
            auth_bytes=b"",
            session_lifetime=timedelta(),
        )

    def _matches(self, token: bytes) -> bool:
        """Compare `[authorization] NUL name NUL password` (RFC 4616) with the user."""
        if self._user is None:
            return False
        expected = [text.encode() for text in self._user]
        found = token.split(b"\0")[1:]
        return hmac.compare_digest(b"\0".join(found), b"\0".join(expected))
