"""How soon another process watches when the one that did is killed."""

from api.watch.lease import LEASE_S, LOOK_EVERY_S, RENEWED_S

TAKEN_OVER_WITHIN_S = 8.0  # as the README of this room says


def test_a_standby_takes_over_in_time_and_a_lease_outlives_two_renewals_that_fail() -> None:
    assert LEASE_S + LOOK_EVERY_S < TAKEN_OVER_WITHIN_S
    assert LEASE_S > 3 * RENEWED_S
