"""What every request and every answer has, whatever is asked."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import redis as sync_redis

from schemas import proto
from schemas.redis_keys import MARKET, mint_tag
from schemas.solana.base58 import encode
from tests.support.waiting import eventually

SOL = "So11111111111111111111111111111111111111112"
PRICE = f"/api/tokens/{SOL}/price"
BATCH = "/api/tokens/batch"
SAFE = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
}


@pytest.fixture
def client(api):
    with httpx.Client(base_url=api.url, headers={"x-api-key": api.key}, timeout=240) as client:
        yield client


def access_lines(api, request_id):
    """Return the access lines of a request; they are written a tenth of a second later."""

    def found():
        lines = [json.loads(line) for line in api.logged().splitlines()]
        return [
            line
            for line in lines
            if line["event"] == "request" and line["request_id"] == request_id
        ]

    return eventually(found)


@pytest.mark.parametrize(
    "path", [PRICE, "/api/health/live", "/docs", "/openapi.json", "/nowhere", "/api/tokens/x"]
)
def test_every_answer_has_an_id_and_safe_headers_and_does_not_name_the_server(client, path):
    answer = client.get(path)
    assert answer.headers["x-request-id"]
    assert answer.headers.items() >= SAFE.items()
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert "server" not in answer.headers
    assert len(answer.headers.get_list("content-security-policy")) == 1


def test_a_sane_id_of_the_callers_is_kept_and_another_is_not(client, api):
    kept = client.get(PRICE, headers={"x-request-id": "trace-0123.abc"})
    assert kept.headers["x-request-id"] == "trace-0123.abc"
    assert access_lines(api, "trace-0123.abc")[0]["status"] == 200
    for sent_id in ("short", "a" * 65, "with space 1", "under_score_1", 'quo"te-1234', api.key):
        ours = client.get(PRICE, headers={"x-request-id": sent_id})
        assert ours.status_code == 200
        assert ours.headers["x-request-id"] != sent_id
    ids = {client.get(PRICE).headers["x-request-id"] for _ in range(5)}
    assert len(ids) == 5


def test_what_was_not_changed_comes_without_a_body(client):
    first = client.get(PRICE)
    again = client.get(PRICE, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    assert client.get(PRICE, headers={"if-none-match": 'W/"other"'}).status_code == 200


def test_large_bodies_are_compressed_for_clients_that_take_gzip(client):
    plain = client.get("/docs/swagger-ui.css", headers={"accept-encoding": "identity"})
    packed = client.get("/docs/swagger-ui.css", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.content == plain.content
    assert int(packed.headers["content-length"]) < len(plain.content) / 3

    many = {"mints": [encode(bytes([200, number]) * 16) for number in range(100)]}
    answers = {
        coding: client.post(BATCH, json=many, headers={"accept-encoding": coding})
        for coding in ("identity", "gzip, br", "gzip;q=0, *;q=0", "*")
    }
    assert len(answers["identity"].content) > 4096
    for coding, answer in answers.items():
        is_packed = coding in ("gzip, br", "*")
        assert answer.headers.get("content-encoding") == ("gzip" if is_packed else None)
        assert answer.headers["vary"] == "accept-encoding"
        assert answer.content == answers["identity"].content
    assert "content-encoding" not in client.get(PRICE).headers


def test_the_packed_bytes_are_gzip(client, api):
    with client.stream("GET", "/openapi.json", headers={"accept-encoding": "gzip"}) as answer:
        raw = b"".join(answer.iter_raw())
    assert len(raw) == int(answer.headers["content-length"])
    assert json.loads(gzip.decompress(raw))["openapi"].startswith("3.")


def test_head_is_get_without_the_body(client, api):
    got, headed = client.get(PRICE), client.head(PRICE)
    assert access_lines(api, headed.headers["x-request-id"])[0]["method"] == "HEAD"
    assert (headed.status_code, headed.content) == (200, b"")
    assert headed.headers["content-length"] == got.headers["content-length"]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/api/nowhere", 404, "not_found"),
        ("GET", f"{PRICE}/", 404, "not_found"),
        ("DELETE", PRICE, 405, "method_not_allowed"),
        ("OPTIONS", PRICE, 405, "method_not_allowed"),
        ("GET", "/docs/../pyproject.toml", 404, "not_found"),
        ("GET", "/docs/%2e%2e%2fcore.py", 404, "not_found"),
        ("GET", "/api/tokens/short", 422, "invalid_address"),
        ("GET", f"/api/tokens/{'0' * 44}", 422, "invalid_address"),
        ("GET", f"/api/tokens/{SOL}/holders?limit=no", 422, "invalid_parameter"),
        ("GET", f"/api/tokens/{SOL}/holders?limit=0", 422, "invalid_parameter"),
    ],
)
def test_what_is_refused_is_a_problem(client, method, path, status, code):
    answer = client.request(method, path)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (status, code), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["cache-control"] == "no-store"
    assert problem["type"] == f"urn:soltape:problem:{code}"
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    assert problem["instance"].startswith("/")
    assert problem["request_id"] == answer.headers["x-request-id"]
    if status == 405:
        assert answer.headers["allow"] == "GET, HEAD"
        assert problem["detail"] == "Use GET or HEAD"


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"])
def test_words_in_place_of_an_address_are_recognized_whatever_the_method(client, method):
    for area in ("wallets", "tokens"):
        nothing = client.request(method, f"/api/{area}/leaderboard")
        assert nothing.status_code == 404
        assert "allow" not in nothing.headers
        batch = client.request(method, f"/api/{area}/batch")
        assert batch.status_code == (422 if method == "POST" else 405)
        assert batch.headers.get("allow") == (None if method == "POST" else "POST")


@pytest.mark.parametrize(
    ("body", "code", "parameter", "reason"),
    [
        (b"{", "malformed_json", None, None),
        (b"\xff\xfe", "malformed_json", None, None),
        (b"[" * 50_000, "malformed_json", None, None),
        (b'{"mints": [1' + b"0" * 5000 + b"]}", "malformed_json", None, None),
        (b"", "invalid_body", "body", "is required"),
        (b"null", "invalid_body", "body", "must be an object"),
        (b"[]", "invalid_body", "body", "must be an object"),
        (b"{}", "invalid_body", "mints", "is required: a list of 1 to 100 items"),
        (b'{"mints": {}}', "invalid_body", "mints", "must be a list of 1 to 100 items"),
        (b'{"mints": []}', "invalid_body", "mints", "got a list of 0 items"),
        (
            b'{"mints": [7]}',
            "invalid_body",
            "mints[0]",
            "must be a Solana address, 32 to",
        ),
        (b'{"mints": ["abc"]}', "invalid_address", "mints[0]", "32 to 44"),
        (b'{"mints": ["\\ud800' + b"1" * 40 + b'"]}', "invalid_address", "mints[0]", None),
    ],
)
def test_a_wrong_body_is_named_by_its_place_and_in_plain_words(
    client, body, code, parameter, reason
):
    answer = client.post(BATCH, content=body, headers={"content-type": "application/json"})
    problem = answer.json()
    assert problem["code"] == code, problem
    assert answer.status_code == (400 if code == "malformed_json" else 422)
    if parameter:
        assert problem["errors"][0]["parameter"] == parameter
        assert problem["detail"].startswith(f"`{parameter}` ")
    if reason:
        assert reason in problem["errors"][0]["reason"]
    assert not re.search(r"Input should|pydantic|Value error|JSONDecode", answer.text)


def test_a_body_of_another_type_is_refused(client):
    answer = client.post(BATCH, content=b'{"mints": []}', headers={"content-type": "text/plain"})
    assert answer.json()["code"] == "invalid_body"
    assert "application/json" in answer.json()["detail"]


def test_a_fault_of_ours_shows_its_id_and_only_the_log_has_the_rest(client, api, stores):
    mint = encode(b"broken".rjust(32, b"\1"))
    key = MARKET.make(tag=mint_tag(mint), mint=mint)
    with sync_redis.Redis.from_url(stores.redis_url) as redis:
        redis.hset(key, "token", b"no JSON of a token")
        answer = client.get(f"/api/tokens/{mint}/price")
        redis.delete(key)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (500, "internal"), answer.text
    assert "Traceback" not in answer.text
    assert "JSON" not in answer.text
    [line] = [
        json.loads(line)
        for line in api.logged().splitlines()
        if '"request failed"' in line and problem["request_id"] in line
    ]
    assert "Traceback" in line["exception"]


def test_nothing_that_could_be_a_key_gets_into_the_log(client, api):
    secret = api.key.removeprefix("soltape_")
    plain = {"x-api-key": ""}
    answers = [
        client.get(PRICE),
        client.get(f"{PRICE}?api_key={api.key}"),
        client.get(f"{PRICE}?api%5Fkey={api.key}&apikey={secret}"),
        client.get(f"/api/tokens/{api.key}"),
        client.get(f"/api/tokens/{api.key.replace('_', '%255F')}"),
        client.get(f"/{api.key}", headers=plain),
        client.get(f"/a/b/c/d/e/f/g/h/i/j/{api.key}"),
        client.get(PRICE, headers={"x-api-key": api.key[:-1]}),
        client.get(PRICE, headers={"x-request-id": api.key}),
        client.get(PRICE, headers={"authorization": f"Bearer {api.key}", "user-agent": api.key}),
        client.post(BATCH, content=b"{", headers={"content-type": api.key}),
    ]
    for answer in answers:
        access_lines(api, answer.headers["x-request-id"])
    assert secret not in api.logged()
    assert secret[:20] not in api.logged()


def test_an_access_line_says_who_asked_for_what_and_how_it_ended(client, api):
    answer = client.get(PRICE)
    [line] = access_lines(api, answer.headers["x-request-id"])
    assert (line["method"], line["path"], line["status"]) == ("GET", PRICE, 200)
    assert line["level"] == "info"
    assert line["role"] == "api"
    assert 0 < line["duration_ms"] < 10_000
    assert line["client"] == "127.0.0.1"
    assert re.fullmatch("[0-9a-f]{12}", line["key"])
    [refused] = access_lines(
        api, client.get(PRICE, headers={"x-api-key": "no"}).headers["x-request-id"]
    )
    assert (refused["status"], refused["key"]) == (401, None)


def test_requests_are_counted_by_route_and_never_by_address(client, api):
    def counted():
        text = httpx.get(f"{api.metrics_url}/metrics").text
        found = re.findall(r"^soltape_api_requests_total\{(.*)\} (\S+)$", text, re.MULTILINE)
        return text, {labels: float(value) for labels, value in found}

    label = 'route="/api/tokens/{mint}/price",status="200"'
    client.get(PRICE)
    _, before = counted()
    for _ in range(3):
        client.get(PRICE)
    client.get("/nowhere-at-all")
    text, after = counted()
    assert after[label] == before[label] + 3
    assert after['route="",status="404"'] >= 1
    assert f"soltape_api_request_ms_count{{{label}}}" in text
    assert 'soltape_api_problems_total{code="not_found"}' in text
    assert SOL not in text
    assert "nowhere" not in text
    assert httpx.get(f"{api.metrics_url}/ready").json() == {"ready": True, "lacking": {}}


def test_cors_is_off(client):
    answer = client.get(PRICE, headers={"origin": "https://page.example"})
    assert not [name for name in answer.headers if name.startswith("access-control")]
    preflight = client.options(
        PRICE,
        headers={"origin": "https://page.example", "access-control-request-method": "GET"},
    )
    assert preflight.status_code == 405
    assert not [name for name in preflight.headers if name.startswith("access-control")]


def test_cors_is_for_the_origins_that_are_set(serve):
    with serve(api_cors_origins="https://page.example,http://localhost:3000") as api:
        asking = {"access-control-request-method": "GET", "origin": "https://page.example"}
        preflight = httpx.options(
            f"{api.url}{PRICE}",
            headers={**asking, "access-control-request-headers": "x-api-key"},
        )
        assert preflight.status_code == 200
        assert preflight.headers["access-control-allow-origin"] == "https://page.example"
        assert "x-api-key" in preflight.headers["access-control-allow-headers"]
        assert preflight.headers["x-request-id"]
        # Problems as well: a page could not show its user what is wrong without.
        for key, status in ((api.key, 200), ("no", 401)):
            answer = httpx.get(
                f"{api.url}{PRICE}", headers={"x-api-key": key, "origin": "http://localhost:3000"}
            )
            assert answer.status_code == status
            assert answer.headers["access-control-allow-origin"] == "http://localhost:3000"
            assert "x-request-id" in answer.headers["access-control-expose-headers"]
        stranger = httpx.get(
            f"{api.url}{PRICE}", headers={"x-api-key": api.key, "origin": "https://evil.example"}
        )
        assert "access-control-allow-origin" not in stranger.headers
        assert httpx.options(
            f"{api.url}{PRICE}", headers={**asking, "origin": "https://evil.example"}
        ).is_client_error


@pytest.mark.parametrize("origins", ["*", "https://page.example"])
def test_agents_in_a_browser_may_call_tools_where_their_origin_is_set(serve, origins):
    with serve(api_cors_origins=origins) as api:
        origin = {"origin": "https://page.example"}
        sent = (
            "content-type, last-event-id, mcp-method, mcp-name, mcp-protocol-version, "
            "mcp-session-id, x-api-key"
        )
        preflight = httpx.options(
            f"{api.url}/mcp",
            headers={
                **origin,
                "access-control-request-method": "POST",
                "access-control-request-headers": sent,
            },
        )
        assert preflight.status_code == 200, preflight.text
        allowed = preflight.headers["access-control-allow-headers"].lower().split(", ")
        assert {*sent.split(", ")} <= {*allowed}
        accept = {"accept": "application/json, text/event-stream", "x-api-key": api.key}
        message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        answer = httpx.post(f"{api.url}/mcp", headers={**origin, **accept}, json=message)
        assert answer.status_code == 200, answer.text
        assert "mcp-session-id" in answer.headers["access-control-expose-headers"]
        stranger = {"origin": "https://other.example", **accept}
        answer = httpx.post(f"{api.url}/mcp", headers=stranger, json=message)
        assert answer.status_code == (200 if origins == "*" else 403), answer.text


def test_the_documentation_asks_no_other_host(client):
    page = client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert (
        "unsafe-inline"
        not in re.search(r"script-src ([^;]*)", page.headers["content-security-policy"])[1]
    )
    assert "//" not in page.text.replace("<!doctype html>", "")
    policy = page.headers["content-security-policy"]
    assert "http" not in policy
    assert "*" not in policy
    asked = re.findall(r'(?:src|href)="([^"]*)"', page.text)
    assert len(asked) == 4
    for address in asked:
        asset = client.get(address)
        assert asset.status_code == 200
        assert len(asset.content) > 100
        again = client.get(address, headers={"if-none-match": asset.headers["etag"]})
        assert again.status_code == 304
        if address.endswith(".css"):
            for found in re.findall(r"url\(\s*[\"']?([^\"')]*)", asset.text):
                assert urlsplit(found).scheme == "data", found[:80]
            assert "@import" not in asset.text
    start = client.get("/docs/start.js").text
    assert "http" not in start
    assert 'url: "/openapi.json"' in start
    assert "validatorUrl: null" in start


def test_the_schema_of_kafkas_messages_is_served_as_it_is(client):
    answer = client.get("/schemas/tape.proto")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.content == (Path(proto.__file__).parent / "tape.proto").read_bytes()
    again = client.get("/schemas/tape.proto", headers={"if-none-match": answer.headers["etag"]})
    assert again.status_code == 304
    for other in ("/schemas", "/schemas/", "/schemas/geyser.proto", "/schemas/tape_pb2.py"):
        assert httpx.get(str(client.base_url.join(other)), timeout=240).status_code == 401


def test_every_operation_is_described_and_names_its_errors(client):
    document = client.get("/openapi.json").json()
    schemes = document["components"]["securitySchemes"]
    assert schemes == {"ApiKey": {"type": "apiKey", "in": "header", "name": "x-api-key"}}
    assert "HTTPValidationError" not in json.dumps(document)
    shared = document["components"]["responses"]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            name = f"{method} {path}"
            assert operation["summary"], name
            assert operation["tags"], name
            answers = {
                status: shared.get(answer.get("$ref", "").rpartition("/")[2], answer)
                for status, answer in operation["responses"].items()
            }
            is_image = path == "/api/tokens/{mint}/image"
            content = "image/png" if is_image else "application/json"
            assert content in answers["200"]["content"], name
            assert {"500", "503"} <= answers.keys(), name
            if operation.get("security") != []:
                assert {"401", "403", "429"} <= answers.keys(), name
            if "requestBody" in operation:
                assert {"400", "413", "422"} <= answers.keys(), name
                codes = answers["422"]["content"]["application/problem+json"]["examples"]
                assert "invalid_body" in codes, name
            for status, answer in answers.items():
                assert "x-request-id" in answer["headers"], name
                if status not in ("200", "304") and path != "/api/health":
                    assert "application/problem+json" in answer["content"], f"{name} {status}"
