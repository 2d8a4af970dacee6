"""Accounts and token amounts as RPC writes them in JSON."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

import zstandard

from infra.chain.rpc_params import INVALID_REQUEST, Config, RpcError, invalid, is_u64
from infra.chain.source import AccountWrite
from infra.chain.token_layout import (
    ACCOUNT_SIZE,
    is_mint,
    is_token_account,
    mint_decimals,
    mint_supply_raw,
    token_amount_raw,
    token_mint,
    token_owner,
)
from schemas.solana import base58
from schemas.solana.addresses import TOKEN_PROGRAM

Encoding = Literal["binary", "base58", "base64", "base64+zstd", "jsonParsed"]

_ENCODINGS: Final = ("binary", "base58", "base64", "jsonParsed", "base64+zstd")
_MAX_BASE58_BYTES: Final = 128
_MAX_UI_DECIMALS: Final = 19  # 10 to the power of more does not fit 64 bits
_RENT_EXEMPT_EPOCH: Final = 2**64 - 1
_STATES: Final = ("uninitialized", "initialized", "frozen")
_IMMUTABLE_OWNER, _TRANSFER_FEE_AMOUNT = 7, 2


@dataclass(frozen=True, slots=True)
class DataForm:
    """In which form the caller wants accounts' data, and what part of it."""

    encoding: Encoding
    cut: slice | None

    @classmethod
    def read(cls, config: Config, default: Encoding) -> DataForm:
        """Return what a configuration asks for; raises RpcError."""
        encoding = config.get("encoding")
        if encoding is not None and encoding not in _ENCODINGS:
            expected = ", ".join(f"`{each}`" for each in _ENCODINGS)
            raise invalid(f"unknown variant `{encoding}`, expected one of {expected}.")
        match config.get("dataSlice"):
            case None:
                cut = None
            case {"offset": offset, "length": length} if is_u64(offset) and is_u64(length):
                cut = slice(offset, offset + length)
            case _:
                raise invalid("dataSlice: offset and length are whole numbers")
        return cls(default if encoding is None else cast(Encoding, encoding), cut)

    def check(self, account: AccountWrite) -> bool:
        """Return True; raises RpcError for an account whose data is too long for base58."""
        if self.encoding in ("binary", "base58") and len(self._part(account)) > _MAX_BASE58_BYTES:
            raise RpcError(
                INVALID_REQUEST,
                f"Encoded binary (base 58) data should be less than {_MAX_BASE58_BYTES} bytes, "
                "please use Base64 encoding.",
            )
        return True

    def to_json(self, account: AccountWrite, decimals: Mapping[bytes, int]) -> dict[str, Any]:
        """Return a checked account; parsed token accounts need the decimals of their mint."""
        return {
            "lamports": account.lamports,
            "owner": base58.encode(account.owner),
            "data": self._data(account, decimals),
            "executable": account.executable,
            "rentEpoch": _RENT_EXEMPT_EPOCH,
            "space": len(account.data),
        }

    def _part(self, account: AccountWrite) -> bytes:
        return account.data if self.cut is None else account.data[self.cut]

    def _data(self, account: AccountWrite, decimals: Mapping[bytes, int]) -> Any:
        match self.encoding:
            case "binary":  # its oldest form, of callers who name none
                return base58.encode(self._part(account))
            case "base58":
                return [base58.encode(self._part(account)), "base58"]
            case "base64+zstd":
                frame = zstandard.compress(self._part(account))
                return [base64.b64encode(frame).decode(), "base64+zstd"]
            case "jsonParsed" if (parsed := parsed_token(account, decimals)) is not None:
                return parsed
            case _:  # what cannot be parsed comes as base64
                return [base64.b64encode(self._part(account)).decode(), "base64"]


def ui_amount(amount_raw: int, decimals: int) -> dict[str, Any]:
    """Return an amount as RPC writes it: raw, as a number, and as a text without zeros behind."""
    amount = f"{amount_raw:0{decimals + 1}d}"
    text = amount
    if decimals:
        text = f"{amount[:-decimals]}.{amount[-decimals:]}".rstrip("0").rstrip(".")
    has_number = decimals <= _MAX_UI_DECIMALS
    return {
        "amount": str(amount_raw),
        "decimals": decimals,
        "uiAmount": float(amount_raw) / float(10**decimals) if has_number else None,
        "uiAmountString": text,
    }


def parsed_token(account: AccountWrite, decimals: Mapping[bytes, int]) -> dict[str, Any] | None:
    """Return a token account or mint as `jsonParsed` has it; None for all others."""
    program, data = account.owner, account.data
    if is_token_account(program, data):
        scale = decimals.get(token_mint(data))
        if scale is None:
            return None
        kind, info = "account", _token_info(data, scale)
    elif is_mint(program, data):
        kind, info = "mint", _mint_info(data)
    else:
        return None
    if len(data) > ACCOUNT_SIZE:
        info["extensions"] = _extensions(data)
    name = "spl-token" if program == TOKEN_PROGRAM else "spl-token-2022"
    return {"program": name, "parsed": {"info": info, "type": kind}, "space": len(data)}


def _token_info(data: bytes, decimals: int) -> dict[str, Any]:
    def amount(raw: bytes) -> dict[str, Any]:
        return ui_amount(int.from_bytes(raw, "little"), decimals)

    info: dict[str, Any] = {
        "mint": base58.encode(token_mint(data)),
        "owner": base58.encode(token_owner(data)),
        "tokenAmount": ui_amount(token_amount_raw(data), decimals),
        "state": _STATES[min(data[108], 2)],
        "isNative": bool(data[109]),
    }
    if (delegate := _optional_key(data, 72)) is not None:
        info["delegate"] = delegate
        info["delegatedAmount"] = amount(data[121:129])
    if data[109]:
        info["rentExemptReserve"] = amount(data[113:121])
    if (closer := _optional_key(data, 129)) is not None:
        info["closeAuthority"] = closer
    return info


def _mint_info(data: bytes) -> dict[str, Any]:
    return {
        "mintAuthority": _optional_key(data, 0),
        "supply": str(mint_supply_raw(data)),
        "decimals": mint_decimals(data),
        "isInitialized": True,
        "freezeAuthority": _optional_key(data, 46),
    }


def _optional_key(data: bytes, at: int) -> str | None:
    """Return a key behind four bytes that say if there is one."""
    return base58.encode(data[at + 4 : at + 36]) if data[at] else None


def _extensions(data: bytes) -> list[dict[str, Any]]:
    """Return the extensions behind the type byte; those not known here as unparseable."""
    found: list[dict[str, Any]] = []
    at = ACCOUNT_SIZE + 1
    while at + 4 <= len(data):
        kind, size = (int.from_bytes(data[at + i : at + i + 2], "little") for i in (0, 2))
        if kind == 0:  # nothing follows
            break
        body = data[at + 4 : at + 4 + size]
        found.append(_EXTENSIONS.get(kind, _unparseable)(body))
        at += 4 + size
    return found


def _unparseable(_: bytes) -> dict[str, Any]:
    return {"extension": "unparseableExtension"}


_EXTENSIONS: Final[dict[int, Callable[[bytes], dict[str, Any]]]] = {
    _IMMUTABLE_OWNER: lambda _: {"extension": "immutableOwner"},
    _TRANSFER_FEE_AMOUNT: lambda body: {
        "extension": "transferFeeAmount",
        "state": {"withheldAmount": int.from_bytes(body[:8], "little")},
    },
}
