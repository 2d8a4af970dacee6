"""What lets a request in, or why it is not let in: values that every door understands."""

from __future__ import annotations

from dataclasses import dataclass, field

from api.access.keys import key_id
from schemas.plans import Plan


@dataclass(frozen=True, slots=True)
class Grant:
    """Leave to make one request, as a key, a payment or a session gives it, and what it was
    charged."""

    fingerprint: str  # of the key; of a user's session the user's
    plan: Plan
    month: str  # that is charged: 2026-11, UTC
    credits_spent: int  # in the month
    requests: int  # accepted in the last minute, this one included
    frees_ms: int  # until the oldest of those is a minute old
    charged: int  # credits for this request
    user: str | None = None  # fingerprint of the user who pays; None: the key does

    @property
    def payer(self) -> str:
        """The fingerprint that all limits go by: of the user, else of the key."""
        return self.user or self.fingerprint

    @property
    def key_id(self) -> str:
        """The short name of the key; it may be shown and logged."""
        return key_id(self.fingerprint)

    @property
    def credits_left(self) -> int | None:
        """Credits left in the month; None without limit."""
        return less(self.plan.credits_a_month, self.credits_spent)

    @property
    def requests_left(self) -> int | None:
        """Requests left in this minute; None without limit."""
        return less(self.plan.requests_a_minute, self.requests)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that is not let in. It costs nothing."""

    outcome: str  # unknown, revoked, suspended, plan, credits or rate
    plan: str = ""
    wait_ms: int = 0  # until it may be let in
    # As of a grant, where credits or rate are why.
    requests_left: int | None = field(default=None, compare=False)
    frees_ms: int = field(default=0, compare=False)
    credits_left: int | None = field(default=None, compare=False)


def less(limit: int | None, used: int) -> int | None:
    """Return what is left of a limit; None without limit."""
    return None if limit is None else max(0, limit - used)
