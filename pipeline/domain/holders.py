"""Who holds a token: exact balances by account, summed by owner, and the largest of them.

Not holders: vaults of pools and curves (an account once seen as one stays one), accounts owned by
a pool or curve of the token, and addresses whose keys nobody has. A maker that a swap names in
place of a pool (`MAKERS`) is a wallet, and holds. An account is known from the
first transaction on in which we see its balance change; what transactions outside the subscribed
programs did to it is unknown until then. Balances are absolute, so nothing adds up wrongly.

Of a token with many accounts only those that change are in memory, and the top of the ranking.
The ranking is by (balance as a double, owner), the order that a sorted set of Redis has; above
2**53 units two balances that make the same double rank by owner. The balances are exact.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import Final

from schemas.markets import BURNED, EXACT_BELOW, Account

TOP: Final = 100
MOST_IN_MEMORY: Final = 300
MAX_POOLS: Final = 256
MAKERS: Final = frozenset({"jupiter-rfq"})  # venues whose pool is the wallet of a maker


class Ranking:
    """The largest holders: all that rank above `floor`, or simply all where it is None."""

    __slots__ = ("_keys", "floor")

    def __init__(self) -> None:
        self._keys: list[tuple[float, bytes]] = []  # ascending
        self.floor: tuple[float, bytes] | None = None

    def __len__(self) -> int:
        return len(self._keys)

    def move(self, owner: bytes, before: int, after: int) -> None:
        """Note an owner's new balance."""
        if before:
            old = (float(before), owner)
            at = bisect_left(self._keys, old)
            if at < len(self._keys) and self._keys[at] == old:
                del self._keys[at]
        if after:
            new = (float(after), owner)
            if self.floor is None or new > self.floor:
                insort(self._keys, new)
                if len(self._keys) > MOST_IN_MEMORY:
                    surplus = MOST_IN_MEMORY // 3
                    self.floor = self._keys[surplus - 1]
                    del self._keys[:surplus]

    def fill(self, keys: Iterable[tuple[float, bytes]], floor: tuple[float, bytes] | None) -> None:
        """Begin anew with all that rank above `floor`."""
        self._keys = sorted(keys)
        self.floor = floor

    def owners(self, count: int) -> list[bytes]:
        """Return the largest holders, largest first."""
        return [owner for _, owner in self._keys[: -count - 1 : -1]]

    def may_run_short(self, changes: int) -> bool:
        """Return whether so many changes could leave less than the top."""
        return self.floor is not None and len(self._keys) - changes < TOP


class Holders:
    """The holders of one mint. What a change needs is put into `accounts` and `owners` before.

    None in `accounts` and 0 in `owners` mean "known not to be there".
    """

    __slots__ = (
        "accounts",
        "changed_accounts",
        "changed_owners",
        "count",
        "creator",
        "creator_raw",
        "owners",
        "pools",
        "ranking",
        "rounded",
        "shrunk",
    )

    def __init__(self) -> None:
        self.accounts: dict[bytes, Account | None] = {}
        self.owners: dict[bytes, int] = {}
        self.pools: dict[bytes, None] = {}  # owners that are pools or curves of this token
        self.ranking = Ranking()
        self.count = 0
        self.creator = b""
        self.creator_raw = 0
        self.changed_accounts: set[bytes] = set()
        self.changed_owners: set[bytes] = set()
        self.rounded: set[bytes] = set()  # loaded by score, exact balance still to be loaded
        self.shrunk: set[bytes] = set()  # of these, below what a score holds exactly

    def counts(self, owner: bytes) -> bool:
        """Return whether an owner can be a holder."""
        return owner not in BURNED and owner not in self.pools

    def set(self, account: bytes, owner: bytes, amount_raw: int, *, is_vault: bool) -> None:
        """Note what an account holds now."""
        before = self.accounts[account]
        is_vault = is_vault or (before is not None and before.is_vault)
        if before is not None and not before.is_vault and before.amount_raw:
            if before.owner == owner and not is_vault:
                self._add(owner, amount_raw - before.amount_raw)
            else:
                self._add(before.owner, -before.amount_raw)
                if not is_vault:
                    self._add(owner, amount_raw)
        elif not is_vault:
            self._add(owner, amount_raw)
        kept = amount_raw or is_vault
        after = Account(owner, amount_raw, is_vault) if kept else None
        if after != before:
            self.accounts[account] = after
            self.changed_accounts.add(account)

    def exclude(self, pool: bytes) -> None:
        """Note that an address is a pool of the token, whose accounts are nobody's."""
        if pool in self.pools or len(self.pools) >= MAX_POOLS:
            return
        self._add(pool, -self.owners.get(pool, 0))
        self.pools[pool] = None

    def created_by(self, creator: bytes) -> None:
        """Name the creator, whose balance is then followed."""
        self.creator = creator
        self.creator_raw = self.owners.get(creator, 0) if self.counts(creator) else 0

    def top(self, count: int) -> list[tuple[bytes, int]]:
        """Return the largest holders with their exact balances."""
        return [(owner, self.owners[owner]) for owner in self.ranking.owners(count)]

    def top_raw(self, count: int) -> int:
        """Return what the largest holders have together."""
        return sum(amount for _, amount in self.top(count))

    def loaded(self, owner: bytes, score: int) -> None:
        """Take the balance of an owner from the store, unless memory knows better."""
        if owner not in self.owners:
            self.owners[owner] = score
            if score >= EXACT_BELOW:
                self.rounded.add(owner)

    def fill(self, stored: list[tuple[bytes, int]], *, all_of_them: bool) -> None:
        """Fill the ranking from the store: its largest first, overlaid with what changed since."""
        floor = None
        if not all_of_them:
            owner, amount_raw = stored[-1]
            floor = (float(amount_raw), owner)
        for owner, amount_raw in stored:
            self.loaded(owner, amount_raw)
        keys = (
            (float(amount_raw), owner)
            for owner, amount_raw in self.owners.items()
            if amount_raw and self.counts(owner)
        )
        self.ranking.fill((key for key in keys if floor is None or key > floor), floor)

    def forget(self) -> None:
        """Drop from memory what the store has, but for the top."""
        kept = self.changed_owners.union(self.ranking.owners(MOST_IN_MEMORY))
        self.accounts = {account: self.accounts[account] for account in self.changed_accounts}
        self.owners = {owner: self.owners[owner] for owner in kept}

    def _add(self, owner: bytes, delta: int) -> None:
        if not delta or not self.counts(owner):
            return
        before = self.owners[owner]
        after = before + delta
        self.owners[owner] = after
        self.changed_owners.add(owner)
        if after < EXACT_BELOW <= before:
            self.shrunk.add(owner)
        if owner == self.creator:
            self.creator_raw = after
        if not before:
            self.count += 1
        elif not after:
            self.count -= 1
        self.ranking.move(owner, before, after)
