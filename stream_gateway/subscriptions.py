"""Subscriptions: filters as values, groups of equal filters, and an index of the groups.

Values of one kind are alternatives; kinds combine: a filter of two venues and a token takes that
token's swaps on either. An empty kind takes everything. A token matches either side of a swap.

Alerts of health are taken by `HealthBelow`: a client's own threshold, compared with how far health
fell. So what a client is sent is a function of the event and of its filter, live and replayed.

The index keeps each group under the values of its most selective kind only. An event is compared
with the groups that want its wallet, one of its tokens or its venue, never with the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Generic, TypeVar

from schemas import channels
from schemas.channels import Channel, Fall

Member = TypeVar("Member")

BY_NAME: Final = {channel.channel: channel for channel in channels.ALL}

Places = tuple[int, ...]
"""Places in an event's index; a value at any one of them counts."""


@dataclass(frozen=True, slots=True)
class HealthBelow:
    """Alerts that are not of health, and falls of health across a threshold, if there is one."""

    threshold: float | None

    def __contains__(self, fell: object) -> bool:
        if fell is None:
            return True
        if self.threshold is None:
            return False
        try:
            return Fall.parse(str(fell)).crosses(self.threshold)
        except ValueError:  # of another version's making
            return False


Condition = tuple[Places, frozenset[str] | HealthBelow]

# Kinds of a channel's filters, the most selective first: the filter's field, the values of the
# channel's index that it matches, and its name on the wire.
_KINDS: Final[Mapping[str, tuple[tuple[str, Places, str], ...]]] = {
    name: tuple(
        (field, tuple(map(BY_NAME[name].index.index, values)), wire_name)
        for field, values, wire_name in kinds
    )
    for name, kinds in {
        channels.SWAPS.channel: (
            ("wallets", ("wallet",), "wallets"),
            ("tokens", ("mint", "quote_mint"), "token"),
            ("dexes", ("dex",), "dex"),
        ),
        channels.CREATIONS.channel: (("platforms", ("platform",), "platforms"),),
        channels.PRICES.channel: (("mints", ("mint",), "mints"),),
        channels.STATUS.channel: (),
        channels.TRENDING.channel: (("dexes", ("dex",), "dex"),),
        channels.POSITIONS.channel: (("wallets", ("wallet",), "wallets"),),
    }.items()
}
_FELL: Final = (channels.POSITIONS.index.index("fell"),)
_ONE_VALUE: Final = "token"  # clients name one; the others are lists


@dataclass(frozen=True, slots=True)
class Filter:
    """What a subscription takes of a channel; raises ValueError for a kind the channel lacks."""

    channel: str
    dexes: frozenset[str] = frozenset()
    tokens: frozenset[str] = frozenset()
    wallets: frozenset[str] = frozenset()
    platforms: frozenset[str] = frozenset()
    mints: frozenset[str] = frozenset()
    health_below: float | None = None  # of `positions`: None takes no alert of health

    def __post_init__(self) -> None:
        if self.channel not in _KINDS:
            raise ValueError(f"there is no channel {self.channel!r}")
        has = {field for field, _, _ in _KINDS[self.channel]}
        for field in fields(self):
            if field.name in ("channel", "health_below") or field.name in has:
                continue
            if getattr(self, field.name):
                raise ValueError(f"{self.channel} cannot be filtered by {field.name}")
        if not self._is_of_positions and self.health_below is not None:
            raise ValueError(f"{self.channel} cannot be filtered by health_below")
        if self._is_of_positions and not self.wallets:
            raise ValueError(f"{self.channel} is of wallets that are named")

    @property
    def _is_of_positions(self) -> bool:
        return self.channel == channels.POSITIONS.channel

    def matches(self, index: Sequence[Any]) -> bool:
        """Return whether it takes an event with these values of the channel's index."""
        return fulfils(index, self.conditions())

    def conditions(self) -> tuple[Condition, ...]:
        """Return the conditions on an event's index, the most selective first."""
        found: list[Condition] = [
            (places, wanted)
            for field, places, _ in _KINDS[self.channel]
            if (wanted := getattr(self, field))
        ]
        if self._is_of_positions:
            found.append((_FELL, HealthBelow(self.health_below)))
        return tuple(found)

    def as_fields(self) -> dict[str, Any]:
        """Return the filter as a client sees it: what is not in it is not filtered by."""
        found: dict[str, Any] = {}
        for field, _, name in _KINDS[self.channel]:
            if wanted := sorted(getattr(self, field)):
                found[name] = wanted[0] if name == _ONE_VALUE and len(wanted) == 1 else wanted
        if self.health_below is not None:
            found["health_below"] = self.health_below
        return found


def fulfils(index: Sequence[Any], conditions: Sequence[Condition]) -> bool:
    """Return whether an event with these values of its channel's index meets all conditions."""
    for places, wanted in conditions:
        for place in places:
            if index[place] in wanted:
                break
        else:
            return False
    return True


class Group(Generic[Member]):
    """Those with equal filters: what one of them gets, all get."""

    __slots__ = ("_everybody", "_members", "filter", "is_for_all", "places", "rest", "values")

    def __init__(self, chosen: Filter) -> None:
        first, *rest = chosen.conditions() or (((), frozenset()),)
        assert isinstance(first[1], frozenset)  # values lead to the group, a threshold does not
        self.filter = chosen
        self.places: Places = first[0]
        self.values: frozenset[str] = first[1]
        self.is_for_all = not self.values
        # What is compared once the most selective kind has matched.
        self.rest = tuple(rest)
        self._members: dict[Member, None] = {}
        self._everybody: tuple[Member, ...] | None = ()

    def __len__(self) -> int:
        return len(self._members)

    @property
    def members(self) -> tuple[Member, ...]:
        """Those in it, the oldest first; may change while one goes through them."""
        if self._everybody is None:
            self._everybody = tuple(self._members)
        return self._everybody

    def add(self, member: Member) -> None:
        """Add a member."""
        self._members[member] = None
        self._everybody = None

    def remove(self, member: Member) -> None:
        """Remove a member."""
        del self._members[member]
        self._everybody = None


class Index(Generic[Member]):
    """The groups of one channel, found by what an event's index holds."""

    def __init__(self, channel: Channel) -> None:
        self._groups: dict[Filter, Group[Member]] = {}
        self._all: Group[Member] | None = None
        # Places in the channel's index -> value at one of them -> the groups that want it.
        self._tables: dict[Places, dict[str, list[Group[Member]]]] = {
            places: defaultdict(list) for _, places, _ in _KINDS[channel.channel]
        }

    def __iter__(self) -> Iterator[Group[Member]]:
        return iter(list(self._groups.values()))

    def add(self, chosen: Filter, member: Member) -> Group[Member]:
        """Add a member to the group of a filter."""
        group = self._groups.get(chosen)
        if group is None:
            group = self._groups[chosen] = Group(chosen)
            if group.is_for_all:
                self._all = group
            else:
                table = self._tables[group.places]
                for value in group.values:
                    table[value].append(group)
        group.add(member)
        return group

    def remove(self, group: Group[Member], member: Member) -> None:
        """Remove a member from a group; an empty one is deleted."""
        group.remove(member)
        if len(group):
            return
        del self._groups[group.filter]
        if group.is_for_all:
            self._all = None
            return
        table = self._tables[group.places]
        for value in group.values:
            table[value].remove(group)
            if not table[value]:
                del table[value]

    @property
    def everything(self) -> Group[Member] | None:
        """The group without a filter, if there is one."""
        return self._all

    def match(self, indices: Sequence[Sequence[Any]]) -> dict[Group[Member], list[int]]:
        """Return the groups with filters that want some of the events, and which, in order.

        `indices` are the values of each event's index. The group without a filter is left out.
        """
        hits: dict[Group[Member], list[int]] = {}
        for places, table in self._tables.items():
            if not table:
                continue
            for number, index in enumerate(indices):
                for place in places:
                    for group in table.get(index[place], ()):
                        if group.rest and not fulfils(index, group.rest):
                            continue
                        numbers = hits.setdefault(group, [])
                        if not numbers or numbers[-1] != number:  # it may want both sides
                            numbers.append(number)
        return hits
