"""What the simulated chain is like."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Knobs:
    """What the simulated chain is like; shares and probabilities are from 0 to 1."""

    seed: int = 1
    rate: float = 300.0  # transactions a second, votes not counted
    slot_ms: int = 400
    start_slot: int = 400_000_000
    start_time_ms: int = 1_785_500_000_000
    forks: float = 0.01  # probability that a slot starts a branch that is abandoned
    dead: float = 0.2  # share of such branches of one slot that die before they are complete
    rolled_back: float = 0.0  # share of such branches that the cluster confirms and then leaves
    relanded: float = 0.7  # share of an abandoned slot's transactions that land again
    skipped: float = 0.03  # probability that a slot has no block
    failed: float = 0.06  # share of swaps whose limit cannot be met
    malformed: float = 0.0  # share of swaps whose venue data is cut short
    votes: int = 1  # vote transactions a slot
    confirm_after: int = 2  # slots on top of one until it is confirmed
    finalize_after: int = 31
    wallets: int = 800
    tempo: float = 1.0  # how many times faster than usual launched coins rise and fall
    rhythm: float = 0.0  # share by which the rate rises and falls over a day
    curves_kept: int = 4_000  # launched coins on their curves, at most; the oldest are forgotten
    pools_kept: int = 400  # pools that launched coins moved to, at most
    metadata_origin: str = ""  # where coins' metadata is served; empty: at places that are nowhere

    def __post_init__(self) -> None:
        for name in (
            *("forks", "dead", "rolled_back", "relanded", "skipped", "failed", "malformed"),
            "rhythm",
        ):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}: a share is from 0 to 1")
        if self.skipped == 1 or self.forks == 1:
            raise ValueError("a chain needs some slots that are neither skipped nor abandoned")
        if self.rate < 0 or self.slot_ms < 1 or self.votes < 0:
            raise ValueError("rate and votes are not below 0, slot_ms not below 1")
        if self.tempo <= 0:
            raise ValueError(f"tempo is {self.tempo}: it must be above 0")
        if not 1 <= self.confirm_after < self.finalize_after:
            raise ValueError("a slot is confirmed after at least 1 and finalized after more slots")
        if self.wallets < 10:
            raise ValueError(f"wallets is {self.wallets}: a market needs 10 or more")
