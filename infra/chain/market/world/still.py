"""Still accounts: of protocols whose programs this chain does not run, for its demo wallets.

Anchor's coder wrote them once from the programs' IDLs into `still.jsonl.gz`. To write them anew:
`STILL_WORLDS=write pytest -m node tests/infra/chain/market/test_still.py`.
"""

from __future__ import annotations

import gzip
import json
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from struct import Struct
from typing import Any, Final, NamedTuple

from infra.chain.market.runtime.ledger import Ledger, Mint
from schemas.solana.addresses import key

FILE: Final = Path(__file__).with_name("still.jsonl.gz")
_HEADER_BYTES: Final = 128  # that rent counts for every account
_LAMPORTS_A_BYTE: Final = 6_960
_U64: Final = Struct("<Q")


@dataclass(frozen=True, slots=True)
class Still:
    """An account that no transaction changes."""

    owner: bytes
    content: bytes

    def data(self) -> bytes:
        """Return the account's bytes."""
        return self.content


class Written(NamedTuple):
    """An account of the file, and where it has 8 bytes of a time in seconds, or of a slot."""

    account: Still
    times_at: tuple[int, ...]
    slots_at: tuple[int, ...]

    def moved(self, later_s: int, later_slots: int) -> Still:
        """Return the account of a chain that starts so much later."""
        data = bytearray(self.account.content)
        for offsets, later in ((self.times_at, later_s), (self.slots_at, later_slots)):
            for at in offsets:
                moved = _U64.unpack_from(data, at)[0] + later
                data[at : at + 8] = _U64.pack(max(moved, 0))  # a chain may start in 1970
        return Still(self.account.owner, bytes(data))


class Token(NamedTuple):
    """A token that is a share or the owner of a position, and the wallets that hold it."""

    mint: bytes
    name: str
    symbol: str
    decimals: int
    supply_raw: int
    held_raw: Mapping[bytes, int]


class Vault(NamedTuple):
    """A token account at an address of a program's own."""

    address: bytes
    mint: bytes
    owner: bytes
    amount_raw: int


class StillWorld(NamedTuple):
    """What the file has; `positions` are what its script expects of readings at genesis."""

    time_s: int  # when the chain starts, by the accounts' bytes
    slot: int
    accounts: Mapping[bytes, Written]
    tokens: tuple[Token, ...]
    vaults: tuple[Vault, ...]
    positions: tuple[Mapping[str, Any], ...]


@lru_cache(maxsize=1)
def still_world() -> StillWorld:
    """Return what the file has; it is read once."""
    start, *rows = map(json.loads, gzip.decompress(FILE.read_bytes()).splitlines())
    accounts: dict[bytes, Written] = {}
    tokens: list[Token] = []
    vaults: list[Vault] = []
    positions: list[Mapping[str, Any]] = []
    for row in rows:
        if "token_account" in row:
            at, mint, owner = (key(row[name]) for name in ("token_account", "mint", "owner"))
            vaults.append(Vault(at, mint, owner, int(row["amount"])))
        elif "mint" in row:
            tokens.append(_token(row))
        elif "wallet" in row:
            positions.append(row)
        else:
            still = Still(key(row["owner"]), b64decode(row["data"]))
            places = tuple(row["times"]), tuple(row["slots"])
            accounts[key(row["address"])] = Written(still, *places)
    start_at = start["time_s"], start["slot"]
    return StillWorld(*start_at, accounts, tuple(tokens), tuple(vaults), tuple(positions))


def place(ledger: Ledger, others: bytes, time_s: int, slot: int) -> None:
    """Put all on the ledger of a chain that starts at a time and slot.

    `others` holds what the demo wallets do not hold of the tokens.
    """
    world = still_world()
    for address, written in world.accounts.items():
        assert address not in ledger.natives, "the chain itself changes that account"
        account = written.moved(time_s - world.time_s, slot - world.slot)
        ledger.natives[address] = account
        ledger.lamports[address] = (_HEADER_BYTES + len(account.content)) * _LAMPORTS_A_BYTE
    for token in world.tokens:
        mint = Mint(token.mint, token.decimals, 0, name=token.name, symbol=token.symbol)
        ledger.add_mint(mint)
        vaults_raw = sum(each.amount_raw for each in world.vaults if each.mint == token.mint)
        rest_raw = token.supply_raw - sum(token.held_raw.values()) - vaults_raw
        holders = {**token.held_raw, **({others: rest_raw} if rest_raw else {})}
        for wallet, amount_raw in holders.items():
            ledger.endow(ledger.associated(wallet, mint), mint, wallet, amount_raw)
    for vault in world.vaults:
        ledger.endow(vault.address, ledger.mints[vault.mint], vault.owner, vault.amount_raw)


def _token(row: Mapping[str, Any]) -> Token:
    held_raw = {key(wallet): int(amount) for wallet, amount in row["held"].items()}
    named = (row["name"], row["symbol"], row["decimals"])
    return Token(key(row["mint"]), *named, int(row["supply"]), held_raw)
