"""The chart library that we ship is the one that was released, with what its licence asks for."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

DASHBOARD = Path(__file__).parents[3] / "api" / "dashboard" / "page"
VENDOR = DASHBOARD / "vendor"
VERSION = "5.2.1"
SHA256 = {  # of the npm package's dist/lightweight-charts.standalone.production.mjs and LICENSE
    "lightweight-charts.js": "1bb1ee79f9d4dd17261b53d930f7a8995748276f80e7ba0e24412b5068062f5f",
    "lightweight-charts.LICENSE.txt": (
        "70c9d5382506dd184465425c08a99ad9bd6d9ac1313c252968ba0b585e5ef823"
    ),
}


@pytest.mark.parametrize("name", SHA256)
def test_file_is_the_released_one(name: str) -> None:
    assert sha256((VENDOR / name).read_bytes()).hexdigest() == SHA256[name]


def test_the_version_is_stated_where_readers_look_for_it() -> None:
    assert f"Lightweight Charts™ v{VERSION}" in (VENDOR / "lightweight-charts.js").read_text()[:200]
    assert f"lightweight-charts {VERSION}" in (VENDOR / "lightweight-charts.NOTICE.txt").read_text()
    assert VERSION in (DASHBOARD.parent / "README.md").read_text()


def test_nothing_else_is_shipped_without_a_checksum() -> None:
    shipped = {path.name for path in VENDOR.iterdir()}
    assert shipped == {*SHA256, "lightweight-charts.NOTICE.txt"}


def test_page_names_the_maker_and_links_to_it() -> None:
    """What the notice asks of those that show charts of this library to people."""
    chart = (DASHBOARD / "lib" / "chart.js").read_text()
    assert "https://www.tradingview.com/" in chart
    assert "TradingView" in chart
