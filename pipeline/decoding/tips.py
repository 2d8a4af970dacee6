"""Accounts that block engines and relays take tips on, from the data in `tip_accounts.json`."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

import orjson

from schemas.solana.addresses import key

_BY_SERVICE: Final[dict[str, list[str]]] = orjson.loads(
    files("pipeline").joinpath("tip_accounts.json").read_bytes()
)

TIP_ACCOUNTS: Final = frozenset(
    key(address) for addresses in _BY_SERVICE.values() for address in addresses
)
