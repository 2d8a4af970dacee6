"""A token's image, its maker's links, and why there are none, on its page."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.integration.dashboard.conftest import trending
from tests.support.dashboard import Up, ask
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.browser]

SHOWN_WITHIN_MS = 240_000  # on a busy machine
COLORS = """canvas => {
  const copy = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
  const found = new Set();
  for (let at = 0; at < data.length; at += 4) found.add(data.slice(at, at + 4).join());
  return found.size;
}"""


def with_image(up: Up) -> dict[str, Any]:
    """A token that trends and whose image is there."""

    def look() -> dict[str, Any] | None:
        for each in trending(up):
            token: dict[str, Any] = ask(up, f"/api/tokens/{each['mint']}")
            if token["metadata"] and token["metadata"]["image"]:
                return token
        return None

    found = eventually(look)
    assert found is not None
    return found


@pytest.mark.parametrize("by", ["link", "key"])
def test_image_and_links_are_shown(look: Any, up: Up, by: str) -> None:
    token = with_image(up)
    if by == "link":
        page = look(f"token/{token['mint']}").page
    else:
        visit = look(None, storage_state=None)
        page = visit.page
        keep = f'sessionStorage.setItem("soltape.key", {json.dumps(up.key)})'
        visit.context.add_init_script(keep)
        visit.go(f"token/{token['mint']}")
    image = page.locator("canvas.token-image")
    expect(image).to_be_visible(timeout=SHOWN_WITHIN_MS)
    expect(image).to_have_attribute("aria-label", f"Image of {token['name']}")
    assert image.evaluate(COLORS) >= 2
    link = page.get_by_role("link", name="X", exact=True)
    expect(link).to_have_attribute("href", token["metadata"]["twitter"])
    expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")
    expect(page.get_by_text(token["metadata"]["description"])).to_be_visible()
    assert page.locator("section[aria-label=Token] img").count() == 0


def test_a_strangers_words_are_text_and_a_failure_is_said(look: Any, up: Up) -> None:
    token = with_image(up)
    visit = look(None)
    visit.expects("Failed to load resource: .* a status of 404")
    hostile = "<img src=x onerror=alert(1)>\u202e"
    said = {
        "description": hostile,
        "website": "javascript:alert(1)",
        "image": None,
        "image_reason": "too_large",
    }

    def answer(route: Route) -> None:
        real = route.fetch().json()
        if hostile_next:
            real["metadata"] = {**token["metadata"], **said}
        else:
            real |= {"metadata": None, "metadata_reason": "refused", "metadata_detail": "why"}
        route.fulfill(json=real)

    hostile_next = True
    visit.page.route(f"**/api/tokens/{token['mint']}", answer)
    page = visit.go(f"token/{token['mint']}")
    expect(page.get_by_text("<img src=x onerror=alert(1)>")).to_be_visible(timeout=SHOWN_WITHIN_MS)
    expect(page.get_by_text("Its image is too large")).to_be_visible()
    assert page.locator("section[aria-label=Token] img").count() == 0
    assert page.locator("a", has_text="Website").get_attribute("href") is None
    hostile_next = False
    page.reload()
    refused = page.get_by_text("What its maker says of it is at a place that is not asked")
    expect(refused).to_be_visible(timeout=SHOWN_WITHIN_MS)
