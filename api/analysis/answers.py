"""The shape of a wallet's analysis: net worth, its categories, and all that they are made of."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from typing_extensions import TypedDict

from api.docs.words import IN_MICROS
from api.http.addresses import EXAMPLE_MINT, EXAMPLE_WALLET
from api.positions.answers import (
    AccountsRead,
    PendingMember,
    PositionError,
    PositionRecord,
    ProtocolSum,
)
from api.wallets.answers import Holdings, Pnl, PortfolioAnswer, TopPositions
from api.wallets.position_answers import AsOf, UpTo, about

WorthReason = Literal[
    "holdings_incomplete",
    "holdings_unpriced",
    "positions_incomplete",
    "positions_unknown",
    "moved_while_read",
    "native_outdated",
]


class NetWorth(TypedDict):
    """What a wallet is worth: assets without debts."""

    value_usd: Annotated[
        float | None,
        about("assets without debts; null: `reasons` says why", 12_480.5),
    ]
    value_usd_micros: Annotated[str | None, about(IN_MICROS, "12480500000")]
    assets_usd: Annotated[
        float | None,
        about("holdings, and all that positions have: deposits, liquidity, rewards", 13_480.5),
    ]
    assets_usd_micros: Annotated[str | None, about(IN_MICROS, "13480500000")]
    debts_usd: Annotated[
        float | None,
        about(
            "what positions owe, without a loan that counts 0: anybody can give a wallet one, and "
            "its worth is not known",
            1000.0,
        ),
    ]
    debts_usd_micros: Annotated[str | None, about(IN_MICROS, "1000000000")]
    known_usd: Annotated[
        float | None,
        about(
            "a part, and no net worth: holdings with a price, and the positions all of whose "
            "amounts are known, without their debts; where nothing is missing the same as "
            "`value_usd`; null: tokens moved while it was read, not all of them are known, or SOL "
            "is older than they are",
            12_480.5,
        ),
    ]
    known_usd_micros: Annotated[str | None, about(IN_MICROS, "12480500000")]
    unknown_positions: Annotated[
        int,
        about(
            "positions that `known_usd` lacks: an amount, or the price of a debt, is not known", 0
        ),
    ]
    unpriced: Annotated[int, about("assets of positions without a worth: in no sum", 0)]
    reasons: Annotated[
        list[WorthReason],
        about(
            "why it is null: `holdings_incomplete`, see `holdings.coverage`; `holdings_unpriced`: "
            "SOL has no price; `positions_incomplete`, see `errors`; `positions_unknown`: an "
            "amount, or the price of a debt, is not known; `moved_while_read`: the wallet's tokens "
            "moved while positions were read, ask again; `native_outdated`: an account of the "
            "wallet changed after `holdings.native.as_of_slot`, so its SOL may be in it as well; "
            "SOL is asked for, ask again",
            [],
        ),
    ]


class Category(TypedDict):
    """What a wallet has of a kind of positions."""

    category: Annotated[
        Literal["lending", "perps", "yield", "liquidity", "staking", "governance", "rewards"],
        about("kind of the routes", "lending"),
    ]
    position_count: Annotated[int, about("positions of the kind", 3)]
    value_usd: Annotated[
        float | None,
        about("assets without debts; null: nothing has a price, or a part is not known", 4000.0),
    ]
    value_usd_micros: Annotated[str | None, about(IN_MICROS, "4000000000")]
    known_usd: Annotated[
        float | None,
        about(
            "of the positions all of whose amounts are known, without their debts; null: none of "
            "them has a price",
            4000.0,
        ),
    ]
    known_usd_micros: Annotated[str | None, about(IN_MICROS, "4000000000")]
    unknown_positions: Annotated[int, about("positions that `known_usd` lacks", 0)]
    is_complete: Annotated[bool, about("all of its routes could be read, none is pending", True)]


class Meant(TypedDict):
    """A token that was taken out of holdings, because a position has what it represents."""

    mint: Annotated[str, about("address of the token", EXAMPLE_MINT)]
    amount_raw: Annotated[str, about("of it, in the smallest unit", "25000000")]


class Dex(TypedDict):
    """What trading came to, by lots: first in, first out. It is in no worth."""

    positions: Annotated[TopPositions, about("what is held, by lots, since the tape began")]
    pnl: Annotated[Pnl, about("what was realized")]


class Analysis(AsOf):
    """All that is known of a wallet."""

    wallet: Annotated[str, about("its address", EXAMPLE_WALLET)]
    net_worth: Annotated[NetWorth, about("assets without debts")]
    is_complete: Annotated[
        bool, about("nothing is missing: no error, nothing pending, all balances known", False)
    ]
    categories: Annotated[list[Category], about("positions by kind, those that there are")]
    holdings: Annotated[
        Holdings,
        about(
            "SOL and verified tokens, as `/holdings`, without the tokens that represent positions"
        ),
    ]
    taken_out: Annotated[
        list[Meant], about("tokens whose worth is in `positions`, and not in `holdings`")
    ]
    positions: Annotated[list[PositionRecord], about("most valuable first, each once")]
    dex: Annotated[Dex, about("DEX trading")]
    protocols: Annotated[list[ProtocolSum], about("the positions by protocol")]
    pending: Annotated[list[PendingMember], about("what belongs here and is not read")]
    coverage: Annotated[AccountsRead, about("which accounts the positions rest on")]
    errors: Annotated[list[PositionError], about("what could not be read; the rest is answered")]


class Worth(UpTo):
    """What a wallet is worth, as `/analyze` has it, with a state of its own."""

    net_worth: Annotated[NetWorth, about("assets without debts")]
    is_complete: Annotated[
        bool, about("nothing is missing: no error, nothing pending, all balances known", False)
    ]
    categories: Annotated[list[Category], about("positions by kind, those that there are")]
    pending: Annotated[list[PendingMember], about("what belongs here and is not read")]
    coverage: Annotated[AccountsRead, about("which accounts the positions rest on")]
    errors: Annotated[list[PositionError], about("what could not be read; the rest is answered")]


class PortfolioWithWorth(PortfolioAnswer):
    """A wallet at a glance, and what it is worth where that is asked for."""

    worth: NotRequired[
        Annotated[
            Worth,
            about("holdings and positions of all protocols: there with `include=positions`"),
        ]
    ]


NotTracked = Literal[
    "pending",
    "not_ingested",
    "lane_stalled",
    "key_limit",
    "limit",
    "not_asked",
    "too_many_accounts",
]


class NetWorthPoint(TypedDict):
    """What a wallet was worth in an interval: its last complete snapshot, else its last one."""

    start_ms: Annotated[int, about("when the interval begins", 1_763_697_600_000)]
    time_ms: Annotated[int, about("block time that it is as of", 1_763_700_000_000)]
    slot: Annotated[int, about("slot that it is as of", 341_204_118)]
    net_worth_usd: Annotated[
        float | None, about("assets without debts; null: `reasons` says why", 12_480.5)
    ]
    net_worth_usd_micros: Annotated[str | None, about(IN_MICROS, "12480500000")]
    assets_usd: Annotated[float | None, about("holdings, and all that positions have", 13_480.5)]
    assets_usd_micros: Annotated[str | None, about(IN_MICROS, "13480500000")]
    debts_usd: Annotated[float | None, about("what positions owed", 1000.0)]
    debts_usd_micros: Annotated[str | None, about(IN_MICROS, "1000000000")]
    is_complete: Annotated[
        bool, about("the sums are known; else they are null, as a part is no whole", True)
    ]
    reasons: Annotated[
        list[str],
        about("why they are null, as in `net_worth` of `/analyze`; `too_large`: no worth", []),
    ]
    unpriced: Annotated[int, about("assets of positions without a worth: in no sum", 0)]
    pending_routes: Annotated[
        int, about("kinds of positions that nothing read at that time: in no sum", 0)
    ]


class NetWorthOverTime(UpTo):
    """What a wallet was worth, interval by interval, from hourly snapshots."""

    wallet: Annotated[str, about("its address", EXAMPLE_WALLET)]
    interval: Annotated[str, about("as it was asked for", "1h")]
    interval_ms: Annotated[int, about("its length", 3_600_000)]
    from_ms: Annotated[int, about("beginning of the first interval", 1_763_611_200_000)]
    to_ms: Annotated[int, about("end of the last, not in it", 1_763_701_200_000)]
    points: Annotated[
        list[NetWorthPoint],
        about("oldest first; an interval without a snapshot has none, nothing is filled in"),
    ]
    since_ms: Annotated[
        int | None,
        about("block time of the first snapshot that is kept; null: none", 1_763_500_000_000),
    ]
    is_tracked: Annotated[bool, about("whether the wallet is tracked, so that more follow", True)]
    not_tracked_reason: Annotated[
        NotTracked | None,
        about(
            "null: it is tracked. `pending`: asked for, with this request; `not_ingested`: nothing "
            "follows accounts here; `lane_stalled`: what does has stopped; `key_limit`, `limit`: "
            "too many new wallets in this minute; `not_asked`: the store took no ask; "
            "`too_many_accounts`: no such wallet is followed",
            None,
        ),
    ]
    retention_days: Annotated[int, about("how long a snapshot is kept", 400)]
