"""Agent `live` publishes the venues and platforms that the decoders can find."""

from __future__ import annotations

from pipeline.agents.live.vocabulary import SLUGS
from pipeline.decoding.platforms import PLATFORMS
from pipeline.decoding.registry import VENUES
from schemas.vocabulary import unpack

NINE = (
    *("pump-fun", "pump-swap", "raydium-amm-v4", "raydium-cpmm", "raydium-clmm"),
    *("raydium-launchlab", "orca-whirlpool", "meteora-dlmm", "meteora-damm-v2"),
)


def test_every_venue_and_every_platform_is_published() -> None:
    assert set(SLUGS.dexes) == {venue.dex for venue in VENUES}
    assert set(SLUGS.dexes) >= set(NINE)
    assert set(SLUGS.platforms) == set(PLATFORMS.slugs)
    assert len(SLUGS.platforms) >= 15


def test_they_are_slugs_and_in_order() -> None:
    assert unpack(SLUGS.pack()) == SLUGS
    assert list(SLUGS.dexes) == sorted(SLUGS.dexes)
    assert list(SLUGS.platforms) == sorted(SLUGS.platforms)
