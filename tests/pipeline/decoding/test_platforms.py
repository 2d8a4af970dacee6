"""launchpads.toml: what ships, and that a platform is added without code."""

from __future__ import annotations

import tomllib

import pytest

from pipeline.decoding.platforms import PLATFORMS, LaunchpadsError, read
from pipeline.decoding.registry import VENUES

ADDRESS = "So11111111111111111111111111111111111111112"
OTHER = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"


def test_what_ships() -> None:
    assert len(PLATFORMS.slugs) >= 15
    dexes = {venue.dex for venue in VENUES}
    assert set(PLATFORMS.by_dex) <= dexes
    for table in (PLATFORMS.by_config, PLATFORMS.by_creator, PLATFORMS.by_signer):
        assert {dex for dex, _ in table} <= dexes


@pytest.mark.parametrize("way", ["config", "creator", "signer", "partner"])
def test_a_platform_is_added_without_code(way: str) -> None:
    document = f"""
    [meteora-dbc]
    dex = "meteora-dbc"
    default = true
    [my-platform]
    dex = "meteora-dbc"
    {way} = ["{ADDRESS}"]
    source = "mine"
    """
    platforms = read(tomllib.loads(document))
    assert platforms.slugs == ("meteora-dbc", "my-platform")

    def created(dex: str, address: str) -> str:
        return platforms.of_creation(
            dex,
            address if way == "creator" else "",
            address if way == "config" else "",
            [OTHER, address] if way == "signer" else [OTHER],
            [OTHER, address] if way == "partner" else [],
        )

    assert created("meteora-dbc", ADDRESS) == "my-platform"
    assert created("meteora-dbc", OTHER) == "meteora-dbc"
    assert created("raydium-launchlab", ADDRESS) == ""  # another venue's accounts mean nothing
    assert platforms.of_trade("meteora-dbc", ADDRESS) == (
        "my-platform" if way == "config" else "meteora-dbc"
    )
    assert platforms.of_trade("pump-swap", "") == ""


def test_a_trade_names_no_platform_where_tokens_of_others_trade() -> None:
    platforms = read({"my-platform": {"dex": "vertigo", "default": "creation"}})
    assert platforms.of_creation("vertigo", "", "", []) == "my-platform"
    assert platforms.of_trade("vertigo", "") == ""


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ("a = 1", "a platform is a table"),
        ("[a]\ndefault = true", "[a]: needs dex"),
        ("[a]\ndex = 'x'", "[a]: nothing recognises it"),
        ("[a]\ndex = 'x'\ndefault = 'trade'", "[a]: default is true or \"creation\", got 'trade'"),
        ("[a]\ndex = 'x'\ncolour = 'red'", "[a]: does not take colour"),
        ("[a]\ndex = 'x'\nconfig = ['abc']", "[a] config: abc: "),
        ("[a]\ndex = 'x'\nconfig = 'abc'", "[a] config: needs a list"),
        (
            "[a]\ndex = 'x'\ndefault = true\n[b]\ndex = 'x'\ndefault = true",
            "[b] and [a] are both the default of x",
        ),
        (
            f"[a]\ndex = 'x'\nsigner = ['{ADDRESS}']\n[b]\ndex = 'x'\nsigner = ['{ADDRESS}']",
            f"[b] and [a] both claim signer {ADDRESS}",
        ),
    ],
)
def test_what_is_refused(document: str, says: str) -> None:
    with pytest.raises(LaunchpadsError) as error:
        read(tomllib.loads(document))
    assert says in str(error.value)
