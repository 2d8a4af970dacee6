"""The venues, found by walking `pipeline.decoders`: one file each, and nothing else to edit."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from pipeline import decoders
from pipeline.decoding.contract import Venue


class ProgramClaimedTwice(Exception):
    """Two venues claim one program; the text names both."""


def discover() -> tuple[Venue, ...]:
    """Import every module of the folder and return its `VENUES`, in the order of their names.

    An import error is not suppressed: a venue that silently went missing is worse.
    """
    venues: list[Venue] = []
    for module in iter_modules(decoders.__path__):
        venues += import_module(f"{decoders.__name__}.{module.name}").VENUES
    return tuple(venues)


def by_program(venues: tuple[Venue, ...]) -> dict[bytes, Venue]:
    """Return the venue of each program.

    Raises ProgramClaimedTwice.
    """
    owners: dict[bytes, Venue] = {}
    for venue in venues:
        for program in venue.program_keys():
            if (other := owners.get(program)) is not None:
                raise ProgramClaimedTwice(
                    f"{other.dex} and {venue.dex} both claim {venue.programs}"
                )
            owners[program] = venue
    return owners


VENUES: Final = discover()
BY_PROGRAM: Final = by_program(VENUES)
PROGRAMS: Final = frozenset(BY_PROGRAM)
UNLISTED: Final = next(venue for venue in VENUES if venue.dex == "unlisted")
PROGRAM_IDS: Final = tuple(sorted(program for venue in VENUES for program in venue.programs))
PERP_DEXES: Final = tuple(sorted({venue.dex for venue in VENUES if venue.has_perps}))
