"""What of a request gets into the access log."""

import io
import json

from hypothesis import given
from hypothesis import strategies as st

from api.access.keys import PREFIX, new
from api.http.access_log import AccessLog, shown
from infra.settings import Settings
from tests.support.waiting import eventually_async

LINE = {
    "method": "GET",
    "path": "/api/tokens/So11111111111111111111111111111111111111112",
    "status": 200,
    "duration_ms": 1.2345,
    "request_id": "5f3a9c1e-1",
    "key_id": None,
    "client": "127.0.0.1",
}


def test_paths_of_ours_are_shown_as_they_are():
    for path in (
        "/",
        "/docs/swagger-ui.css",
        "/api/wallets/So11111111111111111111111111111111111111112/pnl/daily",
        "/api/tokens/leaderboard/batch",
    ):
        assert shown(path) == path


def test_a_path_is_cut_where_it_is_none_of_ours():
    assert shown("/api/tokens/" + "a" * 45) == "/api/tokens/*"
    assert shown("/a b/c\nd/e") == "/*/*/e"
    assert shown("/" + "a/" * 50).count("/") == 8


@given(st.lists(st.text(max_size=60), max_size=12), st.integers(0, 11), st.booleans())
def test_no_key_is_shown_wherever_it_occurs(parts, at, escaped):
    key = new()
    parts.insert(at, key.replace("_", "%5F") if escaped else key)
    said = shown("/" + "/".join(parts))
    assert key.removeprefix(PREFIX) not in said
    assert "\n" not in said


async def test_lines_are_json_or_text_and_come_within_a_moment():
    for log_format in ("json", "console"):
        out = io.StringIO()
        log = AccessLog(Settings(_env_file=None, log_format=log_format), out)
        log.write(**LINE)
        assert out.getvalue() == ""
        await eventually_async(out.getvalue)
        [line] = out.getvalue().splitlines()
        if log_format == "json":
            record = json.loads(line)
            assert record["path"] == LINE["path"]
            assert record["duration_ms"] == 1.23
            assert (record["event"], record["level"], record["role"]) == ("request", "info", "api")
            assert record["timestamp"].endswith("Z")
        else:
            assert " [info     ] request method=GET path=/api/tokens/" in line
            assert "status=200 duration_ms=1.23 request_id=5f3a9c1e-1 " in line


async def test_many_lines_do_not_wait():
    out = io.StringIO()
    log = AccessLog(Settings(_env_file=None, log_format="json"), out)
    for _ in range(1_500):
        log.write(**LINE)
    assert len(out.getvalue().splitlines()) == 1_000
    log.flush()
    assert len(out.getvalue().splitlines()) == 1_500


def test_it_is_silent_where_only_warnings_are_wanted():
    assert not AccessLog(Settings(_env_file=None, log_level="warning")).is_on
    assert AccessLog(Settings(_env_file=None, log_level="debug")).is_on


async def test_a_log_that_cannot_be_written_ends_nothing():
    tried = []

    class Full(io.StringIO):
        def write(self, text):
            tried.append(text)
            raise OSError(28, "No space left on device")

    log = AccessLog(Settings(_env_file=None), Full())
    for times in (1, 2):
        log.write(**LINE)
        log.flush()
        assert len(tried) == times
