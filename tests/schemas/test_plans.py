"""The plans are the price list's."""

import re

from schemas.plans import KAFKA, PLANS, KafkaAllowance
from tests.support import subscriber_document


def test_they_are_those_of_the_price_list():
    limits = {
        plan.name: (
            plan.price_usd_a_month,
            plan.credits_a_month,
            plan.requests_a_minute,
            plan.connections,
            plan.wallet_filters,
            plan.kafka,
            plan.mcp,
        )
        for plan in PLANS.values()
    }
    assert limits == {
        "free": (0, 50_000, 60, 1, 0, False, "basic"),
        "pro": (199, 1_000_000, 600, 1, 0, False, "full"),
        "business": (799, 20_000_000, 2_000, 5, 100, True, "full"),
        "enterprise": (None, None, None, None, 100, True, "full"),
    }
    assert list(PLANS) == list(limits)


def test_mib_a_minute_over_websocket_are_those_of_the_gateway_s_document():
    limits = {
        plan.name: (plan.live_mib_a_minute, plan.replay_mib_a_minute) for plan in PLANS.values()
    }
    assert limits == {
        "free": (64, 16),
        "pro": (256, 64),
        "business": (1024, 256),
        "enterprise": (10_240, 2_560),
    }


def test_every_plan_with_kafka_says_how_much():
    assert set(KAFKA) == {plan.name for plan in PLANS.values() if plan.kafka}
    for allowance in KAFKA.values():  # each user of a full account can still read
        assert allowance.request_pct >= allowance.credentials
        assert allowance.kib_a_second // allowance.credentials >= 1_024


def test_the_subscribers_document_states_the_allowances_of_kafka():
    row = r"^\| (\w+) \| (\d+) \| (\d+) \| (\d+) % \|$"
    stated = {
        name.lower(): KafkaAllowance(int(users), int(mib_a_second) * 1024, int(request_pct))
        for name, users, mib_a_second, request_pct in re.findall(
            row, subscriber_document.TEXT, re.MULTILINE
        )
    }
    assert stated == KAFKA
