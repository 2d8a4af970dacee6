"""A rate that is used up is remembered until it has room, and no longer."""

from __future__ import annotations

from api.access.grants import Refusal
from api.access.used_up import UsedUp


def test_a_refusal_is_remembered_until_the_rate_has_room() -> None:
    now_s = 100.0
    used_up = UsedUp(lambda: now_s)
    assert used_up.of("ann") is None
    used_up.note("ann", Refusal("rate", "free", 30_000, 0, 30_000, 5))
    now_s = 110.0
    found = used_up.of("ann")
    assert found is not None
    assert (found.requests_left, found.frees_ms, found.credits_left) == (0, 20_000, 5)
    assert found == Refusal("rate", "free", 20_000, 0, 20_000, 5)
    assert used_up.of("bob") is None
    now_s = 130.0
    assert used_up.of("ann") is None
