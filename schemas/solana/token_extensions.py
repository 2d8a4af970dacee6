"""Extensions of Token-2022 accounts and mints: what follows the base layout, as TLV entries.

Source: Token-2022 `extension/mod.rs`: a type byte at 165, then entries of <type: u16><length: u16>
and data. Type 0 ends the list. An entry of a type that is not read here is skipped by its length,
but its number is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from struct import error
from typing import Final

from schemas.solana.borsh import Reader, f64, i16, i64, raw_pubkey, u16, u64

TYPE_AT: Final = 165
MINT_TYPE: Final = 1
ACCOUNT_TYPE: Final = 2
MULTISIG_SIZE: Final = 355  # an account of this size is a multisig, whatever it has at TYPE_AT

_BASIS_POINTS: Final = 10_000


class Extension(IntEnum):
    """The numbers of the extensions; Token-2022 may add some."""

    UNINITIALIZED = 0
    TRANSFER_FEE_CONFIG = 1
    TRANSFER_FEE_AMOUNT = 2
    MINT_CLOSE_AUTHORITY = 3
    CONFIDENTIAL_TRANSFER_MINT = 4
    CONFIDENTIAL_TRANSFER_ACCOUNT = 5
    DEFAULT_ACCOUNT_STATE = 6
    IMMUTABLE_OWNER = 7
    MEMO_TRANSFER = 8
    NON_TRANSFERABLE = 9
    INTEREST_BEARING_CONFIG = 10
    CPI_GUARD = 11
    PERMANENT_DELEGATE = 12
    NON_TRANSFERABLE_ACCOUNT = 13
    TRANSFER_HOOK = 14
    TRANSFER_HOOK_ACCOUNT = 15
    CONFIDENTIAL_TRANSFER_FEE = 16
    CONFIDENTIAL_TRANSFER_FEE_AMOUNT = 17
    METADATA_POINTER = 18
    TOKEN_METADATA = 19
    GROUP_POINTER = 20
    TOKEN_GROUP = 21
    GROUP_MEMBER_POINTER = 22
    TOKEN_GROUP_MEMBER = 23
    CONFIDENTIAL_MINT_BURN = 24
    SCALED_UI_AMOUNT_CONFIG = 25
    PAUSABLE_CONFIG = 26
    PAUSABLE_ACCOUNT = 27
    PERMISSIONED_BURN = 28


class BadAccount(ValueError):
    """An account's data is not what its owner and address say; the text says what is wrong."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a token is called."""

    name: str
    symbol: str
    uri: str


@dataclass(frozen=True, slots=True)
class TransferFee:
    """A fee on transfers, from an epoch on."""

    epoch: int
    maximum_raw: int
    basis_points: int

    def of(self, amount_raw: int) -> int:
        """Return what is withheld of a transfer, rounded up."""
        if not self.basis_points or not amount_raw:
            return 0
        return min(self.maximum_raw, -(-amount_raw * self.basis_points // _BASIS_POINTS))


@dataclass(frozen=True, slots=True)
class TransferFeeConfig:
    """The fees on transfers of a mint's tokens."""

    config_authority: bytes | None
    withdraw_authority: bytes | None
    withheld_raw: int  # harvested into the mint
    older: TransferFee
    newer: TransferFee

    def fee(self, epoch: int) -> TransferFee:
        """Return the fee that an epoch has."""
        return self.newer if epoch >= self.newer.epoch else self.older


@dataclass(frozen=True, slots=True)
class InterestBearing:
    """A rate by which the shown amount grows; the raw amount does not."""

    rate_authority: bytes | None
    initialized_s: int  # since the Unix epoch
    average_rate_bps: int  # a year, from then until the last update; negative: it shrinks
    updated_s: int
    current_rate_bps: int


@dataclass(frozen=True, slots=True)
class ScaledUiAmount:
    """A factor of the shown amount."""

    authority: bytes | None
    multiplier: float
    new_multiplier_from_s: int  # since the Unix epoch
    new_multiplier: float

    def multiplier_at(self, time_s: int) -> float:
        """Return the factor at a time."""
        return self.new_multiplier if time_s >= self.new_multiplier_from_s else self.multiplier


@dataclass(frozen=True, slots=True)
class TransferHook:
    """A program that every transfer calls."""

    authority: bytes | None
    program: bytes | None


@dataclass(frozen=True, slots=True)
class MetadataPointer:
    """Where a mint says its metadata is."""

    authority: bytes | None
    address: bytes | None


@dataclass(frozen=True, slots=True)
class Pausable:
    """Whether transfers, mints and burns are paused, and who may pause them."""

    authority: bytes | None
    is_paused: bool


@dataclass(frozen=True, slots=True)
class TokenMetadata:
    """Metadata that a mint carries itself."""

    update_authority: bytes | None
    mint: bytes
    texts: Metadata
    additional: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class MintExtensions:
    """The extensions of a mint."""

    kinds: tuple[int, ...] = ()  # numbers of all it has, in their order
    transfer_fee: TransferFeeConfig | None = None
    interest_bearing: InterestBearing | None = None
    scaled_ui_amount: ScaledUiAmount | None = None
    close_authority: bytes | None = None
    permanent_delegate: bytes | None = None
    transfer_hook: TransferHook | None = None
    metadata_pointer: MetadataPointer | None = None
    metadata: TokenMetadata | None = None
    pausable: Pausable | None = None
    default_state: int | None = None  # of new accounts: 1 initialized, 2 frozen
    is_non_transferable: bool = False


@dataclass(slots=True)
class AccountExtensions:
    """The extensions of a token account."""

    kinds: tuple[int, ...] = ()  # numbers of all it has, in their order
    withheld_raw: int = 0  # fees of transfers to it, which are not its owner's
    is_owner_immutable: bool = False
    is_non_transferable: bool = False
    requires_memo: bool = False
    is_cpi_guarded: bool = False
    has_confidential_balance: bool = False  # encrypted: it cannot be read without its keys


def mint_extensions(data: bytes) -> MintExtensions:
    """Return the extensions of a mint account; raises BadAccount."""
    found = MintExtensions()
    kinds = []
    for kind, value in _entries(data, MINT_TYPE):
        kinds.append(kind)
        try:
            _read_of_mint(found, kind, value)
        except error as reason:
            raise BadAccount(f"extension {kind} of {len(value)} bytes: {reason}") from None
    found.kinds = tuple(kinds)
    return found


def account_extensions(data: bytes) -> AccountExtensions:
    """Return the extensions of a token account; raises BadAccount."""
    found = AccountExtensions()
    kinds = []
    for kind, value in _entries(data, ACCOUNT_TYPE):
        kinds.append(kind)
        try:
            _read_of_account(found, kind, value)
        except error as reason:
            raise BadAccount(f"extension {kind} of {len(value)} bytes: {reason}") from None
    found.kinds = tuple(kinds)
    return found


def read_texts(reader: Reader) -> Metadata:
    """Return name, symbol and URI without their padding; raises struct.error."""
    name, symbol, uri = (reader.string().rstrip("\0").strip() for _ in range(3))
    return Metadata(name, symbol, uri)


def _entries(data: bytes, of: int) -> Iterator[tuple[int, bytes]]:
    if len(data) <= TYPE_AT or len(data) == MULTISIG_SIZE or data[TYPE_AT] != of:
        raise BadAccount(f"{len(data)} bytes are no {'mint' if of == MINT_TYPE else 'account'}")
    at = TYPE_AT + 1
    while at + 4 <= len(data):
        kind, size = u16(data, at), u16(data, at + 2)
        at += 4
        if kind == Extension.UNINITIALIZED:  # nothing follows
            return
        if at + size > len(data):
            raise BadAccount(f"extension {kind} ends behind the data")
        yield kind, data[at : at + size]
        at += size


def _read_of_mint(found: MintExtensions, kind: int, value: bytes) -> None:
    match kind:
        case Extension.TRANSFER_FEE_CONFIG:
            found.transfer_fee = TransferFeeConfig(
                _optional(value, 0),
                _optional(value, 32),
                u64(value, 64),
                TransferFee(u64(value, 72), u64(value, 80), u16(value, 88)),
                TransferFee(u64(value, 90), u64(value, 98), u16(value, 106)),
            )
        case Extension.MINT_CLOSE_AUTHORITY:
            found.close_authority = _optional(value, 0)
        case Extension.DEFAULT_ACCOUNT_STATE:
            found.default_state = Reader(value).u8()
        case Extension.NON_TRANSFERABLE:
            found.is_non_transferable = True
        case Extension.INTEREST_BEARING_CONFIG:
            found.interest_bearing = InterestBearing(
                _optional(value, 0), i64(value, 32), i16(value, 40), i64(value, 42), i16(value, 50)
            )
        case Extension.PERMANENT_DELEGATE:
            found.permanent_delegate = _optional(value, 0)
        case Extension.TRANSFER_HOOK:
            found.transfer_hook = TransferHook(_optional(value, 0), _optional(value, 32))
        case Extension.METADATA_POINTER:
            found.metadata_pointer = MetadataPointer(_optional(value, 0), _optional(value, 32))
        case Extension.TOKEN_METADATA:
            found.metadata = _token_metadata(value)
        case Extension.SCALED_UI_AMOUNT_CONFIG:
            found.scaled_ui_amount = ScaledUiAmount(
                _optional(value, 0), f64(value, 32), i64(value, 40), f64(value, 48)
            )
        case Extension.PAUSABLE_CONFIG:
            found.pausable = Pausable(_optional(value, 0), Reader(value, 32).flag())


def _read_of_account(found: AccountExtensions, kind: int, value: bytes) -> None:
    match kind:
        case Extension.TRANSFER_FEE_AMOUNT:
            found.withheld_raw = u64(value, 0)
        case Extension.CONFIDENTIAL_TRANSFER_ACCOUNT:
            found.has_confidential_balance = True
        case Extension.IMMUTABLE_OWNER:
            found.is_owner_immutable = True
        case Extension.MEMO_TRANSFER:
            found.requires_memo = Reader(value).flag()
        case Extension.CPI_GUARD:
            found.is_cpi_guarded = Reader(value).flag()
        case Extension.NON_TRANSFERABLE_ACCOUNT:
            found.is_non_transferable = True


def _token_metadata(value: bytes) -> TokenMetadata:
    reader = Reader(value, 64)
    texts = read_texts(reader)
    additional = tuple((reader.string(), reader.string()) for _ in range(reader.u32()))
    return TokenMetadata(_optional(value, 0), raw_pubkey(value, 32), texts, additional)


def _optional(data: bytes, at: int) -> bytes | None:
    """Read a key that is None where it is zero."""
    key = raw_pubkey(data, at)
    return key if any(key) else None
