"""How much of a delegation counts in an epoch: it warms up and cools down with the cluster's.

Source: solana-stake-interface `Delegation::stake_activating_and_deactivating`. In an epoch at most
a share of the cluster's effective stake moves, divided among all that want to; each delegation
moves by a lamport at least. The program computes in 64-bit floats, cut to whole lamports; so does
this. (SIMD-0391 replaces them with integers, behind a feature that is not active.)
"""

from __future__ import annotations

from typing import Final, NamedTuple

from schemas.solana.stake_accounts import MAX_EPOCH, Delegation
from schemas.solana.sysvars import StakeHistory

RATE_BEFORE: Final = 0.25
RATE: Final = 0.09
_U64_MAX: Final = 2**64 - 1


class Activation(NamedTuple):
    """The parts of a delegation in an epoch, in lamports; what deactivates is still effective."""

    effective: int
    activating: int
    deactivating: int


def activation(
    delegation: Delegation, epoch: int, history: StakeHistory, new_rate_epoch: int = 0
) -> Activation:
    """Return what a delegation is in an epoch.

    `new_rate_epoch` is the one from which 9 % move an epoch instead of 25 %. An epoch that the
    history lacks is over for all that changed in it, as the program has it.
    """
    effective, activating = _warmed_up(delegation, epoch, history, new_rate_epoch)
    if epoch < delegation.deactivation_epoch:
        return Activation(effective, activating, 0)
    if epoch == delegation.deactivation_epoch:
        return Activation(effective, 0, effective)
    left = _cooled_down(delegation, effective, epoch, history, new_rate_epoch)
    return Activation(left, 0, left)


def needs_history(delegation: Delegation, epoch: int) -> bool:
    """Return whether an activation can be known by the stake history only."""
    if delegation.activation_epoch == delegation.deactivation_epoch:
        return False
    if epoch > delegation.deactivation_epoch:
        return True
    return delegation.activation_epoch < min(epoch, MAX_EPOCH)


def _warmed_up(
    delegation: Delegation, epoch: int, history: StakeHistory, new_rate_epoch: int
) -> tuple[int, int]:
    """Return what is effective and what is still activating, without regard to deactivation."""
    stake = delegation.stake_lamports
    if delegation.activation_epoch == MAX_EPOCH:
        return stake, 0
    if delegation.activation_epoch == delegation.deactivation_epoch:
        return 0, 0
    if epoch <= delegation.activation_epoch:
        return 0, stake if epoch == delegation.activation_epoch else 0
    at = delegation.activation_epoch
    cluster = history.epochs.get(at)
    if cluster is None:
        return stake, 0
    effective = 0
    while cluster is not None and cluster.activating:
        at += 1
        moved = _share(stake - effective, cluster.activating, cluster.effective, at, new_rate_epoch)
        effective = min(effective + moved, stake)
        if effective == stake or at >= epoch or at >= delegation.deactivation_epoch:
            break
        cluster = history.epochs.get(at)
    return effective, stake - effective


def _cooled_down(
    delegation: Delegation, effective: int, epoch: int, history: StakeHistory, new_rate_epoch: int
) -> int:
    """Return what is still effective in an epoch after that of the deactivation."""
    at = delegation.deactivation_epoch
    cluster = history.epochs.get(at)
    if cluster is None:
        return 0
    while cluster is not None and cluster.deactivating:
        at += 1
        moved = _share(effective, cluster.deactivating, cluster.effective, at, new_rate_epoch)
        effective = max(effective - moved, 0)
        if not effective or at >= epoch:
            break
        cluster = history.epochs.get(at)
    return effective


def _share(part: int, of_all: int, cluster_effective: int, epoch: int, new_rate_epoch: int) -> int:
    """Return how many lamports of a delegation move into an epoch."""
    rate = RATE_BEFORE if epoch < new_rate_epoch else RATE
    weight = float(part) / float(of_all)
    return max(min(int(weight * (float(cluster_effective) * rate)), _U64_MAX), 1)
