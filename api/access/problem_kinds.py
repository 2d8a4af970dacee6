"""What can go wrong at an account's own paths, beside what can go wrong everywhere."""

from __future__ import annotations

from typing import Final

from api.http.errors import Kind

SESSION_MISSING: Final = Kind("session_missing", 401, "This browser is not signed in")
TOKEN_MISSING: Final = Kind("token_missing", 403, "The token of the session is required")
NO_SUCH_KEY: Final = Kind("no_such_key", 404, "The account has no such key")
KEY_LIMIT: Final = Kind("key_limit", 409, "The account may make no more keys now")
NO_SUCH_CREDENTIALS: Final = Kind("no_such_credentials", 404, "The account has no such credentials")
KAFKA_OFF: Final = Kind("kafka_off", 404, "Kafka credentials are not issued here")
KAFKA_LIMIT: Final = Kind("kafka_limit", 409, "The account may have no more Kafka credentials now")
KAFKA_BUSY: Final = Kind("kafka_busy", 409, "Kafka credentials are being changed")
KAFKA_FAILED: Final = Kind("kafka_failed", 503, "Kafka did not do it")
