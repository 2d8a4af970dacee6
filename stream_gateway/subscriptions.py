"""Who wants which events: filters as values, groups of equal ones, and an index to find them by.

Values of one kind are alternatives, kinds go together: a filter of two venues and a token takes
that token's swaps on either. A kind that is empty takes everything.

The index keeps each group under the values of its most selective kind only, so that an event is
compared with the groups that want this wallet, this token or this venue, and never with the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Generic, TypeVar

from schemas import channels
from schemas.channels import Channel

Member = TypeVar("Member")

BY_NAME: Final = {channel.channel: channel for channel in channels.ALL}

# Kinds of a channel's filters, the most selective first: the filter's field, where the channel's
# index has the value, and what clients call it.
_KINDS: Final[Mapping[str, tuple[tuple[str, int, str], ...]]] = {
    name: tuple((field, BY_NAME[name].index.index(value), told) for field, value, told in kinds)
    for name, kinds in {
        channels.SWAPS.channel: (
            ("wallets", "wallet", "wallets"),
            ("tokens", "mint", "token"),
            ("dexes", "dex", "dex"),
        ),
        channels.CREATIONS.channel: (("platforms", "platform", "platforms"),),
        channels.PRICES.channel: (("mints", "mint", "mints"),),
        channels.STATUS.channel: (),
        channels.TRENDING.channel: (("dexes", "dex", "dex"),),
    }.items()
}
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

    def __post_init__(self) -> None:
        if self.channel not in _KINDS:
            raise ValueError(f"there is no channel {self.channel!r}")
        has = {field for field, _, _ in _KINDS[self.channel]}
        for field in fields(self):
            if field.name != "channel" and field.name not in has and getattr(self, field.name):
                raise ValueError(f"{self.channel} cannot be filtered by {field.name}")

    def matches(self, index: Sequence[Any]) -> bool:
        """Whether it takes an event with these values of the channel's index."""
        return all(
            not (wanted := getattr(self, field)) or index[place] in wanted
            for field, place, _ in _KINDS[self.channel]
        )

    def conditions(self) -> tuple[tuple[int, frozenset[str]], ...]:
        """Return what it asks of an event's index: a place there, and what may stand at it.

        The most selective comes first; an event that fulfils all of them matches.
        """
        return tuple(
            (place, wanted)
            for field, place, _ in _KINDS[self.channel]
            if (wanted := getattr(self, field))
        )

    def told(self) -> dict[str, Any]:
        """Return it as a client is told: what is not in it is not filtered by."""
        told: dict[str, Any] = {}
        for field, _, name in _KINDS[self.channel]:
            if wanted := sorted(getattr(self, field)):
                told[name] = wanted[0] if name == _ONE_VALUE and len(wanted) == 1 else wanted
        return told


class Group(Generic[Member]):
    """Those with equal filters: what one of them gets, all get."""

    __slots__ = ("_everybody", "_members", "filter", "is_for_all", "place", "rest", "values")

    def __init__(self, chosen: Filter) -> None:
        first, *rest = chosen.conditions() or ((-1, frozenset()),)
        self.filter = chosen
        self.place: int = first[0]
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
        """Take somebody in."""
        self._members[member] = None
        self._everybody = None

    def remove(self, member: Member) -> None:
        """Let somebody go."""
        del self._members[member]
        self._everybody = None


class Index(Generic[Member]):
    """The groups of one channel, found by what an event's index holds."""

    def __init__(self, channel: Channel) -> None:
        self._groups: dict[Filter, Group[Member]] = {}
        self._all: Group[Member] | None = None
        # Place in the channel's index -> value there -> the groups that want it.
        self._tables: dict[int, dict[str, list[Group[Member]]]] = {
            place: defaultdict(list) for _, place, _ in _KINDS[channel.channel]
        }

    def __iter__(self) -> Iterator[Group[Member]]:
        return iter(list(self._groups.values()))

    def add(self, chosen: Filter, member: Member) -> Group[Member]:
        """Put somebody into the group of a filter."""
        group = self._groups.get(chosen)
        if group is None:
            group = self._groups[chosen] = Group(chosen)
            if group.is_for_all:
                self._all = group
            else:
                table = self._tables[group.place]
                for value in group.values:
                    table[value].append(group)
        group.add(member)
        return group

    def remove(self, group: Group[Member], member: Member) -> None:
        """Take somebody out of a group; an empty one is gone."""
        group.remove(member)
        if len(group):
            return
        del self._groups[group.filter]
        if group.is_for_all:
            self._all = None
            return
        table = self._tables[group.place]
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
        for place, table in self._tables.items():
            if not table:
                continue
            for number, index in enumerate(indices):
                for group in table.get(index[place], ()):
                    for other, wanted in group.rest:
                        if index[other] not in wanted:
                            break
                    else:
                        if group in hits:
                            hits[group].append(number)
                        else:
                            hits[group] = [number]
        return hits
