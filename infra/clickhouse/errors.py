"""ClickHouse's numbered errors, and the HTTP status each is answered with."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final


class Code(IntEnum):
    """The errors the front raises itself; names and numbers are the server's."""

    BAD_ARGUMENTS = 36
    NOT_IMPLEMENTED = 48
    SYNTAX_ERROR = 62
    UNKNOWN_FORMAT = 73
    UNKNOWN_COMPRESSION_METHOD = 89
    UNKNOWN_SETTING = 115
    READONLY = 164
    TOO_MANY_SIMULTANEOUS_QUERIES = 202
    SOCKET_TIMEOUT = 209
    QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING = 216
    QUERY_IS_TOO_LARGE = 229
    CANNOT_DECOMPRESS = 271
    LIMIT_EXCEEDED = 290
    SESSION_NOT_FOUND = 372
    SESSION_IS_LOCKED = 373
    INVALID_SESSION_TIMEOUT = 374
    SETTING_CONSTRAINT_VIOLATION = 452
    ACCESS_DENIED = 497
    UNKNOWN_ROLE = 511
    AUTHENTICATION_FAILED = 516
    POCO_EXCEPTION = 1000
    STD_EXCEPTION = 1001  # what the server calls an error that is none of ClickHouse's own


# As the server maps them (ClickHouse, src/Server/HTTP/exceptionCodeToHTTPStatus.cpp).
_CODES_OF_STATUS: Final = {
    400: (
        *(6, 8, 15, 25, 26, 27, 36, 37, 38, 41, 44, 53, 62, 72),
        *(117, 123, 167, 168, 223, 321, 376, 427, 441, 675, 676),
    ),
    401: (194,),
    403: (192, 193, 497, 512, 516),
    404: (46, 47, 50, 56, 60, 63, 73, 78, 81, 115, 152, 336, 511),
    408: (159,),
    411: (381,),
    413: (229,),
    415: (779,),
    501: (48,),
    503: (76, 209, 439),
}
_STATUS_OF_CODE: Final = {
    code: status for status, codes in _CODES_OF_STATUS.items() for code in codes
}

_ENGINE_ERROR: Final = re.compile(r"Code: (\d+)\. DB::.*", re.DOTALL)


class QueryError(Exception):
    """A query failed; `str()` is the text a ClickHouse server would answer with."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code

    @property
    def status(self) -> int:
        """The HTTP status of the answer."""
        return _STATUS_OF_CODE.get(self.code, 500)


def refusal(code: Code, reason: str) -> QueryError:
    """Build an error of the front itself, worded like the engine's."""
    return QueryError(code, f"Code: {code.value}. DB::Exception: {reason}. ({code.name})")


def from_engine(error: Exception) -> QueryError:
    """Read code and text out of what chDB raised."""
    if found := _ENGINE_ERROR.search(str(error)):
        return QueryError(int(found[1]), found[0].rstrip())
    return refusal(Code.STD_EXCEPTION, str(error) or type(error).__name__)
