"""The shapes of holdings, of the portfolio, and of many wallets at once."""

from __future__ import annotations

from typing import Annotated, Final, Literal, NotRequired

from typing_extensions import TypedDict

from api.docs.words import IN_MICROS, IN_SOL
from api.http.addresses import EXAMPLE_MINT, EXAMPLE_WALLET
from api.positions.answers import AggregatePositions
from api.tokens.answers import PriceSource
from api.wallets.position_answers import (
    AsOf,
    Open,
    PositionOf,
    Priced,
    Summary,
    Totals,
    Trading,
    UpTo,
    about,
)

Reason = Literal[
    "pending",
    "withdrawn",
    "not_followed",
    "key_limit",
    "limit",
    "too_many_wait",
    "not_asked",
    "lane_stalled",
    "not_ingested",
    "unreadable",
    "too_many_accounts",
]

COVERAGE: Final = (
    "An account is known from the first change of its balance that the tape saw, and is exact from "
    "then on. What has not moved since the tape began is not here."
)

COVERED: Final = (
    "All token accounts of the wallet, as the chain has them at `as_of_slot`, and its SOL as of "
    "`native.as_of_slot`."
)


class TokenAccount(TypedDict):
    """One token account."""

    account: Annotated[str, about("its address", EXAMPLE_WALLET)]
    amount_raw: Annotated[str, about("what it holds", "25000000000000")]
    amount: Annotated[
        float | None, about("the same in whole tokens; null: decimals not known", 25_000_000.0)
    ]
    is_frozen: Annotated[
        bool | None,
        about(
            "whether the token's freeze authority has frozen it; null: not known, as where "
            "`coverage.is_complete` is false",
            False,
        ),
    ]
    delegate: Annotated[
        str | None, about("who else may move a part of it; null: nobody, or not known", None)
    ]
    delegated_raw: Annotated[
        str | None, about("the part that the delegate may move; null: no delegate", None)
    ]


class Native(Priced):
    """The wallet's own SOL; wrapped SOL is a token."""

    lamports: Annotated[str, about("what the wallet's own account holds", "12500000000")]
    sol: Annotated[float, about(IN_SOL, 12.5)]
    as_of_slot: Annotated[
        int | None,
        about(
            "slot at the end of which it had them: no stream brings a wallet's own SOL. It is "
            "asked for with the wallet, again a minute after it was last, and may have moved "
            "since; null: as the tape saw it last",
            341_000_000,
        ),
    ]


class Holding(Priced):
    """What a wallet's accounts hold of one token."""

    mint: Annotated[str, about("address of the token", EXAMPLE_MINT)]
    name: Annotated[str | None, about("name of the token; null while not known", "Example")]
    symbol: Annotated[str | None, about("its symbol", "EXM")]
    decimals: Annotated[
        int | None, about("places behind the point; null while the mint is not known", 6)
    ]
    program: Annotated[Literal["token", "token-2022"], about("the token's program", "token")]
    is_verified: Annotated[
        bool,
        about(
            "SOL, USDC, USDT or USD1; or a token whose name or symbol is known from its creation "
            "or metadata, that has a published price of the last three days, and whose pools "
            "together hold 10 SOL of liquidity or more, or traded 100 SOL or more within the last "
            "day; or, without a price of a market, a share of a stake pool of 10 SOL or more, or "
            "of a pool of as much whose two tokens are so. It says that the value means "
            "something, not that the token is honest",
            True,
        ),
    ]
    amount_raw: Annotated[str, about("in all accounts that were read", "25000000000000")]
    amount: Annotated[
        float | None, about("the same in whole tokens; null: decimals not known", 25_000_000.0)
    ]
    shown_amount: Annotated[
        float | None,
        about(
            "what wallets show: `amount`, with the interest or the scale of a Token-2022 mint; "
            "null while the mint's account is not known. Prices and values are of `amount`",
            25_000_000.0,
        ),
    ]
    withheld_raw: Annotated[
        str | None,
        about(
            "transfer fees (Token-2022) that wait in the accounts to be collected: not the "
            "wallet's, and not in `amount_raw`; null: not known",
            "0",
        ),
    ]
    price_source: Annotated[
        PriceSource | None,
        about(
            "as of `/api/tokens/{mint}`. `pool`: a liquid-stake token, or an LP token of Raydium's "
            "AMM v4 or CPMM, that no market prices; `price_slot` is then of the pool's account; "
            "null: no price",
            "live",
        ),
    ]
    unsupported_fields: Annotated[
        list[str],
        about(
            "of an LP token without a price: what its pool lacks. A vault that is not known yet is "
            "asked for: ask again in a second",
            [],
        ),
    ]
    accounts: Annotated[list[TokenAccount], about("where it is, largest first")]


class Coverage(TypedDict):
    """How complete the balances are."""

    is_complete: Annotated[
        bool,
        about(
            "true: all token accounts of the wallet are here, as the chain has them at "
            "`as_of_slot`, and its SOL as of `native.as_of_slot`. False: `reason` says why not, "
            "and balances are what the tape saw",
            True,
        ),
    ]
    reason: Annotated[
        Reason | None,
        about(
            "why not; null: it is complete. `pending`: asked for, not here within `wait_ms`; "
            "`withdrawn`: it was complete, then a part of the chain was lost, and is asked for "
            "again; `not_followed`: nobody has asked `/api/wallets/{wallet}/holdings` lately; "
            "`key_limit`, `limit`: too many new wallets in this minute, of the key or in all; "
            "`too_many_wait`: asked for, and not waited; `not_asked`: the store took no ask; "
            "`lane_stalled`: the accounts are behind; `not_ingested`: no accounts are taken in; "
            "`unreadable`: an account cannot be read; `too_many_accounts`: more than 2,000, "
            "or 5,000 with those of the wallets before it in a batch",
            None,
        ),
    ]
    since_slot: Annotated[
        int | None,
        about(
            "slot from which all of it is known, where it is complete; else the first slot of the "
            "tape; null: not known",
            341_000_000,
        ),
    ]
    since_ms: Annotated[
        int | None, about("time of the tape's first block; null: not known", 1_763_600_000_000)
    ]
    known_accounts: Annotated[
        int, about("accounts of the wallet that hold something, its own among them", 23)
    ]
    read_accounts: Annotated[
        int,
        about(
            "of these in this answer: all of some 2,000, else any as many, the wallet's own SOL "
            "always among them. Where they are fewer than `known_accounts`, tokens are those of "
            "the accounts read, and the value of all is null",
            23,
        ),
    ]
    note: Annotated[str, about("the same in words", COVERED)]


class Holdings(TypedDict):
    """What a wallet holds, by its balances; most valuable first."""

    value_usd: Annotated[
        float | None,
        about(
            "of what is listed, SOL and tokens; null: nothing listed has a price, or not all "
            "accounts were read",
            2000.5,
        ),
    ]
    value_usd_micros: Annotated[str | None, about(IN_MICROS, "2000500000")]
    total_value_usd: Annotated[
        float | None,
        about("the same without `min_value_usd`: what it leaves out is counted as well", 2003.25),
    ]
    total_value_usd_micros: Annotated[str | None, about(IN_MICROS, "2003250000")]
    native: Annotated[
        Native | None, about("the wallet's SOL; null: not known, or left out (`hidden_native`)")
    ]
    tokens: Annotated[list[Holding], about("what the wallet holds, most valuable first")]
    hidden_native: Annotated[
        bool, about("SOL is left out: worth less than `min_value_usd`, or unpriced", False)
    ]
    hidden_unverified: Annotated[int, about("tokens left out as not verified", 4)]
    hidden_small: Annotated[
        int, about("verified tokens left out as worth less than `min_value_usd`, or unpriced", 1)
    ]
    coverage: Annotated[Coverage, about("how complete this is")]


class HoldingsAnswer(Holdings, AsOf):
    """What a wallet holds."""

    wallet: Annotated[str, about("its address", EXAMPLE_WALLET)]


class TopPositions(Open):
    """What the positions hold, and the most valuable of them."""

    position_count: Annotated[int, about("tokens that the wallet has a position in", 18)]
    is_complete: Annotated[
        bool, about("false: only the 1,000 positions with the newest trades are counted here", True)
    ]
    top: Annotated[list[PositionOf], about("the 20 of highest value")]


class HoldingsTotals(TypedDict):
    """What a wallet's balances come to."""

    value_usd: Annotated[
        float | None,
        about(
            "of SOL and of verified tokens; null: none has a price, or not all accounts were read",
            2000.5,
        ),
    ]
    value_usd_micros: Annotated[str | None, about(IN_MICROS, "2000500000")]
    native: Annotated[Native | None, about("the wallet's SOL; null: not known")]
    verified_tokens: Annotated[int, about("tokens that count in the value", 6)]
    unverified_tokens: Annotated[int, about("tokens that do not", 4)]
    coverage: Annotated[Coverage, about("how complete this is")]


class Pnl(TypedDict):
    """What was gained; what may be is in `positions`."""

    days_7: Annotated[Summary, about("the last seven days")]
    all_time: Annotated[Trading, about("since the tape began")]


class Portfolio(TypedDict):
    """A wallet at a glance."""

    holdings: Annotated[HoldingsTotals, about("by balances")]
    positions: Annotated[
        TopPositions, about("by lots: what came in and went out since the tape began")
    ]
    pnl: Annotated[Pnl, about("what was realized")]


class PortfolioAnswer(Portfolio, AsOf):
    """A wallet at a glance."""

    wallet: Annotated[str, about("its address", EXAMPLE_WALLET)]


class Positions(TypedDict):
    """The positions with the newest trades, and the totals of all."""

    totals: Annotated[Totals, about("over all positions")]
    positions: Annotated[list[PositionOf], about("the 50 with the newest trades")]


_Aggregate = Annotated[
    AggregatePositions, about("as `/all-...` of that name, with a state of its own")
]
# By calls, for `yield` is a word of Python's.
SectionsOfProtocols = TypedDict(
    "SectionsOfProtocols",
    {
        "lending": _Aggregate,
        "perps": _Aggregate,
        "staking": _Aggregate,
        "governance": _Aggregate,
        "lp": _Aggregate,
        "yield": _Aggregate,
        "rewards": _Aggregate,
    },
    total=False,
)


class BatchItem(AsOf, SectionsOfProtocols):
    """One wallet of a batch, with the sections asked for: none where it is in quarantine."""

    wallet: Annotated[str, about("its address", EXAMPLE_WALLET)]
    positions: NotRequired[Annotated[Positions, about("the newest, and the totals")]]
    holdings: NotRequired[Annotated[Holdings, about("verified balances")]]
    pnl: NotRequired[Annotated[Summary, about("the last seven days")]]
    portfolio: NotRequired[Annotated[Portfolio, about("the wallet at a glance")]]


class Batch(UpTo):
    """Many wallets, in the order asked; each is one state, `as_of_slot` the least of them."""

    include: Annotated[list[str], about("the sections", ["positions", "pnl"])]
    wallets: Annotated[list[BatchItem], about("each wallet once, in the order asked")]
