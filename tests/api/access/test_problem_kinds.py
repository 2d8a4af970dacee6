"""What callers see of problems at an account's own paths: codes and statuses are an interface."""

from __future__ import annotations

from api.access import problem_kinds
from api.http.errors import Kind


def test_each_has_its_status() -> None:
    kinds = [each for each in vars(problem_kinds).values() if isinstance(each, Kind)]
    assert {each.code: each.status for each in kinds} == {
        "session_missing": 401,
        "token_missing": 403,
        "no_such_key": 404,
        "key_limit": 409,
        "no_such_credentials": 404,
        "kafka_off": 404,
        "kafka_limit": 409,
        "kafka_busy": 409,
        "kafka_failed": 503,
    }
