"""Stake accounts and sysvars as bytes, for tests that read them."""

from __future__ import annotations

from collections.abc import Mapping
from struct import pack

from schemas.solana.stake_accounts import MAX_EPOCH

RESERVE = 2_282_880
VOTE = bytes([3]) * 32


def stake_data(
    withdrawer: bytes,
    *,
    staker: bytes | None = None,
    stake: int | None = None,
    activated: int = MAX_EPOCH,
    deactivated: int = MAX_EPOCH,
    locked_until_s: int = 0,
    locked_until_epoch: int = 0,
    custodian: bytes = bytes(32),
) -> bytes:
    """Return a stake account; delegated where `stake` says how much."""
    data = pack("<IQ", 1 if stake is None else 2, RESERVE) + (staker or withdrawer) + withdrawer
    data += pack("<qQ", locked_until_s, locked_until_epoch) + custodian
    if stake is not None:
        data += VOTE + pack("<QQQdQ", stake, activated, deactivated, 0.25, 0)
    return data.ljust(200, b"\0")


def clock_data(slot: int, epoch: int, time_s: int) -> bytes:
    """Return the clock sysvar."""
    return pack("<QqQQq", slot, 0, epoch, epoch + 1, time_s)


def history_data(epochs: Mapping[int, tuple[int, int, int]]) -> bytes:
    """Return the stake history sysvar: effective, activating and deactivating by epoch."""
    entries = sorted(epochs.items(), reverse=True)
    return pack("<Q", len(entries)) + b"".join(pack("<QQQQ", at, *of) for at, of in entries)
