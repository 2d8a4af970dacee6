"""Every account of the simulated chain: lamports, mints and token accounts.

The ledger is the one place balances live. Execution changes it and notes what was there before,
so that a failed transaction or an abandoned fork can be taken back exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from sys import intern
from typing import Final

from infra.chain.market.runtime.programs import (
    ASSOCIATED_TOKEN,
    METADATA,
    TOKEN,
    WSOL,
    Program,
    pda,
)
from infra.chain.market.runtime.stake import Native
from schemas.solana import base58
from schemas.solana.addresses import text

TOKEN_ACCOUNT_RENT_LAMPORTS: Final = 2_039_280  # 165 bytes
TOKEN_2022_ACCOUNT_RENT_LAMPORTS: Final = 2_074_080  # 170 bytes: immutable owner
FEE_TOKEN_ACCOUNT_RENT_LAMPORTS: Final = 2_157_600  # 182 bytes: immutable owner, withheld amount
METADATA_LAMPORTS: Final = 15_616_720  # rent of a metadata account, with what Metaplex takes
_NOTHING: Final[dict[bytes, bytes]] = {}
_NOT_ENCODED: Final = (-1, b"")


@dataclass(slots=True, eq=False)
class Mint:
    """A token: its constants, its supply, and how it is described on chain."""

    address: bytes
    decimals: int
    supply_raw: int
    program: Program = TOKEN
    transfer_fee_bps: int = 0
    transfer_fee_max_raw: int = 0
    authority: bytes | None = None
    name: str = ""
    symbol: str = ""
    uri: str = ""
    platform: str = ""
    withheld_raw: int = 0  # Token-2022 transfer fees collected in the mint
    text: str = field(init=False)
    unit: int = field(init=False)
    described_by: bytes | None = field(init=False)  # update authority of its Metaplex metadata

    def __post_init__(self) -> None:
        self.text = base58.encode(self.address)
        self.unit = 10**self.decimals
        self.described_by = self.authority  # stays when nobody can mint any more

    def transfer_fee(self, amount_raw: int) -> int:
        """Return what a transfer of `amount_raw` withholds from its recipient."""
        if not self.transfer_fee_bps:
            return 0
        fee = -(-amount_raw * self.transfer_fee_bps // 10_000)
        return min(fee, self.transfer_fee_max_raw)

    @property
    def account_rent_lamports(self) -> int:
        """Rent of a token account of this mint."""
        if self.transfer_fee_bps:
            return FEE_TOKEN_ACCOUNT_RENT_LAMPORTS
        return (
            TOKEN_ACCOUNT_RENT_LAMPORTS
            if self.program is TOKEN
            else TOKEN_2022_ACCOUNT_RENT_LAMPORTS
        )


class TokenAccount:
    """A token account; wrapped SOL keeps its lamports in step with `amount_raw`."""

    __slots__ = (
        "address",
        "amount_raw",
        "encoded",
        "mint",
        "owner",
        "owner_text",
        "rent_lamports",
        "withheld_raw",
    )

    def __init__(self, address: bytes, mint: Mint, owner: bytes, rent_lamports: int) -> None:
        self.address = address
        self.mint = mint
        self.owner = owner
        self.owner_text = intern(text(owner))  # one for all accounts of an owner
        self.rent_lamports = rent_lamports
        self.amount_raw = 0
        self.withheld_raw = 0  # Token-2022 transfer fees, not the owner's
        self.encoded: tuple[int, bytes] = _NOT_ENCODED  # an amount, and its bytes (`wire`)


def associated_address(owner: bytes, mint: Mint) -> bytes:
    """Return the associated token account of an owner."""
    return pda(ASSOCIATED_TOKEN, owner, mint.program.address, mint.address)


def metadata_address(mint: Mint) -> bytes:
    """Return a mint's Metaplex metadata account."""
    return pda(METADATA, b"metadata", METADATA.address, mint.address)


class Natives(dict[bytes, Native]):
    """Stake accounts, vote accounts and sysvars by address; their lamports are with all others."""

    def put(self, address: bytes, native: Native | None) -> None:
        """Put an account, or remove it."""
        if native is None:
            self.pop(address, None)
        else:
            self[address] = native

    def undo(self, address: bytes) -> Callable[[], None]:
        """Return what puts back the account as it is now."""
        before = self.get(address)
        return lambda: self.put(address, before)


class Ledger:
    """Lamports by address, token accounts by address, mints by address."""

    def __init__(self) -> None:
        self.lamports: dict[bytes, int] = {}
        self.tokens: dict[bytes, TokenAccount] = {}
        self.mints: dict[bytes, Mint] = {}
        self.vaults: dict[bytes, bytes] = {}  # what pools and curves hold, by account: whose it is
        self.metadata: dict[bytes, Mint] = {}  # Metaplex accounts, by address: whom they describe
        self.endowed: set[bytes] = set()  # token accounts that no transaction made, not written yet
        self.natives = Natives()
        self.rewritten: set[bytes] = set()  # accounts of venues that the slot has changed
        self.opaque: set[bytes] = set()  # accounts of venues, whose bytes nothing here keeps
        self._associated: dict[bytes, dict[bytes, bytes]] = {}  # mint -> owner -> address

    def add_mint(self, mint: Mint, lamports: int = 1_461_600) -> Mint:
        """Put a mint on the chain."""
        self.mints[mint.address] = mint
        self.lamports[mint.address] = lamports
        if mint.name and mint.program is TOKEN:
            address = metadata_address(mint)
            self.metadata[address] = mint
            self.lamports[address] = METADATA_LAMPORTS
        return mint

    def associated(self, owner: bytes, mint: Mint) -> bytes:
        """Return the associated token account's address; remembered, as it costs a curve check."""
        of_mint = self._associated.get(mint.address)
        if of_mint is None:
            of_mint = self._associated[mint.address] = {}
        address = of_mint.get(owner)
        if address is None:
            address = of_mint[owner] = associated_address(owner, mint)
        return address

    def balance(self, address: bytes) -> int:
        """Return what a token account holds; 0 where it does not exist."""
        account = self.tokens.get(address)
        return account.amount_raw if account else 0

    def held(self, owner: bytes, mint: Mint) -> int:
        """Return what an owner's associated account holds, without deriving its address.

        An account that exists was derived when it was created.
        """
        address = self._associated.get(mint.address, _NOTHING).get(owner)
        return self.balance(address) if address else 0

    def endow(self, address: bytes, mint: Mint, owner: bytes, amount_raw: int) -> TokenAccount:
        """Create a token account outside any transaction: there to start with, or a venue's own."""
        account = TokenAccount(address, mint, owner, mint.account_rent_lamports)
        account.amount_raw = amount_raw
        self.tokens[address] = account
        native = amount_raw if mint.address == WSOL else 0
        self.lamports[address] = account.rent_lamports + native
        mint.supply_raw += amount_raw
        self.endowed.add(address)
        return account

    def forget_encoded(self) -> None:
        """Drop the bytes of all balances: of accounts that rest they are a third of the memory."""
        for account in self.tokens.values():
            account.encoded = _NOT_ENCODED

    def forget(self, *addresses: bytes) -> set[bytes]:
        """Drop dead mints with all their accounts, and what dead pools owned.

        Nothing may refer to any of them any more. What a pool held of a living mint leaves its
        supply. Returns the addresses of all accounts that are gone or changed.
        """
        changed: set[bytes] = set()
        for address in addresses:
            accounts = [*self._associated.pop(address, {}).values(), address]
            accounts += [
                of_mint.pop(address) for of_mint in self._associated.values() if address in of_mint
            ]
            for account in accounts:
                if (token := self.tokens.pop(account, None)) is not None:
                    token.mint.supply_raw -= token.amount_raw + token.withheld_raw
                    changed.add(token.mint.address)
                if self.lamports.pop(account, None) is not None and account not in self.opaque:
                    changed.add(account)
                self.vaults.pop(account, None)
                self.natives.pop(account, None)
            self.mints.pop(address, None)
            self.metadata.pop(address, None)
            self.natives.pop(address, None)
            self.opaque.discard(address)
        return changed
