"""Admission: by a link once, by its cookie after, and what all others see."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from api.access import passes
from tests.support.dashboard import Up, Visit
from tests.support.plain_proxy import proxied

pytestmark = [pytest.mark.slow, pytest.mark.browser]

ASKED_FOR_A_KEY = "API key"
NOT_VALID = "Failed to load resource: the server responded with a status of 403 "
UNAUTHORISED = "Failed to load resource: the server responded with a status of 401 "


@pytest.fixture(scope="module")
def proxy(up: Up) -> Iterator[str]:
    """A proxy in front of the API that names no client."""
    with proxied(up.url) as url:
        yield url


def is_live(page: Page) -> None:
    expect(page.locator("#connection")).to_have_attribute("data-state", "open")
    expect(page.locator("#key-button")).to_have_text("Key: demo")
    expect(page.locator("section.swaps td.transaction").first).to_be_visible()


def is_asked_for_a_key(page: Page) -> None:
    expect(page.get_by_role("heading", name=ASKED_FOR_A_KEY)).to_be_visible()
    expect(page.get_by_text("soltape keys link")).to_be_visible()
    expect(page.locator("#key-button")).to_have_text("Key: none")


def test_without_a_link_the_page_says_how_to_get_in(look: Any) -> None:
    page = look("live", storage_state=None).page
    is_asked_for_a_key(page)
    expect(page.get_by_text("Simulated chain: prices and wallets are invented")).to_be_visible()
    expect(page.get_by_role("button", name="Use the demo key")).to_have_count(0)


def test_a_link_lets_in_and_leaves_nothing_to_be_read(look: Any, up: Up) -> None:
    visit = look(None, storage_state=None)
    page = visit.page
    sockets: list[str] = []
    page.on("websocket", lambda socket: sockets.append(socket.url))
    link = up.link()
    page.goto(link)
    is_live(page)
    assert page.url == f"{up.url}/"
    assert page.evaluate("[document.cookie, document.referrer].join('')") == ""
    assert page.evaluate("localStorage.length + sessionStorage.length") == 0
    assert up.key not in page.content()
    assert sockets
    assert all(passes.TICKET in each and up.key not in each for each in sockets)
    page.reload()
    is_live(page)
    another = visit.context.new_page()  # another tab has the cookie, too
    another.goto(f"{up.url}/#/trending")
    expect(another.locator("td.symbol").first).to_be_visible()

    stranger = look(None, storage_state=None)
    stranger.expects(NOT_VALID)
    stranger.page.goto(link)
    expect(stranger.page.get_by_role("heading", name="The link is not valid")).to_be_visible()
    expect(stranger.page.get_by_text("soltape keys link")).to_be_visible()
    assert stranger.context.cookies() == []
    stranger.page.get_by_role("link", name="Go to the dashboard").click()
    is_asked_for_a_key(stranger.page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_of_a_spent_link_can_be_read_by_everybody(
    look: Any, up: Up, axe: str, scheme: str
) -> None:
    visit = look(None, color_scheme=scheme, viewport={"width": 360, "height": 780})
    visit.expects(NOT_VALID)
    visit.page.goto(f"{up.url}/?token=spent")
    assert visit.overflow_px() == 0
    assert violations(visit.page, axe) == []


def violations(page: Page, axe: str) -> list[Any]:
    page.evaluate(axe)
    found: list[Any] = page.evaluate(
        "async () => (await axe.run(document)).violations.map(({ id, nodes }) => "
        "[id, nodes[0].html, nodes[0].failureSummary])"
    )
    return found


def test_a_page_whose_cookie_goes_says_so_and_asks_for_a_key(look: Any) -> None:
    visit: Visit = look("trending")
    expect(visit.page.locator("td.symbol").first).to_be_visible()
    visit.expects(UNAUTHORISED)
    visit.context.clear_cookies()
    visit.go("system")
    expect(visit.page.get_by_role("alert")).to_have_text("The session of this browser is over")
    is_asked_for_a_key(visit.page)
    visit.page.reload()
    is_asked_for_a_key(visit.page)


def test_behind_a_proxy_a_stranger_is_asked_for_a_key(look: Any, up: Up, proxy: str) -> None:
    stranger = look("live", proxy)
    is_asked_for_a_key(stranger.page)
    owner = look(None, proxy)
    owner.page.goto(up.link().replace(up.url, proxy))
    is_live(owner.page)


class _Hostile(BaseHTTPRequestHandler):
    """A page of another port of the same host, which browsers send the cookie to and for."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>elsewhere</title>")

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def elsewhere() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hostile)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_page_of_another_port_gets_nothing_by_the_cookie(
    look: Any, up: Up, elsewhere: str
) -> None:
    visit = look(None)
    visit.expects(".*")  # the console is full of what is refused
    visit.page.goto(elsewhere)
    tried = visit.page.evaluate(
        """async ([api, gateway]) => {
          const asked = (path, init) =>
            fetch(api + path, { credentials: "include", ...init })
              .then((answer) => answer.text(), () => "refused");
          const socket = new WebSocket(gateway + "/ws");
          const opened = await new Promise((resolve) => {
            socket.onopen = () => resolve("open");
            socket.onerror = () => resolve("refused");
          });
          return [
            await asked("/api/usage"),
            await asked("/websocket-ticket", { method: "POST" }),
            await asked("/dashboard.json"),
            opened,
          ];
        }""",
        [up.url, up.addresses["GATEWAY_URL"]],
    )
    assert tried == ["refused"] * 4
    statuses: list[int] = []
    visit.page.on("response", lambda answer: statuses.append(answer.status))
    visit.page.evaluate(
        "api => fetch(api + '/api/usage', { credentials: 'include', mode: 'no-cors' })", up.url
    )
    assert statuses == [401]
