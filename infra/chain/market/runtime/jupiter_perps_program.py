"""Jupiter Perps' instructions: bytes, logs, events and effects.

Encodings and errors are those of its IDL 0.1.0. A wallet asks for a change, and a keeper makes it
in another transaction; or both sign one, and it is instant.
"""

from __future__ import annotations

from dataclasses import replace
from struct import Struct
from typing import Final, NamedTuple

from infra.chain.market.runtime import jupiter_perps_events as events
from infra.chain.market.runtime import spl
from infra.chain.market.runtime.anchor_events import EventLayout, Values
from infra.chain.market.runtime.doves import MICRO_USD, AgPriceFeed
from infra.chain.market.runtime.events import PerpChange
from infra.chain.market.runtime.execution import Execution, InstructionError, mask
from infra.chain.market.runtime.jupiter_perps import (
    DECREASE,
    INCREASE,
    LONG,
    POSITION_BYTES,
    POSITION_RENT_LAMPORTS,
    REQUEST_BYTES,
    REQUEST_RENT_LAMPORTS,
    Custody,
    Decreased,
    Fees,
    Increased,
    Pool,
    Position,
    PositionRequest,
    aum_usd,
    decreased,
    increased,
)
from infra.chain.market.runtime.ledger import Mint
from infra.chain.market.runtime.programs import (
    ASSOCIATED_TOKEN,
    JUPITER_PERPS,
    SYSTEM,
    TOKEN,
    anchor_tag,
    pda,
    pda_and_bump,
)
from infra.chain.market.runtime.stake_program import set_native

INVALID_POSITION: Final = 6009
INVALID_REQUEST: Final = 6016
TOKEN_AMOUNT: Final = 6019
MAX_SLIPPAGE: Final = 6021
MAX_LEVERAGE: Final = 6022
CUSTODY_LIMIT: Final = 6023

POOL, POOL_BUMP = pda_and_bump(JUPITER_PERPS, b"pool", b"Pool")
LP_MINT, LP_BUMP = pda_and_bump(JUPITER_PERPS, b"lp_token_mint", POOL)
PERPETUALS: Final = pda(JUPITER_PERPS, b"perpetuals")
AUTHORITY: Final = pda(JUPITER_PERPS, b"transfer_authority")

_SELF: Final = (JUPITER_PERPS.event_authority, JUPITER_PERPS.address)
_ASK_INCREASE: Final = anchor_tag("create_increase_position_market_request")
_ASK_DECREASE: Final = anchor_tag("create_decrease_position_market_request")
_INCREASE: Final = anchor_tag("increase_position4")
_DECREASE: Final = anchor_tag("decrease_position4")
_CLOSE_REQUEST: Final = anchor_tag("close_position_request3")
_LIQUIDATE: Final = anchor_tag("liquidate_full_position4")
_INSTANT_INCREASE: Final = anchor_tag("instant_increase_position")
_INSTANT_DECREASE: Final = anchor_tag("instant_decrease_position")
_INCREASE_PARAMS: Final = Struct("<QQBQBQ").pack
_DECREASE_PARAMS: Final = Struct("<QQQBBBQ").pack
_INSTANT_INCREASE_PARAMS: Final = Struct("<QBQBQq").pack
_INSTANT_DECREASE_PARAMS: Final = Struct("<QQQBBq").pack
_UNITS: Final = 60_000


class Listed(NamedTuple):
    """A custody's constants: the addresses that instructions name."""

    address: bytes
    mint: Mint
    vault: bytes
    doves: bytes
    doves_ag: bytes

    @property
    def oracles(self) -> tuple[bytes, bytes, bytes]:
        """Return the custody and its oracles, as instructions name them."""
        return self.address, self.doves_ag, self.doves


class Place(NamedTuple):
    """Where a wallet's position of one side is, or will be."""

    wallet: bytes
    address: bytes
    bump: int
    side: int
    custody: Listed
    collateral: Listed


class Request(NamedTuple):
    """What a wallet asks for: `collateral_raw` is tokens to put in, or dollars to take out."""

    place: Place
    address: bytes
    bump: int
    counter: int
    change: int
    size_usd: int
    collateral_raw: int
    price_slippage: int
    is_entire: bool = False


class Keepers(NamedTuple):
    """Who signs beside the owner of an instant change."""

    keeper: bytes
    api_keeper: bytes


def place(wallet: bytes, side: int, custody: Listed, collateral: Listed) -> Place:
    """Return where a wallet's position is."""
    seeds = (b"position", wallet, POOL, custody.address, collateral.address, bytes((side,)))
    return Place(wallet, *pda_and_bump(JUPITER_PERPS, *seeds), side, custody, collateral)


def request_address(of: Place, counter: int, change: int) -> tuple[bytes, int]:
    """Return where a request about a position is, and its bump."""
    seeds = (b"position_request", of.address, counter.to_bytes(8, "little"), bytes((change,)))
    return pda_and_bump(JUPITER_PERPS, *seeds)


def ask(tx: Execution, request: Request) -> None:
    """Create a request; an increase leaves its tokens with it, and a place for the position."""
    of, ledger = request.place, tx.ledger
    wallet, mint = of.wallet, of.collateral.mint
    own, kept = ledger.associated(wallet, mint), ledger.associated(request.address, mint)
    nobody = JUPITER_PERPS.address  # Anchor's stand-in for an account that is left out
    is_increase = request.change == INCREASE
    accounts = (
        *(wallet, own, PERPETUALS, POOL, of.address, request.address, kept),
        *(of.custody.address, of.collateral.address, mint.address, nobody, TOKEN.address),
        *(ASSOCIATED_TOKEN.address, SYSTEM.address, *_SELF),
    )
    if is_increase:
        data = _ASK_INCREASE + _INCREASE_PARAMS(
            *(request.size_usd, request.collateral_raw, of.side, request.price_slippage, 0),
            request.counter,
        )
        name = "CreateIncreasePositionMarketRequest"
    else:
        data = _ASK_DECREASE + _DECREASE_PARAMS(
            *(request.collateral_raw, request.size_usd, request.price_slippage, 0, 1),
            *(request.is_entire, request.counter),
        )
        name = "CreateDecreasePositionMarketRequest"
    tx.enter(JUPITER_PERPS, accounts, data, mask("ww--www---------"))
    tx.log(f"Program log: Instruction: {name}")
    position = tx.ledger.natives.get(of.address)
    if position is None:
        if not is_increase:
            raise InstructionError(INVALID_POSITION)
        _create_position(tx, of)
    spl.create_account(
        tx,
        *(wallet, request.address, REQUEST_RENT_LAMPORTS, REQUEST_BYTES, JUPITER_PERPS),
        has_bytes=True,
    )
    spl.create_associated(tx, wallet, request.address, mint, idempotent=False)
    if is_increase:
        spl.transfer(tx, own, kept, wallet, request.collateral_raw)
    asked = PositionRequest(
        *(wallet, POOL, of.custody.address, of.address, mint.address, tx.time_s),
        *(request.change, of.side, request.counter, request.bump, request.price_slippage),
        *(request.size_usd, request.collateral_raw, request.is_entire),
    )
    set_native(tx, request.address, asked)
    values: Values = {
        **_about(of),
        "owner": wallet,
        "pool": POOL,
        "position_collateral_mint": mint.address,
        "position_request_key": request.address,
        "position_request_mint": mint.address,
        "size_usd_delta": request.size_usd,
        "collateral_delta": request.collateral_raw,
        "price_slippage": request.price_slippage,
        "jupiter_minimum_out": None,
        "pre_swap_amount": None,
        "request_change": request.change,
        "open_time": tx.time_s,
        "referral": None,
    }
    tx.emit_cpi(JUPITER_PERPS, events.REQUEST_CREATED.encode(values))
    tx.leave(_UNITS)


def increase(tx: Execution, keeper: bytes, request: Request) -> None:
    """Do what a request to increase asks for, with the tokens that were left with it."""
    of, kept = request.place, tx.ledger.associated(request.address, request.place.collateral.mint)
    accounts = (
        *(keeper, PERPETUALS, POOL, request.address, kept, of.address),
        *(*of.custody.oracles, *of.collateral.oracles, of.collateral.vault),
        *(TOKEN.address, *_SELF),
    )
    here = tx.enter(JUPITER_PERPS, accounts, _INCREASE, mask("--wwwww--w--w---"))
    tx.log("Program log: Instruction: IncreasePosition4")
    asked = _asked(tx, request)
    done = _increased(tx, of, asked.size_usd, asked.collateral_raw, asked.price_slippage)
    spl.transfer(tx, kept, of.collateral.vault, request.address, asked.collateral_raw)
    set_native(tx, request.address, replace(asked, is_executed=True))
    values: Values = {
        **_increase_values(tx, of, done, asked.size_usd, asked.price_slippage),
        **_request_values(request),
        "position_request_collateral_delta": asked.collateral_raw,
    }
    _emit(tx, here, of, events.INCREASED, values)
    tx.leave(_UNITS)


def decrease(tx: Execution, keeper: bytes, request: Request) -> None:
    """Do what a request to decrease asks for; what comes out is left with it."""
    of, kept = request.place, tx.ledger.associated(request.address, request.place.collateral.mint)
    accounts = (
        *(keeper, of.wallet, AUTHORITY, PERPETUALS, POOL, request.address, kept, of.address),
        *(*of.custody.oracles, *of.collateral.oracles, of.collateral.vault),
        *(TOKEN.address, *_SELF),
    )
    here = tx.enter(JUPITER_PERPS, accounts, _DECREASE, mask("-w--wwwww--w--w---"))
    tx.log("Program log: Instruction: DecreasePosition4")
    asked = _asked(tx, request)
    before = _position(tx, of)
    size_usd = before.size_usd if asked.is_entire else asked.size_usd
    done = _decreased(tx, of, before, size_usd, asked.collateral_raw, asked.price_slippage)
    spl.transfer(tx, of.collateral.vault, kept, AUTHORITY, done.paid_raw)
    set_native(tx, request.address, replace(asked, is_executed=True))
    values: Values = {
        **_decrease_values(tx, of, before, done, size_usd, asked.price_slippage),
        **_request_values(request),
    }
    _emit(tx, here, of, events.DECREASED, values)
    tx.leave(_UNITS)


def close_request(tx: Execution, keeper: bytes, request: Request) -> None:
    """Close a request, whether it was done or not; its tokens and the rent go to the owner."""
    of, ledger = request.place, tx.ledger
    mint = of.collateral.mint
    own, kept = ledger.associated(of.wallet, mint), ledger.associated(request.address, mint)
    accounts = (
        *(keeper, of.wallet, own, POOL, request.address, kept, of.address, of.custody.address),
        *(mint.address, TOKEN.address, SYSTEM.address, ASSOCIATED_TOKEN.address, *_SELF),
    )
    tx.enter(JUPITER_PERPS, accounts, _CLOSE_REQUEST, mask("wwwwww-w------"))
    tx.log("Program log: Instruction: ClosePositionRequest3")
    asked = _any_asked(tx, request)
    amount_raw = ledger.balance(kept)
    if amount_raw:
        spl.transfer(tx, kept, own, request.address, amount_raw)
    spl.close_account(tx, kept, of.wallet, request.address)
    tx.move_lamports(request.address, of.wallet, ledger.lamports[request.address])
    set_native(tx, request.address, None)
    values: Values = {
        "entire_position": asked.is_entire if request.change == DECREASE else None,
        "executed": asked.is_executed,
        "request_change": request.change,
        "request_type": 0,
        "side": of.side,
        "position_request_key": request.address,
        "owner": of.wallet,
        "mint": mint.address,
        "amount": amount_raw,
        "open_time": asked.time_s,
    }
    tx.emit_cpi(JUPITER_PERPS, events.REQUEST_CLOSED.encode(values))
    tx.leave(_UNITS)


def instant_increase(
    tx: Execution, keepers: Keepers, of: Place, size_usd: int, amount_raw: int, slippage: int
) -> None:
    """Increase at once; the owner signs as well."""
    own = tx.ledger.associated(of.wallet, of.collateral.mint)
    nobody = JUPITER_PERPS.address
    accounts = (
        *(*keepers, of.wallet, own, PERPETUALS, POOL, of.address),
        *(*of.custody.oracles, *of.collateral.oracles, of.collateral.vault),
        *(nobody, nobody, TOKEN.address, SYSTEM.address, *_SELF),
    )
    data = _INSTANT_INCREASE + _INSTANT_INCREASE_PARAMS(
        size_usd, 1, amount_raw, of.side, slippage, tx.time_s
    )
    here = tx.enter(JUPITER_PERPS, accounts, data, mask("--ww-www--w--w------"))
    tx.log("Program log: Instruction: InstantIncreasePosition")
    if of.address not in tx.ledger.natives:
        _create_position(tx, of)
    done = _increased(tx, of, size_usd, amount_raw, slippage)
    spl.transfer(tx, own, of.collateral.vault, of.wallet, amount_raw)
    values = _increase_values(tx, of, done, size_usd, slippage)
    _emit(tx, here, of, events.INSTANTLY_INCREASED, values)
    tx.leave(_UNITS)


def instant_decrease(
    tx: Execution,
    keepers: Keepers,
    of: Place,
    size_usd: int | None,
    withdrawn_usd: int,
    slippage: int,
) -> None:
    """Decrease at once; None: all of it."""
    own = tx.ledger.associated(of.wallet, of.collateral.mint)
    nobody = JUPITER_PERPS.address
    accounts = (
        *(*keepers, of.wallet, own, AUTHORITY, PERPETUALS, POOL, of.address),
        *(*of.custody.oracles, *of.collateral.oracles, of.collateral.vault),
        *(of.collateral.mint.address, nobody, TOKEN.address, ASSOCIATED_TOKEN.address),
        *(SYSTEM.address, *_SELF),
    )
    is_entire = size_usd is None
    data = _INSTANT_DECREASE + _INSTANT_DECREASE_PARAMS(
        withdrawn_usd, size_usd or 0, slippage, 1, is_entire, tx.time_s
    )
    here = tx.enter(JUPITER_PERPS, accounts, data, mask("--ww--www--w--w-------"))
    tx.log("Program log: Instruction: InstantDecreasePosition")
    before = _position(tx, of)
    size = before.size_usd if size_usd is None else size_usd
    done = _decreased(tx, of, before, size, withdrawn_usd, slippage)
    spl.transfer(tx, of.collateral.vault, own, AUTHORITY, done.paid_raw)
    values: Values = {
        **_decrease_values(tx, of, before, done, size, slippage),
        "desired_mint": of.collateral.mint.address,
        "position_request": None,
    }
    _emit(tx, here, of, events.INSTANTLY_DECREASED, values)
    tx.leave(_UNITS)


def liquidate(tx: Execution, signer: bytes, of: Place) -> None:
    """Close a position whose collateral is used up; the pool keeps what is left."""
    accounts = (
        *(signer, PERPETUALS, POOL, of.address, *of.custody.oracles, *of.collateral.oracles),
        *(of.collateral.vault, *_SELF),
    )
    here = tx.enter(JUPITER_PERPS, accounts, _LIQUIDATE, mask("--www--w--w--"))
    tx.log("Program log: Instruction: LiquidateFullPosition4")
    before = _position(tx, of)
    sides, prices = _sides(tx, of), _prices(tx, of)
    if not before.is_liquidatable(sides[1].accrued(tx.time_s), prices[0]):
        raise InstructionError(INVALID_POSITION)
    size_usd = before.size_usd
    done = decreased(before, sides, prices, size_usd, 0, tx.time_s, is_liquidation=True)
    if done is None:
        raise InstructionError(CUSTODY_LIMIT)
    _put(tx, of, done)
    values: Values = {
        **_about(of),
        **_fees(done.fees),
        **_outcome(before, done),
        "position_collateral_mint": of.collateral.mint.address,
        "position_size_usd": size_usd,
        "owner": of.wallet,
        "pool": POOL,
        "transfer_amount_usd": 0,
        "transfer_token": 0,
        "price": prices[0],
        "liquidation_fee_usd": done.rest_usd,
        "open_time": tx.time_s,
    }
    _emit(tx, here, of, events.LIQUIDATED, values)
    tx.leave(_UNITS)


def _create_position(tx: Execution, of: Place) -> None:
    rent = POSITION_RENT_LAMPORTS
    spl.create_account(
        tx, of.wallet, of.address, rent, POSITION_BYTES, JUPITER_PERPS, has_bytes=True
    )
    custodies = of.custody.address, of.collateral.address
    set_native(tx, of.address, Position(of.wallet, POOL, *custodies, of.side, of.bump))


def _position(tx: Execution, of: Place) -> Position:
    position = tx.ledger.natives.get(of.address)
    if not isinstance(position, Position) or not position.size_usd:
        raise InstructionError(INVALID_POSITION)
    return position


def _any_asked(tx: Execution, request: Request) -> PositionRequest:
    asked = tx.ledger.natives.get(request.address)
    if not isinstance(asked, PositionRequest):
        raise InstructionError(INVALID_REQUEST)
    return asked


def _asked(tx: Execution, request: Request) -> PositionRequest:
    asked = _any_asked(tx, request)
    if asked.is_executed:
        raise InstructionError(INVALID_REQUEST)
    return asked


def _sides(tx: Execution, of: Place) -> tuple[Custody, Custody]:
    custody = tx.ledger.natives[of.custody.address]
    collateral = tx.ledger.natives[of.collateral.address]
    assert isinstance(custody, Custody)
    assert isinstance(collateral, Custody)
    return custody, collateral


def _prices(tx: Execution, of: Place) -> tuple[int, int]:
    """Return what the oracles say of the token and of its collateral, in millionths."""
    return _price(tx, of.custody), _price(tx, of.collateral)


def _price(tx: Execution, of: Listed) -> int:
    feed = tx.ledger.natives[of.doves_ag]
    assert isinstance(feed, AgPriceFeed)
    return feed.price // MICRO_USD


def _check_slippage(price: int, limit: int, *, is_most: bool) -> None:
    if price > limit if is_most else price < limit:
        raise InstructionError(MAX_SLIPPAGE)


def _increased(
    tx: Execution, of: Place, size_usd: int, amount_raw: int, slippage: int
) -> Increased:
    position = tx.ledger.natives.get(of.address)
    if not isinstance(position, Position):
        raise InstructionError(INVALID_POSITION)
    sides, prices = _sides(tx, of), _prices(tx, of)
    _check_slippage(prices[0], slippage, is_most=position.is_long)
    done = increased(position, sides, prices, amount_raw, size_usd, tx.time_s)
    if done is None:
        raise InstructionError(TOKEN_AMOUNT)
    if done.collateral.locked_raw > done.collateral.owned_raw:
        raise InstructionError(CUSTODY_LIMIT)
    if done.position.is_liquidatable(done.collateral, prices[0]):
        raise InstructionError(MAX_LEVERAGE)
    _put(tx, of, done)
    return done


def _decreased(
    tx: Execution, of: Place, before: Position, size_usd: int, withdrawn_usd: int, slippage: int
) -> Decreased:
    sides, prices = _sides(tx, of), _prices(tx, of)
    _check_slippage(prices[0], slippage, is_most=not before.is_long)
    if size_usd > before.size_usd:
        raise InstructionError(INVALID_POSITION)
    done = decreased(before, sides, prices, size_usd, withdrawn_usd, tx.time_s)
    if done is None:
        raise InstructionError(CUSTODY_LIMIT)
    if done.position.is_liquidatable(done.collateral, prices[0]):
        raise InstructionError(MAX_LEVERAGE)
    _put(tx, of, done)
    return done


def _put(tx: Execution, of: Place, done: Increased | Decreased) -> None:
    set_native(tx, of.address, done.position)
    set_native(tx, of.custody.address, done.custody)
    set_native(tx, of.collateral.address, done.collateral)
    pool = tx.ledger.natives[POOL]
    assert isinstance(pool, Pool)
    worth = _pool_aum_usd(tx, pool, of)
    refreshed = replace(pool, aum_usd=worth, refreshed_s=tx.time_s, refreshed_slot=tx.slot)
    set_native(tx, POOL, refreshed)


def _pool_aum_usd(tx: Execution, pool: Pool, of: Place) -> int:
    price = _price(tx, of.custody)
    worth = 0
    for address in pool.custodies:
        custody = tx.ledger.natives[address]
        assert isinstance(custody, Custody)
        worth += aum_usd(custody, price)
    return max(worth, 0)


def _emit(tx: Execution, here: int, of: Place, layout: EventLayout, values: Values) -> None:
    at = len(tx.instructions)
    tx.emit_cpi(JUPITER_PERPS, layout.encode(values))
    mints = of.custody.mint.address, of.collateral.mint.address
    tx.perps.append(PerpChange(here, at, layout, values, *mints, of.side == LONG))


def _about(of: Place) -> Values:
    return {
        "position_key": of.address,
        "position_side": of.side,
        "position_custody": of.custody.address,
        "position_collateral_custody": of.collateral.address,
        "position_mint": of.custody.mint.address,
    }


def _request_values(request: Request) -> Values:
    return {
        "position_request_key": request.address,
        "position_request_mint": request.place.collateral.mint.address,
        "position_request_change": request.change,
        "position_request_type": 0,
    }


def _fees(fees: Fees) -> Values:
    return {
        "fee_usd": fees.usd,
        "position_fee_usd": fees.position_usd,
        "funding_fee_usd": fees.funding_usd,
        "price_impact_fee_usd": fees.impact_usd,
    }


def _outcome(before: Position, done: Decreased) -> Values:
    return {
        "has_profit": done.pnl_usd > 0,
        "pnl_delta": abs(done.pnl_usd),
        "original_position_collateral_usd": before.collateral_usd,
        "position_collateral_usd": done.position.collateral_usd,
        "position_open_time": before.opened_s,
        "position_price": before.price,
    }


def _increase_values(
    tx: Execution, of: Place, done: Increased, size_usd: int, slippage: int
) -> Values:
    return {
        **_about(of),
        **_fees(done.fees),
        "position_size_usd": done.position.size_usd,
        "owner": of.wallet,
        "pool": POOL,
        "size_usd_delta": size_usd,
        "collateral_usd_delta": done.collateral_usd,
        "collateral_token_delta": done.collateral_raw,
        "price": _price(tx, of.custody),
        "price_slippage": slippage,
        "fee_token": done.fee_raw,
        "open_time": tx.time_s,
        "referral": None,
    }


def _decrease_values(
    tx: Execution, of: Place, before: Position, done: Decreased, size_usd: int, slippage: int
) -> Values:
    return {
        **_about(of),
        **_fees(done.fees),
        **_outcome(before, done),
        "position_size_usd": done.position.size_usd,
        "owner": of.wallet,
        "pool": POOL,
        "size_usd_delta": size_usd,
        "transfer_amount_usd": done.paid_usd,
        "transfer_token": done.paid_raw,
        "price": _price(tx, of.custody),
        "price_slippage": slippage,
        "open_time": tx.time_s,
        "referral": None,
    }
