"""The other pages: what they show, how they are sorted, and addresses that lead nowhere."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from schemas.channels import TRENDING_FIELDS
from tests.support.dashboard import loading, rows, texts_of

pytestmark = [pytest.mark.slow, pytest.mark.browser]

TRENDING = "Launch tokens that trend, the twenty fields of each"
NOBODY = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"
NO_ADDRESS = "0OIl-no-address"


def test_trending_has_all_fields_and_is_sorted_by_keyboard(look: Any) -> None:
    page = look("trending").page
    listed = rows(page, TRENDING)
    expect(listed.nth(4)).to_be_visible()
    classes: list[str] = page.evaluate(
        "[...document.querySelector('tbody tr').cells].map(cell => cell.className)"
    )
    assert {name.split()[-1] for name in classes} == {*TRENDING_FIELDS, "rank", "trail"}
    volume = page.get_by_role("columnheader", name="Volume 24h")
    expect(volume).to_have_attribute("aria-sort", "none")
    volume.get_by_role("button").focus()
    for key, direction in (("Enter", "descending"), ("Space", "ascending")):
        page.keyboard.press(key)
        expect(volume).to_have_attribute("aria-sort", direction)
        page.get_by_role("button", name="Pause").click()  # or they change while they are read
        titles: list[str] = page.evaluate(
            "[...document.querySelectorAll('td.total_volume_24h')].map(cell => cell.title)"
        )
        volumes = [float(title.replace(",", "")) for title in titles if title[0].isdigit()]
        assert len(volumes) >= 5
        assert volumes == sorted(volumes, reverse=direction == "descending")
        page.get_by_role("button", name="Go on").click()
        volume.get_by_role("button").focus()
    expect(page.get_by_role("columnheader", name="#")).to_have_attribute("aria-sort", "none")


def test_trending_draws_prices_and_how_much_of_a_curve_is_sold(look: Any, token: Any) -> None:
    page = look("trending").page
    expect(page.locator("td.trail svg polyline").first).to_be_attached(timeout=60_000)
    said = page.locator("td.trail").filter(has=page.locator("svg")).first
    expect(said).to_have_text(re.compile(r"^[^\d.,<]?[\d.,<]+% in \d"))
    bar = page.locator("td.bonding_curve_pct progress").first
    expect(bar).to_be_visible()
    value, most, label = bar.evaluate(
        "bar => [bar.value, bar.max, bar.parentElement.querySelector('span').textContent]"
    )
    assert most == 100
    assert abs(float(label.split("%")[0].lstrip("<")) - value) < 0.06


def test_trending_moves_and_narrows(look: Any) -> None:
    page = look("trending").page
    listed = rows(page, TRENDING)
    expect(listed.nth(4)).to_be_visible()
    counts = "[...document.querySelectorAll('td.buy_count')].map(cell => cell.textContent).join()"
    before = page.evaluate(counts)
    page.wait_for_function(f"before => {counts} !== before", arg=before, timeout=20_000)
    page.get_by_role("checkbox", name="pump fun").check()
    page.wait_for_function(
        """() => {
             const all = [...document.querySelectorAll("td.dex")].map(cell => cell.textContent);
             return all.length > 0 && all.every(dex => dex === "pump fun");
           }"""
    )
    symbol = texts_of(page, "td.symbol")[0]
    page.get_by_label("Find").fill(symbol.lower())
    expect(page.locator("td.symbol").first).to_have_text(re.compile(symbol, re.IGNORECASE))
    # By name as well: a coin called "Wizard coin" has another symbol.
    found = [each.lower() for each in texts_of(page, "table tbody tr:has(td.symbol)")]
    assert [each for each in found if symbol.lower() not in each] == []
    page.get_by_label("Find").fill("nothing is called that")
    expect(page.get_by_text("No token of the list fits the filters")).to_be_visible()
    expect(listed).to_have_count(0)


def test_trending_comes_back_with_the_gateway(look: Any, up: Any) -> None:
    visit = look("trending")
    visit.expects("WebSocket connection to .* failed")
    page = visit.page
    expect(rows(page, TRENDING).nth(4)).to_be_visible()
    was = up.gateway()
    assert was is not None
    was.kill()
    expect(page.get_by_text("Not connected: this is how it was")).to_be_visible()
    assert rows(page, TRENDING).count() >= 5  # what is known stays to be read
    expect(page.get_by_text(re.compile("^Live · "))).to_have_count(2, timeout=60_000)
    mints = page.evaluate("[...document.querySelectorAll('td.mint a')].map(a => a.title)")
    assert len(mints) == len(set(mints))


def test_a_token(look: Any, token: Any) -> None:
    page = look(f"token/{token['mint']}").page
    expect(page.get_by_role("heading", level=1)).to_contain_text(token["name"])
    expect(page.locator(".chart-host canvas").first).to_be_visible()
    expect(page.locator(".facts-card")).to_contain_text("Market cap")
    for table in ("Latest swaps, newest first", "Largest holders"):
        expect(rows(page, table).first).to_be_visible()
    page.get_by_role("button", name="As a table").first.click()
    expect(page.get_by_role("table", name=re.compile("^The last 100 candles"))).to_be_visible()


def test_the_system_shows_lag_rates_gaps_and_outcomes(look: Any) -> None:
    page = look("system").page
    for group in ("pnl", "market", "store"):
        row = rows(page, "How far the agents have come").filter(has_text=group)
        expect(row.locator("td.lag")).to_have_text(re.compile(r"^\d+$"))
    expect(rows(page, "Stores that answers need")).to_have_count(3)
    room = rows(page, "How full the stores are")
    expect(room).to_have_count(4)
    expect(room.filter(has_text="redis")).to_contain_text(re.compile(r"[1-9].* of 2 GiB, noevict"))
    expect(room.filter(has_text="clickhouse")).to_contain_text(re.compile("[1-9].* of the disk fr"))
    expect(room.filter(has_text="broker")).to_contain_text(re.compile("[1-9].* of the disk free"))
    expect(page.locator("[data-fact=swaps_per_s]")).to_have_text(re.compile(r"^[1-9][\d.,]*$"))
    expect(page.locator("[data-fact=slots_per_s]")).to_have_text(re.compile(r"^[1-9][\d.]*$"))
    expect(page.locator("[data-fact=state]")).to_have_text("connected")
    expect(page.locator("[data-fact=rtt]")).to_have_text(re.compile(r"\d (ms|µs|s)$"))
    expect(page.locator("[data-fact=confirmed]")).to_have_text(re.compile(r"^[\d,]{9,}$"))
    expect(page.get_by_text("hourly net worth of tracked wallets, since")).to_be_visible()
    expect(page.locator("[data-fact=wallets]")).to_have_text(re.compile(r"^[\d,]+$"))
    expect(page.locator("[data-fact=overdue]")).to_have_text(
        re.compile(r"^on time$|\d (ms|s|min)$")
    )
    expect(page.get_by_text("None within the last day")).to_be_visible()
    venues = rows(page, "Outcomes by venue, the last hour")
    expect(venues.nth(3)).to_be_visible()
    pump = venues.filter(has_text=re.compile("^pump swap"))
    expect(pump.locator("td.swaps")).to_have_text(re.compile(r"^[1-9][\d,]*$"))
    expect(pump.locator("td.understood")).to_have_text(re.compile(r"%$"))
    page.get_by_text("As a table").click()
    expect(rows(page, "The last hour by the minute, the newest first").first).to_be_visible()


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        (f"token/{NO_ADDRESS}", 422, "This is no address of a token"),
        (f"wallet/{NO_ADDRESS}", 422, "This is no address of a wallet"),
        (f"token/{NOBODY}", 404, "Nothing is known of this token"),
    ],
)
def test_an_address_that_leads_nowhere_gets_a_message(
    look: Any, path: str, status: int, words: str
) -> None:
    visit = look(None)
    visit.expects(f"Failed to load resource: the server responded with a status of {status} ")
    page = visit.go(path)
    expect(page.get_by_role("heading", name=words)).to_be_visible()
    assert "undefined" not in page.locator("main").inner_text()


def test_a_wallet_that_nobody_has_seen_is_empty(look: Any) -> None:
    page = look(f"wallet/{NOBODY}").page
    expect(page.locator("main")).to_contain_text(NOBODY[:4])
    expect(loading(page)).to_have_count(0)


def test_a_path_that_is_none(look: Any) -> None:
    page = look("no-such-page").page
    expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()
    page.get_by_role("link", name="Go to Live").click()
    expect(page.get_by_role("heading", name="Live", level=1)).to_be_visible()
