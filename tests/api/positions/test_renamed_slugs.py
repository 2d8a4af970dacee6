"""Slugs that an operator renames, replaces or switches off, in the aggregates and `analyze`."""

from __future__ import annotations

import pytest

from api.positions.aggregates import OFF, Aggregate, aggregates, everything
from schemas.protocols.registry import SLUGS, served


def of(changes: str) -> dict[str, Aggregate]:
    """Return all aggregates, as an operator changes the slugs."""
    slugs = served(changes)
    found = aggregates(slugs, SLUGS)
    return {**found, "analyze": everything(slugs, found)}


def renamed(routes: tuple[tuple[str, str], ...], old: str, new: str) -> set[tuple[str, str]]:
    return {(new if slug == old else slug, route) for slug, route in routes}


@pytest.mark.parametrize("slug", sorted(SLUGS))
def test_a_renamed_slug_stays_a_member(slug: str) -> None:
    shipped, found = of(""), of(f"{slug}=-,p77={SLUGS[slug].name}")
    assert found.keys() == shipped.keys()
    for name, aggregate in shipped.items():
        assert set(found[name].routes) == renamed(aggregate.routes, slug, "p77")
        assert len(set(found[name].routes)) == len(found[name].routes)
        pending = tuple((each.slug, each.route) for each in aggregate.pending)
        assert {(each.slug, each.route) for each in found[name].pending} == renamed(
            pending, slug, "p77"
        )
        assert OFF not in {each.reason for each in found[name].pending}


def test_protocols_that_change_slugs_stay_members() -> None:
    shipped, found = of(""), of("p01=marginfi,p02=kamino")
    for name, aggregate in shipped.items():
        names = {"p01": "p02", "p02": "p01"}
        swapped = {(names.get(slug, slug), route) for slug, route in aggregate.routes}
        assert set(found[name].routes) == swapped
        assert found[name].pending == aggregate.pending


def test_another_protocol_of_a_slug_takes_its_place_beside_the_renamed_one() -> None:
    assert ("p10", "positions") in of("p10=flash")["all-perps"].routes
    both = of("p10=flash,p77=adrena")["all-perps"].routes
    assert {("p10", "positions"), ("p77", "positions")} < set(both)


def test_a_slug_that_is_switched_off_is_pending() -> None:
    found = of("p01=-")
    off = {(each.slug, each.route) for each in found["analyze"].pending if each.reason == OFF}
    assert off == {("p01", route) for route in ("lending", "vaults", "staking", "rewards")}
    assert not {slug for slug, _ in found["all-lending"].routes} & {"p01"}
