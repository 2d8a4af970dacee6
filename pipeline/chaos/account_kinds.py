"""Which accounts of the simulated chain are stored: `account_kinds.toml`, and what is left out.

Every account is of a kind of the table, or of an exception that is named here. One that is neither
is a difference: a class of accounts cannot be forgotten.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Final, NamedTuple

from schemas.protocols.programs import NUMBERS
from schemas.solana.addresses import (
    METAPLEX_PROGRAM,
    SYSTEM_PROGRAM,
    TOKEN_2022_PROGRAM,
    TOKEN_PROGRAM,
    VOTE_PROGRAM,
    key,
)

TOKEN_PROGRAMS: Final = (TOKEN_PROGRAM, TOKEN_2022_PROGRAM)
TRACKED: Final = frozenset({SYSTEM_PROGRAM, METAPLEX_PROGRAM, *TOKEN_PROGRAMS})
"""Programs of which only the accounts are stored that somebody asked for."""
TOKEN_ACCOUNT_SIZES: Final = frozenset({165, 170, 182})
"""Of token accounts; both token programs' other accounts are mints."""
HOLDER_AT: Final = slice(32, 64)  # in a token account
METADATA_MINT_AT: Final = slice(33, 65)

NO_PROTOCOL: Final = "of a program that no protocol file names"
VOTES: Final = "vote account, which no protocol file reads"
NOT_ASKED_FOR: Final = {
    SYSTEM_PROGRAM: "wallet that nobody asked for",
    TOKEN_PROGRAM: "token account or mint that nobody asked for",
    TOKEN_2022_PROGRAM: "token account or mint that nobody asked for",
    METAPLEX_PROGRAM: "metadata of a mint that nobody asked for",
}


class Kind(NamedTuple):
    """A kind of accounts of a program that is covered whole."""

    name: str
    is_stored: bool
    is_of_wallet: bool  # its bytes name a wallet: ClickHouse has it as well


_GROUPS: Final = {
    "of_wallets": (True, True),
    "others": (True, False),
    "not_stored": (False, False),
}


def _table() -> dict[bytes, list[tuple[bytes | int, Kind]]]:
    text = files("pipeline.chaos").joinpath("account_kinds.toml").read_text()
    return {
        key(program): [
            (
                bytes.fromhex(sign[2:]) if sign.startswith("0x") else int(sign),
                Kind(name, *_GROUPS[group]),
            )
            for group, kinds in groups.items()
            for sign, name in kinds.items()
        ]
        for program, groups in tomllib.loads(text).items()
    }


_KINDS: Final = _table()
NAMES: Final = frozenset(
    kind.name for kinds in _KINDS.values() for _, kind in kinds if kind.is_stored
)
"""Of the kinds that are stored."""
COVERED: Final = tuple(sorted(set(NUMBERS) - TRACKED - {VOTE_PROGRAM}))
"""Programs that are covered whole: of each all is stored, or left out by name."""


def kind_of(program: bytes, size: int, first_data: bytes) -> Kind | None:
    """Return the kind of an account of a program that is covered whole, None where it has none."""
    for sign, kind in _KINDS.get(program, ()):
        if sign == size if isinstance(sign, int) else first_data.startswith(sign):
            return kind
    return None


def is_token_account(program: bytes, size: int) -> bool:
    """Return whether an account is a token account, and no mint."""
    return program in TOKEN_PROGRAMS and size in TOKEN_ACCOUNT_SIZES
