"""The dashboard as the API serves it: its files and nothing else."""

from __future__ import annotations

import asyncio
import gzip
import re
from contextlib import asynccontextmanager

import httpx
import pytest

from api.app import create_app
from api.dashboard import routes
from api.server import listen, server_of
from infra.local.process import free_port
from infra.settings import Settings
from tests.support.waiting import eventually_async

PATIENT_S = 120.0  # for an answer, on a busy machine

MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


@asynccontextmanager
async def serving(**changed):
    """Serve an API as `soltape api` does; the dashboard asks no store."""
    ports = {"api_port": free_port(), "metrics_port_api": free_port()}
    settings = Settings(_env_file=None, api_timeout_s=PATIENT_S, **ports, **changed)
    server = server_of(create_app(settings), settings)
    with listen(settings) as listener:
        running = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await eventually_async(lambda: server.started or running.done())
            assert not running.done()
            async with httpx.AsyncClient(
                base_url=settings.api_url, timeout=2 * PATIENT_S
            ) as client:
                yield client
        finally:
            server.should_exit = True
            await running


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A dashboard of a test's own."""
    folder = tmp_path / "dashboard"
    (folder / "lib").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>mine</title>")
    (folder / "lib" / "dom.js").write_text("export const one = 1;\n")
    (tmp_path / "secret.js").write_text("not to be had")
    monkeypatch.setattr(routes, "FOLDER", folder)
    return folder


async def test_the_page_is_at_the_root_and_may_run_nothing_but_its_own_files():
    async with serving() as client:
        page = await client.get("/")
        assert page.status_code == 200
        assert page.text == (routes.FOLDER / "index.html").read_text()
        assert (await client.get("/index.html")).text == page.text
        assert page.headers["content-type"] == MEDIA_TYPES[".html"]
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["x-frame-options"] == "DENY"
        assert page.headers["referrer-policy"] == "no-referrer"
        assert page.headers["cross-origin-opener-policy"] == "same-origin"
        policy = page.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        name = client.base_url.netloc.decode()
        assert f"connect-src 'self' ws://{name} wss://{name};" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert "<style" not in page.text
        assert not re.search(r"<script(?![^>]* src=)|\son\w+=|\sstyle=", page.text)
        for address in re.findall(r'(?:src|href)="([^"#]+)"', page.text):
            assert (await client.get(f"/{address}")).status_code == 200, address


async def test_every_file_of_the_folder_is_served_as_what_it_is():
    folder = routes.FOLDER
    paths = [path for path in folder.rglob("*") if path.suffix in MEDIA_TYPES]
    assert {path.suffix for path in paths} >= {".html", ".js", ".css"}
    async with serving() as client:
        for path in paths:
            answer = await client.get(f"/{path.relative_to(folder).as_posix()}")
            assert answer.status_code == 200, path
            assert answer.content == path.read_bytes()
            assert answer.headers["content-type"] == MEDIA_TYPES[path.suffix]


async def test_a_cached_file_is_not_sent_again_and_keeps_its_policy(folder):
    (folder / "lib" / "dom.js").write_text("const one = 1;\n" * 1_000)
    async with serving() as client:
        plain = await client.get("/lib/dom.js", headers={"accept-encoding": "identity"})
        async with client.stream(
            "GET", "/lib/dom.js", headers={"accept-encoding": "gzip"}
        ) as packed:
            body = b"".join([part async for part in packed.aiter_raw()])
        assert gzip.decompress(body) == plain.content
        assert len(body) < len(plain.content) / 10
        assert plain.headers["cache-control"] == "no-cache"
        assert "accept-encoding" in plain.headers["vary"]
        had = {"if-none-match": plain.headers["etag"]}
        again = await client.get("/lib/dom.js", headers=had)
        assert (again.status_code, again.content) == (304, b"")
        # A cache takes the headers of a 304 for those of what it has.
        policies = [
            each.headers.get_list("content-security-policy") for each in (plain, again, packed)
        ]
        assert policies[0] == policies[1] == policies[2]
        assert len(policies[0]) == 1
        headed = await client.head("/lib/dom.js", headers={"accept-encoding": "identity"})
        assert (headed.status_code, headed.content) == (200, b"")
        assert headed.headers["content-length"] == str(len(plain.content))
        (folder / "lib" / "dom.js").write_text("const one = 2;\n")
        changed = await client.get("/lib/dom.js", headers=had)
        assert (changed.status_code, changed.text) == (200, "const one = 2;\n")
        (folder / "lib" / "dom.js").unlink()
        assert (await client.get("/lib/dom.js")).status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/lib/../../secret.js",
        "/lib/../index.html",
        "/lib/%2e%2e/%2e%2e/secret.js",
        "/lib/..%2f..%2fsecret.js",
        "/lib/..%5c..%5csecret.js",
        "/%2e%2e/secret.js",
        "/lib/dom.js%00",
        "/lib/dom.js/",
        "/lib//dom.js",
        "/lib/",
        "/lib",
        "/LIB/dom.js",
        "/lib/.hidden.js",
        "/lib/_private.js",
        "/lib/notes.md",
        "/.env.json",
        "/secret.js",
        "//etc/passwd",
    ],
)
async def test_nothing_but_the_files_can_be_had(folder, path):
    for name in ("lib/.hidden.js", "lib/_private.js", "lib/notes.md", ".env.json"):
        (folder / name).write_text("not to be had")
    async with serving() as client:
        reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
        head = f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        writer.write(head.encode())
        answer = (await reader.read()).decode()
        writer.close()
        assert answer.startswith("HTTP/1.1 401 "), answer
        assert '"code":"key_missing"' in answer
        assert "not to be had" not in answer


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", ["/", "/index.html", "/lib/dom.js", "/dashboard.json"])
async def test_the_files_are_read_only(folder, method, path):
    async with serving() as client:
        answer = await client.request(method, path)
        assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
        assert answer.headers["allow"] == "GET, HEAD"


async def test_without_the_dashboard_the_root_leads_to_the_documentation(folder):
    async with serving(api_dashboard=False) as client:
        root = await client.get("/")
        assert (root.status_code, root.headers["location"]) == (307, "/docs")
        for path in ("/index.html", "/lib/dom.js", "/dashboard.json"):
            assert (await client.get(path)).status_code == 401, path


async def test_it_serves_though_the_page_is_not_there(folder):
    (folder / "index.html").unlink()
    async with serving() as client:
        assert (await client.get("/")).headers["location"] == "/docs"


async def test_the_documents_are_the_same_with_and_without_it(folder):
    async with serving() as client, serving(api_dashboard=False) as without:
        document = await client.get("/openapi.json")
        assert document.text == (await without.get("/openapi.json")).text
        assert "/dashboard.json" not in document.json()["paths"]
        assert (await client.get("/docs")).status_code == 200


@pytest.mark.parametrize(
    ("setting", "host", "expected"),
    [
        (None, "127.0.0.1", None),
        ("ws://127.0.0.1:8001", "127.0.0.1:8000", "ws://127.0.0.1:8001"),
        ("ws://127.0.0.1:8001", "localhost:8000", "ws://127.0.0.1:8001"),
        ("ws://127.0.0.1:8001", "192.0.2.7:8000", "ws://192.0.2.7:8001"),
        ("ws://127.0.0.1:8001", "[2001:db8::1]:8000", "ws://[2001:db8::1]:8001"),
        ("wss://tape.example.com/", "192.0.2.7:8000", "wss://tape.example.com"),
    ],
)
async def test_the_page_gets_the_address_of_the_websocket(folder, setting, host, expected):
    names = "192.0.2.7,2001:db8::1"
    async with serving(gateway_url=setting, allowed_hosts=names) as client:
        answer = await client.get("/dashboard.json", headers={"host": host})
        assert answer.json()["websocket_url"] == expected
        assert answer.headers["cache-control"] == "no-store"
        page = await client.get("/", headers={"host": host})
        policy = page.headers["content-security-policy"]
        sources = [expected] if expected else [f"ws://{host}", f"wss://{host}"]
        assert f"connect-src 'self' {' '.join(sources)};" in policy


async def test_without_a_demo_key_there_are_no_sessions_and_links_do_nothing(folder):
    async with serving() as client:
        assert (await client.get("/dashboard.json")).json()["session"] is None
        opened = await client.get("/", params={"token": "A" * 43})
        assert (opened.status_code, opened.text) == (200, (folder / "index.html").read_text())
        assert "set-cookie" not in opened.headers
