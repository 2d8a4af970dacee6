"""When a position crosses a line: health falls, a range is left, a lock ends. Values only.

Each client has a health threshold of its own. A trigger of one threshold goes off where health is
below it, and is armed again where health is above it by HYSTERESIS. One number, the level, is the
state of the triggers of all thresholds: those above it have gone off. Health pulls it down to
itself, and up to itself without the hysteresis; in between it stays. So a fall of the level from
`since` to `to` is one alert for each threshold in between, of any client: nobody's threshold is
kept here, and each client is sent what crosses its own (`schemas.channels.Fall`).

Health is 1 where a protocol may liquidate, of all that it may: the health factor of a loan, what
backs an account's bets over what it must have, and the price of a bet with collateral of its own
over the one at which it is liquidated, the other way round for a short one.

What is not known changes nothing: neither an unknown health, nor a position that an incomplete
reading of its protocol lacks, nor a debt, range or lock that is not listed while the position lacks
an account. A position in a market that anybody can open, and that is not verified, is not watched:
its opener sets the health and could alert any wallet. An alert has the same identity however often
it is found from the same state.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple

import orjson

from api.positions.answers import (
    LockAnswer,
    MarginAnswer,
    PerpAnswer,
    PositionRecord,
    RangeAnswer,
)
from api.positions.records import lacks_account
from schemas.channels import Fall

HYSTERESIS: Final = 0.02
"""Part by which health must be above a threshold before another alert of it."""
MOST_LEVEL: Final = 100.0
"""No client's threshold is higher: what falls above it is nobody's alert."""
MOST_POSITIONS: Final = 200  # of a wallet
MOST_LOCKS: Final = 16  # of a position, those that end first
_LIQUIDITY: Final = frozenset({"supply", "locked"})  # roles of assets
_RANGE_PART: Final = 50  # of a range's width: so far inside, its alert is armed again

Kind = Literal["health_below", "range_left", "lock_ended"]
Unit = Literal["ratio", "price", "ms", "slot"]


class At(NamedTuple):
    """As of when a wallet was read, by the chain."""

    slot: int
    time_ms: int


class LockEnd(NamedTuple):
    """When a lock ends, if nobody changes it."""

    kind: str
    unit: Literal["ms", "slot"]
    end: int

    def is_over(self, at: At) -> bool:
        """Return whether the chain has come to its end."""
        return self.end <= (at.time_ms if self.unit == "ms" else at.slot)


@dataclass(frozen=True, slots=True)
class Place:
    """Which position it is."""

    wallet: str
    protocol: str
    route: str
    position_id: str
    market: str | None

    @property
    def field(self) -> str:
        """Its name among the positions of its wallet; only the route may have a slash."""
        return f"{self.protocol}/{self.route}/{self.position_id}"


@dataclass(frozen=True, slots=True)
class Seen:
    """What was last known of a position."""

    market: str | None
    since_slot: int  # in which it was first seen
    alerts: int = 0  # of it, so far
    level: float | None = None  # of health; thresholds above it have gone off. None: never known
    is_armed: bool | None = None  # of the range; False: left, and not well inside since
    locks: tuple[LockEnd, ...] = ()  # that have not ended

    def pack(self) -> bytes:
        """Return its bytes."""
        locks = [[*each] for each in self.locks]
        kept = (self.market, self.since_slot, self.alerts, self.level, self.is_armed, locks)
        return orjson.dumps(kept)

    @classmethod
    def unpack(cls, data: bytes) -> Seen:
        """Return what `pack` made; raises ValueError."""
        try:
            market, since_slot, alerts, level, is_armed, locks = orjson.loads(data)
            return cls(
                market, since_slot, alerts, level, is_armed, tuple(LockEnd(*each) for each in locks)
            )
        except (TypeError, ValueError) as error:
            raise ValueError(f"no state of a position: {error}") from None


@dataclass(frozen=True, slots=True)
class Alert:
    """A line that a position crossed."""

    alert_id: str
    kind: Kind
    place: Place
    at: At
    unit: Unit
    value: float | None
    threshold: float | None  # None: each client's own
    fell: Fall | None = None

    @property
    def data(self) -> dict[str, Any]:
        """Return it as clients get it."""
        place = self.place
        return {
            "alert_id": self.alert_id,
            "kind": self.kind,
            "wallet": place.wallet,
            "protocol": place.protocol,
            "route": place.route,
            "position_id": place.position_id,
            "market": place.market,
            "slot": self.at.slot,
            "time_ms": self.at.time_ms,
            "unit": self.unit,
            "value": self.value,
            "threshold": self.threshold,
        }


@dataclass(slots=True)
class Change:
    """What a reading changes of what is known of a wallet, and the alerts of it."""

    put: dict[str, Seen] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    alerts: list[Alert] = field(default_factory=list)


def is_watched(record: PositionRecord) -> bool:
    """Return whether a position has a line to cross, and is in a market whose figures count."""
    if not record["is_verified_market"]:
        return False
    has_health = record["health"] or record["margin"] or record["perp"]
    return bool(has_health or record["range"] or record["locks"])


def advance(
    wallet: str,
    known: Mapping[str, Seen],
    records: Sequence[PositionRecord],
    at: At,
    *,
    partial: Container[str],
) -> Change:
    """Return what a reading of a wallet changes.

    `partial`: protocols of which `records` may lack positions; of any other, one that is not there
    is gone. Of more than MOST_POSITIONS those that are known come first, whether they are there or
    not. One whose market is not verified any more is forgotten without an alert.
    """
    found = {
        place.field: (place, record)
        for record in records
        if is_watched(record)
        for place in (_place(wallet, record),)
    }
    unverified = {
        _place(wallet, record).field for record in records if not record["is_verified_market"]
    }
    absent = known.keys() - found.keys()
    gone = sorted(name for name in absent if name in unverified or _protocol(name) not in partial)
    room = max(MOST_POSITIONS - len(absent) + len(gone), 0)
    chosen = sorted(found, key=lambda each: each not in known)[:room]
    change = Change()
    for name in chosen:
        place, record = found[name]
        before = known.get(name)
        after, alerts = _step(place, before, record, at)
        if after != before:
            change.put[name] = after
        change.alerts += alerts
    change.gone += gone
    for name in gone:
        if name in unverified:
            continue
        route, position_id = name.removeprefix(f"{_protocol(name)}/").rsplit("/", 1)
        place = Place(wallet, _protocol(name), route, position_id, known[name].market)
        numbered = _Numbered(place, known[name], at)
        change.alerts += [numbered.lock(each) for each in known[name].locks if each.is_over(at)]
    return change


def _protocol(name: str) -> str:
    """Return the protocol of a position's name (`Place.field`)."""
    return name.split("/", 1)[0]


def _place(wallet: str, record: PositionRecord) -> Place:
    return Place(
        wallet, record["protocol"], record["route"], record["position_id"], record["market"]
    )


class _Numbered:
    """Makes the alerts of a position, one after the other."""

    def __init__(self, place: Place, seen: Seen, at: At) -> None:
        self._place = place
        self._since_slot = seen.since_slot
        self._at = at
        self.count = seen.alerts

    def fall(self, fell: Fall) -> Alert:
        return self._alert("health_below", "ratio", fell.to, None, fell)

    def left(self, value: float | None, bound: float | None) -> Alert:
        return self._alert("range_left", "price", value, bound)

    def lock(self, lock: LockEnd) -> Alert:
        now = self._at.time_ms if lock.unit == "ms" else self._at.slot
        return self._alert("lock_ended", lock.unit, now, lock.end)

    def _alert(
        self,
        kind: Kind,
        unit: Unit,
        value: float | None,
        threshold: float | None,
        fell: Fall | None = None,
    ) -> Alert:
        self.count += 1
        place = self._place
        named = (place.wallet, place.field, self._since_slot, self.count)
        alert_id = sha256("/".join(map(str, named)).encode()).hexdigest()[:32]
        return Alert(alert_id, kind, place, self._at, unit, value, threshold, fell)


def _step(
    place: Place, before: Seen | None, record: PositionRecord, at: At
) -> tuple[Seen, list[Alert]]:
    """Return what is known of a position after a reading, and the alerts of it."""
    seen = before or Seen(record["market"], at.slot)
    numbered = _Numbered(place, seen, at)
    alerts: list[Alert] = []
    level = _level(seen.level, record)
    highest = MOST_LEVEL if seen.level is None else min(seen.level, MOST_LEVEL)
    if level is not None and level < highest:
        alerts.append(numbered.fall(Fall(level, seen.level)))
    is_armed = seen.is_armed
    if record["range"] is not None:
        is_armed = _armed(seen.is_armed, record["range"]) if _earns(record) else None
    if seen.is_armed and is_armed is False:
        assert record["range"] is not None
        alerts.append(numbered.left(*_bound(record["range"])))
    listed = _ends(record["locks"])
    if lacks_account(record):
        listed |= {each for each in seen.locks if not _is_moved(each, seen, listed)}
    ended = [each for each in seen.locks if each.is_over(at) and not _is_moved(each, seen, listed)]
    alerts += map(numbered.lock, ended)
    ahead = sorted((each for each in listed if not each.is_over(at)), key=lambda each: each.end)
    after = replace(
        seen,
        market=record["market"],
        level=level,
        is_armed=is_armed,
        locks=tuple(ahead[:MOST_LOCKS]),
        alerts=numbered.count,
    )
    return after, alerts


def _level(before: float | None, record: PositionRecord) -> float | None:
    health, margin = record["health"], record["margin"]
    if health is not None:
        factor, may_fall = health["health_factor"], _owes(record)
    elif margin is not None:
        factor, may_fall = _backing(margin), margin["maintenance_usd"] != 0
    else:
        factor, may_fall = _distance(record["perp"]), True
    if factor is None:
        return before if may_fall else None
    return factor if before is None else min(max(before, factor / (1 + HYSTERESIS)), factor)


def _backing(margin: MarginAnswer) -> float | None:
    """Return what backs bets and loans over what they need, at most 1 while they are liquidated."""
    collateral_usd, needed_usd = margin["collateral_usd"], margin["maintenance_usd"]
    if collateral_usd is None or not needed_usd:
        return None
    factor = max(collateral_usd / needed_usd, 0.0)
    return min(factor, 1.0) if margin["health_pct"] == 0 else factor


def _distance(perp: PerpAnswer | None) -> float | None:
    """Return the price of a bet over that of its liquidation; None: not known, or not its own.

    The bets of an account with one collateral have no leverage of their own: `margin` has theirs.
    """
    if perp is None or perp["leverage"] is None:
        return None
    price_usd, end_usd = perp["mark_price_usd"], perp["liquidation_price_usd"]
    if not price_usd or not end_usd:
        return None
    return price_usd / end_usd if perp["side"] == "long" else end_usd / price_usd


def _owes(record: PositionRecord) -> bool:
    """Return whether a position has, or may have, a debt; without one no threshold is crossed."""
    return lacks_account(record) or any(
        each["role"] == "borrow" and each["amount_raw"] != "0" for each in record["assets"]
    )


def _earns(record: PositionRecord) -> bool:
    """Return whether a position has, or may have, liquidity: one that is empty leaves no range."""
    return any(
        each["role"] in _LIQUIDITY and each["amount_raw"] != "0" for each in record["assets"]
    )


def _armed(before: bool | None, found: RangeAnswer) -> bool | None:
    """Return whether leaving the range would be an alert."""
    if found["is_in_range"] is None:
        return before
    if not found["is_in_range"]:
        return False
    return True if before is None or before else _is_well_inside(found)


def _is_well_inside(found: RangeAnswer) -> bool:
    """Return whether a price is so far inside its range that it is not at the edge any more."""
    lower, upper, current = found["lower_index"], found["upper_index"], found["current_index"]
    if lower is None or upper is None or current is None:
        return True
    width = upper - lower
    margin = min(max(1, width // _RANGE_PART), width // 2)
    return lower + margin <= current <= upper - margin


def _bound(found: RangeAnswer) -> tuple[float | None, float | None]:
    """Return the price, and the bound of the range that it is beyond; None: not known."""
    lower, current, upper = found["lower_index"], found["current_index"], found["upper_index"]
    if current is not None and lower is not None and current < lower:
        return found["current"], found["lower"]
    if current is not None and upper is not None and current > upper:
        return found["current"], found["upper"]
    return found["current"], None


def _ends(locks: Sequence[LockAnswer]) -> set[LockEnd]:
    found = set[LockEnd]()
    for each in locks:
        if each["ends_ms"] is not None:
            found.add(LockEnd(each["kind"], "ms", each["ends_ms"]))
        elif each["ends_slot"] is not None:
            found.add(LockEnd(each["kind"], "slot", each["ends_slot"]))
    return found


def _is_moved(lock: LockEnd, seen: Seen, listed: set[LockEnd]) -> bool:
    """Return whether the chain has another lock in its place: it was extended, and did not end."""
    if lock in listed:
        return False
    new = {each for each in listed - set(seen.locks) if each.kind == lock.kind}
    if len(seen.locks) == MOST_LOCKS:  # later ones may have been there
        new = {each for each in new if each.end < seen.locks[-1].end}
    return bool(new)
