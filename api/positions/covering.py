"""Which programs must be covered for positions to be all, and what is said where not all are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from api.positions.answers import PositionError
from schemas.account_reading import Coverage
from schemas.protocols.contract import Protocol
from schemas.solana.addresses import text

MOST_NAMED: Final = 5  # of the programs that are not covered
_PROTOCOLS: Final = 256
_ROUTES: Final = 1 << 7  # sets of protocols that are asked for together
_NO_REASON: Final = "not all accounts of {} are known yet"


def programs_of(protocols: Iterable[Protocol]) -> tuple[bytes, ...]:
    """Return the programs that must be covered for the positions of protocols to be all."""
    return _programs_of(tuple(protocols))


@lru_cache(_ROUTES)
def _programs_of(protocols: tuple[Protocol, ...]) -> tuple[bytes, ...]:
    return tuple(dict.fromkeys(program for each in protocols for program in _own_programs(each)))


@lru_cache(_PROTOCOLS)
def _own_programs(protocol: Protocol) -> tuple[bytes, ...]:
    kinds = (kind for kind in protocol.kinds if kind.wallets or kind.has_mints)
    return tuple(dict.fromkeys(kind.program for kind in kinds))


def covered_since(coverage: Mapping[bytes, Coverage], protocols: Iterable[Protocol]) -> int | None:
    """Return the slot from which all programs of protocols are covered."""
    slots = [coverage[program].slot for program in programs_of(protocols)]
    known = [slot for slot in slots if slot is not None]
    return max(known) if known and len(known) == len(slots) else None


def not_covered(
    slug: str, protocol: Protocol, coverage: Mapping[bytes, Coverage]
) -> Iterator[PositionError]:
    """Yield what is wrong with the coverage of a protocol's programs: one error for all of them."""
    programs = _own_programs(protocol)
    missing = [program for program in programs if coverage[program].slot is None]
    if not missing:
        return
    named = [text(program) for program in missing[:MOST_NAMED]]
    count = f"{len(missing)} of its {len(programs)} programs"
    default = _NO_REASON.format("the program" if len(programs) == 1 else count)
    reasons = dict.fromkeys(coverage[program].reason or default for program in missing)
    yield {
        "protocol": slug,
        "account": named[0] if len(missing) == 1 else None,
        "code": "not_covered",
        "detail": next(iter(reasons)) if len(reasons) == 1 else default,
        "programs": {"missing": len(missing), "of": len(programs), "addresses": named},
    }


def once(errors: Iterable[PositionError]) -> list[PositionError]:
    """Return errors, one for what several protocols lack alike; it names no protocol."""
    found: dict[tuple[str | None, str, str, str | None], PositionError] = {}
    for error in errors:
        alike = error["account"], error["code"], error["detail"]
        # Of a protocol's programs each protocol says so itself.
        key = (*alike, None if error["programs"] is None else error["protocol"])
        first = found.setdefault(key, error)
        if first["protocol"] != error["protocol"]:
            found[key] = {**first, "protocol": None}
    return list(found.values())
