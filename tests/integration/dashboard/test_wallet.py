"""A wallet's page: why a gain is what it is, its days, its swaps in one token."""

from __future__ import annotations

import re
from typing import Any
from urllib.error import HTTPError

import pytest
from playwright.sync_api import Page, Route, expect

from infra.chain.demo_wallets import ADDRESSES, KNOWN
from infra.chain.market.runtime.programs import derived
from schemas.solana import base58
from schemas.solana.addresses import text
from tests.support.dashboard import SEED, Up, ask, focused, rows
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.browser]

POSITIONS = "Positions, newest trade first"
MATCHES = "Matches, newest first: what each sale, transfer or burn took of a lot"
SWAPS = "Swaps of the wallet, newest first"
SHOWN_WITHIN_MS = 240_000  # on a busy machine
READ_WITHIN_MS = 150_000  # until the accounts of all programs have been asked for


@pytest.fixture
def trader(up: Up) -> tuple[str, str]:
    """A wallet that has sold at a gain, and what."""

    def found() -> tuple[str, str] | None:
        for token in ask(up, "/api/tokens/trending?limit=20")["tokens"]:
            traders = ask(up, f"/api/tokens/{token['mint']}/leaderboard?limit=1")["traders"]
            if traders:
                return traders[0]["wallet"], token["mint"]
        return None

    first = eventually(found, lambda: "nobody has sold anything")
    assert first
    return first


@pytest.fixture
def page(look: Any, trader: tuple[str, str]) -> Page:
    shown: Page = look(f"wallet/{trader[0]}").page
    expect(rows(shown, POSITIONS).first).to_be_visible(timeout=SHOWN_WITHIN_MS)
    return shown


def test_a_link_leads_to_lots_that_add_up(look: Any, up: Up, trader: tuple[str, str]) -> None:
    wallet, mint = trader
    page = look(f"wallet/{wallet}?lots={mint}").page
    checked = page.get_by_text("Checked here, to the last unit")
    expect(checked).to_be_visible(timeout=SHOWN_WITHIN_MS)
    shown = rows(page, MATCHES)
    expect(shown.first).to_be_visible()
    answer = ask(up, f"/api/wallets/{wallet}/{mint}/lots?limit=1000")
    signatures = {match["signature"] for match in answer["matches"]}
    listed = page.evaluate(
        "[...document.querySelectorAll('section[aria-label=Lots] td.transaction *')]"
        ".map(each => each.title)"
    )
    assert {title.split(":")[0] for title in listed} <= signatures
    page.get_by_text("The sums").click()
    for line in page.locator("section[aria-label=Lots] li").all_inner_texts():
        numbers = re.search(r"stated (-?\d+), found (-?\d+)$", line)
        assert numbers is not None, line
        assert numbers[1] == numbers[2], line


def test_lots_are_opened_and_closed_by_keyboard(page: Page) -> None:
    button = page.get_by_role("button", name=re.compile("^Lots of ")).first
    name = button.get_attribute("aria-label")
    button.focus()
    page.keyboard.press("Enter")
    heading = page.get_by_role("heading", name=re.compile("^Lots of "))
    expect(heading).to_be_focused()
    expect(page).to_have_url(re.compile(r"\?lots=\w{32,44}$"))
    page.get_by_role("region", name="Lots", exact=True).get_by_role("button", name="Close").focus()
    page.keyboard.press("Enter")
    expect(heading).to_be_hidden()
    assert focused(page)["name"] == name
    assert "lots=" not in page.url


def test_swaps_of_one_token(page: Page, trader: tuple[str, str]) -> None:
    row = rows(page, POSITIONS).first
    mint = row.locator("td.token a").get_attribute("title")
    row.get_by_role("button", name=re.compile("^Trades of ")).click()
    expect(page.get_by_role("heading", name=re.compile("^Swaps of "))).to_be_focused()
    newer = page.get_by_role("button", name="Look for newer ones")
    for _ in range(10):  # on a busy machine the position is known before its swap is stored
        expect(newer).to_be_enabled()
        if rows(page, SWAPS).count():
            break
        page.wait_for_timeout(3_000)
        newer.click()
    expect(rows(page, SWAPS).first).to_be_visible()
    tokens = page.evaluate(
        "[...document.querySelectorAll('section[aria-label=\"Swaps of the wallet\"] td.token a')]"
        ".map(each => each.title)"
    )
    assert set(tokens) == {mint}
    page.get_by_role("button", name="Of all tokens").click()
    expect(page.get_by_role("heading", name="Swaps", exact=True)).to_be_visible()


def test_days_by_gain_and_by_volume(page: Page) -> None:
    part = page.get_by_role("region", name="By day")
    expect(part.get_by_text(re.compile(r"realized from \d{4}-\d\d-\d\d to "))).to_be_visible()
    part.get_by_label("What", exact=True).select_option("trades")
    expect(part.get_by_text(re.compile(r"^\$[\d,.]+[MBT]? traded from "))).to_be_visible()
    expect(part.get_by_role("img", name=re.compile("traded from"))).to_be_visible()
    part.get_by_label("Days", exact=True).select_option("365")
    before = r"in [1-9][\d,]* trades\. Days before that are not recorded\. Days are UTC"
    expect(part.get_by_text(re.compile(before))).to_be_visible()
    part.get_by_text("As a table").click()
    expect(rows(page, "Volume by day, newest first").first).to_be_visible()


def test_the_week_is_seven_days(page: Page) -> None:
    part = page.get_by_role("region", name="Seven days")
    part.get_by_text("As a table").click()
    expect(rows(page, "The last seven days, UTC")).to_have_count(7)
    expect(part.get_by_role("img", name=re.compile("realized in seven days"))).to_be_visible()


def test_holdings_say_how_complete_they_are(page: Page, up: Up, trader: tuple[str, str]) -> None:
    part = page.get_by_role("region", name="Holdings", exact=True)
    expect(part.get_by_text(re.compile(r" together\. .*as of slot [\d,]+"))).to_be_visible()
    coverage = ask(up, f"/api/wallets/{trader[0]}/holdings")["coverage"]
    if not coverage["is_complete"]:
        expect(part.get_by_text("not complete", exact=True)).to_be_visible()

    def complete(route: Route) -> None:
        answer = route.fetch()
        coverage = {"is_complete": True, "reason": None, "since_slot": 1_234_567}
        holdings = answer.json()
        holdings["coverage"] |= coverage
        for token in holdings["tokens"][:1]:
            token["accounts"][0] |= {"is_frozen": True}
        route.fulfill(response=answer, json=holdings)

    page.route("**/holdings", complete)
    page.reload()
    followed = page.get_by_text(re.compile("Followed since slot 1,234,567"))
    expect(followed).to_be_visible(timeout=SHOWN_WITHIN_MS)
    expect(part.get_by_text("complete", exact=True)).to_be_visible()


def test_stake_and_a_share_of_a_stake_pool(look: Any, up: Up) -> None:
    mint = base58.encode(derived(SEED, "pooled-sol"))
    seen: list[Any] = []

    def asked(path: str) -> Any:
        try:
            seen[:] = [ask(up, path)]
        except HTTPError as error:
            seen[:] = [error.code]
            return {}
        return seen[0]

    def largest() -> list[Any]:
        answer = asked(f"/api/tokens/{mint}/holders")
        return answer["holders"] if answer and answer["coverage"]["is_seeded"] else []

    holders = eventually(largest, lambda: seen)
    assert len(holders) >= 20
    assert all(each["supply_pct"] for each in holders), "the mint is followed, too"

    def staked() -> str | None:
        for holder in holders:
            answer = asked(f"/api/wallets/{holder['address']}/staking/native")
            for position in answer["positions"] if answer else ():
                rewards = position["stake"]["rewards"] or ()
                if any(int(each["lamports"] or 0) for each in rewards):
                    return str(holder["address"])
        return None

    wallet = eventually(staked, lambda: seen)
    page = look(f"wallet/{wallet}").page
    part = page.get_by_role("region", name="Holdings", exact=True)
    expect(part.get_by_text("by pool")).to_be_visible(timeout=SHOWN_WITHIN_MS)
    stakes = rows(page, "Stake accounts, most valuable first")
    expect(stakes.first).to_be_visible(timeout=SHOWN_WITHIN_MS)
    expect(stakes.first).to_contain_text("SOL")


def test_gaps_behind_the_figures_are_named(page: Page) -> None:
    missing = page.get_by_text("Slots of the tape that are missing: 12.")
    expect(missing).to_have_count(0)

    def with_gaps(route: Route) -> None:
        answer = route.fetch()
        gaps = {"missing_slots": 12, "lost_slots": 0, "rolled_back_slots": 1}
        route.fulfill(response=answer, json=answer.json() | {"gaps": gaps})

    page.route("**/portfolio", with_gaps)
    page.reload()
    expect(missing).to_be_visible(timeout=SHOWN_WITHIN_MS)
    expect(page.get_by_text(re.compile("rolled back after they were counted: 1"))).to_be_visible()


@pytest.mark.parametrize("width", [1280, 390])
def test_positions_of_protocols_show_health_range_and_what_they_are_worth(
    look: Any, width: int
) -> None:
    visit = look(f"wallet/{text(ADDRESSES['holder-0'])}", viewport={"width": width, "height": 900})
    page = visit.page
    leveraged = rows(page, "Lending, most valuable first").filter(has_text="DefiTuna").first
    expect(leveraged).to_contain_text(re.compile(r"owes [\d.,]+ SOL"), timeout=READ_WITHIN_MS)
    expect(leveraged).to_contain_text(re.compile("Not known: .*health"))
    expect(leveraged).to_contain_text("in range")
    liquid = rows(page, "Vaults and yield, most valuable first").filter(has_text="Kamino").first
    expect(liquid).to_contain_text(re.compile(r"to [\d.]+, now 150\.0"), timeout=READ_WITHIN_MS)
    assert visit.overflow_px() == 0
    lender = look(f"wallet/{text(ADDRESSES['lender-1'])}").page
    loans = rows(lender, "Lending, most valuable first").filter(has_text="Kamino")
    healthy = loans.filter(has_text=re.compile(r"health \d+\.\d\d"))
    expect(healthy.first).to_be_visible(timeout=READ_WITHIN_MS)


def test_a_wallet_shows_what_it_has_earned_and_may_claim(look: Any, up: Up) -> None:
    """Rewards as they are answered, and fees of liquidity beside what earns them."""
    wallet = text(ADDRESSES["staker-0"])
    page = look(f"wallet/{wallet}").page
    rewards = rows(page, "Rewards to claim, most valuable first")
    for protocol in ("Kamino", "marginfi", "Loopscale"):
        row = rewards.filter(has_text=protocol)
        expect(row).to_have_count(1, timeout=READ_WITHIN_MS)
        expect(row.locator("div.asset")).to_have_text(re.compile(r"^[1-9][\d,.]* \S"))
    answer = ask(up, f"/api/wallets/{wallet}/all-rewards")
    assert all(int(each["amount_raw"]) for of in answer["positions"] for each in of["assets"])
    page = look(f"wallet/{text(ADDRESSES['holder-0'])}").page
    earning = rows(page, "Liquidity, most valuable first").filter(has_text="to claim").first
    expect(earning).to_contain_text(re.compile(r"to claim [\d,.]+ \S"), timeout=READ_WITHIN_MS)


def test_the_wallets_net_worth_is_at_the_top_with_its_kinds(look: Any) -> None:
    page = look(f"wallet/{text(ADDRESSES['holder-0'])}").page
    worth = page.get_by_role("region", name="Net worth")
    expect(worth).to_contain_text("Lending", timeout=READ_WITHIN_MS)
    expect(worth).to_contain_text("Net worth is not known")
    # On a busy machine its SOL may be older than its positions when the page reads both, twice a
    # minute: then nothing is known of the sum.
    expect(worth).to_contain_text(re.compile(r"Known of it\s*\$[\d,.]+"), timeout=READ_WITHIN_MS)
    expect(worth).to_contain_text(re.compile(r"Positions that are not known whole, in no sum: \d"))
    expect(worth).to_contain_text(re.compile("Kinds of positions that are not read yet"))


def test_a_known_net_worth_is_shown_and_drawn(look: Any, up: Up) -> None:
    wallet = text(KNOWN["obligor-0"])
    page = look(f"wallet/{wallet}").page
    worth = page.get_by_role("region", name="Net worth")
    expect(worth).to_contain_text(re.compile(r"Net worth\s*\$[\d,.]+"), timeout=READ_WITHIN_MS)
    expect(worth).not_to_contain_text("Known of it")
    path = f"/api/wallets/{wallet}/networth"

    def is_kept() -> bool:
        return any(each["is_complete"] for each in ask(up, path)["points"])

    eventually(is_kept, lambda: ask(up, path))
    page.reload()
    part = page.get_by_role("region", name="Worth over time")
    expect(part.locator("rect.plain")).not_to_have_count(0, timeout=READ_WITHIN_MS)


@pytest.mark.parametrize("width", [1280, 390])
def test_net_worth_over_time_leaves_hours_without_a_snapshot_empty(
    look: Any, up: Up, width: int
) -> None:
    wallet = text(ADDRESSES["holder-0"])
    visit = look(f"wallet/{wallet}", viewport={"width": width, "height": 900})
    page = visit.page
    part = page.get_by_role("region", name="Worth over time")
    expect(part).to_be_visible(timeout=SHOWN_WITHIN_MS)
    path = f"/api/wallets/{wallet}/networth"
    eventually(lambda: ask(up, path)["points"], lambda: ask(up, path))

    def with_a_gap(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        [last] = body["points"][-1:]
        hour = body["interval_ms"]
        known = {"net_worth_usd": 1_234.5, "is_complete": True, "reasons": []}
        at = {"start_ms": last["start_ms"], "time_ms": last["time_ms"]}
        earlier = {name: value - 2 * hour for name, value in at.items()}
        part = {"net_worth_usd": None, "is_complete": False, "reasons": ["holdings_incomplete"]}
        body["points"] = [last | part | earlier, last | known | at]
        # Up to that snapshot: an hour that begins meanwhile would be one more without.
        span = {"since_ms": earlier["time_ms"], "to_ms": last["start_ms"] + hour}
        route.fulfill(response=answer, json=body | span)

    page.route("**/networth?*", with_a_gap)
    page.reload()
    expect(part).to_contain_text("Without a snapshot: 1 of 3", timeout=SHOWN_WITHIN_MS)
    expect(part).to_contain_text("Not known, as a part was not: 1.")
    expect(part.get_by_role("img", name=re.compile(r"\$1,234\.50? at "))).to_be_visible()
    expect(part.locator("rect.plain")).to_have_count(1)
    part.get_by_text("As a table").click()
    expect(rows(page, "Worth by snapshot, newest first")).to_have_count(2)
    assert visit.overflow_px() == 0
    part.get_by_label("Time", exact=True).select_option("2")
    expect(part).to_contain_text("Days are UTC.", timeout=SHOWN_WITHIN_MS)
