"""The plans that are sold, as data: what a key of each may ask, and how often.

A credit is what one API call costs, a batch too. None is "without limit".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

MINUTE_S: Final = 60
AVAILABILITY_TARGET_PCT: Final = 99.7
"""Of a month; promised with the plan enterprise."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a key may do."""

    name: str
    price_usd_a_month: int | None  # None: agreed upon
    credits_a_month: int | None  # of a calendar month, UTC
    requests_a_minute: int | None  # in any 60 seconds
    connections: int | None  # WebSocket, at once
    live_mib_a_minute: int  # of events over WebSocket, of each gateway
    replay_mib_a_minute: int  # of what was missed and of snapshots
    wallet_filters: int  # wallets of one WebSocket subscription; 0: none by wallet
    kafka: bool
    mcp: Literal["basic", "full"]


# Free: the price list states no WebSocket; one connection lets people try it.
# Bytes over WebSocket are not stated either: each is several times what a client needs that takes
# every swap of a busy day.
FREE: Final = Plan("free", 0, 50_000, 60, 1, 64, 16, 0, kafka=False, mcp="basic")
PRO: Final = Plan("pro", 199, 1_000_000, 600, 1, 256, 64, 0, kafka=False, mcp="full")
BUSINESS: Final = Plan(
    "business", 799, 20_000_000, 2_000, 5, 1_024, 256, 100, kafka=True, mcp="full"
)
# Enterprise: its rate and connections are not stated, they are the customer's own. Its bytes have a
# bound all the same, ten times that of Business: for many connections on one key, yet a client that
# asks for the same replay over and over cannot occupy a gateway and its Redis.
ENTERPRISE: Final = Plan(
    "enterprise", None, None, None, None, 10_240, 2_560, 100, kafka=True, mcp="full"
)


@dataclass(frozen=True, slots=True)
class KafkaAllowance:
    """What all credentials of an account may take of Kafka together, of each broker."""

    credentials: int  # at once
    kib_a_second: int  # that they read
    request_pct: int  # of the time of one request thread


# Not stated: some ten times what the public topics carry on a busy day, to read a week in hours.
KAFKA: Final = {
    BUSINESS.name: KafkaAllowance(credentials=5, kib_a_second=8_192, request_pct=50),
    ENTERPRISE.name: KafkaAllowance(credentials=20, kib_a_second=65_536, request_pct=200),
}
"""By plan, of those that have Kafka."""

# What is basic is not stated: the tools that most questions begin with.
MCP_TOOLS: Final[dict[Literal["basic", "full"], frozenset[str] | None]] = {
    "basic": frozenset({"analyze_wallet", "get_all_dex", "get_holdings"}),
    "full": None,
}
"""Names of the tools that a level of MCP may call; None: all."""

PLANS: Final = {plan.name: plan for plan in (FREE, PRO, BUSINESS, ENTERPRISE)}
