"""Behind a proxy that hides the client, a stranger has what is public and nothing else."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest

from api.access.keys import parse
from api.app import create_app
from infra.settings import Settings
from tests.support.plain_proxy import proxied
from tests.support.waiting import eventually

ADDRESS = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"


@pytest.fixture(scope="module")
def url(demo):
    with proxied(demo.url) as url:
        yield url


@pytest.fixture(scope="module")
def key(demo):
    return (demo.settings.soltape_data / "demo-key").read_text().strip()


def test_to_the_api_a_stranger_looks_local(demo, url):
    headers = {"x-request-id": "from-afar"}
    assert httpx.get(f"{url}/api/health/live", headers=headers).status_code == 200

    def line():
        return next((each for each in demo.logged().splitlines() if "from-afar" in each), None)

    assert json.loads(eventually(line))["client"] == "127.0.0.1"


def test_no_answer_has_the_key_and_no_path_a_grant(demo, url, key):
    app = create_app(Settings(_env_file=None), key)
    routes: Any = app.router.routes
    let_in = set()
    with httpx.Client(base_url=url, timeout=240) as stranger:
        for path in sorted({route.path for route in routes}):
            filled = re.sub(r"\{\w+\}", ADDRESS, path)
            for method in ("GET", "POST"):
                answer = stranger.request(method, filled)
                assert key not in f"{answer.headers} {answer.text}", path
                assert parse(key) not in answer.text
                assert {"ratelimit", "x-credits-left", "set-cookie"}.isdisjoint(answer.headers)
                if answer.status_code == 200:
                    let_in.add(path)
                else:
                    assert answer.status_code in (401, 405), (method, path)
        assert stranger.get("/dashboard.json").json()["session"] is False
        assert stranger.get("/api/health").json().keys() == {"status", "timestamp", "chain"}
        assert not stranger.cookies
    files = app.state.dashboard.open
    assert let_in - files == {
        *("/api/health", "/api/health/live", "/mcp/health", "/docs", "/openapi.json"),
        "/schemas/tape.proto",
        *(path for path in let_in if path.startswith("/docs/")),
    }


def test_the_link_admits_one_browser_through_the_proxy(demo, url):
    link = demo.link().replace(demo.url, url)
    with httpx.Client(base_url=url, timeout=240) as owner:
        assert owner.get(link).headers["location"] == "/"
        assert owner.get("/api/usage").json()["plan"] == "business"
        with httpx.Client(base_url=url, timeout=240) as stranger:
            assert stranger.get(link).status_code == 403
            assert stranger.get("/api/usage").status_code == 401
