"""Every page for everybody: small and wide, light and dark, by keyboard, by screen reader."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.dashboard import Visit, focused, loading, rows

pytestmark = [pytest.mark.slow, pytest.mark.browser]

PAGES = ("live", "trending", "token", "wallet", "system", "account")
SIZES = {
    "phone": (360, 780),
    "tablet": (820, 1180),
    "wide": (1920, 1080),
    "ultrawide": (3440, 1440),
}
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
MOST_STEPS = 80


@pytest.fixture
def paths(token: Any) -> dict[str, str]:
    """Of each page, one that shows something."""
    return {
        **{name: name for name in PAGES},
        "token": f"token/{token['mint']}",
        "wallet": f"wallet/{token['creator']}",
    }


def loaded(visit: Visit, path: str) -> Page:
    """Show a page and wait until it shows something."""
    page = visit.go(path)
    expect(page.locator("main h1").first).to_be_attached()
    expect(loading(page)).to_have_count(0)
    expect(page.locator("main table:visible, main .card:visible").first).to_be_visible()
    if path == "live":
        expect(page.locator("section.swaps td.transaction").nth(3)).to_be_visible()
    elif path == "trending":
        expect(page.locator("td.symbol").nth(3)).to_be_visible()
    return page


@pytest.mark.parametrize(
    ("size", "scheme"),
    [("phone", "light"), ("tablet", "dark"), ("wide", "light"), ("ultrawide", "dark")],
)
def test_no_page_is_wider_than_its_screen(
    look: Any, paths: dict[str, str], size: str, scheme: str
) -> None:
    width, height = SIZES[size]
    visit = look(None, viewport={"width": width, "height": height}, color_scheme=scheme)
    wider = {}
    for name, path in paths.items():
        page = loaded(visit, path)
        wider[name] = visit.overflow_px()
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        light = sum(map(int, re.findall(r"\d+", ground)[:3])) > 3 * 128
        assert light == (scheme == "light"), (name, ground)
    assert wider == dict.fromkeys(paths, 0)


def test_the_theme_is_chosen_and_remembered(look: Any) -> None:
    visit = look("system", color_scheme="light")
    page = visit.page
    button = page.get_by_role("button", name=re.compile("^Theme"))
    expect(button).to_have_text("Theme: auto")
    button.click()
    expect(button).to_have_text("Theme: light")
    button.click()
    expect(button).to_have_text("Theme: dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.reload()
    expect(button).to_have_text("Theme: dark")
    assert page.evaluate(ground) == dark
    button.click()
    expect(button).to_have_text("Theme: auto")
    assert page.evaluate(ground) != dark


def test_everything_is_reached_by_keyboard_and_the_focus_is_seen(look: Any) -> None:
    page = look("system").page
    expect(rows(page, "Outcomes by venue, the last hour").first).to_be_visible()
    page.keyboard.press("Tab")
    assert focused(page)["name"] == "Skip to the page"
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.reload()
    expect(rows(page, "Outcomes by venue, the last hour").first).to_be_visible()
    reached = []
    for _ in range(MOST_STEPS):
        page.keyboard.press("Tab")
        at = focused(page)
        if at["tag"] == "body":
            break
        assert at["seen"], at
        assert at["name"], at
        reached.append(at["name"])
    for name in ("Live", "Trending", "Token", "Wallet", "System", "Key: demo", "Theme: auto"):
        assert name in reached, reached
    for name in ("Address of a token or a wallet", "Outcomes by venue, the last hour"):
        assert name in reached, reached
    assert sum(name.startswith("Malformed") for name in reached) == 1, reached


def test_pages_are_walked_by_keyboard(look: Any) -> None:
    page = look("live").page
    for name in ("Trending", "System", "Live"):
        page.get_by_role("navigation").get_by_role("link", name=name).focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name=name, level=1)).to_be_focused()
        expect(page).to_have_title(re.compile(f"^{name} . Soltape$"))
        current = page.get_by_role("navigation").locator("[aria-current=page]")
        expect(current).to_have_text(name)


@pytest.mark.parametrize(("size", "scheme"), [("phone", "dark"), ("wide", "light")])
def test_pages_keep_the_rules_of_accessibility(
    look: Any, paths: dict[str, str], axe: str, size: str, scheme: str
) -> None:
    broken = {}
    width, height = SIZES[size]
    visit = look(None, viewport={"width": width, "height": height}, color_scheme=scheme)
    for name, path in paths.items():
        page = loaded(visit, path)
        if name in ("live", "trending"):
            page.get_by_role("button", name="Pause", exact=True).click()  # the list stays as it is
        page.evaluate(axe)
        found = page.evaluate(
            """async rules => {
                 const { violations } = await axe.run(document, {
                   runOnly: { type: "tag", values: rules },
                   resultTypes: ["violations"],
                 });
                 return violations.map(({ id, nodes }) =>
                   [id, nodes.length, nodes[0].html.slice(0, 200), nodes[0].failureSummary]);
               }""",
            list(RULES),
        )
        if found:
            broken[name] = found
    assert broken == {}
