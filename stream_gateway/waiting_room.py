"""Connections that are not let in yet: bounded, by address and altogether.

Anyone can open sockets and send nothing. Where there are too many, the oldest that has not sent a
whole head gives way at once, of the same address first: an honest client has sent one by then. Of
IPv6 the first 64 bits are one address: a caller has all that begin so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Protocol

from api.access.paces import network
from stream_gateway.metrics import GAVE_WAY


class Waiting(Protocol):
    """A connection that waits."""

    address: str

    @property
    def is_served(self) -> bool:
        """Whether its head is whole, and no answer is on its way."""

    def give_way(self) -> None:
        """End at once."""

    def stop(self) -> None:
        """Be refused: the process ends."""


class WaitingRoom:
    """All of a process that wait, the oldest first."""

    def __init__(
        self, most: int, most_of_address: int, shared: Callable[[str], bool] = lambda _: False
    ) -> None:
        """`shared` says of an address whether many callers have it: a proxy's is not bounded."""
        self._most = most
        self._most_of_address = most_of_address
        self._shared = shared
        self._waiting: dict[Waiting, None] = {}
        self._of_address: defaultdict[str, dict[Waiting, None]] = defaultdict(dict)

    def enter(self, one: Waiting) -> None:
        """Take one more in; another may have to give way."""
        caller = self._caller(one)
        of_address = self._of_address.get(caller, {})
        if len(of_address) >= self._most_of_address and not self._shared(one.address):
            self._make_room(of_address)
        elif len(self._waiting) >= self._most:
            self._make_room(self._waiting)
        self._waiting[one] = None
        # `_make_room` may have deleted the entry of this address.
        self._of_address[caller][one] = None

    def leave(self, one: Waiting) -> None:
        """Forget one; nothing happens where it has left already."""
        if one in self._waiting:
            del self._waiting[one]
            caller = self._caller(one)
            del self._of_address[caller][one]
            if not self._of_address[caller]:
                del self._of_address[caller]

    def has_room_for(self, one: Waiting) -> bool:
        """Return whether one that is in may be asked after: neither bound is passed."""
        of_address = self._of_address.get(self._caller(one), {})
        return len(self._waiting) <= self._most and (
            len(of_address) <= self._most_of_address or self._shared(one.address)
        )

    def everybody(self) -> list[Waiting]:
        """Return all that wait."""
        return list(self._waiting)

    def _caller(self, one: Waiting) -> str:
        """Return who has an address: beside a proxy on its network others stay bounded."""
        return one.address if self._shared(one.address) else network(one.address)

    def _make_room(self, among: dict[Waiting, None]) -> None:
        for one in among:
            if not one.is_served:
                self.leave(one)
                GAVE_WAY.inc()
                one.give_way()
                return
