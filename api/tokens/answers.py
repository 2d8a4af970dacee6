"""The shapes of answers about tokens: facts, prices, holders, leaderboards, the trending list.

Raw integers are text, human numbers are beside them; what is not known is null, never 0.
"""

from __future__ import annotations

from typing import Annotated, Literal

from typing_extensions import TypedDict

from api.docs.words import IN_MICROS_THEN, IN_SOL, IN_USD, IN_WHOLE, OF_KNOWN_VALUE
from api.http.addresses import EXAMPLE_MINT, EXAMPLE_WALLET
from api.metadata.answers import MetadataAnswer
from api.metadata.failures import Reason as MetadataReason
from api.wallets.position_answers import AsOf, Unmatched, about

PriceSource = Literal["live", "settled", "reference", "par", "pool"]
SupplySource = Literal["account", "creation", "rpc"]
MintReason = Literal[
    "pending",
    "withdrawn",
    "not_found",
    "key_limit",
    "limit",
    "not_asked",
    "lane_stalled",
    "not_ingested",
    "unreadable",
]


class Named(TypedDict):
    """Which token it is."""

    mint: Annotated[str, about("address of the token", EXAMPLE_MINT)]
    name: Annotated[str | None, about("its name; null while not known", "Example")]
    symbol: Annotated[str | None, about("its symbol", "EXM")]
    decimals: Annotated[int | None, about("places behind the point", 6)]


class Supplied(TypedDict):
    """How much there is of a token."""

    supply_raw: Annotated[
        str | None,
        about(
            "as `supply_source` says; of `creation` or `rpc`, what is minted or burned since is "
            "not seen. A mint's account is followed from when the token, its price or its holders "
            "were asked for, or a wallet that holds it; that it trades is not enough",
            "1000000000000000",
        ),
    ]
    supply: Annotated[float | None, about(IN_WHOLE, 1_000_000_000.0)]
    supply_source: Annotated[
        SupplySource | None,
        about(
            "`account`: of the mint's account, which is followed, as of `as_of_slot`; `creation`: "
            "of the event that created it; `rpc`: of its account, when asked",
            "account",
        ),
    ]
    supply_time_ms: Annotated[
        int | None, about("when that was; null for `account`, which is of now", None)
    ]
    supply_slot: Annotated[
        int | None,
        about(
            "slot of the last change of the mint's account that is known, or of the creation; "
            "null: not known",
            341_204_000,
        ),
    ]


class PricedThen(TypedDict):
    """What a token cost when it was traded last."""

    price_sol: Annotated[float | None, about("SOL for a whole token; null: no price", 1.2e-7)]
    price_usd: Annotated[float | None, about("dollars for a whole token", 1.8e-5)]
    price_time_ms: Annotated[int | None, about("time of the price's last trade", 1_763_699_990_000)]
    price_slot: Annotated[int | None, about("slot of that trade", 341_204_093)]
    price_source: Annotated[
        PriceSource | None,
        about(
            "`live`: the last published price; `settled`: not published for three days, the price "
            "that its market was left with; `reference`: SOL, as swaps are valued with it; `par`: "
            "a dollar coin (USDC, USDT, USD1) without a price of its own, taken for one dollar; "
            "`pool`: a liquid-stake token that no market prices, by its pool's own figures, or an "
            "LP token, by its pool's reserves while a wallet with it is asked for; with the slot "
            "of the pool's account",
            "live",
        ),
    ]
    market_cap_usd: Annotated[float | None, about("`supply` times `price_usd`", 18_000.0)]


class PricedNow(TypedDict):
    """What that says at the chain's last block."""

    is_price_stale: Annotated[
        bool | None, about("that trade is an hour older than the chain's last block", False)
    ]
    change_24h_pct: Annotated[
        float | None,
        about(
            "change of `price_usd` within a day, in per cent; null: no price a day ago, or one of "
            "source `par` or `pool`, of which no earlier price is kept",
            12.5,
        ),
    ]


class About(Named, Supplied):
    """What a token is: by the chain's events first, then by RPC."""

    uri: Annotated[str | None, about("of its metadata", "https://example.com/m.json")]
    token_program: Annotated[
        str | None,
        about("owner of the mint's account", "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"),
    ]
    creator: Annotated[str | None, about("wallet that created it; null: not seen", EXAMPLE_WALLET)]
    platform: Annotated[str | None, about("launch platform, a slug; null: none known", "pump-fun")]
    dex: Annotated[str | None, about("venue that it was created on", "pump-fun")]
    pool: Annotated[str | None, about("its first pool or bonding curve", EXAMPLE_WALLET)]
    quote_mint: Annotated[
        str | None,
        about("what that pool trades it for", "So11111111111111111111111111111111111111112"),
    ]
    created_slot: Annotated[int | None, about("slot of the creation; null: not seen", 341_190_000)]
    created_ms: Annotated[int | None, about("time of that block", 1_763_699_000_000)]
    is_migrated: Annotated[bool, about("whether it was seen to leave its curve for a pool", False)]
    migrated_slot: Annotated[int | None, about("slot of the migration", 341_200_000)]
    migrated_ms: Annotated[int | None, about("time of that block", 1_763_699_500_000)]
    migrated_dex: Annotated[str | None, about("venue that it left for", "pump-swap")]
    migrated_pool: Annotated[str | None, about("pool that it left for", EXAMPLE_WALLET)]


class TokenThen(About, PricedThen):
    """A token as its last trade, event and balance left it."""

    creator_balance_raw: Annotated[
        str | None, about("what the creator holds; null: not known who that is", "20000000000000")
    ]
    creator_balance: Annotated[float | None, about(IN_WHOLE, 20_000_000.0)]
    creator_pct: Annotated[float | None, about("that in per cent of the supply", 2.0)]
    bonding_curve_pct: Annotated[
        float | None, about("how much of its curve is done; null: none, or not known", 41.7)
    ]
    liquidity_lamports: Annotated[
        str | None,
        about(
            "in all pools where it is known, both sides: those that disclose it and are quoted in "
            "SOL or a dollar coin; null: in none",
            "61200000000",
        ),
    ]
    liquidity_sol: Annotated[float | None, about(IN_SOL, 61.2)]
    holder_count: Annotated[
        int | None,
        about(
            "owners with a balance, as far as they were seen; null: nobody follows them, as of "
            "SOL and dollar coins",
            312,
        ),
    ]
    last_activity_ms: Annotated[
        int | None, about("time of the last trade, event or change of a balance", 1_763_699_990_000)
    ]


class TokenNow(PricedNow):
    """What that says at the chain's last block."""

    liquidity_usd: Annotated[
        float | None, about("`liquidity_sol` in dollars, at SOL's price now", 9_180.0)
    ]


class TokenFacts(TokenThen, TokenNow):
    """A token: what it is, what it costs, what its market is like."""


class LastDay(TypedDict):
    """Trades of the last 24 hours, to within a quarter of an hour."""

    buys: Annotated[int, about("swaps that bought it", 120)]
    sells: Annotated[int, about("swaps that sold it", 80)]
    traders: Annotated[int, about("different wallets among them", 75)]
    buy_volume_usd_micros: Annotated[
        str, about(f"purchases, in millionths of a dollar; {OF_KNOWN_VALUE}", "5100000000")
    ]
    buy_volume_usd: Annotated[float, about(IN_USD, 5_100.0)]
    sell_volume_usd_micros: Annotated[
        str, about(f"sales, in millionths of a dollar; {OF_KNOWN_VALUE}", "4200000000")
    ]
    sell_volume_usd: Annotated[float, about(IN_USD, 4_200.0)]
    volume_usd_micros: Annotated[
        str, about(f"both, in millionths of a dollar; {OF_KNOWN_VALUE}", "9300000000")
    ]
    volume_usd: Annotated[float, about(IN_USD, 9_300.0)]
    volume_lamports: Annotated[str, about(f"both, in lamports; {OF_KNOWN_VALUE}", "62000000000")]
    volume_sol: Annotated[float, about(IN_SOL, 62.0)]


class MintAccountAnswer(TypedDict):
    """What a token's mint account says beside its supply."""

    changed_slot: Annotated[int, about("slot of its last change that is known", 341_204_000)]
    mint_authority: Annotated[
        str | None, about("who may mint more; null: nobody, the supply is fixed", None)
    ]
    freeze_authority: Annotated[
        str | None, about("who may freeze accounts of the token; null: nobody", None)
    ]
    close_authority: Annotated[
        str | None, about("who may close the mint once there is no supply; null: nobody", None)
    ]
    permanent_delegate: Annotated[
        str | None, about("who may move or burn everybody's tokens; null: nobody", None)
    ]
    transfer_hook: Annotated[
        str | None, about("program that every transfer calls; null: none", None)
    ]
    transfer_fee_bps: Annotated[
        int | None,
        about("fee on transfers, in hundredths of a per cent, as last set; null: none", None),
    ]
    extensions: Annotated[
        list[str], about("extensions of Token-2022 that the mint has, by name", [])
    ]


class Token(TokenFacts, AsOf):
    """A token, its mint's account, and its last 24 hours."""

    mint_account: Annotated[
        MintAccountAnswer | None, about("null: not known, `mint_account_reason` says why")
    ]
    mint_account_reason: Annotated[
        MintReason | None,
        about(
            "null: it is known. `pending`: it was asked for, ask again; `withdrawn`: it was known, "
            "and is asked for again; `not_found`: there is no such account; `key_limit`, `limit`: "
            "too many new ones in this minute, of the key or in all; `not_asked`: the store took "
            "no ask; `lane_stalled`: the accounts are behind; `not_ingested`: no accounts are "
            "taken in; `unreadable`: it is no mint",
            None,
        ),
    ]
    metadata: Annotated[
        MetadataAnswer | None,
        about("what its `uri` says; null: not known, `metadata_reason` says why"),
    ]
    metadata_reason: Annotated[
        MetadataReason | None,
        about(
            "null: it is known. `no_uri`: there is none; `pending`: it is being fetched, ask "
            "again; `busy`: too many are; `refused`: the URI may not be asked; `unreachable`, "
            "`timeout`, `http_error`, `redirects`, `too_large`, `bad_encoding`, `not_json`: what "
            "came of it, asked again later; `off`: nothing is fetched here",
            None,
        ),
    ]
    metadata_detail: Annotated[str | None, about("the same in words", None)]
    day: Annotated[LastDay | None, about("null: no trade was seen; of SOL it is not counted")]


class TokenPrice(Named, Supplied, PricedThen, PricedNow, AsOf):
    """What a token costs."""


class Tokens(AsOf):
    """Many tokens, in the order asked for."""

    tokens: list[TokenFacts]
    unknown: Annotated[list[str], about("mints of which nothing is known", [])]


class Pool(TypedDict):
    """One pool of a token, as its last swap left it."""

    pool: Annotated[str, about("its address", EXAMPLE_WALLET)]
    dex: Annotated[str, about("venue, a slug", "pump-swap")]
    quote_mint: Annotated[
        str | None,
        about(
            "what it trades the token for; null: no trade since this is kept",
            "So11111111111111111111111111111111111111112",
        ),
    ]
    price_sol: Annotated[
        float | None,
        about(
            "SOL for a whole token in this pool, by its last swap above dust; null: there was none "
            "of known value",
            1.2e-7,
        ),
    ]
    price_usd: Annotated[float | None, about("the same in dollars, at that time", 1.8e-5)]
    reserve_raw: Annotated[
        str | None, about("of the token; null: the venue does not say", "206900000000000")
    ]
    reserve: Annotated[float | None, about(IN_WHOLE, 206_900_000.0)]
    liquidity_lamports: Annotated[
        str | None,
        about(
            "both sides, taken for equal; null: not known, as where the quote is neither SOL nor a "
            "dollar coin",
            "169900000000",
        ),
    ]
    liquidity_sol: Annotated[float | None, about(IN_SOL, 169.9)]
    liquidity_usd: Annotated[
        float | None, about("the same in dollars, at SOL's price now", 25_497.0)
    ]
    last_trade_slot: Annotated[int, about("slot of its last swap", 341_204_093)]
    last_trade_ms: Annotated[int, about("time of that block", 1_763_699_990_000)]
    day: LastDay


class Pools(Named, AsOf):
    """Where a token trades; deepest first, at most 64. Of SOL: its pools with dollar coins."""

    pools: list[Pool]


class Holder(TypedDict):
    """An owner, over all accounts."""

    rank: Annotated[int, about("from 1, by balance", 1)]
    address: Annotated[str, about("the owner", EXAMPLE_WALLET)]
    balance_raw: Annotated[str, about("what all accounts of it hold", "20000000000000")]
    balance: Annotated[float | None, about(IN_WHOLE, 20_000_000.0)]
    supply_pct: Annotated[
        float | None,
        about(
            "that in per cent of `supply`; null: the supply is not known, or it is of another time "
            "than the balances",
            2.0,
        ),
    ]


HolderReason = Literal[
    "created_on_tape",
    "money",
    "pending",
    "withdrawn",
    "key_limit",
    "limit",
    "not_asked",
    "lane_stalled",
    "not_ingested",
]


class HolderCoverage(TypedDict):
    """What the list of holders has, and what it leaves out."""

    is_seeded: Annotated[
        bool,
        about("the chain's largest token accounts are among these, exact as of `as_of_slot`", True),
    ]
    reason: Annotated[
        HolderReason | None,
        about(
            "null: they are. `created_on_tape`: not asked for, as all transfers through venues "
            "were seen; `money`: SOL and dollar coins; `pending`: asked for, ask again; "
            "`withdrawn`: the node refuses, or they were known and are asked for again, see "
            "`note`; `key_limit`, `limit`: too many new asks in this minute, of the key or in "
            "all; `not_asked`: the store took no ask; `lane_stalled`: the accounts are behind; "
            "`not_ingested`: no accounts are taken in",
            None,
        ),
    ]
    largest_slot: Annotated[
        int | None, about("slot at which these were the largest; followed since", 341_204_000)
    ]
    largest_accounts: Annotated[int | None, about("how many there were, 20 at most", 20)]
    unseen_at_most_raw: Annotated[
        str | None,
        about(
            "no other token account had more at `largest_slot`; null: there was no other, or the "
            "largest are not known",
            "1200000000",
        ),
    ]
    note: Annotated[str, about("the same in words")]


class Holders(Named, Supplied, AsOf):
    """Who holds most of a token."""

    holder_count: Annotated[
        int | None, about("owners with a balance that were seen; null: nobody follows them", 312)
    ]
    creator: Annotated[str | None, about("wallet that created the token", EXAMPLE_WALLET)]
    holders: Annotated[list[Holder], about("largest first")]
    coverage: Annotated[HolderCoverage, about("what these figures have and leave out")]


class Trader(Unmatched):
    """A wallet and what it made of a token, first in, first out, fees not counted."""

    rank: Annotated[int, about("from 1, by `realized_usd`, then by address", 1)]
    wallet: Annotated[str, about("its address", EXAMPLE_WALLET)]
    realized_usd_micros: Annotated[
        str,
        about(
            "gain of what was sold or burned from lots of known cost, in millionths of a "
            "dollar, each trade valued at its own time",
            "300000000",
        ),
    ]
    realized_usd: Annotated[float, about(IN_USD, 300.0)]
    realized_lamports: Annotated[str, about("the same gain in lamports", "2000000000")]
    realized_sol: Annotated[float, about(IN_SOL, 2.0)]
    realized_pct: Annotated[
        float | None, about("`realized_usd` in per cent of the cost of what was sold", 20.0)
    ]
    bought_raw: Annotated[str, about("bought so far", "125000000000000")]
    bought: Annotated[float | None, about(IN_WHOLE, 125_000_000.0)]
    bought_usd_micros: Annotated[
        str, about(f"paid at known values, {IN_MICROS_THEN}", "1875000000")
    ]
    bought_usd: Annotated[float, about(IN_USD, 1875.0)]
    sold_raw: Annotated[str, about("sold so far", "100000000000000")]
    sold: Annotated[float | None, about(IN_WHOLE, 100_000_000.0)]
    sold_usd_micros: Annotated[
        str, about(f"taken in at known values, {IN_MICROS_THEN}", "2100000000")
    ]
    sold_usd: Annotated[float, about(IN_USD, 2100.0)]
    held_raw: Annotated[str, about("in open lots", "25000000000000")]
    held: Annotated[float | None, about(IN_WHOLE, 25_000_000.0)]
    buys: Annotated[int, about("transactions that bought, net", 12)]
    sells: Annotated[int, about("transactions that sold, net", 9)]
    wins: Annotated[int, about("sales that realized a gain in dollars", 5)]
    losses: Annotated[int, about("sales that realized a loss in dollars", 3)]
    first_trade_ms: Annotated[int | None, about("time of the first trade", 1_763_100_000_000)]
    last_trade_ms: Annotated[int | None, about("time of the last trade", 1_763_698_400_000)]


class TokenTraders(Named):
    """Who realized most with a token."""

    traders: Annotated[
        list[Trader], about("wallets with a realized gain or loss, largest gain first")
    ]
    note: Annotated[
        str | None, about("why nobody can be listed, in words; null for most tokens", None)
    ]


class Leaderboard(TokenTraders, AsOf):
    """Who realized most with a token."""


class Leaderboards(AsOf):
    """Those of many tokens, in the order asked for."""

    leaderboards: list[TokenTraders]
    unknown: Annotated[list[str], about("mints of which nothing is known", [])]


class TrendingToken(TypedDict):
    """A token of the list: the fields of the live stream of trending pairs, rank and score."""

    rank: Annotated[int, about("from 1, among the tokens of all platforms", 1)]
    score: Annotated[
        float,
        about(
            "of the wallets that traded it within 5 minutes, an hour and a day, each counted "
            "once by the logarithm of its dollars",
            512.5,
        ),
    ]
    mint: Annotated[str, about("address of the token", EXAMPLE_MINT)]
    name: Annotated[str | None, about("its name; null while not known", "Example")]
    symbol: Annotated[str | None, about("its symbol", "EXM")]
    dex: Annotated[str, about("its launch platform, a slug", "pump-fun")]
    creator: Annotated[str | None, about("wallet that created it; null: not seen", EXAMPLE_WALLET)]
    price_usd: Annotated[float | None, about("dollars for a whole token", 1.8e-5)]
    market_cap: Annotated[float | None, about("`supply` times `price_usd`", 18_000.0)]
    liquidity_usd: Annotated[float | None, about("in all pools where known, both sides", 9_180.0)]
    buy_count: Annotated[int, about("swaps of 24 hours that bought it", 120)]
    sell_count: Annotated[int, about("swaps of 24 hours that sold it", 80)]
    buy_volume_24h: Annotated[float, about(f"dollars of the purchases; {OF_KNOWN_VALUE}", 5_100.0)]
    sell_volume_24h: Annotated[float, about(f"dollars of the sales; {OF_KNOWN_VALUE}", 4_200.0)]
    total_volume_24h: Annotated[float, about(f"dollars of both; {OF_KNOWN_VALUE}", 9_300.0)]
    holder_count: Annotated[int, about("owners with a balance, as far as they were seen", 312)]
    top10_holders_pct: Annotated[
        float | None, about("what the ten largest hold, in per cent of the supply", 17.3)
    ]
    dev_holding_pct: Annotated[
        float | None, about("what its creator holds, in per cent of the supply", 2.0)
    ]
    bonding_curve_pct: Annotated[
        float | None, about("how much of its curve is done; null: not known", 41.7)
    ]
    is_migrated: Annotated[bool, about("whether it has left its curve", False)]
    supply: Annotated[float | None, about("in whole tokens", 1_000_000_000.0)]
    decimals: Annotated[int | None, about("places behind the point", 6)]


class Trending(AsOf):
    """Launch tokens that trend, best first."""

    tokens: list[TrendingToken]
