"""`soltape watch` as a process, with the lender of the tests among the protocols."""

from __future__ import annotations

from schemas.protocols import programs, registry
from tests.integration.api.positions.test_aggregates import LENDER, LENDING


def main() -> None:
    """Run it."""
    own = [each for each in registry.ALL if each.name in {"native_stake", "token", "clock"}]
    everything = (*own, LENDING)
    programs.NUMBERS[LENDER] = 900
    programs.ADDRESSES[900] = LENDER
    registry.ALL = everything
    registry.SLUGS = registry.by_slug({"p01": "lender"}, everything)
    registry.KINDS = registry.by_program(everything)
    from api.watch.command import watch

    watch(args=[])


if __name__ == "__main__":
    main()
