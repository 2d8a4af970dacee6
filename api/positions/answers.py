"""The shapes of positions: what a wallet has of a protocol, and how complete that is.

Raw integers are text, with numbers for people beside them. What is not known is null and never 0.
"""

from __future__ import annotations

from typing import Annotated, Literal

from typing_extensions import TypedDict

from api.docs.words import IN_MICROS, IN_SOL, IN_USD, IN_WHOLE
from api.http.addresses import EXAMPLE_WALLET
from api.wallets.position_answers import UpTo, about

_SOL = "So11111111111111111111111111111111111111112"
_USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
_STAKE = "3BxzV3jkjTDpHgVvBmzcTpYJdWmbVs7pQQMxq7XKkqVv"
_VOTE = "CertusDeBmqN8ZawdkxK5kFGMwBXdudvWHYwtNgNhvLu"


class AssetAnswer(TypedDict):
    """One line of a position."""

    role: Annotated[
        Literal["supply", "borrow", "reward", "locked", "pending"],
        about(
            "`supply`: at the wallet's disposal; `borrow`: owed; `reward`: not claimed; `locked`: "
            "not to be withdrawn now; `pending`: on its way out",
            "locked",
        ),
    ]
    mint: Annotated[str, about("address of the token", _SOL)]
    symbol: Annotated[str | None, about("its symbol; null while not known", "SOL")]
    amount_raw: Annotated[str | None, about("in the smallest unit; null: not known", "25000000000")]
    amount: Annotated[float | None, about(IN_WHOLE, 25.0)]
    price_usd: Annotated[float | None, about("dollars for a whole token; null: no price", 150.0)]
    price_source: Annotated[
        Literal["market", "pool", "par", "protocol"] | None,
        about(
            "`market`, `pool`: our price, as in holdings, of a market or by the pool that the "
            "token is a share of; `par`: a dollar coin without a price; `protocol`: what the "
            "protocol last saw, where ours is missing or not verified",
            "market",
        ),
    ]
    price_slot: Annotated[
        int | None,
        about(
            "slot of the trade that the price comes from, of `pool` of the pool's account, of "
            "`par` up to which markets are known; null: no price, or the protocol's",
            381_000_000,
        ),
    ]
    is_verified: Annotated[
        bool,
        about(
            "whether the price counts: it is the protocol's, or the token is verified as in "
            "holdings, and the market it is in is verified if anybody could open one; all else is "
            "worth nothing in any sum",
            True,
        ),
    ]
    value_usd_micros: Annotated[str | None, about(IN_MICROS, "3750000000")]
    value_usd: Annotated[
        float | None, about(f"{IN_USD}; null: no amount, or no price that counts", 3750.0)
    ]


RewardsReason = Literal["pending", "limit", "not_asked", "too_many"]


class StakeRewardAnswer(TypedDict):
    """What an epoch paid to a stake account."""

    epoch: Annotated[int, about("the epoch it was earned in", 811)]
    lamports: Annotated[
        str | None, about("what was paid; null: nothing, or not known, see `reason`", "12500000")
    ]
    sol: Annotated[float | None, about(IN_SOL, 0.0125)]
    balance_lamports: Annotated[str | None, about("of the account with it", "25012500000")]
    balance_sol: Annotated[float | None, about(IN_SOL, 25.0125)]
    commission_pct: Annotated[
        int | None, about("what the validator kept, in per cent; null: the node does not say", 5)
    ]
    slot: Annotated[int | None, about("of the block that paid it", 350_784_000)]
    reason: Annotated[
        str | None,
        about("`not_paid`: the epoch paid nothing; else why the node does not say, in its words"),
    ]


class StakeAnswer(TypedDict):
    """A stake account."""

    validator: Annotated[
        str | None, about("vote account that it is delegated to; null: none", _VOTE)
    ]
    status: Annotated[
        Literal["inactive", "activating", "active", "deactivating"],
        about("of the delegation, in `epoch`", "active"),
    ]
    effective_lamports: Annotated[
        str | None,
        about(
            "what counts for the validator in `epoch`, by the cluster's stake history; null: "
            "that is not known",
            "25000000000",
        ),
    ]
    effective_sol: Annotated[float | None, about(IN_SOL, 25.0)]
    epoch: Annotated[int, about("of the chain, by its clock", 820)]
    epoch_slot: Annotated[int, about("slot of that clock", 354_240_017)]
    activation_epoch: Annotated[
        int | None, about("from which it activates; null: not delegated, or since genesis", 812)
    ]
    deactivation_epoch: Annotated[
        int | None, about("from which it deactivates; null: it does not", None)
    ]
    authority: Annotated[
        Literal["withdrawer", "staker"],
        about(
            "the wallet's. A withdrawer owns the lamports; a staker only says what is delegated, "
            "and the position has no assets",
            "withdrawer",
        ),
    ]
    locked_until_ms: Annotated[
        int | None, about("nothing may be withdrawn until then; null: no lockup in force", None)
    ]
    locked_until_epoch: Annotated[int | None, about("nor until this epoch", None)]
    rewards: Annotated[
        list[StakeRewardAnswer] | None,
        about("of the last five complete epochs, newest first; null: see `rewards_reason`"),
    ]
    rewards_reason: Annotated[
        RewardsReason | None,
        about(
            "null: they are known. `pending`: asked for, ask again; `limit`: too many new asks in "
            "this minute; `not_asked`: the store took no ask; `too_many`: rewards of a hundred "
            "accounts of a wallet are listed",
            None,
        ),
    ]


class HealthAnswer(TypedDict):
    """How far a loan is from its liquidation."""

    health_factor: Annotated[
        float | None,
        about(
            "weighted collateral by weighted debt: below 1 it may be liquidated; null: no debt, or "
            "not known, see `unsupported_fields`",
            1.42,
        ),
    ]
    ltv: Annotated[float | None, about("weighted debt by collateral; null likewise", 0.53)]
    liquidation_ltv: Annotated[
        float | None, about("the `ltv` from which it may be liquidated; null: not known", 0.75)
    ]
    at_risk: Annotated[
        bool | None,
        about("whether the health factor is below 1; null where that is null", False),
    ]
    prices: Annotated[
        Literal["protocol"],
        about("health uses the prices and weights of the protocol, the values of assets ours"),
    ]


class RangeAnswer(TypedDict):
    """Between which prices liquidity earns; a price is of a whole `base` in whole `quote`."""

    base: Annotated[str, about("mint of the token that is priced", _SOL)]
    quote: Annotated[str, about("mint of the token it is priced in", _USDC)]
    lower_index: Annotated[
        int | None, about("first tick or bin of the range; null: any price", -19_200)
    ]
    upper_index: Annotated[int | None, about("the last that is in it; null likewise", -18_100)]
    current_index: Annotated[
        int | None, about("tick or bin of the pool's price; null: not known", -18_974)
    ]
    lower: Annotated[
        float | None, about("price; null: any, or the decimals of a token are not known", 146.6)
    ]
    upper: Annotated[float | None, about("likewise", 163.7)]
    current: Annotated[float | None, about("the pool's price", 150.0)]
    is_in_range: Annotated[
        bool | None, about("whether the liquidity earns now; null: not known", True)
    ]


class LockAnswer(TypedDict):
    """What keeps a part of a position from being withdrawn, and until when."""

    kind: Annotated[
        Literal["permanent", "vesting", "cooldown", "escrow", "term"],
        about("`permanent`: for ever; `term`: until a date", "vesting"),
    ]
    locked_raw: Annotated[
        str | None,
        about(
            "of what the position counts: liquidity, shares or tokens; null: not known", "750000"
        ),
    ]
    claimable_raw: Annotated[
        str | None, about("of it, what is free already; null: not known", "250000")
    ]
    ends_ms: Annotated[
        int | None, about("when it ends; null: never, or not by time", 1_790_000_000_000)
    ]
    ends_slot: Annotated[int | None, about("likewise, by slot", None)]


class PerpAnswer(TypedDict):
    """An open bet on a price; dollars by the protocol's prices, what it is worth is in `assets`."""

    symbol: Annotated[str | None, about("the market, as the protocol writes it", "SOL-PERP")]
    side: Annotated[Literal["long", "short"], about("which way it bets", "long")]
    size: Annotated[float | None, about("whole units of what is traded", 12.5)]
    notional_usd: Annotated[float | None, about("size at the mark price", 1875.0)]
    entry_price_usd: Annotated[float | None, about("mean price it was opened at", 142.0)]
    mark_price_usd: Annotated[float | None, about("as the protocol last saw it", 150.0)]
    liquidation_price_usd: Annotated[
        float | None,
        about("mark price at which it is liquidated; null: none above 0, or not known", 96.4),
    ]
    leverage: Annotated[float | None, about("notional by collateral", 3.2)]
    unrealized_usd: Annotated[
        float | None, about("profit or loss by the price, without fees and funding", 100.0)
    ]
    funding_usd: Annotated[
        float | None,
        about("funding and borrow fees not settled: received, or owed where negative", -1.25),
    ]


class MarginAnswer(TypedDict):
    """What backs an account's bets and loans together, by the protocol's prices and weights."""

    collateral_usd: Annotated[float | None, about("weighted, for maintenance", 5400.0)]
    maintenance_usd: Annotated[
        float | None, about("required; with less collateral it is liquidated", 950.0)
    ]
    initial_usd: Annotated[float | None, about("required to open more", 1800.0)]
    free_usd: Annotated[float | None, about("what may back more", 3600.0)]
    leverage: Annotated[float | None, about("of the whole account", 1.7)]
    health_pct: Annotated[
        float | None, about("0 to 100, as the protocol shows it; 0 is liquidated", 82.0)
    ]


class VotingAnswer(TypedDict):
    """What a deposit or lock counts for in votes."""

    power_raw: Annotated[
        str | None, about("votes, in the unit that the program counts; null: not known", "750000")
    ]
    open_votes: Annotated[
        int | None,
        about("votes not relinquished, until then nothing can be withdrawn; null: not known", 0),
    ]
    delegate: Annotated[str | None, about("who votes with it; null: the wallet itself", None)]


class PointsAnswer(TypedDict):
    """A count that a protocol keeps for its users; no mint represents it, and nothing prices it."""

    name: Annotated[str, about("what it counts, as the protocol writes it", "fuel_taker")]
    amount: Annotated[str, about("how many", "1840")]


class PositionRecord(TypedDict):
    """One position."""

    position_id: Annotated[
        str,
        about("its account; the NFT's mint, or what else names it where that has several", _STAKE),
    ]
    protocol: Annotated[str, about("slug of the protocol", "staking")]
    route: Annotated[str, about("path below the slug", "native")]
    market: Annotated[str | None, about("the market, pool or group it is in; null: none", None)]
    is_verified_market: Annotated[
        bool,
        about(
            "false: anybody can open the lending market, group or farm it rests on, and this one "
            "is not verified. Then the position is in no sum, and `soltape watch` sends no alert "
            "of it",
            True,
        ),
    ]
    slot: Annotated[int, about("of the account's last version", 341_200_007)]
    reference_slot: Annotated[
        int | None, about("the oldest of the other accounts it was computed from", 341_204_117)
    ]
    assets: Annotated[list[AssetAnswer], about("what it is made of")]
    supplied_usd_micros: Annotated[
        str | None,
        about(
            "millionths of a dollar: all but debts and rewards; null: nothing of it has a price, "
            "an amount is not known, or it is a loan that counts 0, see `value_usd_micros`",
            "3750000000",
        ),
    ]
    supplied_usd: Annotated[float | None, about(IN_USD, 3750.0)]
    borrowed_usd_micros: Annotated[str | None, about("debts, likewise", None)]
    borrowed_usd: Annotated[float | None, about(IN_USD, None)]
    rewards_usd_micros: Annotated[
        str | None, about("rewards that were not claimed, likewise", None)
    ]
    rewards_usd: Annotated[float | None, about(IN_USD, None)]
    value_usd_micros: Annotated[
        str | None,
        about(
            "supplied and rewards without borrowed; null: nothing has a price, an amount is not "
            "known, or a debt has no price. Where that is so of a loan that anybody can give a "
            "wallet, it counts without what is not known of its deposits; 0 where a debt is not "
            "known, or the deposits that are known are worth less than the debts",
            "3750000000",
        ),
    ]
    value_usd: Annotated[float | None, about(IN_USD, 3750.0)]
    stake: Annotated[StakeAnswer | None, about("of a stake account; null: it is none")]
    health: Annotated[HealthAnswer | None, about("of a loan; null: it is none")]
    range: Annotated[RangeAnswer | None, about("of liquidity in a range; null: it is none")]
    locks: Annotated[list[LockAnswer], about("what keeps parts of it from being withdrawn")]
    perp: Annotated[PerpAnswer | None, about("of a bet on a price; null: it is none")]
    margin: Annotated[MarginAnswer | None, about("of a margin account; null: it is none")]
    voting: Annotated[VotingAnswer | None, about("of a deposit that votes; null: it is none")]
    points: Annotated[list[PointsAnswer], about("what the protocol counts without a token")]
    unsupported_fields: Annotated[
        list[str], about("what is null in this position and not computed, and why", [])
    ]


class MissingPrograms(TypedDict):
    """Programs of a protocol of which not all accounts are known."""

    missing: Annotated[int, about("how many", 1)]
    of: Annotated[int, about("programs of which all accounts must be known for its positions", 1)]
    addresses: Annotated[list[str], about("of the missing ones, 5 at most", [_STAKE])]


class PositionError(TypedDict):
    """What could not be read."""

    protocol: Annotated[
        str | None,
        about(
            "slug of the protocol; null: several alike, or the account cannot be named", "staking"
        ),
    ]
    account: Annotated[
        str | None, about("account, or the one program; null: none of its own, or several", _STAKE)
    ]
    code: Annotated[
        Literal["not_covered", "unreadable", "reference_missing", "not_supported"],
        about(
            "`not_covered`: not all accounts of the program, or of the wallet, are known; "
            "`unreadable`: bytes are not "
            "what they should be; `reference_missing`: an account that is needed is not known; "
            "`not_supported`: this is not computed",
            "not_covered",
        ),
    ]
    detail: Annotated[str, about("what is wrong, in words", "bootstrap has not ended")]
    programs: Annotated[
        MissingPrograms | None,
        about("of `not_covered`, one a protocol; null: it is not about programs"),
    ]


class AccountsRead(TypedDict):
    """Which accounts the answer rests on."""

    since_slot: Annotated[
        int | None,
        about("slot from which all accounts of the programs are known; null: not all are", 341_000),
    ]
    known_accounts: Annotated[int, about("accounts that name the wallet, of all programs", 12)]
    read_accounts: Annotated[
        int, about("of these read: 1,000 at most. Where they are fewer, sums are null", 12)
    ]


class ProtocolPositions(UpTo):
    """What a wallet has of a protocol."""

    wallet: Annotated[str, about("its address", EXAMPLE_WALLET)]
    protocol: Annotated[str, about("slug of the protocol", "staking")]
    name: Annotated[str, about("what the protocol is called", "native_stake")]
    identified: Annotated[
        Literal["certain", "likely", "guess"],
        about("how sure it is that the slug means this protocol", "certain"),
    ]
    positions: Annotated[list[PositionRecord], about("most valuable first")]
    value_usd: Annotated[
        float | None,
        about(
            "of the positions; null: nothing has a price, not all could be read, an amount is not "
            "known, or a debt has no price",
            3750.0,
        ),
    ]
    value_usd_micros: Annotated[str | None, about(IN_MICROS, "3750000000")]
    unpriced: Annotated[
        int, about("assets without a worth: no price, or no amount. No sum has them", 0)
    ]
    is_complete: Annotated[bool, about("all positions are here, and nothing went wrong", True)]
    coverage: Annotated[AccountsRead, about("which accounts this rests on")]
    errors: Annotated[list[PositionError], about("what could not be read; the rest is answered")]
    unsupported_fields: Annotated[
        list[str], about("what the protocol has and this answer lacks", [])
    ]


class ProtocolSum(TypedDict):
    """What an aggregate has of one protocol."""

    protocol: Annotated[str, about("slug of the protocol", "p01")]
    routes: Annotated[list[str], about("its routes that are in it", ["lending"])]
    name: Annotated[str, about("what the protocol is called", "kamino")]
    identified: Annotated[
        Literal["certain", "likely", "guess"],
        about("how sure it is that the slug means this protocol", "certain"),
    ]
    value_usd: Annotated[
        float | None, about("of its positions; null as the sum of all, by itself", 3750.0)
    ]
    value_usd_micros: Annotated[str | None, about(IN_MICROS, "3750000000")]
    unpriced: Annotated[int, about("its assets without a worth", 0)]
    is_complete: Annotated[bool, about("all of its positions are here", True)]
    unsupported_fields: Annotated[
        list[str], about("what the protocol has and this answer lacks", [])
    ]


class PendingMember(TypedDict):
    """A route that belongs to the aggregate, and that nothing reads here."""

    protocol: Annotated[str, about("slug of the protocol", "p11")]
    route: Annotated[str, about("path below the slug", "lp")]
    reason: Annotated[str, about("why, in words", "this protocol is not read yet")]


class AggregatePositions(UpTo):
    """What a wallet has of several protocols."""

    wallet: Annotated[str, about("its address", EXAMPLE_WALLET)]
    aggregate: Annotated[str, about("which", "all-lending")]
    positions: Annotated[list[PositionRecord], about("most valuable first, each once")]
    value_usd: Annotated[
        float | None,
        about(
            "of the positions; null: nothing has a price, something could not be read, an amount "
            "is not known, or a debt has no price. What is `pending` is not in it",
            3750.0,
        ),
    ]
    value_usd_micros: Annotated[str | None, about(IN_MICROS, "3750000000")]
    unpriced: Annotated[int, about("assets without a worth: no price, or no amount", 0)]
    is_complete: Annotated[
        bool, about("all positions are here: nothing went wrong, and nothing is pending", False)
    ]
    protocols: Annotated[list[ProtocolSum], about("the same by protocol")]
    pending: Annotated[list[PendingMember], about("what belongs here and is not read")]
    coverage: Annotated[AccountsRead, about("which accounts this rests on")]
    errors: Annotated[list[PositionError], about("what could not be read; the rest is answered")]
