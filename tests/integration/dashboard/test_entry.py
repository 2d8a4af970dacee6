"""The key: asked for where the page was served with none, and what is said of a wrong one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from pydantic import SecretStr

from api.access.keys import new
from infra.settings import Settings
from tests.support.api.served import Served, served
from tests.support.dashboard import ask, rows, texts_of

pytestmark = [pytest.mark.slow, pytest.mark.browser]

KEY = re.compile(r"soltape_\w+")
SIMULATED = "Simulated chain: prices and wallets are invented"
UNAUTHORISED = "Failed to load resource: the server responded with a status of 401 "


@pytest.fixture(scope="module")
def api(up: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """An API beside the one of `soltape up`, which gives no key away."""
    addresses = up.addresses
    settings = Settings(
        _env_file=None,
        redis_url=addresses["REDIS_URL"],
        access_redis_url=addresses["ACCESS_REDIS_URL"],
        clickhouse_url=addresses["CLICKHOUSE_URL"],
        clickhouse_reader_password=SecretStr(addresses["CLICKHOUSE_READER_PASSWORD"]),
        gateway_url=addresses["GATEWAY_URL"],
    )
    serving = served(settings, tmp_path_factory.mktemp("keyless"))
    with ThreadPoolExecutor(1) as elsewhere:  # it runs a loop: Playwright has one in this thread
        running = elsewhere.submit(serving.__enter__).result()
        try:
            yield running
        finally:
            elsewhere.submit(serving.__exit__, None, None, None).result()


def key_of_plan(up: Any, plan: str) -> str:
    """Make a key."""
    made = subprocess.run(
        [sys.executable, "-m", "infra.cli", "keys", "create", "--name", "browser", "--plan", plan],
        env=os.environ | {"ACCESS_REDIS_URL": up.addresses["ACCESS_REDIS_URL"]},
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    return KEY.search(made.stdout)[0]


def submit(page: Page, key: str) -> None:
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Use this key").click()


def test_a_key_is_asked_for_and_kept_for_the_tab(look: Any, api: Served) -> None:
    visit = look("live", api.url)
    page = visit.page
    expect(page.get_by_role("heading", name="API key")).to_be_focused()
    expect(page.get_by_label("API key")).to_have_attribute("type", "password")
    submit(page, api.key)
    expect(page.locator("#connection")).to_have_attribute("data-state", "open")
    expect(page.locator("#key-button")).to_have_text(f"Key: …{api.key[-4:]}")
    page.reload()
    expect(page.locator("section.swaps td.transaction").first).to_be_visible()
    assert page.evaluate("localStorage.length") == 0
    assert api.key not in page.content()
    again = visit.context.new_page()  # another tab does not have it
    again.goto(f"{api.url}/#/live")
    expect(again.get_by_role("heading", name="API key")).to_be_visible()


def test_a_key_is_remembered_on_request(look: Any, api: Served) -> None:
    visit = look("trending", api.url)
    visit.page.get_by_label("Remember it on this device").check()
    submit(visit.page, api.key)
    expect(visit.page.locator("td.symbol").first).to_be_visible()
    again = visit.context.new_page()
    again.goto(f"{api.url}/#/trending")
    expect(again.locator("td.symbol").first).to_be_visible()
    again.locator("#key-button").click()
    again.get_by_role("button", name="Forget the key").click()
    expect(again.get_by_label("API key")).to_have_value("")
    assert again.evaluate("localStorage.length + sessionStorage.length") == 0


def test_a_plan_without_live_swaps_of_a_wallet_has_the_rest_of_its_page(
    look: Any, api: Served, up: Any, token: dict[str, Any]
) -> None:
    trader = ask(up, f"/api/tokens/{token['mint']}/swaps?limit=1")["swaps"][0]["wallet"]
    visit = look(f"wallet/{trader}", api.url)
    submit(visit.page, key_of_plan(up, "free"))
    expect(rows(visit.page, "Positions, newest trade first").first).to_be_visible()
    expect(rows(visit.page, "Swaps of the wallet, newest first").first).to_be_visible()
    expect(visit.page.get_by_text("this key has the plan free")).to_be_visible()
    expect(visit.page.get_by_role("alert").filter(visible=True)).to_have_count(0)


@pytest.mark.parametrize("path", ["live", "trending", "token", "wallet", "system", "nowhere"])
def test_every_page_says_that_the_chain_is_simulated(look: Any, path: str) -> None:
    banner = look(path).page.get_by_text(SIMULATED, exact=True)
    expect(banner).to_be_visible()
    assert banner.bounding_box()["y"] == 0


def test_without_a_key_too(look: Any, api: Served) -> None:
    page = look("live", api.url).page
    expect(page.get_by_label("API key")).to_be_visible()
    expect(page.get_by_text(SIMULATED, exact=True)).to_be_visible()


def test_a_malformed_key_is_refused_without_a_request(look: Any, api: Served) -> None:
    page = look("live", api.url).page
    submit(page, "hunter2")
    expect(page.get_by_role("alert")).to_contain_text("That is no API key")
    expect(page.get_by_label("API key")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("API key")).to_be_focused()


def test_a_key_that_nobody_has_is_refused_in_words(look: Any, api: Served) -> None:
    visit = look("live", api.url)
    visit.expects(UNAUTHORISED)
    page = visit.page
    submit(page, new())
    alert = page.get_by_role("alert")
    expect(alert).to_be_visible()
    said = texts_of(page, "[role=alert]")[0]
    assert len(said.split()) >= 3
    assert "key" in said.lower()
    assert "401" not in said
    submit(page, api.key)  # and then the right one
    expect(page.locator("#connection")).to_have_attribute("data-state", "open")
