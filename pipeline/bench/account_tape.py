"""Accounts of the kinds that there are, with the bytes of the chain, on their lane."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from struct import pack
from typing import Final

from pipeline.bench.storage_player import FIRST_MS
from schemas.accounts import compress
from schemas.proto.tape_pb2 import AccountVersion, SlotBatch
from schemas.protocols.registry import kind_of
from schemas.solana.addresses import STAKE_PROGRAM, TOKEN_PROGRAM, text
from schemas.topics import SETTLED_ACCOUNTS

KINDS: Final = ("stake", "token", "mint")
SLOT_MS: Final = 400
ACCOUNTS_A_WALLET: Final = 4
_MINTS: Final = 5_000
_VALIDATORS: Final = 1_500
_NEVER: Final = (1 << 64) - 1

Slot = list[SlotBatch]
"""A batch for each partition."""


class AccountTape:
    """Slots in which some of a number of accounts change."""

    def __init__(self, seed: int, accounts: int) -> None:
        self._random = random = Random(seed)  # noqa: S311 - figures to be had again
        self._wallets = [random.randbytes(32) for _ in range(max(1, accounts // ACCOUNTS_A_WALLET))]
        self._mints = [random.randbytes(32) for _ in range(_MINTS)]
        self._validators = [random.randbytes(32) for _ in range(_VALIDATORS)]
        self._slot = 1_000

    def new(self, kind: str, count: int) -> list[tuple[str, bytes]]:
        """Return kind and address of so many new accounts."""
        return [(kind, self._random.randbytes(32)) for _ in range(count)]

    def slots(self, accounts: list[tuple[str, bytes]], a_slot: int) -> Iterator[Slot]:
        """Yield slots in which each of the accounts changes once, so many a slot."""
        for at in range(0, len(accounts), a_slot):
            self._slot += 1
            slot = [
                SlotBatch(
                    slot=self._slot,
                    parent=self._slot - 1,
                    block_time_ms=FIRST_MS + self._slot * SLOT_MS,
                    complete=True,
                )
                for _ in range(SETTLED_ACCOUNTS.partitions)
            ]
            for kind, address in accounts[at : at + a_slot]:
                batch = slot[SETTLED_ACCOUNTS.partition(text(address))]
                batch.accounts.append(self._version(kind, address))
            yield slot

    def changing(self, accounts: list[tuple[str, bytes]], count: int) -> list[tuple[str, bytes]]:
        """Return so many of the accounts, drawn at random."""
        return self._random.choices(accounts, k=count)

    def _version(self, kind: str, address: bytes) -> AccountVersion:
        program = STAKE_PROGRAM if kind == "stake" else TOKEN_PROGRAM
        data: bytes = getattr(self, f"_{kind}")(address)
        found = kind_of(address, program, data)
        assert found is not None
        return AccountVersion(
            address=address,
            program=program,
            lamports=self._random.randrange(1 << 40),
            size=len(data),
            data=compress(data),
            found_by=found.found_by(data),
        )

    def _wallet(self, address: bytes) -> bytes:
        return self._wallets[int.from_bytes(address[:8], "little") % len(self._wallets)]

    def _stake(self, address: bytes) -> bytes:
        random, wallet = self._random, self._wallet(address)
        lamports = random.randrange(10**9, 10**12)
        epoch = random.randrange(300, 900)
        return b"".join(
            (
                pack("<IQ", 2, 2_282_880) + wallet + wallet + bytes(48),
                random.choice(self._validators),
                pack("<QQQdQI", lamports, epoch, _NEVER, 0.25, random.randrange(1 << 30), 0),
            )
        )

    def _token(self, address: bytes) -> bytes:
        amount_raw = self._random.randrange(10**12)
        mint = self._random.choice(self._mints)
        return mint + self._wallet(address) + pack("<Q", amount_raw) + bytes(36) + b"\1" + bytes(56)

    def _mint(self, address: bytes) -> bytes:
        supply_raw = self._random.randrange(10**15)
        return pack("<I", 1) + address[::-1] + pack("<QBB", supply_raw, 6, 1) + bytes(36)
