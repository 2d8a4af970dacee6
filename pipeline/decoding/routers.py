"""Aggregators and trading apps, from the data in `routers.toml`: who routed a swap, for whom."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from pipeline.solana.address import key
from pipeline.solana.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Router:
    """A program that swaps on behalf of its caller.

    `users` gives, by instruction tag, the place of the trader among the accounts; where the
    tag has none, the trader is the first account that signed the transaction.
    """

    slug: str
    users: Mapping[bytes, int]

    def user(self, tx: Transaction, position: int) -> int | None:
        """Return the index of the trader's key, or None where no account tells."""
        accounts = tx.accounts[position]
        place = self.users.get(tx.data[position][:8])
        if place is not None and place < len(accounts):
            return accounts[place]
        return next((index for index in accounts if index < tx.signers), None)


def read(document: Mapping[str, Any]) -> dict[bytes, Router]:
    """Read the tables of routers.toml: routers by program."""
    routers: dict[bytes, Router] = {}
    for slug, entry in document.items():
        users = {bytes.fromhex(tag): int(place) for tag, place in entry.get("users", {}).items()}
        for program in entry["programs"]:
            routers[key(program)] = Router(slug, users)
    return routers


ROUTERS: Final = read(tomllib.loads(files("pipeline").joinpath("routers.toml").read_text()))
