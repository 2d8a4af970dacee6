"""The specified routes of positions: each is a route of a protocol, or says why it is not read."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Final

from schemas.protocols.registry import SLUGS

SPECIFIED = (
    # Lending
    "p01/lending",
    "p02/lending",
    "p03/loans",
    "p03/advanced-lending",
    "p03/loops",
    "p04/earn",
    "p04/borrow",
    "p05/positions",
    "p06/positions",
    "p07/lending",
    # Perpetuals
    "p08/positions",
    "p08/health",
    "p08/lp",
    "p08/funding",
    "p09/positions",
    "p09/pnl",
    "p10/positions",
    "p11/positions",
    # Yield and stablecoins
    "p01/vaults",
    "p01/liquidity",
    "p03/vaults",
    "p12/positions",
    "p07/positions",
    "p13/positions",
    "p14/positions",
    "p14/v2/liquidity",
    "p14/v2/strategy-vaults",
    "p15/positions",
    "p16/positions",
    # Liquidity
    "p17/liquidity",
    "p18/liquidity",
    "p19/liquidity",
    "p20/liquidity",
    "p21/liquidity",
    "p22/liquidity",
    "p11/lp",
    # Staking
    "staking/native",
    "p08/staking",
    "p23/staking",
    "p10/staking",
    "p24/staking",
    "p25/staking",
    "p26/staking",
    "p01/staking",
    "p06/staking",
    "p27/staking",
    "p28/staking",
    "p11/staking",
    "p29/staking",
    "p30/s2e/staking",
    "p31/positions",
    # Governance
    "p32/deposits",
    "p33/vesting",
    "p34/escrows",
    # Rewards
    "p01/rewards",
    "p08/rewards",
    "p02/rewards",
    "p03/rewards",
)
# Of a protocol whose routes several aggregates have, the specified routes of that kind.
AGGREGATES: Final = {
    "all-lending": {
        "p01/lending",
        "p02/lending",
        "p03/loans",
        "p03/advanced-lending",
        "p03/loops",
        "p04/earn",
        "p04/borrow",
        "p05/positions",
        "p06/positions",
        "p07/lending",
    },
    "all-perps": {
        "p08/positions",
        "p09/positions",
        "p10/positions",
        "p11/positions",
    },
    "all-staking": {
        "staking/native",
        "p08/staking",
        "p23/staking",
        "p24/staking",
        "p25/staking",
        "p06/staking",
        "p26/staking",
        "p01/staking",
        "p27/staking",
        "p29/staking",
        "p11/staking",
        "p30/s2e/staking",
        "p31/positions",
        "p28/staking",
    },
    "all-governance": {
        "p32/deposits",
        "p34/escrows",
        "p33/vesting",
    },
    "all-lp": {
        "p17/liquidity",
        "p18/liquidity",
        "p19/liquidity",
        "p20/liquidity",
        "p21/liquidity",
        "p22/liquidity",
        "p11/lp",
    },
    "all-yield": {
        "p01/vaults",
        "p12/positions",
        "p07/positions",
        "p13/positions",
        "p14/positions",
        "p14/v2/liquidity",
        "p14/v2/strategy-vaults",
        "p15/positions",
        "p06/positions",
        "p16/positions",
        "p03/vaults",
    },
    "all-rewards": {
        "p01/rewards",
        "p02/rewards",
        "p03/rewards",
        "p08/rewards",
    },
}
EVERYTHING = 1  # `analyze`

# What answers from the tape's history of events (`api/history`), not from accounts.
FROM_HISTORY: Final = frozenset({"p08/funding", "p09/pnl"})

MOST_UNSUPPORTED = 4
READ = {
    f"{slug}/{route.path}": route for slug, protocol in SLUGS.items() for route in protocol.routes
}


def test_there_are_66_specified_paths() -> None:
    assert len({*SPECIFIED, *AGGREGATES}) + EVERYTHING == 66


def test_each_specified_route_is_read_or_says_why_not() -> None:
    assert [path for path in SPECIFIED if path not in READ] == [
        path for path in SPECIFIED if path in FROM_HISTORY
    ]
    unsupported = {path: READ[path].unsupported for path in SPECIFIED if path in READ}
    reasons = [reason for reason in unsupported.values() if reason is not None]
    assert all(reasons)
    assert len(reasons) <= MOST_UNSUPPORTED, unsupported


def test_each_aggregate_has_the_specified_members_and_no_other() -> None:
    members: dict[str, list[str]] = tomllib.loads(
        files("schemas.protocols").joinpath("aggregates.toml").read_text()
    )
    assert {name: set(of) for name, of in members.items()} == AGGREGATES
    assert set[str]().union(*AGGREGATES.values()) <= set(SPECIFIED)
