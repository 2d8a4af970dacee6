"""What readings want in their later rounds, read along with the first where it was so before.

A pool says which arrays a position needs, and a bank which group: each round of such questions is a
trip. What the readings of a wallet wanted after their first round hardly ever changes, so it is
remembered, and read with the first round; what they want beyond is read as it comes. A reading is
sent what is stored now, and only what it asks for.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Final

from api.positions.accounts_reader import AccountsReader
from api.stores.caches import BoundedCache
from schemas.protocols.contract import Account

REMEMBERED: Final = 1 << 11  # wallets with protocols, 20 kB each at most
MOST_AHEAD: Final = 256  # accounts of one


class LaterRounds:
    """What readings wanted in their later rounds, for all requests of a process."""

    def __init__(self, accounts: AccountsReader) -> None:
        self._accounts = accounts
        self._wanted: BoundedCache[Hashable, tuple[bytes, ...]] = BoundedCache(REMEMBERED)

    def of(self, asked: Hashable) -> Rounds:
        """Return the rounds of a request; `asked` identifies what is read for whom."""
        return Rounds(self._accounts, self._wanted, asked)


class Rounds:
    """The rounds of one request."""

    def __init__(
        self,
        accounts: AccountsReader,
        wanted: BoundedCache[Hashable, tuple[bytes, ...]],
        asked: Hashable,
    ) -> None:
        self._accounts = accounts
        self._wanted = wanted
        self._asked = asked
        self._ahead: tuple[bytes, ...] | None = wanted.kept.get(asked, ())  # None: they are read
        self._later: list[bytes] = []
        self._read = set[bytes]()
        self._found: dict[bytes, Account] = {}

    async def at(self, addresses: Sequence[bytes]) -> dict[bytes, Account]:
        """Return the accounts at addresses that a round wants, as `AccountsReader.at`."""
        new: Iterable[bytes] = addresses
        if self._ahead is not None:
            new, self._ahead = dict.fromkeys([*addresses, *self._ahead]), None
        else:
            self._later += addresses
            new = [each for each in addresses if each not in self._read]
        if new:
            self._read.update(new)
            self._found |= await self._accounts.at([*new])
        found = self._found
        return {each: found[each] for each in addresses if each in found}

    def close(self) -> None:
        """Remember what was wanted after the first round."""
        later = tuple(self._later[:MOST_AHEAD])
        if later != self._wanted.kept.get(self._asked, ()):
            self._wanted.put(self._asked, later)
