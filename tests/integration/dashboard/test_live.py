"""The Live page: swaps that move, what is asked for, and a gateway that goes away."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import psutil
import pytest
from playwright.sync_api import Page, expect

from tests.support.dashboard import rows, texts_of

pytestmark = [pytest.mark.slow, pytest.mark.browser]

SWAPS = "Swaps, newest first"
MOVES_WITHIN_MS = 90_000  # on a busy machine
LAUNCHES_WITHIN_MS = 300_000  # half a minute on a quiet one


def seen(page: Page) -> list[str]:
    """The swaps in the table, newest first, with all cells of each. Of a route through two pools
    both swaps may be of one transaction, token and amount: they differ in the rest.
    """
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("section.swaps tbody tr:not(.notice)")].map(row =>
             [...row.cells].filter(cell => !cell.classList.contains("time")).map(
               cell => cell.querySelector("a")?.href ?? cell.textContent + cell.title).join(" "))"""
    )
    return found


def until_new(page: Page, before: list[str]) -> None:
    """Wait until the newest swap is another one than before."""
    page.wait_for_function(
        """before => {
             const first = document.querySelector("section.swaps td.transaction a");
             return first && !before.some(each => each.includes(first.href));
           }""",
        arg=before,
        timeout=MOVES_WITHIN_MS,
    )


def test_swaps_move_from_the_load_on(look: Any) -> None:
    page = look("live").page
    page.wait_for_load_state("load")
    until_new(page, [])
    until_new(page, seen(page))
    first = rows(page, SWAPS).first
    expect(first.locator("td.type")).to_have_text(re.compile("^(Buy|Sell)$"))
    expect(first.locator("td")).to_have_count(13)
    expect(page.locator("#connection")).to_have_attribute("data-state", "open")
    expect(page.locator("#connection-words")).to_have_text(re.compile(r"Live · [\d.]+ (ms|µs|s)"))
    latency = page.locator(".facts div", has_text="Chain to page").locator("dd")
    expect(latency).to_have_text(re.compile(r"\d+ (ms|s) · "))


def test_a_filter_narrows_what_comes_and_is_shown(look: Any) -> None:
    page = look("live").page
    until_new(page, [])
    in_force = page.locator("summary", has_text="Filters and options")
    expect(in_force).to_contain_text("All swaps")
    page.locator("details.venues > summary").click()
    page.get_by_role("checkbox", name="pump-swap", exact=True).check()
    page.get_by_role("button", name="Apply").click()
    expect(in_force).to_contain_text("Swaps on pump swap")
    until_new(page, [])
    until_new(page, seen(page))
    assert set(texts_of(page, "section.swaps td.dex")) == {"pump swap"}
    assert "dex=pump-swap" in page.url
    mint = page.locator("section.swaps td.token a").first.get_attribute("href").split("/")[-1]
    page.get_by_label("Token", exact=True).first.fill(mint)
    page.get_by_role("button", name="Apply").click()
    expect(in_force).to_contain_text(" of token ")
    page.get_by_role("button", name="Clear").click()
    expect(in_force).to_contain_text("All swaps")
    until_new(page, seen(page))


def test_an_impossible_filter_gets_a_message(look: Any) -> None:
    page = look("live").page
    until_new(page, [])
    page.get_by_label("Wallets").fill("not-an-address")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("alert").filter(has_text="no address of a wallet")).to_be_visible()
    expect(page.get_by_label("Wallets")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Wallets")).to_be_focused()
    until_new(page, seen(page))  # what was asked for before goes on


def test_a_pause_holds_the_rows_and_counts_what_waits(look: Any) -> None:
    page = look("live").page
    until_new(page, [])
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".waiting")).to_have_text(re.compile(r"Paused: [1-9]\d* waits?"))
    before = seen(page)
    expect(page.locator(".waiting")).to_have_text(re.compile(r"Paused: [1-9]\d+ wait"))
    assert seen(page) == before
    page.get_by_role("button", name="Go on").click()
    until_new(page, before)


def test_launches_are_listed(look: Any) -> None:
    page = look("live").page
    launches = rows(page, "New launches, newest first")
    expect(launches.first).to_be_visible(timeout=LAUNCHES_WITHIN_MS)
    expect(launches.first.locator("td.age")).to_have_text(re.compile("now|ago"))


def test_a_killed_gateway_is_reported_and_nothing_comes_twice(look: Any, up: Any) -> None:
    visit = look("live")
    visit.expects("WebSocket connection to .* failed")
    page = visit.page
    until_new(page, [])
    page.get_by_role("button", name="Pause").click()  # so that all is seen that comes
    was = up.gateway()
    assert was is not None
    was.kill()
    expect(page.locator("#connection-words")).to_have_text(re.compile("Connection lost|Connecting"))
    expect(page.locator("#spoken")).to_have_text(re.compile("Connection lost"))
    expect(page.locator("#connection")).to_have_attribute("data-state", "open", timeout=60_000)
    now = up.gateway()
    assert now is not None
    assert now.pid != was.pid
    assert not psutil.pid_exists(was.pid) or was.status() == psutil.STATUS_ZOMBIE
    before = seen(page)
    page.get_by_role("button", name="Go on").click()
    until_new(page, before)
    twice = [swap for swap, times in Counter(seen(page)).items() if times > 1]
    assert twice == []
