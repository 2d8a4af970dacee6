"""What the ledger says demo wallets have in programs that this chain runs, slot by slot.

The figures are the programs' own: shares, liquidity, debts, stakes and bets, with interest until
the slot. Nothing here is read from the accounts' bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from fractions import Fraction
from hashlib import sha256
from typing import IO, Any, Final

import orjson

from infra.chain.demo_wallets import ADDRESSES
from infra.chain.market.runtime import drift, jupiter_perps, klend, marginfi
from infra.chain.market.runtime.doves import MICRO_USD, AgPriceFeed
from infra.chain.market.runtime.ledger import Ledger
from infra.chain.market.runtime.programs import WSOL
from infra.chain.market.runtime.stake import (
    NEVER,
    STAKE_RENT_LAMPORTS,
    Moved,
    Stake,
    StakeHistory,
    epoch_of,
)
from infra.chain.market.venues.bins import BinnedPosition
from infra.chain.market.venues.meteora_damm_v2 import DammPosition, DammV2Pool, nft_account
from infra.chain.market.venues.meteora_dlmm import DlmmPool
from infra.chain.market.venues.orca_whirlpool import Whirlpool
from infra.chain.market.venues.ranges import RangedPool, RangedPosition
from infra.chain.market.venues.shares import SharePool
from schemas.solana.addresses import STAKE_HISTORY, text

OLDEST_PRICE_S: Final = 60  # of a bet's oracle; with an older price its gain is not known

Row = dict[str, Any]
_Line = tuple[str, bytes, int]  # role, mint, raw amount


class PositionTruth:
    """Writes the figures of a slot as a JSON line; raw amounts are strings, ratios `n/d`."""

    def __init__(self, sink: IO[bytes]) -> None:
        self._sink = sink

    def slot(self, ledger: Ledger, slot: int, time_s: int) -> None:
        """Write what demo wallets have at the end of a slot."""
        positions = figures(ledger, ADDRESSES.values(), slot, time_s)
        record = {"slot": slot, "time_s": time_s, "positions": positions}
        self._sink.write(orjson.dumps(record) + b"\n")
        self._sink.flush()


def figures(ledger: Ledger, wallets: Collection[bytes], slot: int, time_s: int) -> list[Row]:
    """Return the positions of wallets, each with its protocol's name, route, id and figures."""
    found: list[Row] = []
    for at, each in ledger.natives.items():
        match each:
            case marginfi.LendingAccount() if each.authority in wallets and each.balances:
                found.append(_lent(ledger, at, each, time_s))
            case klend.Obligation() if each.authority in wallets and each.reserves:
                found.append(_obligation(ledger, at, each, slot))
            case RangedPosition():
                found += _ranged(ledger, each, wallets)
            case SharePool():
                found += _shared(ledger, each, wallets)
            case BinnedPosition() if each.holder in wallets:
                found.append(_binned(ledger, at, each))
            case DammPosition() if (holder := _nft_holder(ledger, each)) in wallets:
                found.append(_over_all_prices(ledger, holder, each))
            case Stake():
                found += _staked(ledger, at, each, wallets, slot)
            case jupiter_perps.Position() if each.owner_key in wallets and each.size_usd:
                found.append(_bet(ledger, at, each, time_s))
            case drift.User() if each.authority in wallets:
                found += _sub_account(ledger, at, each)
    return found


def _row(
    wallet: bytes, of: tuple[str, str], at: bytes, lines: Iterable[_Line], **others: Any
) -> Row:
    """Return a position; lines without an amount are left out."""
    protocol, route = of
    assets = [[role, text(mint), str(raw)] for role, mint, raw in lines if raw]
    named = {"wallet": text(wallet), "protocol": protocol, "route": route, "id": text(at)}
    return {**named, "assets": assets, **others}


def _ratio(dividend: int, divisor: int) -> Row | None:
    return {"ratio": str(Fraction(dividend, divisor))} if divisor else None


def _lent(ledger: Ledger, at: bytes, account: marginfi.LendingAccount, time_s: int) -> Row:
    banks: dict[bytes, marginfi.Bank] = {}
    lines: list[_Line] = []
    for balance in account.balances:
        bank = ledger.natives[balance.bank]
        assert isinstance(bank, marginfi.Bank)
        bank = banks[balance.bank] = bank.accrued(time_s, bank.price)
        lines.append(("supply", bank.mint, bank.deposited(balance.assets)))
        lines.append(("borrow", bank.mint, bank.owed(balance.debts)))
    secured, owed = marginfi.health(account, banks, initial=False)
    # The program takes collateral and debts at the bad ends of the oracle's band.
    health = _ratio(secured * 999, owed * 1_001)
    return _row(
        *(account.authority, ("marginfi", "lending"), at, lines),
        figures={"health.health_factor": health},
    )


def _obligation(ledger: Ledger, at: bytes, obligation: klend.Obligation, slot: int) -> Row:
    reserves: dict[bytes, klend.Reserve] = {}
    for address in obligation.reserves:
        reserve = ledger.natives[address]
        assert isinstance(reserve, klend.Reserve)
        reserves[address] = reserve.accrued(slot)
    now = obligation.refreshed(reserves, slot)
    lines: list[_Line] = []
    for deposit in now.deposits:
        if deposit.collateral_raw:
            reserve = reserves[deposit.reserve]
            amount_sf = reserve.redeemable_sf(deposit.collateral_raw)
            lines.append(("supply", reserve.mint, amount_sf >> klend.BITS))
    for borrow in now.borrows:
        if borrow.amount_sf:
            mint = reserves[borrow.reserve].mint
            lines.append(("borrow", mint, klend.ceiling(borrow.amount_sf)))
    return _row(
        *(obligation.authority, ("kamino", "lending"), at, lines),
        figures={
            "health.health_factor": _ratio(now.limit_sf, now.weighed_sf),
            "health.ltv": _ratio(now.weighed_sf, now.collateral_sf),
            "health.liquidation_ltv": _ratio(now.limit_sf, now.collateral_sf),
        },
    )


def _ranged(ledger: Ledger, each: RangedPosition, wallets: Collection[bytes]) -> Iterator[Row]:
    nft = ledger.mints[each.mint]
    for wallet in wallets:
        if ledger.held(wallet, nft):
            pool = ledger.natives[each.pool]
            assert isinstance(pool, RangedPool)
            supplied = pool.amounts(each.liquidity, each.lower, each.upper, up=False)
            fees = each.settled(pool.inside(each.lower, each.upper)).owed
            lines = [
                (role, side.address, raw)
                for role, amounts in (("supply", supplied), ("reward", fees))
                for side, raw in zip(pool.sides, amounts, strict=True)
            ]
            name = "whirlpools" if isinstance(pool, Whirlpool) else "raydium_clmm"
            yield _row(
                *(wallet, (name, "liquidity"), each.mint, lines),
                figures={"range.is_in_range": each.lower <= pool.tick < each.upper},
            )


def _shared(ledger: Ledger, pool: SharePool, wallets: Collection[bytes]) -> Iterator[Row]:
    lp = ledger.mints[pool.lp_mint]
    for wallet in wallets:
        if shares := ledger.held(wallet, lp):
            lines = [
                ("supply", side.address, raw)
                for side, raw in zip(pool.sides, pool.withdrawn(shares), strict=True)
            ]
            of = (pool.DEX.replace("-", "_"), "liquidity")
            yield _row(wallet, of, pool.address, lines, figures={"range.is_in_range": True})


def _binned(ledger: Ledger, at: bytes, each: BinnedPosition) -> Row:
    pool = ledger.natives[each.pool]
    assert isinstance(pool, DlmmPool)
    supplied, fees = each.amounts(pool.bins), each.settled(pool.bins).pending
    lines = [
        (role, side.address, raw)
        for role, amounts in (("supply", supplied), ("reward", fees))
        for side, raw in zip(pool.sides, amounts, strict=True)
    ]
    return _row(
        *(each.holder, ("meteora_dlmm", "liquidity"), at, lines),
        figures={"range.is_in_range": each.lower <= pool.active_bin <= each.upper},
    )


def _nft_holder(ledger: Ledger, each: DammPosition) -> bytes:
    return ledger.tokens[nft_account(each.nft)].owner


def _over_all_prices(ledger: Ledger, holder: bytes, each: DammPosition) -> Row:
    pool = ledger.natives[each.pool]
    assert isinstance(pool, DammV2Pool)
    supplied = pool.amounts(each.liquidity, up=False)
    fees = each.settled(pool.growths).pending
    lines = [
        (role, side.address, raw)
        for role, amounts in (("supply", supplied), ("reward", fees))
        for side, raw in zip(pool.sides, amounts, strict=True)
    ]
    return _row(
        *(holder, ("meteora_damm_v2", "liquidity"), each.nft, lines),
        figures={"range.is_in_range": True},
    )


def _staked(
    ledger: Ledger, at: bytes, stake: Stake, wallets: Collection[bytes], slot: int
) -> Iterator[Row]:
    history = ledger.natives[STAKE_HISTORY]
    assert isinstance(history, StakeHistory)
    epoch, lamports = epoch_of(slot), ledger.lamports[at]
    moved = stake.moved(epoch, history.epochs)
    is_leaving = stake.voter is not None and epoch >= stake.deactivation_epoch
    delegated = stake.lamports if stake.voter is not None else 0
    staked = moved.effective if is_leaving else delegated
    kept = min(staked + STAKE_RENT_LAMPORTS, lamports) if staked else 0
    lines = [("pending" if is_leaving else "locked", WSOL, kept), ("supply", WSOL, lamports - kept)]
    ends = stake.deactivation_epoch
    shown = {
        "stake.validator": None if stake.voter is None else text(stake.voter),
        "stake.status": _status(moved),
        "stake.effective_lamports": str(moved.effective),
        "stake.deactivation_epoch": None if stake.voter is None or ends == NEVER else ends,
    }
    for wallet in wallets:
        if wallet in (stake.withdrawer, stake.staker):
            owned = lines if wallet == stake.withdrawer else []
            yield _row(wallet, ("native_stake", "native"), at, owned, figures=shown)


def _status(moved: Moved) -> str:
    if moved.deactivating:
        return "deactivating"
    if moved.activating:
        return "activating"
    return "active" if moved.effective else "inactive"


def _bet(ledger: Ledger, at: bytes, bet: jupiter_perps.Position, time_s: int) -> Row:
    """Return a bet; what its owner would be paid is left to the reading and its judges."""
    custody, lender = (ledger.natives[each] for each in (bet.custody, bet.collateral_custody))
    assert isinstance(custody, jupiter_perps.Custody)
    assert isinstance(lender, jupiter_perps.Custody)
    lender = lender.accrued(time_s)
    prices = [_price(ledger, each, time_s) for each in (custody, lender)]
    shown: Row = {
        "perp.side": "long" if bet.is_long else "short",
        "perp.size": _ratio(bet.size_usd, bet.price),
        "perp.entry_price_usd": _ratio(bet.price, jupiter_perps.USD),
        "perp.funding_usd": _ratio(-bet.funding_usd(lender), jupiter_perps.USD),
        "perp.unrealized_usd": None,
    }
    if (mark := prices[0]) is not None:
        shown["perp.unrealized_usd"] = _ratio(bet.pnl_usd(mark), jupiter_perps.USD)
    lines = []
    if (paid_at := prices[1]) is not None:
        lines.append(("supply", lender.mint, lender.tokens(bet.collateral_usd, paid_at)))
    only = {"roles": ["supply"]} if lines else {"roles": []}
    of = ("jupiter_perps", "positions")
    return _row(bet.owner_key, of, at, lines, figures=shown, **only)


def _price(ledger: Ledger, custody: jupiter_perps.Custody, time_s: int) -> int | None:
    feed = ledger.natives[custody.doves_ag]
    assert isinstance(feed, AgPriceFeed)
    return None if time_s - feed.time_s > OLDEST_PRICE_S else feed.price // MICRO_USD


def _sub_account(ledger: Ledger, at: bytes, user: drift.User) -> Iterator[Row]:
    markets = {
        type(each): each
        for each in ledger.natives.values()
        if isinstance(each, drift.PerpMarket | drift.SpotMarket)
    }
    market, spot = markets[drift.PerpMarket], markets[drift.SpotMarket]
    assert isinstance(market, drift.PerpMarket)
    assert isinstance(spot, drift.SpotMarket)
    of = ("drift", "positions")
    if user.deposit_raw:
        lines = [("supply", spot.mint, user.deposit_raw)]
        yield _row(user.authority, of, at, lines, figures={})
    if not user.base:
        return
    notional = user.notional_usd(market.price)
    worth = notional if user.base > 0 else -notional
    funding = user.payment(market)
    gained = worth + user.quote + funding
    line = ("pending" if gained > 0 else "borrow", spot.mint, abs(gained))
    index = drift.MARKET_INDEX.to_bytes(2, "little")
    yield _row(
        *(user.authority, of, sha256(b"drift" + b"perp" + at + index).digest(), [line]),
        figures={
            "perp.side": "long" if user.base > 0 else "short",
            "perp.size": _ratio(abs(user.base), drift.BASE),
            "perp.notional_usd": _ratio(notional, drift.USD),
            "perp.entry_price_usd": _ratio(
                abs(user.entry) * drift.BASE, abs(user.base) * drift.USD
            ),
            "perp.unrealized_usd": _ratio(worth + user.entry, drift.USD),
            "perp.funding_usd": _ratio(funding, drift.USD),
        },
    )
