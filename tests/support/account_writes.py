"""Account writes that tests of the local chain's accounts make."""

from __future__ import annotations

from infra.chain.source import AccountWrite, BlockHeader, ChainTransaction
from schemas.solana.addresses import SYSTEM_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM

_NOTHING: frozenset[bytes] = frozenset()


def address(number: int) -> bytes:
    """Return a made-up address."""
    return number.to_bytes(2) * 16


def write(
    at: bytes, owner: bytes = SYSTEM_PROGRAM, lamports: int = 1, data: bytes = b"", version: int = 0
) -> AccountWrite:
    return AccountWrite(at, owner, lamports, data, version)


def closing(at: bytes) -> AccountWrite:
    return write(at, lamports=0)


def token_account(
    mint: bytes, wallet: bytes, amount_raw: int = 0, *, state: int = 1, extended: bool = False
) -> bytes:
    """Return a token account's data; extended, as Token-2022 has it, with its type byte."""
    data = bytearray(165)
    data[:72] = mint + wallet + amount_raw.to_bytes(8, "little")
    data[108] = state
    return bytes(data) + (b"\x02\x07\0\0\0" if extended else b"")


def mint_account(
    supply_raw: int,
    decimals: int,
    *,
    authority: bytes | None = None,
    freeze: bytes | None = None,
    extended: bool = False,
) -> bytes:
    """Return a mint's data; extended, as Token-2022 has it, with its type byte."""

    def optional(key: bytes | None) -> bytes:
        return bytes(36) if key is None else b"\x01\0\0\0" + key

    data = optional(authority) + supply_raw.to_bytes(8, "little") + bytes((decimals, 1))
    data += optional(freeze)
    return data.ljust(165, b"\0") + b"\x01" if extended else data


def header(slot: int, parent: int) -> BlockHeader:
    return BlockHeader(slot, parent, f"hash{slot}", f"hash{parent}", 1_795_233_522, slot)


def writing(number: int, *writes: AccountWrite) -> ChainTransaction:
    """Return a transaction that did nothing but write."""
    return ChainTransaction(number.to_bytes(64), 0, b"", _NOTHING, False, False, writes)


PROGRAMS = (SYSTEM_PROGRAM, TOKEN_PROGRAM, TOKEN_2022_PROGRAM, address(900))
