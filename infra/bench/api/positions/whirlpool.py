"""Accounts of Orca Whirlpools as bytes: pools, tick arrays, positions and what derives from them.

Written from the IDL and independent of the reading that they are made for.
Source: orca-so/whirlpools IDL: `Whirlpool` (653 bytes), `TickArray` (9,988), `Position` (216).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from struct import pack_into
from typing import Final

from solders.pubkey import Pubkey

from schemas.solana.addresses import key

PROGRAM: Final = key("whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc")
TICKS: Final = 88  # of an array
POSITION_LAMPORTS: Final = 2_394_240
ARRAY_LAMPORTS: Final = 70_407_360
POOL_LAMPORTS: Final = 5_435_760

_POOL_TAG: Final = bytes.fromhex("3f95d10ce1806309")
_ARRAY_TAG: Final = bytes.fromhex("4561bdbe6e0742bb")
_POSITION_TAG: Final = bytes.fromhex("aabc8fe47a40f7d0")
_POOL_BYTES: Final = 653
_ARRAY_BYTES: Final = 9_988
_POSITION_BYTES: Final = 216
_TICK_BYTES: Final = 113
_REWARD_BYTES: Final = 128


@dataclass(frozen=True, slots=True)
class Reward:
    """A token that a pool pays beside its fees."""

    mint: bytes
    per_second_x64: int
    growth_x64: int


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool of two tokens; growths are Q64 of a token for a unit of liquidity."""

    address: bytes
    mints: tuple[bytes, bytes]
    spacing: int
    tick: int
    sqrt_price_x64: int
    liquidity: int
    growths: tuple[int, int]
    rewards: tuple[Reward, ...]
    updated_s: int

    @property
    def all_growths(self) -> tuple[int, ...]:
        """Return the growths of both fees and of three rewards, 0 where there is none."""
        of_rewards = tuple(each.growth_x64 for each in self.rewards)
        return (*self.growths, *of_rewards, *(0,) * (3 - len(self.rewards)))

    @property
    def vaults(self) -> list[tuple[bytes, bytes]]:
        """Return the vaults of the rewards, each with its mint."""
        return [(derived(b"reward", self.address, each.mint), each.mint) for each in self.rewards]

    def data(self) -> bytes:
        """Return the account's data."""
        data = bytearray(_POOL_BYTES)
        data[:8] = _POOL_TAG
        pack_into("<HHHH", data, 41, self.spacing, self.spacing, 3_000, 1_300)
        data[49:81] = _u128(self.liquidity) + _u128(self.sqrt_price_x64)
        pack_into("<i", data, 81, self.tick)
        for at, mint, growth in zip((101, 181), self.mints, self.growths, strict=True):
            data[at : at + 32] = mint
            data[at + 32 : at + 64] = derived(b"vault", self.address, mint)
            data[at + 64 : at + 80] = _u128(growth)
        pack_into("<Q", data, 261, self.updated_s)
        of_rewards = zip(self.rewards, self.vaults, strict=True)
        for number, (reward, (vault, mint)) in enumerate(of_rewards):
            at = 269 + _REWARD_BYTES * number
            data[at : at + 64] = mint + vault
            data[at + 96 : at + 128] = _u128(reward.per_second_x64) + _u128(reward.growth_x64)
        return bytes(data)


@dataclass(frozen=True, slots=True)
class Position:
    """Liquidity between two ticks, whose NFT has the mint."""

    pool: Pool
    mint: bytes
    liquidity: int
    ticks: tuple[int, int]
    checkpoints: tuple[int, ...]  # of the growths inside: both fees, three rewards
    owed_raw: tuple[int, ...]  # likewise

    @property
    def address(self) -> bytes:
        """Return the address that the program derives from the mint."""
        return derived(b"position", self.mint)

    def data(self) -> bytes:
        """Return the account's data."""
        data = bytearray(_POSITION_BYTES)
        data[:72] = _POSITION_TAG + self.pool.address + self.mint
        data[72:88] = _u128(self.liquidity)
        pack_into("<ii", data, 88, *self.ticks)
        for number, (growth, owed) in enumerate(zip(self.checkpoints, self.owed_raw, strict=True)):
            at = 96 + 24 * number
            data[at : at + 16] = _u128(growth)
            pack_into("<Q", data, at + 16, owed)
        return bytes(data)


def first_tick(tick: int, spacing: int) -> int:
    """Return the first tick of the array that a tick is in."""
    return tick // (spacing * TICKS) * spacing * TICKS


def array_address(pool: Pool, first: int) -> bytes:
    """Return the address of a pool's array."""
    return derived(b"tick_array", pool.address, str(first).encode())


def array_data(pool: Pool, first: int, ticks: Mapping[int, tuple[int, ...]]) -> bytes:
    """Return an array; `ticks` are those with liquidity -> growths on their far side."""
    data = bytearray(_ARRAY_BYTES)
    data[:8] = _ARRAY_TAG
    pack_into("<i", data, 8, first)
    for tick, growths in ticks.items():
        at = 12 + _TICK_BYTES * ((tick - first) // pool.spacing)
        data[at] = 1
        data[at + 1 : at + 33] = _u128(pool.liquidity >> 8) + _u128(pool.liquidity >> 8)
        data[at + 33 : at + 113] = b"".join(map(_u128, growths))
    data[-32:] = pool.address
    return bytes(data)


def derived(*seeds: bytes) -> bytes:
    """Return an address that the program derives."""
    return bytes(Pubkey.find_program_address([*seeds], Pubkey(PROGRAM))[0])


def _u128(value: int) -> bytes:
    return value.to_bytes(16, "little")
