"""Drift's instructions: bytes, logs, events and effects.

Encodings are those of its IDL 2.150.0; errors those of its `ErrorCode`. As in the program, a trade
and the settling of gains settle the user's funding first, each with an event in the logs.
"""

from __future__ import annotations

from dataclasses import replace
from struct import Struct
from typing import Final, NamedTuple

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.anchor_events import EventLayout, Values
from infra.chain.market.runtime.drift import (
    INTEREST,
    MARKET_INDEX,
    ORACLE_DECIMALS,
    STATS_BYTES,
    USER_BYTES,
    LazerOracle,
    PerpMarket,
    SpotMarket,
    User,
    UserStats,
    filled,
    rent_lamports,
    scaled,
    with_pnl,
)
from infra.chain.market.runtime.events import FundingPayment
from infra.chain.market.runtime.execution import Execution, InstructionError, mask
from infra.chain.market.runtime.ledger import Mint
from infra.chain.market.runtime.programs import (
    DRIFT,
    INSTRUCTIONS_SYSVAR,
    RENT_SYSVAR,
    SYSTEM,
    anchor_tag,
    pda,
)
from infra.chain.market.runtime.stake_program import set_native

NOT_FOUND: Final = 3012  # Anchor's AccountNotInitialized
INSUFFICIENT_DEPOSIT: Final = 6002
INSUFFICIENT_COLLATERAL: Final = 6003

STATE: Final = pda(DRIFT, b"drift_state")
SIGNER: Final = pda(DRIFT, b"drift_signer")
LAZER_STORAGE: Final = pda(DRIFT, b"pyth_lazer_storage")

PAYMENT: Final = EventLayout(
    "FundingPaymentRecord",
    "ts:i64 user_authority:pubkey user:pubkey market_index:u16 funding_payment:i64"
    " base_asset_amount:i64 user_last_cumulative_funding:i64"
    " amm_cumulative_funding_long:i128 amm_cumulative_funding_short:i128",
)
RATE: Final = EventLayout(
    "FundingRateRecord",
    "ts:i64 record_id:u64 market_index:u16 funding_rate:i64 funding_rate_long:i128"
    " funding_rate_short:i128 cumulative_funding_rate_long:i128"
    " cumulative_funding_rate_short:i128 oracle_price_twap:i64 mark_price_twap:u64"
    " period_revenue:i64 base_asset_amount_with_amm:i128"
    " base_asset_amount_with_unsettled_lp:i128",
)
DEPOSIT: Final = EventLayout(
    "DepositRecord",
    "ts:i64 user_authority:pubkey user:pubkey direction:u8 deposit_record_id:u64 amount:u64"
    " market_index:u16 oracle_price:i64 market_deposit_balance:u128 market_withdraw_balance:u128"
    " market_cumulative_deposit_interest:u128 market_cumulative_borrow_interest:u128"
    " total_deposits_after:u64 total_withdraws_after:u64 explanation:u8 transfer_user:pubkey?"
    " signer:pubkey? user_token_amount_after:i128",
)
SETTLED: Final = EventLayout(
    "SettlePnlRecord",
    "ts:i64 user:pubkey market_index:u16 pnl:i128 base_asset_amount:i64"
    " quote_asset_amount_after:i64 quote_entry_amount:i64 settle_price:i64 explanation:u8",
)
ACTION: Final = EventLayout(
    "OrderActionRecord",
    "ts:i64 action:u8 action_explanation:u8 market_index:u16 market_type:u8 filler:pubkey?"
    " filler_reward:u64? fill_record_id:u64? base_asset_amount_filled:u64?"
    " quote_asset_amount_filled:u64? taker_fee:u64? maker_fee:i64? referrer_reward:u32?"
    " quote_asset_amount_surplus:i64? spot_fulfillment_method_fee:u64? taker:pubkey?"
    " taker_order_id:u32? taker_order_direction:u8? taker_order_base_asset_amount:u64?"
    " taker_order_cumulative_base_asset_amount_filled:u64?"
    " taker_order_cumulative_quote_asset_amount_filled:u64? maker:pubkey? maker_order_id:u32?"
    " maker_order_direction:u8? maker_order_base_asset_amount:u64?"
    " maker_order_cumulative_base_asset_amount_filled:u64?"
    " maker_order_cumulative_quote_asset_amount_filled:u64? oracle_price:i64 bit_flags:u8"
    " taker_existing_quote_entry_amount:u64? taker_existing_base_asset_amount:u64?"
    " maker_existing_quote_entry_amount:u64? maker_existing_base_asset_amount:u64?"
    " trigger_price:u64? builder_idx:u8? builder_fee:u64?",
)

_INDEX: Final = MARKET_INDEX.to_bytes(2, "little")
_INIT_STATS: Final = anchor_tag("initialize_user_stats")
_INIT_USER: Final = anchor_tag("initialize_user")
_DEPOSIT: Final = anchor_tag("deposit")
_WITHDRAW: Final = anchor_tag("withdraw")
_TRADE: Final = anchor_tag("place_and_take_perp_order")
_SETTLE_FUNDING: Final = anchor_tag("settle_funding_payment")
_SETTLE_PNL: Final = anchor_tag("settle_pnl")
_UPDATE_RATE: Final = anchor_tag("update_funding_rate")
_POST_ORACLE: Final = anchor_tag("post_pyth_lazer_oracle_update")
_ORDER: Final = Struct("<BBBBQQH11B").pack
_LAZER_MESSAGE: Final = Struct("<I64s32sHIQqBIBq").pack
_FILL, _WITH_AMM = 2, 6
_UNITS: Final = 30_000


class Markets(NamedTuple):
    """The addresses that instructions name."""

    perp: bytes
    spot: bytes
    oracle: bytes
    spot_oracle: bytes
    vault: bytes
    mint: Mint


class Account(NamedTuple):
    """A wallet's user and its statistics."""

    authority: bytes
    user: bytes
    stats: bytes


def account(wallet: bytes) -> Account:
    """Return where a wallet's first user is."""
    user = pda(DRIFT, b"user", wallet, bytes(2))
    return Account(wallet, user, pda(DRIFT, b"user_stats", wallet))


def initialize(tx: Execution, of: Account) -> None:
    """Make a wallet's statistics, without which it can have no user."""
    accounts = (of.stats, STATE, of.authority, of.authority, RENT_SYSVAR, SYSTEM.address)
    tx.enter(DRIFT, accounts, _INIT_STATS, mask("ww-w--"))
    tx.log("Program log: Instruction: InitializeUserStats")
    rent = rent_lamports(STATS_BYTES)
    spl.create_account(tx, of.authority, of.stats, rent, STATS_BYTES, DRIFT, has_bytes=True)
    set_native(tx, of.stats, UserStats(of.authority))
    tx.leave(8_000)


def initialize_user(tx: Execution, of: Account) -> None:
    """Make an empty user."""
    accounts = (
        *(of.user, of.stats, STATE, of.authority, of.authority, RENT_SYSVAR, SYSTEM.address),
    )
    data = _INIT_USER + bytes(2) + b"Main Account".ljust(32)
    tx.enter(DRIFT, accounts, data, mask("www-w--"))
    tx.log("Program log: Instruction: InitializeUser")
    rent = rent_lamports(USER_BYTES)
    spl.create_account(tx, of.authority, of.user, rent, USER_BYTES, DRIFT, has_bytes=True)
    set_native(tx, of.user, User(of.authority, active_slot=tx.slot))
    tx.leave(12_000)


def deposit(tx: Execution, of: Account, at: Markets, amount_raw: int) -> None:
    """Put USDC in."""
    own = tx.ledger.associated(of.authority, at.mint)
    accounts = (
        *(STATE, of.user, of.stats, of.authority, at.vault, own, at.mint.program.address),
        *(at.spot_oracle, at.spot),
    )
    data = _DEPOSIT + _INDEX + amount_raw.to_bytes(8, "little") + b"\0"
    tx.enter(DRIFT, accounts, data, mask("-ww-ww--w"))
    tx.log("Program log: Instruction: Deposit")
    user, spot = _user(tx, of), _spot(tx, at)
    after = replace(
        user,
        deposit_raw=user.deposit_raw + amount_raw,
        deposited_usd=user.deposited_usd + amount_raw,
        active_slot=tx.slot,
    )
    spl.transfer(tx, own, at.vault, of.authority, amount_raw)
    _moved(tx, of, at, after, spot, amount_raw)
    tx.leave(_UNITS)


def withdraw(tx: Execution, of: Account, at: Markets, amount_raw: int) -> None:
    """Take USDC out, as far as the position does not need it."""
    own = tx.ledger.associated(of.authority, at.mint)
    accounts = (
        *(STATE, of.user, of.stats, of.authority, at.vault, SIGNER, own),
        *(at.mint.program.address, at.oracle, at.spot_oracle, at.spot, at.perp),
    )
    data = _WITHDRAW + _INDEX + amount_raw.to_bytes(8, "little") + b"\1"
    tx.enter(DRIFT, accounts, data, mask("-ww-w-w---w-"))
    tx.log("Program log: Instruction: Withdraw")
    user, spot = _user(tx, of), _spot(tx, at)
    if amount_raw > user.deposit_raw:
        raise InstructionError(INSUFFICIENT_DEPOSIT)
    after = replace(
        user,
        deposit_raw=user.deposit_raw - amount_raw,
        withdrawn_usd=user.withdrawn_usd + amount_raw,
        active_slot=tx.slot,
    )
    _check_margin(tx, at, after)
    spl.transfer(tx, at.vault, own, SIGNER, amount_raw)
    _moved(tx, of, at, after, spot, -amount_raw)
    tx.leave(_UNITS)


def trade(tx: Execution, of: Account, at: Markets, base: int) -> None:
    """Buy SOL of the AMM, or sell it where `base` is negative, at its price of now."""
    accounts = (STATE, of.user, of.stats, of.authority, at.oracle, at.spot_oracle, at.spot, at.perp)
    direction = base < 0
    order = _ORDER(*(0, 1, direction, 0, abs(base), 0, MARKET_INDEX), *[0] * 11)
    tx.enter(DRIFT, accounts, _TRADE + order, mask("-ww----w"))
    tx.log("Program log: Instruction: PlaceAndTakePerpOrder")
    user = _user(tx, of)
    market = _looked(tx, at)
    user, market = _settle(tx, of, user, market)
    if user.base and (user.base > 0) != (base > 0) and abs(base) > abs(user.base):
        base = -user.base
    order_id = user.next_order_id
    user, market, worth, fee = filled(user, market, base, market.mark, tx.slot)
    if base and (user.base > 0) == (base > 0):
        _check_margin(tx, at, user)
    stats = tx.ledger.natives[of.stats]
    assert isinstance(stats, UserStats)
    paid = replace(
        stats,
        paid_fees_usd=stats.paid_fees_usd + fee,
        volume_usd=stats.volume_usd + worth,
        traded_s=tx.time_s,
    )
    set_native(tx, of.user, user)
    set_native(tx, of.stats, paid)
    set_native(tx, at.perp, market)
    values: dict[str, int | bytes | bool | None] = dict.fromkeys(
        field.name for field in ACTION.fields
    )
    values |= {
        "ts": tx.time_s,
        "action": _FILL,
        "action_explanation": _WITH_AMM,
        "market_index": MARKET_INDEX,
        "market_type": 1,
        "fill_record_id": market.next_fill_id - 1,
        "base_asset_amount_filled": abs(base),
        "quote_asset_amount_filled": worth,
        "taker_fee": fee,
        "taker": of.user,
        "taker_order_id": order_id,
        "taker_order_direction": direction,
        "taker_order_base_asset_amount": abs(base),
        "taker_order_cumulative_base_asset_amount_filled": abs(base),
        "taker_order_cumulative_quote_asset_amount_filled": worth,
        "oracle_price": market.price,
        "bit_flags": 0,
    }
    tx.emit_log(ACTION.encode(values))
    tx.leave(4 * _UNITS)


def settle_funding(tx: Execution, of: Account, at: Markets) -> None:
    """Settle a user's funding; anybody may."""
    tx.enter(DRIFT, (STATE, of.user, at.perp), _SETTLE_FUNDING, mask("-ww"))
    tx.log("Program log: Instruction: SettleFundingPayment")
    user, market = _settle(tx, of, _user(tx, of), _market(tx, at))
    set_native(tx, of.user, user)
    set_native(tx, at.perp, market)
    tx.leave(9_000)


def settle_pnl(tx: Execution, of: Account, at: Markets) -> None:
    """Pay a user what its closed position has brought, or take it from the deposit."""
    accounts = (
        *(STATE, of.user, of.authority, at.vault, at.oracle, at.spot_oracle, at.spot, at.perp),
    )
    tx.enter(DRIFT, accounts, _SETTLE_PNL + _INDEX, mask("-w----ww"))
    tx.log("Program log: Instruction: SettlePnl")
    user, market = _settle(tx, of, _user(tx, of), _looked(tx, at))
    user, market, pnl = with_pnl(user, market)
    set_native(tx, of.user, user)
    set_native(tx, at.perp, market)
    values: Values = {
        "ts": tx.time_s,
        "user": of.user,
        "market_index": MARKET_INDEX,
        "pnl": pnl,
        "base_asset_amount": user.base,
        "quote_asset_amount_after": user.quote,
        "quote_entry_amount": user.entry,
        "settle_price": market.price,
        "explanation": 0,
    }
    tx.emit_log(SETTLED.encode(values))
    tx.leave(_UNITS)


def update_rate(tx: Execution, at: Markets) -> None:
    """Add the funding of another period."""
    accounts = (STATE, at.perp, at.oracle)
    tx.enter(DRIFT, accounts, _UPDATE_RATE + _INDEX, mask("-w-"))
    tx.log("Program log: Instruction: UpdateFundingRate")
    before = _looked(tx, at)
    market = before.funded(tx.time_s)
    set_native(tx, at.perp, market)
    values: Values = {
        "ts": tx.time_s,
        "record_id": before.next_rate_id,
        "market_index": MARKET_INDEX,
        "funding_rate": market.last_rate,
        "funding_rate_long": market.last_rate,
        "funding_rate_short": market.last_rate,
        "cumulative_funding_rate_long": market.cumulative_long,
        "cumulative_funding_rate_short": market.cumulative_short,
        "oracle_price_twap": market.price,
        "mark_price_twap": market.mark,
        "period_revenue": 0,
        "base_asset_amount_with_amm": market.long_base + market.short_base,
        "base_asset_amount_with_unsettled_lp": 0,
    }
    tx.emit_log(RATE.encode(values))
    tx.leave(_UNITS)


def post_oracle(tx: Execution, keeper: bytes, at: Markets, price: int) -> None:
    """Report a price of SOL, with 8 decimals."""
    message = _LAZER_MESSAGE(
        *(0, bytes(64), bytes(32), 0, 0, tx.time_s * 1_000_000, price, 1, 6, 1, -ORACLE_DECIMALS)
    )
    data = _POST_ORACLE + len(message).to_bytes(4, "little") + message
    accounts = (keeper, LAZER_STORAGE, INSTRUCTIONS_SYSVAR, at.oracle)
    tx.enter(DRIFT, accounts, data, mask("w--w"))
    tx.log("Program log: Instruction: PostPythLazerOracleUpdate")
    set_native(tx, at.oracle, LazerOracle(price, tx.time_s, tx.slot))
    tx.leave(15_000)


def _user(tx: Execution, of: Account) -> User:
    user = tx.ledger.natives.get(of.user)
    if not isinstance(user, User):
        raise InstructionError(NOT_FOUND)
    return user


def _market(tx: Execution, at: Markets) -> PerpMarket:
    market = tx.ledger.natives[at.perp]
    assert isinstance(market, PerpMarket)
    return market


def _spot(tx: Execution, at: Markets) -> SpotMarket:
    spot = tx.ledger.natives[at.spot]
    assert isinstance(spot, SpotMarket)
    return spot


def _oracle(tx: Execution, at: Markets) -> LazerOracle:
    oracle = tx.ledger.natives[at.oracle]
    assert isinstance(oracle, LazerOracle)
    return oracle


def _looked(tx: Execution, at: Markets) -> PerpMarket:
    """Return the market at the oracle's price of now."""
    price = _oracle(tx, at).usd
    return replace(_market(tx, at), price=price, time_s=tx.time_s, slot=tx.slot)


def _settle(tx: Execution, of: Account, user: User, market: PerpMarket) -> tuple[User, PerpMarket]:
    """Settle funding, and emit the payment, where there is a position and a new rate."""
    if not user.base or market.cumulative(user.base) == user.last_cumulative:
        return user, market
    values: Values = {
        "ts": tx.time_s,
        "user_authority": user.authority,
        "user": of.user,
        "market_index": MARKET_INDEX,
        "funding_payment": user.payment(market),
        "base_asset_amount": user.base,
        "user_last_cumulative_funding": user.last_cumulative,
        "amm_cumulative_funding_long": market.cumulative_long,
        "amm_cumulative_funding_short": market.cumulative_short,
    }
    here, at = len(tx.instructions) - 1, len(tx.logs)
    tx.emit_log(PAYMENT.encode(values))
    tx.funding.append(FundingPayment(here, at, PAYMENT, values))
    return user.settled(market)


def _check_margin(tx: Execution, at: Markets, user: User) -> None:
    price = _oracle(tx, at).usd
    if not user.has_margin(price):
        raise InstructionError(INSUFFICIENT_COLLATERAL)


def _moved(
    tx: Execution, of: Account, at: Markets, user: User, spot: SpotMarket, amount_raw: int
) -> None:
    """Put the user and the spot market after a deposit, or a withdrawal that is negative."""
    after = replace(
        spot,
        deposits_raw=spot.deposits_raw + amount_raw,
        next_deposit_id=spot.next_deposit_id + 1,
        time_s=tx.time_s,
    )
    set_native(tx, of.user, user)
    set_native(tx, at.spot, after)
    values: Values = {
        "ts": tx.time_s,
        "user_authority": user.authority,
        "user": of.user,
        "direction": amount_raw < 0,
        "deposit_record_id": spot.next_deposit_id,
        "amount": abs(amount_raw),
        "market_index": 0,
        "oracle_price": 1_000_000,
        "market_deposit_balance": scaled(after.deposits_raw),
        "market_withdraw_balance": 0,
        "market_cumulative_deposit_interest": INTEREST,
        "market_cumulative_borrow_interest": INTEREST,
        "total_deposits_after": user.deposited_usd,
        "total_withdraws_after": user.withdrawn_usd,
        "explanation": 0,
        "transfer_user": None,
        "signer": user.authority,
        "user_token_amount_after": user.deposit_raw,
    }
    tx.emit_log(DEPOSIT.encode(values))
