"""The chain's clock and its stake history, as the sysvar accounts have them (bincode)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct, error
from typing import Final, NamedTuple

from schemas.solana.borsh import u64

_CLOCK: Final = Struct("<QqQQq")
_ENTRY: Final = Struct("<QQQQ")


class BadSysvar(ValueError):
    """A sysvar's bytes are not what its address says; the text names what is wrong."""


class Clock(NamedTuple):
    """When it is, by the chain."""

    slot: int
    epoch_started_s: int  # since the Unix epoch
    epoch: int
    leader_schedule_epoch: int
    time_s: int  # since the Unix epoch


class ClusterStake(NamedTuple):
    """The stake of the whole cluster at an epoch, in lamports."""

    effective: int
    activating: int
    deactivating: int


@dataclass(frozen=True, slots=True)
class StakeHistory:
    """The cluster's stake by epoch; the chain keeps the last 512."""

    epochs: Mapping[int, ClusterStake]


def read_clock(data: bytes) -> Clock:
    """Return the clock; raises BadSysvar."""
    try:
        return Clock(*_CLOCK.unpack_from(data))
    except error:
        raise BadSysvar(f"{len(data)} bytes, a clock has {_CLOCK.size}") from None


def read_stake_history(data: bytes) -> StakeHistory:
    """Return the stake history; raises BadSysvar."""
    if len(data) < 8:
        raise BadSysvar(f"{len(data)} bytes, a stake history begins with a count of 8")
    size = 8 + u64(data, 0) * _ENTRY.size
    if len(data) < size:
        raise BadSysvar(f"{len(data)} bytes, its count of entries says {size}")
    entries = _ENTRY.iter_unpack(data[8:size])
    return StakeHistory({epoch: ClusterStake(*stake) for epoch, *stake in entries})
