"""Account data as the RPC returns it: mints, token accounts, Metaplex metadata.

Layouts: SPL Token and Token-2022 account formats, Metaplex MetadataV1.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from infra.chain.market.runtime.ledger import Ledger, Mint, TokenAccount, metadata_address
from infra.chain.market.runtime.programs import METADATA, NO_ADDRESS, SYSTEM, TOKEN, WSOL
from infra.chain.source import Account

_U64: Final = Struct("<Q").pack
_TRANSFER_FEE: Final = Struct("<QQH").pack
BASE_LENGTH: Final = 165  # extensions follow a token account's length, in mints too
MINT_TYPE, ACCOUNT_TYPE = b"\x01", b"\x02"
TRANSFER_FEE_CONFIG, TRANSFER_FEE_AMOUNT = 1, 2
IMMUTABLE_OWNER, METADATA_POINTER, TOKEN_METADATA = 7, 18, 19


def account(ledger: Ledger, address: bytes) -> Account | None:
    """Return what is stored at an address."""
    lamports = ledger.lamports.get(address, 0)
    if mint := ledger.mints.get(address):
        return Account(mint.program.address, lamports, mint_data(mint))
    if token := ledger.tokens.get(address):
        return Account(token.mint.program.address, lamports, token_account_data(token))
    if metadata := metadata_of(ledger, address):
        return Account(METADATA.address, lamports, metadata_data(metadata))
    return Account(SYSTEM.address, lamports, b"") if lamports else None


def metadata_of(ledger: Ledger, address: bytes) -> Mint | None:
    """Return the mint that a metadata account describes."""
    for mint in reversed(ledger.mints.values()):
        if mint.program is TOKEN and mint.name and metadata_address(mint) == address:
            return mint
    return None


def mint_data(mint: Mint) -> bytes:
    """Return a mint account's data, with extensions under Token-2022."""
    data = (
        _optional(mint.authority)
        + _U64(mint.supply_raw)
        + bytes((mint.decimals, 1))
        + _optional(None)
    )
    if mint.program is TOKEN:
        return data
    extensions = _entry(METADATA_POINTER, NO_ADDRESS + mint.address)
    if mint.transfer_fee_bps:
        fee = _TRANSFER_FEE(0, mint.transfer_fee_max_raw, mint.transfer_fee_bps)
        extensions += _entry(
            TRANSFER_FEE_CONFIG, NO_ADDRESS + NO_ADDRESS + _U64(mint.withheld_raw) + fee + fee
        )
    if mint.name:
        extensions += _entry(
            TOKEN_METADATA,
            NO_ADDRESS
            + mint.address
            + _text(mint.name)
            + _text(mint.symbol)
            + _text(mint.uri)
            + bytes(4),
        )
    return data.ljust(BASE_LENGTH, b"\0") + MINT_TYPE + extensions


def token_account_data(token: TokenAccount) -> bytes:
    """Return a token account's data."""
    native = token.mint.address == WSOL
    data = (
        token.mint.address
        + token.owner
        + _U64(token.amount_raw)
        + _optional(None)
        + b"\x01"
        + (b"\x01\0\0\0" + _U64(token.rent_lamports) if native else bytes(12))
        + bytes(8)
        + _optional(None)
    )
    if token.mint.program is TOKEN:
        return data
    extensions = _entry(IMMUTABLE_OWNER, b"")
    if token.mint.transfer_fee_bps:
        extensions += _entry(TRANSFER_FEE_AMOUNT, _U64(token.withheld_raw))
    return data + ACCOUNT_TYPE + extensions


def metadata_data(mint: Mint) -> bytes:
    """Return a Metaplex metadata account's data, texts padded as the program pads them."""
    return (
        b"\x04"
        + (mint.authority or NO_ADDRESS)
        + mint.address
        + _text(mint.name.ljust(32, "\0"))
        + _text(mint.symbol.ljust(10, "\0"))
        + _text(mint.uri.ljust(200, "\0"))
        + bytes(2)  # seller fee
        + b"\x00"  # no creators
        + b"\x00\x00"  # no primary sale; immutable
        + b"\x01\xff"  # edition nonce
        + b"\x01\x02"  # token standard: fungible
        + bytes(4)  # no collection, uses, collection details, programmable config
    ).ljust(607, b"\0")


def _optional(address: bytes | None) -> bytes:
    return bytes(36) if address is None else b"\x01\0\0\0" + address


def _entry(kind: int, value: bytes) -> bytes:
    return kind.to_bytes(2, "little") + len(value).to_bytes(2, "little") + value


def _text(text: str) -> bytes:
    raw = text.encode()
    return len(raw).to_bytes(4, "little") + raw
