"""The filters of `getProgramAccounts`, with a validator's limits and words."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import Any, Final

from infra.chain.rpc_params import invalid, is_u64, refused
from infra.chain.source import AccountWrite
from infra.chain.token_layout import ACCOUNT_SIZE, TOKEN_PROGRAMS, is_token_account
from schemas.solana import base58
from schemas.solana.addresses import TOKEN_2022_PROGRAM

MAX_FILTERS: Final = 4
_MAX_BYTES: Final = 128
_MAX_CHARACTERS: Final = {"base58": 175, "base64": 172}
_MINT_AT, _OWNER_AT = 0, 32
_TOKEN_ACCOUNT_TYPE: Final = b"\x02"


@dataclass(slots=True)
class ProgramFilters:
    """What an account must have; all of it."""

    sizes: list[int] = field(default_factory=list)
    compared: list[tuple[int, bytes]] = field(default_factory=list)  # (offset, bytes there)
    token_accounts_only: bool = False

    @classmethod
    def read(cls, value: Any) -> ProgramFilters:
        """Return the filters of a configuration; raises RpcError."""
        filters = cls()
        if value is None:
            return filters
        if not isinstance(value, list):
            raise invalid("filters is a list")
        if len(value) > MAX_FILTERS:
            raise refused(f"Too many filters provided; max {MAX_FILTERS}")
        for each in value:
            filters._add(each)
        return filters

    def match(self, account: AccountWrite) -> bool:
        """Return True if the account has all of it."""
        data = account.data
        for size in self.sizes:
            if len(data) != size:
                return False
        for offset, wanted in self.compared:
            if offset > len(data) or data[offset : offset + len(wanted)] != wanted:
                return False
        return not self.token_accounts_only or is_token_account(TOKEN_2022_PROGRAM, data)

    def token_key(self, program: bytes) -> tuple[str, bytes] | None:
        """Return ("owner" or "mint", its key) where an index has what is asked for."""
        if program not in TOKEN_PROGRAMS:
            return None
        is_for_accounts = (
            self.token_accounts_only
            or ACCOUNT_SIZE in self.sizes
            or (
                program == TOKEN_2022_PROGRAM
                and (ACCOUNT_SIZE, _TOKEN_ACCOUNT_TYPE) in self.compared
            )
        )
        if not is_for_accounts:
            return None
        for name, at in (("owner", _OWNER_AT), ("mint", _MINT_AT)):
            for offset, wanted in self.compared:
                if offset == at and len(wanted) == 32:
                    return name, wanted
        return None

    def _add(self, value: Any) -> None:
        match value:
            case "tokenAccountState":
                self.token_accounts_only = True
            case {"dataSize": size} if is_u64(size):
                self.sizes.append(size)
            case {"memcmp": {"offset": offset, "bytes": wanted} as compare} if is_u64(offset):
                self.compared.append((offset, _bytes(wanted, compare.get("encoding"))))
            case _:
                raise invalid(
                    f"filter {str(value)[:100]!r} is no dataSize, memcmp or tokenAccountState"
                )


def _bytes(value: Any, encoding: Any) -> bytes:
    if isinstance(value, list):
        if not all(isinstance(each, int) and 0 <= each < 256 for each in value):
            raise invalid("memcmp: bytes is a text, or a list of numbers from 0 to 255")
        data = bytes(value)
    elif isinstance(value, str):
        encoding = "base58" if encoding in (None, "binary") else encoding
        if encoding not in _MAX_CHARACTERS:
            raise invalid(f"unknown variant `{encoding}`, expected `base58` or `base64`.")
        if len(value) > _MAX_CHARACTERS[encoding]:
            raise refused("Invalid param: DataTooLarge")
        data = _decoded(value, encoding)
    else:
        raise invalid("memcmp: bytes is a text, or a list of numbers from 0 to 255")
    if len(data) > _MAX_BYTES:
        raise refused("Invalid param: DataTooLarge")
    return data


def _decoded(text: str, encoding: str) -> bytes:
    try:
        if encoding == "base58":
            return base58.decode(text)
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as reason:
        raise refused(f"Invalid param: {encoding.capitalize()}DecodeError({reason})") from None
