"""The dashboard in Chromium over the whole product: `soltape up` on a simulated chain."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, StorageState, expect

from infra.bench.roles import stack
from infra.local.running import addresses
from tests.support import chromium, npm
from tests.support.dashboard import SEED, STRANGER, Up, Visit
from tests.support.waiting import eventually

ACCESSIBILITY = Path(__file__).parent / "accessibility"
RATE = 10  # transactions a second: two test processes and a browser share the machine
STARTS_WITHIN_S = 400  # on a busy machine
WIDE = {"width": 1440, "height": 900}

expect.set_options(timeout=60_000)

Look = Callable[..., Visit]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Chromium. Not for the session: while it is there, a loop runs in this thread, and no test may
    run one of its own.
    """
    with chromium.launched(f"--host-resolver-rules=MAP {STRANGER} 127.0.0.1") as browser:
        yield browser


@pytest.fixture(scope="package")
def up(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """The product, running, when it has something to show; one for all files of this folder.

    Not for the session: other tests would share the machine with it until their end.
    """
    folder = tmp_path_factory.mktemp("up")
    with stack(folder, "--rate", str(RATE), "--seed", str(SEED)) as role:
        running = Up(role.child.pid, folder)

        def has_something() -> bool:
            role.check()
            running.addresses = addresses(folder)
            return bool(running.addresses) and len(trending(running)) >= 5

        eventually(has_something, lambda: role.log.read_text()[-2000:], STARTS_WITHIN_S)
        yield running


def trending(up: Up) -> list[dict[str, Any]]:
    """Return the tokens that trend, by the API; none while it does not answer."""
    try:
        request = urllib.request.Request(
            f"{up.url}/api/tokens/trending", headers={"x-api-key": up.key}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            found: list[dict[str, Any]] = json.load(answer)["tokens"]
            return found
    except OSError:
        return []


@pytest.fixture
def token(up: Up) -> dict[str, Any]:
    """The token that trends most."""
    trend: list[dict[str, Any]] = eventually(lambda: trending(up))
    return trend[0]


@pytest.fixture(scope="package")
def session(browser: Browser, up: Up) -> StorageState:
    """The cookie of a browser that a link let in."""
    context = browser.new_context()
    context.route("**/websocket-ticket", lambda route: route.abort())  # it would not be used
    context.new_page().goto(up.link())
    state = context.storage_state()
    context.close()
    assert len(state["cookies"]) == 1
    return state


@pytest.fixture
def look(browser: Browser, up: Up, session: StorageState) -> Iterator[Look]:
    """Open a page in a browser of its own: `look("trending")`. What goes wrong there fails.

    At the address of `up` the browser was let in by a link, unless `storage_state` is given.
    """
    visits: list[Visit] = []

    def open_page(path: str | None = "live", url: str = up.url, **context: Any) -> Visit:
        let_in = session if url == up.url else None
        made = browser.new_context(**{"viewport": WIDE, "storage_state": let_in, **context})
        hosts = {urlsplit(each).netloc for each in (url, up.addresses["GATEWAY_URL"])}
        visit = Visit(made, url, hosts)
        visits.append(visit)
        if path is not None:
            visit.go(path)
        return visit

    yield open_page
    for visit in visits:
        visit.context.close()
    assert [visit.troubles for visit in visits if visit.troubles] == []


@pytest.fixture(scope="session")
def axe(request: pytest.FixtureRequest) -> str:
    """The script of axe-core, from the npm registry; kept between runs."""
    folder = npm.installed(request, "accessibility", ACCESSIBILITY, "axe-core")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text()
