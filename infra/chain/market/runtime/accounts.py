"""Account data as the RPC returns it: mints, token accounts, Metaplex metadata.

Layouts: SPL Token and Token-2022 account formats, Metaplex MetadataV1.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import Final

from infra.chain.market.runtime.ledger import Ledger, Mint, TokenAccount
from infra.chain.market.runtime.programs import METADATA, NO_ADDRESS, SYSTEM, TOKEN, WSOL
from infra.chain.source import Account

_U64: Final = Struct("<Q").pack
_TRANSFER_FEE: Final = Struct("<QQH").pack
MULTISIG_LENGTH: Final = 355
BASE_LENGTH: Final = 165  # extensions follow a token account's length, in mints too
MINT_TYPE, ACCOUNT_TYPE = b"\x01", b"\x02"
TRANSFER_FEE_CONFIG, TRANSFER_FEE_AMOUNT = 1, 2
IMMUTABLE_OWNER, METADATA_POINTER, TOKEN_METADATA = 7, 18, 19


def account(ledger: Ledger, address: bytes) -> Account | None:
    """Return what is stored at an address; None for accounts of venues, which have no bytes."""
    lamports = ledger.lamports.get(address)
    content = contents(ledger, address) if lamports else None
    return Account(content[0], lamports or 0, content[1]) if content else None


def contents(ledger: Ledger, address: bytes) -> tuple[bytes, bytes] | None:
    """Return owner and data of an account that has lamports; None for accounts of venues."""
    if (token := ledger.tokens.get(address)) is not None:
        return token.mint.program.address, token_account_data(token)
    if (mint := ledger.mints.get(address)) is not None:
        return mint.program.address, mint_data(mint)
    if (described := ledger.metadata.get(address)) is not None:
        return METADATA.address, metadata_data(described)
    if (native := ledger.natives.get(address)) is not None:
        return native.owner, native.data()
    return None if address in ledger.opaque else (SYSTEM.address, b"")


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
    data = data.ljust(BASE_LENGTH, b"\0") + MINT_TYPE + extensions
    # The program makes an account of just this size longer: by its size it would be a multisig.
    return data + bytes(2) if len(data) == MULTISIG_LENGTH else data


def token_account_data(token: TokenAccount) -> bytes:
    """Return a token account's data."""
    mint = token.mint
    native = token.rent_lamports if mint.address == WSOL else None
    rest = _after_amount(native, mint.program is TOKEN)
    data = b"".join((mint.address, token.owner, _U64(token.amount_raw), rest))
    if mint.transfer_fee_bps:
        data += _entry(TRANSFER_FEE_AMOUNT, _U64(token.withheld_raw))
    return data


@lru_cache(maxsize=64)
def _after_amount(native_rent_lamports: int | None, legacy: bool) -> bytes:
    """Return what follows the amount: the same for nearly all accounts."""
    data = (
        _optional(None)  # delegate
        + b"\x01"  # initialized
        + (
            bytes(12)
            if native_rent_lamports is None
            else b"\x01\0\0\0" + _U64(native_rent_lamports)
        )
        + bytes(8)  # delegated amount
        + _optional(None)  # close authority
    )
    return data if legacy else data + ACCOUNT_TYPE + _entry(IMMUTABLE_OWNER, b"")


def metadata_data(mint: Mint) -> bytes:
    """Return a Metaplex metadata account's data, texts padded as the program pads them."""
    return (
        b"\x04"
        + (mint.described_by or NO_ADDRESS)
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
