"""A token's page: candles by hand and by keyboard, live swaps, older ones, colours of the chart."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.support.dashboard import Up, ask, rows

pytestmark = [pytest.mark.slow, pytest.mark.browser]

SWAPS = "Latest swaps, newest first"
CANDLES = re.compile("^The last 100 candles")
SHOWN_WITHIN_MS = 240_000  # on a busy machine
HAS_GROUND = """ground => {
  const chart = document.querySelector(".chart-host canvas");
  const copy = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  copy.drawImage(chart, 0, 0);
  return [...copy.getImageData(2, 2, 1, 1).data].slice(0, 3).join() === ground;
}"""

ENDING_AND_KEYS = """() => {
  const whole = document.querySelector("section[aria-label=Swaps]");
  const key = row => row.querySelector("td.transaction a").title + row.cells[2].title;
  return [
    whole.querySelector(".inset .hint").textContent,
    [...whole.querySelectorAll("tbody tr")].map(key),
  ];
}"""


@pytest.fixture
def page(look: Any, token: Any) -> Page:
    """The page of the token that trends most, with candles and swaps."""
    shown: Page = look(f"token/{token['mint']}").page
    expect(shown.locator(".chart-host canvas").first).to_be_visible(timeout=SHOWN_WITHIN_MS)
    expect(rows(shown, SWAPS).first).to_be_visible(timeout=SHOWN_WITHIN_MS)
    return shown


def busiest(up: Up) -> str:
    """The mint that was traded most lately."""
    mints = [token["mint"] for token in ask(up, "/api/tokens/trending?limit=10")["tokens"]]

    def newest(mint: str) -> list[int]:
        swaps = ask(up, f"/api/tokens/{mint}/swaps?limit=10")["swaps"]
        return sorted(swap["slot"] for swap in swaps)

    return max(mints, key=newest)


def test_candles_are_read_by_keyboard(page: Page) -> None:
    stage = page.get_by_role("group", name=re.compile("^Candles and volume"))
    legend = page.locator(".legend")
    # Of what is announced within half a second the last is said: that comes before the keys.
    expect(page.locator("#spoken")).to_have_text("Connected")
    stage.focus()
    page.keyboard.press("Home")
    first = legend.inner_text()
    assert re.match(
        r"\d{4}-\d\d-\d\d \d\d:\d\d UTC +open .+ volume \$.+ buys \d+ +sells \d+", first
    )
    expect(page.locator("#spoken")).to_have_text(re.compile(re.escape(first[:20])))
    page.keyboard.press("End")
    assert legend.inner_text()[:16] >= first[:16]
    for key in ("+", "-", "ArrowLeft", "Escape"):
        page.keyboard.press(key)
    expect(stage).to_be_focused()


def test_candles_of_any_interval_and_currency_as_a_table(page: Page) -> None:
    intervals = page.get_by_role("group", name="Interval")
    page.get_by_role("button", name="As a table").first.click()
    for interval, words in (("1s", "1 second"), ("5m", "5 minutes"), ("1d", "1 day")):
        intervals.get_by_role("button", name=interval, exact=True).click()
        expect(page.get_by_text(re.compile(f"^Candles of {words}: [1-9]"))).to_be_visible()
        expect(rows(page, "The last 100 candles, the newest first").first).to_be_visible()
    volume = page.get_by_role("table", name=CANDLES).locator("td.volume").first
    expect(volume).to_have_text(re.compile(r"^\$"))
    page.get_by_role("button", name="SOL", exact=True).click()
    expect(volume).to_have_text(re.compile(r" SOL$"))
    page.reload()
    chosen = page.get_by_role("group", name="Interval").locator("[aria-pressed=true]")
    expect(chosen).to_have_text("1d")
    expect(page.locator(".legend")).to_contain_text("SOL")


def test_swaps_come_live_and_wait_while_paused(look: Any, up: Up) -> None:
    page = look(f"token/{busiest(up)}").page
    newest = rows(page, SWAPS).first
    expect(newest).to_be_visible(timeout=SHOWN_WITHIN_MS)
    before = newest.inner_text()
    expect(newest).not_to_have_text(before, timeout=90_000)
    whole = page.get_by_role("region", name="Swaps", exact=True)
    whole.get_by_role("button", name="Pause").click()
    before = newest.inner_text()
    expect(whole.get_by_role("button", name=re.compile(r"^Go on: \d+ new"))).to_be_visible(
        timeout=90_000
    )
    assert newest.inner_text() == before
    whole.get_by_role("button", name=re.compile("^Go on")).click()
    expect(whole.get_by_role("button", name="Pause")).to_be_visible()


def test_older_swaps_are_shown_until_there_are_none(page: Page) -> None:
    older = page.locator("button", has_text="Older swaps")
    # Twenty pages of fifty are the list's thousand; pages that overlap live swaps bring fewer.
    for _ in range(100):
        # Both at one moment: the next live swap may push the oldest out of the list again.
        ending, keys = page.evaluate(ENDING_AND_KEYS)
        if ending:
            break
        before = rows(page, SWAPS).count()
        older.click()
        expect(older).to_be_enabled(timeout=SHOWN_WITHIN_MS)
        assert rows(page, SWAPS).count() >= before
    assert ending.startswith(("These are all", "The 1,000 newest"))
    assert len(keys) > 1
    assert len(keys) == len(set(keys))


def test_the_chart_follows_the_theme(look: Any, token: Any) -> None:
    page = look(f"token/{token['mint']}", color_scheme="light").page
    expect(page.locator(".chart-host canvas").first).to_be_visible(timeout=SHOWN_WITHIN_MS)
    page.wait_for_function(HAS_GROUND, arg="255,255,255")
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(HAS_GROUND, arg="22,27,29")


def test_the_maker_of_the_charts_is_named(page: Page) -> None:
    maker = page.get_by_role("link", name="TradingView Lightweight Charts")
    expect(maker).to_have_attribute("href", "https://www.tradingview.com/")
    expect(maker).to_have_attribute("rel", re.compile("noopener"))
    notice = page.get_by_role("link", name="notice").get_attribute("href")
    answer = page.request.get(page.url.split("#")[0] + str(notice))
    assert "TradingView Lightweight Charts" in answer.text()


def test_the_mint_and_freeze_authorities_are_shown(page: Page, token: Any) -> None:
    authority = "9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin"

    def with_account(route: Route) -> None:
        answer = route.fetch()
        account = {
            "changed_slot": 4_321,
            "mint_authority": None,
            "freeze_authority": authority,
            "close_authority": None,
            "permanent_delegate": authority,
            "transfer_hook": None,
            "transfer_fee_bps": 250,
            "extensions": ["transfer_fee", "permanent_delegate"],
        }
        supply = {"supply_source": "account", "supply_slot": 4_321, "mint_account": account}
        route.fulfill(response=answer, json=answer.json() | supply)

    page.route(f"**/api/tokens/{token['mint']}", with_account)
    page.reload()
    facts = page.get_by_role("region", name="Token", exact=True)
    expect(facts.get_by_text("nobody", exact=True)).to_be_visible(timeout=SHOWN_WITHIN_MS)
    expect(facts.get_by_text("2.5%", exact=True)).to_be_visible()
    expect(facts.get_by_text("transfer fee, permanent delegate")).to_be_visible()
    expect(facts.locator(f"a[title='{authority}']")).to_have_count(2)
    source = facts.locator("[title^='Of the mint']")
    expect(source).to_have_attribute("title", re.compile("last changed in slot 4,321"))
