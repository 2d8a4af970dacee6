"""What a run found: the JSON line of `soltape chaos`."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Report:
    """What the run found, figure by figure."""

    seed: int
    minutes: float
    broker: str
    rate: float
    workers: int
    redis: str = "single"
    account_streams: int = 0  # of the lane of accounts; 0: it does not run
    slots: int = 0
    swaps: int = 0
    gap_slots: int = 0
    torn_slots: int = 0  # named as gaps, and on some partitions of the lanes: not compared
    excused: int = 0  # differences at wallets, mints and pools of those
    rolled_back_slots: int = 0
    kills: dict[str, int] = field(default_factory=dict)
    crashes: list[str] = field(default_factory=list)
    differences: int = 0
    differences_by_kind: dict[str, int] = field(default_factory=dict)
    compared: dict[str, int] = field(default_factory=dict)
    not_stored: dict[str, int] = field(default_factory=dict)  # accounts, by the rule that says so
    positions: int = 0  # of demo wallets, compared as the API answers them
    recovery_s: dict[str, float] = field(default_factory=dict)
    takeover_s: dict[str, float | None] | None = None  # until a standby writes; None: there is none
    replay_changed: int | None = None  # None: not tried
    rebuild_changed: int | None = None  # None: not tried
    full: dict[str, int] | None = None  # writes refused; wallets, markets put away for it
    log_lost: str = ""  # which slots of whom
    failure: str = ""
    folder: str = ""

    def count(self, kill: str) -> None:
        """Count a kill, by what was killed."""
        self.kills[kill] = self.kills.get(kill, 0) + 1

    @property
    def in_time(self) -> bool:
        """Whether all takeovers kept the limit, where there is one: then it needs one to judge."""
        figures = self.takeover_s
        if figures is None or figures["limit"] is None:
            return True
        return figures["count"] != 0 and figures["late"] == 0

    @property
    def passed(self) -> bool:
        """Whether nothing differs or was late, and the run had something to compare."""
        again = self.replay_changed or self.rebuild_changed
        nothing = not (self.failure or self.differences or again)
        return nothing and self.in_time and self.swaps > 0
