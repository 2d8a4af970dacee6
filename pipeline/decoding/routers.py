"""Aggregators and trading apps, from the data in `routers.toml`: who routed a swap, for whom."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final

from pipeline.solana.transaction import Transaction
from schemas.solana.addresses import key

_FIELDS: Final = {"programs", "user", "users", "fee_accounts"}


class RoutersError(Exception):
    """routers.toml holds something that is not accepted; the text names the entry."""


@dataclass(frozen=True, slots=True)
class Router:
    """A program that swaps on behalf of its caller, or an app that is paid for placing a swap.

    `users` gives, by instruction tag, the place of the trader among the accounts; `user` the
    place where no tag is known.
    """

    slug: str
    users: Mapping[bytes, int] = field(default_factory=dict)
    user: int | None = None

    def named_user(self, tx: Transaction, position: int) -> int | None:
        """Return the index of the key that the instruction names as the trader, if known."""
        accounts = tx.accounts[position]
        place = self.users.get(tx.data[position][:8], self.user)
        return accounts[place] if place is not None and place < len(accounts) else None


@dataclass(frozen=True, slots=True)
class Routers:
    """Routers by program, and by the accounts on which apps take their fee."""

    by_program: Mapping[bytes, Router]
    by_fee_account: Mapping[bytes, Router]

    def outermost(self, tx: Transaction, position: int) -> tuple[Router, int] | None:
        """Return the outermost router that called an instruction, and where it was called."""
        found = None
        for at in tx.ancestors(position):
            router = self.by_program.get(tx.program(at))
            if router is not None:
                found = router, at
        return found

    def paid(self, tx: Transaction) -> str:
        """Return the slug of the app whose fee account gained lamports, or ''."""
        if self.by_fee_account.keys().isdisjoint(tx.keys):
            return ""
        for index, address in enumerate(tx.keys):
            router = self.by_fee_account.get(address)
            if router is not None:
                before, after = tx.meta.pre_balances, tx.meta.post_balances
                if index < len(before) and index < len(after) and after[index] > before[index]:
                    return router.slug
        return ""


def read(document: Mapping[str, Any]) -> Routers:
    """Read the tables of routers.toml.

    Raises RoutersError.
    """
    by_program: dict[bytes, Router] = {}
    by_fee_account: dict[bytes, Router] = {}
    for slug, entry in document.items():
        if unknown := entry.keys() - _FIELDS:
            raise RoutersError(f"[{slug}]: does not take {sorted(unknown)}")
        users = {bytes.fromhex(tag): int(place) for tag, place in entry.get("users", {}).items()}
        router = Router(slug, users, entry.get("user"))
        for name, table in (("programs", by_program), ("fee_accounts", by_fee_account)):
            for address in entry.get(name, ()):
                try:
                    found = table.setdefault(key(address), router)
                except ValueError as error:
                    raise RoutersError(f"[{slug}] {name}: {address}: {error}") from None
                if found is not router:
                    raise RoutersError(f"[{slug}] and [{found.slug}] both claim {address}")
    return Routers(by_program, by_fee_account)


ROUTERS: Final = read(tomllib.loads(files("pipeline").joinpath("routers.toml").read_text()))
