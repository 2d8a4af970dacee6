"""Rewards of Raydium's farms that a stake has earned and not taken.

Source: the farms' layouts in Raydium's SDK, and its `updateFarmPoolInfo` and
`fetchMultipleFarmInfoAndUpdate`: what a farm has emitted until now, by the tokens in its vault.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from schemas.protocols.contract import Account, Kind, World
from schemas.solana.addresses import key
from schemas.solana.borsh import raw_pubkey, u64, u128

V3: Final = key("EhhTKczWMGQt46ynNeRX1WfeagwwJd7ufHvCDjRxjo5Q")
V5: Final = key("9KEPoZmtHUrBbhWN1v1KWLMkkvwY6WLtAVUCPRtRjP4z")
V6: Final = key("FarmqiPv5eAj3j1GMdMCMUGXqPUvmquZtMy86QH6rzhG")
FARM_V3: Final = Kind("raydium_farm_v3", V3, size=200)
FARM_V5: Final = Kind("raydium_farm_v5", V5, size=224)
FARM_V6: Final = Kind("raydium_farm_v6", V6, size=1976)
_SCALES: Final = {FARM_V3: 10**9, FARM_V5: 10**15}
_BY_SLOT: Final = {FARM_V3: ((48, 168, 192),), FARM_V5: ((48, 88, 104), (113, 160, 176))}
"""Offsets of each reward: of its vault, of what a token has earned, of what a slot emits."""
_LAST_SLOT_AT: Final = 184
_REWARDS_V6: Final = range(136, 136 + 5 * 304, 304)
_DEBTS_V6_AT: Final = 88
_DEBTS_AT: Final = 80
_WIDE: Final = 200  # bytes of a ledger from which its debts are u128


class Reward(NamedTuple):
    """A reward of a stake."""

    vault: bytes  # of the reward's tokens
    mint: bytes | None  # None: the vault's
    amount_raw: int


def rewards_of(
    ledger: Account, deposited_raw: int, farm: Account, staked_raw: int, world: World
) -> list[Reward]:
    """Return what a stake has earned, of a farm with some tokens; raises `struct.error`."""
    if farm.kind is FARM_V6:
        found = _by_time(ledger, deposited_raw, farm, staked_raw, world.time_s)
    else:
        found = _by_slot(ledger, deposited_raw, farm, staked_raw, world.slot)
    return [each for each in found if each.amount_raw > 0]


def _by_slot(
    ledger: Account, deposited_raw: int, farm: Account, staked_raw: int, slot: int
) -> Iterator[Reward]:
    data, scale = farm.data, _SCALES[farm.kind]
    slots = max(slot - u64(data, _LAST_SLOT_AT), 0)
    is_wide = len(ledger.data) > _WIDE
    for number, (vault_at, earned_at, rate_at) in enumerate(_BY_SLOT[farm.kind]):
        earned = u128(data, earned_at)
        if staked_raw:
            earned += u64(data, rate_at) * slots * scale // staked_raw
        if is_wide:
            debt = u128(ledger.data, _DEBTS_AT + 16 * number)
        else:
            debt = u64(ledger.data, _DEBTS_AT + 8 * number)
        yield Reward(raw_pubkey(data, vault_at), None, deposited_raw * earned // scale - debt)


def _by_time(
    ledger: Account, deposited_raw: int, farm: Account, staked_raw: int, time_s: int
) -> Iterator[Reward]:
    data = farm.data
    if not (scale := u128(data, 32)):
        return
    for number, at in enumerate(_REWARDS_V6):
        state, opens_s, ends_s, counted_s, total_raw, emitted_raw = (
            u64(data, at + 8 * field) for field in range(6)
        )
        earned, until_s = u128(data, at + 64), min(time_s, ends_s)
        if state and staked_raw and counted_s < until_s > opens_s:
            emits_raw = (until_s - counted_s) * u64(data, at + 56)
            earned += min(emits_raw, max(total_raw - emitted_raw, 0)) * scale // staked_raw
        debt = u128(ledger.data, _DEBTS_V6_AT + 16 * number)
        vault, mint = raw_pubkey(data, at + 80), raw_pubkey(data, at + 112)
        yield Reward(vault, mint, deposited_raw * earned // scale - debt)
