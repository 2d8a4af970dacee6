"""What a caller may hold open, pile up or send in pieces: seen over a bare socket."""

from __future__ import annotations

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from random import Random

import httpx
import pytest

from api.access.gate import BATCHES_AT_ONCE
from api.http.protocol import HEAD_WITHIN_S
from tests.support.waiting import eventually

SOL = "So11111111111111111111111111111111111111112"
PRICE = f"/api/tokens/{SOL}/price"
BATCH = "/api/tokens/batch"
BODY = json.dumps({"mints": [SOL]}).encode()
HEAD_BYTES = 16 * 1024


class Answer:
    def __init__(self, head: bytes, body: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(first.split()[1])
        self.headers = dict(line.lower().split(": ", 1) for line in lines)
        self.body = body

    @property
    def problem(self):
        assert self.headers["content-type"] == "application/problem+json"
        problem = json.loads(self.body)
        assert problem["status"] == self.status
        assert problem["request_id"] == self.headers["x-request-id"]
        return problem


class Caller:
    """A connection of bytes."""

    def __init__(self, api, timeout_s: float = 120.0) -> None:
        self.socket = socket.create_connection((api.host, api.port), timeout=timeout_s)
        self._read = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def can_send(self, data: bytes) -> bool:
        try:
            self.send(data)
        except (ConnectionResetError, BrokenPipeError):
            return False
        return True

    def answer(self) -> Answer:
        while b"\r\n\r\n" not in self._read:
            self._more()
        head, _, self._read = self._read.partition(b"\r\n\r\n")
        answer = Answer(head, b"")
        while len(self._read) < int(answer.headers.get("content-length", 0)):
            self._more()
        length = int(answer.headers.get("content-length", 0))
        answer.body, self._read = self._read[:length], self._read[length:]
        return answer

    def is_ended(self) -> bool:
        """Whether the server ends the connection, with nothing more said."""
        try:
            return self._read + self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _more(self) -> None:
        data = self.socket.recv(65536)
        assert data, f"the connection ended after {self._read!r}"
        self._read += data


def head(api, method: str = "GET", path: str = PRICE, *lines: str) -> bytes:
    fields = [f"{method} {path} HTTP/1.1", "host: localhost", f"x-api-key: {api.key}", *lines]
    return "\r\n".join([*fields, "", ""]).encode("latin-1")


@pytest.fixture(scope="module")
def strict(serve):
    """An API with small bounds, so that tests reach them."""
    with serve(api_timeout_s=1.0, api_max_body_kib=1) as running:
        yield running


@pytest.fixture(scope="module")
def few(serve):
    """An API that holds twenty connections."""
    with serve(api_max_connections=20) as running:
        yield running


def assert_it_serves(api):
    assert httpx.get(f"{api.url}{PRICE}", headers={"x-api-key": api.key}).status_code == 200


@pytest.mark.parametrize(
    "large",
    [
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: localhost\r\nx-a: " + b"a" * 70_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: localhost\r\n"
        + b"x-a: "
        + b"a" * (HEAD_BYTES - 10)
        + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: localhost\r\n" + b"x-a: 1\r\n" * 3_000 + b"\r\n",
        b"GET / HTTP/1.1\r\nhost: localhost\r\n"
        + b"".join(b"x-%d: 1\r\n" % n for n in range(101))
        + b"\r\n",
        b"GET / HTTP/1.1\r\n" + b"x" * 70_000 + b": 1\r\n\r\n",
    ],
    ids=["path", "value", "a little", "many", "more than a hundred", "name"],
)
@pytest.mark.parametrize("pieces", [1, 7])
def test_a_large_head_is_refused(api, large, pieces):
    with Caller(api) as caller:
        size = -(-len(large) // pieces)
        for at in range(0, len(large), size):
            if not caller.can_send(large[at : at + size]):
                break  # it was refused already
            time.sleep(0.01 if pieces > 1 else 0)
        answer = caller.answer()
        assert (answer.status, answer.problem["code"]) == (431, "headers_too_large")
        assert caller.is_ended()
    assert_it_serves(api)


def test_a_head_that_never_ends_is_not_piled_up(api):
    with Caller(api) as caller:
        caller.send(b"GET / HTTP/1.1\r\n")
        sent = 0
        while sent < 100 * 2**20 and caller.can_send(b"x-filler: " + b"a" * 4_000 + b"\r\n"):
            sent += 4_012
        assert sent < 4 * 2**20


@pytest.mark.parametrize("path", ["/api/usage", BATCH], ids=["without a key", "with a key"])
@pytest.mark.parametrize("filler", [b"x-a: b\r\n" * 500, b"a" * 4_000], ids=["many", "endless"])
def test_trailers_that_never_end_are_not_piled_up(api, path, filler):
    key = (f"x-api-key: {api.key}",) if path == BATCH else ()
    with Caller(api) as caller:
        lines = "\r\n".join((f"POST {path} HTTP/1.1", "host: localhost", *key))
        caller.send(f"{lines}\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx-b: ".encode())
        sent = 0
        while sent < 100 * 2**20 and caller.can_send(filler):
            sent += len(filler)
        assert sent < 8 * 2**20
    assert_it_serves(api)


def test_chunks_larger_than_a_head_are_a_body(api):
    with Caller(api) as caller:
        lines = ("content-type: application/json", "transfer-encoding: chunked")
        body = BODY[:-1] + b" " * (3 * HEAD_BYTES) + BODY[-1:]
        caller.send(head(api, "POST", BATCH, *lines) + b"%x\r\n" % len(body))
        caller.send(body)
        caller.send(b"\r\n0\r\nx-checksum: 1\r\n\r\n")
        assert caller.answer().status == 200


def test_a_key_in_the_trailers_is_none(api):
    with Caller(api) as caller:
        caller.send(
            b"GET /api/usage HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
            b"0\r\nx-api-key: %b\r\n\r\n" % api.key.encode()
        )
        answer = caller.answer()
        assert (answer.status, answer.problem["code"]) == (401, "key_missing")


def test_a_large_but_decent_head_is_taken(api):
    fields = [f"x-field-{number}: {'v' * 140}" for number in range(90)]
    with Caller(api) as caller:
        caller.send(head(api, "GET", PRICE, *fields))
        assert caller.answer().status == 200


@pytest.mark.parametrize(
    "said",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 300,  # TLS
        b"hello\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\na: b\x00c\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"CONNECT example.com:443 HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: [::1]\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        b"POST / HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999999999999999\r\n\r\n",
    ],
)
def test_what_is_no_http_gets_a_400(api, said):
    with Caller(api) as caller:
        caller.send(said)
        answer = caller.answer()
        assert (answer.status, answer.problem["code"]) == (400, "malformed_request")
        assert caller.is_ended()
    assert_it_serves(api)


def test_a_refused_connection_is_in_the_log_with_its_id_and_counted(api):
    with Caller(api) as caller:
        caller.send(b"hello\r\n\r\n")
        request_id = caller.answer().problem["request_id"]
    [line] = [json.loads(line) for line in api.logged().splitlines() if request_id in line]
    assert (line["event"], line["code"]) == ("refused", "malformed_request")
    metrics = httpx.get(f"{api.metrics_url}/metrics").text
    assert 'soltape_api_refused_total{reason="malformed_request"}' in metrics


def test_a_client_that_dawdles_is_disconnected_after_ten_seconds_and_delays_no_other(api):
    began_s = time.monotonic()
    with ExitStack() as open_callers:

        def caller(first: bytes) -> Caller:
            new = open_callers.enter_context(Caller(api))
            new.send(first)
            if first:
                assert new.answer().status == 200
            return new

        heads = [caller(b"") for _ in range(5)]  # of which a byte comes a second
        silent = caller(b"")
        between = caller(head(api))  # empty lines after a request
        body = caller(head(api, "GET", PRICE, "content-length: 1000000000"))  # nobody wants it
        cut_s: dict[Caller, float] = {}
        for byte in b"GET / HTTP/1.1\r\n"[:8]:
            for one in heads:
                one.can_send(bytes([byte]))
            assert_it_serves(api)
            time.sleep(1)

        def are_cut() -> bool:
            for one, data in ((between, b"\r\n"), (body, b"a" * 1000)):
                if one not in cut_s and not one.can_send(data):
                    cut_s[one] = time.monotonic() - began_s
            assert_it_serves(api)
            return len(cut_s) == 2

        eventually(are_cut)
        for one in heads:
            answer = one.answer()
            assert (answer.status, answer.problem["code"]) == (408, "request_timed_out")
            assert one.is_ended()
        assert silent.is_ended()
        assert min(cut_s.values()) >= HEAD_WITHIN_S


@pytest.mark.parametrize("announced", [True, False], ids=["length", "chunked"])
def test_a_large_body_is_refused_and_the_caller_gets_to_know(strict, announced):
    body = b'{"mints": ["' + b"a" * 200_000 + b'"]}'
    with Caller(strict) as caller:
        if announced:
            length = f"content-length: {len(body)}"
            caller.send(head(strict, "POST", BATCH, "content-type: application/json", length))
            caller.send(body)
        else:
            chunked = "transfer-encoding: chunked"
            caller.send(head(strict, "POST", BATCH, "content-type: application/json", chunked))
            for at in range(0, len(body), 1_000):
                piece = body[at : at + 1_000]
                caller.send(b"%x\r\n%b\r\n" % (len(piece), piece))
            caller.send(b"0\r\n\r\n")
        answer = caller.answer()
        assert (answer.status, answer.problem["code"]) == (413, "body_too_large")
        assert "1 KiB" in answer.problem["detail"]
        # What is left of it is read over: the connection is good for another.
        caller.send(head(strict))
        assert caller.answer().status == 200


def test_a_body_in_chunks_is_a_body(api):
    with Caller(api) as caller:
        lines = ("content-type: application/json", "transfer-encoding: chunked")
        caller.send(head(api, "POST", BATCH, *lines))
        for byte in BODY:
            caller.send(b"1\r\n%c\r\n" % byte)
        caller.send(b"0\r\n\r\n")
        answer = caller.answer()
        assert answer.status == 200, answer.body
        assert json.loads(answer.body)["tokens"][0]["mint"] == SOL


def test_a_body_that_does_not_come_is_given_up(strict):
    with Caller(strict) as caller:
        lines = ("content-type: application/json", "content-length: 100")
        caller.send(head(strict, "POST", BATCH, *lines) + b'{"mints"')
        began_s = time.monotonic()
        answer = caller.answer()
        assert (answer.status, answer.problem["code"]) == (408, "request_timed_out")
        assert time.monotonic() - began_s > 0.9
        assert caller.is_ended()


def test_a_client_that_withholds_a_body_or_leaves_pays_for_it(strict):
    def credits_used():
        answer = httpx.get(f"{strict.url}/api/usage", headers={"x-api-key": strict.key})
        return answer.json()["credits"]["used"]

    before = credits_used()
    lines = ("content-type: application/json", "content-length: 100")
    with Caller(strict) as caller:
        caller.send(head(strict, "POST", BATCH, *lines) + b'{"mints"')
        assert caller.answer().status == 408
    with Caller(strict) as caller:
        caller.send(head(strict, "POST", BATCH, *lines) + b'{"mints"')
        eventually(lambda: credits_used() == before + 2)  # it is being read
    time.sleep(0.5)  # what would be given back is given back by now
    assert credits_used() == before + 2


def test_bodies_that_do_not_come_hold_up_no_other_batch_of_their_key(strict):
    """The server says 503 where it was busy itself: a batch that waited for its turn too long."""
    lines = ("content-type: application/json", "content-length: 100")
    with ExitStack() as stack:
        callers = [stack.enter_context(Caller(strict)) for _ in range(2 * BATCHES_AT_ONCE)]
        for caller in callers:
            caller.send(head(strict, "POST", BATCH, *lines) + b'{"mints"')
        assert [caller.answer().status for caller in callers] == [408] * len(callers)


def test_a_body_that_comes_late_leaves_the_answer_its_time(strict):
    """Else a key makes the server say 503: by last bytes that come as the time ends."""
    with ExitStack() as stack:
        callers = [stack.enter_context(Caller(strict)) for _ in range(4 * BATCHES_AT_ONCE)]
        lines = ("content-type: application/json", f"content-length: {len(BODY)}")
        for caller in callers:
            caller.send(head(strict, "POST", BATCH, *lines) + BODY[:-1])
        time.sleep(0.85)
        for caller in callers:
            caller.can_send(BODY[-1:])
        assert {caller.answer().status for caller in callers} <= {200, 408}


def test_requests_in_a_row_on_one_connection_are_answered_in_order(api):
    with Caller(api) as caller:
        caller.send(head(api) + head(api, "GET", "/nowhere") + head(api, "GET", "/api/health/live"))
        assert [caller.answer().status for _ in range(3)] == [200, 404, 200]


@pytest.mark.parametrize("seed", range(3))
def test_requests_cut_anywhere_are_answered_as_ever(api, seed):
    random = Random(seed)
    lines = ("content-type: application/json", f"content-length: {len(BODY)}")
    filler = f"x-filler: {'f' * 12_000}"  # a head of several pieces, within its bound
    kinds = [
        (head(api), 200),
        (head(api, "POST", BATCH, *lines) + BODY, 200),
        (head(api, "GET", "/nowhere"), 404),
        (head(api, "GET", PRICE, filler), 200),
        (head(api, "POST", BATCH, *lines, "x-api-key: twice") + BODY, 401),
    ]
    asked = [random.choice(kinds) for _ in range(40)]
    stream = b"".join(data for data, _ in asked)
    cuts = sorted(random.sample(range(1, len(stream)), 120))
    with Caller(api) as caller, ThreadPoolExecutor(1) as reader:
        got = reader.submit(lambda: [caller.answer().status for _ in asked])
        for start, end in pairwise([0, *cuts, len(stream)]):
            caller.send(stream[start:end])
            time.sleep(random.choice((0, 0, 0.002)))
        assert got.result(120) == [status for _, status in asked]


def test_what_follows_a_request_and_is_none_does_not_come_before_its_answer(api):
    with Caller(api) as caller:
        caller.send(head(api) + b"\x00\x01 no request\r\n\r\n")
        # The answer in work is cut rather than mixed up with that to something else.
        try:
            first = caller.answer()
        except (AssertionError, OSError):
            return
        assert first.status == 200


def test_too_many_connections_are_asked_to_retry(few):
    with ExitStack() as open_callers:
        begun = [open_callers.enter_context(Caller(few)) for _ in range(20)]
        for caller in begun:
            caller.send(head(few, "POST", BATCH, "content-length: 100"))  # which is to come
        few.until_metric("soltape_api_running_requests 20.0")
        with Caller(few) as caller:
            answer = caller.answer()
            assert (answer.status, answer.problem["code"]) == (503, "busy")
            assert caller.is_ended()
    few.until_metric("soltape_api_running_requests 0.0")
    assert_it_serves(few)


def test_many_open_connections_of_one_client_keep_no_other_out(few):
    """The one that has waited longest for its caller makes room: kept ones and silent ones."""
    with ExitStack() as open_callers:
        kept = [open_callers.enter_context(Caller(few)) for _ in range(10)]
        for caller in kept:
            caller.send(head(few))
            assert caller.answer().status == 200
            time.sleep(0.01)  # the loop's clock has milliseconds
        silent = [open_callers.enter_context(Caller(few)) for _ in range(10)]
        few.until_metric("soltape_api_connections 20.0")
        busy = kept.pop(0)
        lines = ("content-type: application/json", f"content-length: {len(BODY)}")
        busy.send(head(few, "POST", BATCH, *lines))
        few.until_metric("soltape_api_running_requests 1.0")
        for gone in kept[:3]:
            new = open_callers.enter_context(Caller(few))
            new.send(head(few))
            assert new.answer().status == 200
            assert gone.is_ended()
        for caller in kept[3:] + silent:
            caller.send(head(few))
            assert caller.answer().status == 200
        busy.send(BODY)
        assert busy.answer().status == 200


def test_more_requests_at_once_than_are_taken_are_asked_to_retry(serve):
    lines = ("content-type: application/json", f"content-length: {len(BODY)}")
    with serve(api_max_concurrent=2) as api, ExitStack() as open_callers:
        waiting = [open_callers.enter_context(Caller(api)) for _ in range(2)]
        for caller in waiting:
            caller.send(head(api, "POST", BATCH, *lines))  # whose body is to come
        api.until_metric("soltape_api_running_requests 2.0")
        refused = httpx.get(f"{api.url}{PRICE}", headers={"x-api-key": api.key})
        assert (refused.status_code, refused.json()["code"]) == (503, "busy")
        assert refused.headers["retry-after"] == "1"
        for caller in waiting:
            caller.send(BODY)
            assert caller.answer().status == 200
        assert_it_serves(api)


def test_an_answer_that_takes_too_long_is_given_up(serve, stores):
    """Its Redis takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        with serve(redis_url=address, access_redis_url=stores.redis_url, api_timeout_s=1.0) as api:
            began_s = time.monotonic()
            answer = httpx.get(f"{api.url}{PRICE}", headers={"x-api-key": api.key})
            assert (answer.status_code, answer.json()["code"]) == (503, "timed_out")
            assert time.monotonic() - began_s > 0.9
            assert answer.headers["retry-after"] == "1"
            assert httpx.get(f"{api.url}/api/health/live").status_code == 200
