"""From what a reading returns to what is answered: prices, worths and sums.

An asset is worth our price, the same as in holdings, so that a deposit does not change what a
wallet is worth. Where there is none that counts it is worth what the protocol last saw; else our
price is shown, and worth nothing in any sum. A sum whose parts are
not all known is null: an unknown amount, or a debt without a price, which would pass for none.
Beside a debt so is the value where something that it is owed against has no price: what is left of
it would be a loss. So are the sums of a position that lacks an account: what it has there is in
none of its lines. A loan that anybody could give the wallet makes none of its sums null: it need
not be paid. While its worth is not known, it counts without what is not known of its deposits, and
0 where a debt is not known or what is known is less than the debts.

A market that anybody can open has its owner's prices and rates: what is in one counts where the
market is verified. An unknown amount of what would not count anyway makes nothing unknown.
"""

from __future__ import annotations

from typing import Final, Literal

from api.positions.answers import AssetAnswer, PositionRecord, StakeAnswer
from api.positions.blocks import (
    health_answer,
    integer,
    lock_answer,
    margin_answer,
    number,
    perp_answer,
    points_answer,
    range_answer,
    voting_answer,
)
from api.positions.prices import Prices
from api.positions.rewards import Rewards
from api.tokens.reader import Token
from api.wallets.figures import worth_micros
from schemas.amounts import MICROS, sol, text
from schemas.protocols.contract import Asset, Position, Role, Stake
from schemas.solana.addresses import text as address_text

_MOST_MICROS = 1 << 256  # a worth above it is the price's mistake, and no number in JSON

_OPEN_MARKET: Final = (
    "sums: its market is not verified; the market's owner sets its prices and rates"
)
_PARTIAL: Final = "sums: an account that the position needs is not known, and what it has there"
_GIVEN: Final = (
    "sums: the worth of the loan is not known; anybody can give a wallet one: it counts "
)
_GIVEN_DEBT: Final = f"{_GIVEN}0"
_GIVEN_PART: Final = f"{_GIVEN}without what is not known of its deposits"

# To look a member of an enumeration up, or its `value`, takes as long as to make an asset.
_BORROW: Final = Role.BORROW
_REWARD: Final = Role.REWARD
_SUPPLY: Final = Role.SUPPLY

_PriceSource = Literal["market", "pool", "par", "protocol"]
# What sources of prices are named here; those that are left out are the market's.
_SOURCES: Final[dict[str | None, _PriceSource]] = {"pool": "pool", "par": "par"}
_NOT_OURS: Final = (None, "protocol")


def record(
    slug: str, position: Position, prices: Prices, paid: Rewards = (None, "not_asked")
) -> PositionRecord:
    """Return a position as it is answered; `paid` are the rewards of a stake account."""
    assets: list[AssetAnswer] = []
    supplied: int | None = None
    borrowed: int | None = None
    rewards: int | None = None
    unknown = set[Role]()  # of which an amount, or a debt's price, is not known
    is_unpriced = False  # something that it has, but for rewards
    counts = position.counts_in(prices.markets)
    for asset in position.assets:
        answer, micros = _asset(asset, prices, counts)
        assets.append(answer)
        role = asset.role
        if not counts:
            continue
        if micros is None:
            if _is_unknown(answer):
                unknown.add(role if role in (_BORROW, _REWARD) else _SUPPLY)
            elif role is not _REWARD and asset.amount_raw != 0:
                is_unpriced = True
        elif role is _BORROW:
            borrowed = micros if borrowed is None else borrowed + micros
        elif role is _REWARD:
            rewards = micros if rewards is None else rewards + micros
        else:
            supplied = micros if supplied is None else supplied + micros
    parts = supplied, borrowed, rewards  # as far as they are known
    if unknown or (position.missing and counts):
        supplied = None if _SUPPLY in unknown or position.missing else supplied
        borrowed = None if _BORROW in unknown or position.missing else borrowed
        rewards = None if _REWARD in unknown or position.missing else rewards
    value = None
    is_known = not unknown and not (borrowed and is_unpriced)
    if is_known and not (supplied is None and borrowed is None and rewards is None):
        value = (supplied or 0) + (rewards or 0) - (borrowed or 0)
    why = None  # its lines are in no sum
    if not counts:
        why = _OPEN_MARKET
    elif position.missing:
        why = _PARTIAL
    elif position.can_be_given and not is_known and (borrowed is not None or _BORROW in unknown):
        supplied, borrowed, rewards = parts
        value, why = (supplied or 0) + (rewards or 0) - (borrowed or 0), _GIVEN_PART
        if value < 0 or _BORROW in unknown:
            supplied = borrowed = rewards = None
            value, why = 0, _GIVEN_DEBT
    account, market = position.account, position.market
    return {
        "position_id": address_text(position.id or account.address),
        "protocol": slug,
        "route": position.route,
        "market": None if market is None else address_text(market),
        "is_verified_market": counts,
        "slot": account.slot,
        "reference_slot": position.reference_slot,
        "assets": assets,
        "supplied_usd_micros": None if supplied is None else str(supplied),
        "supplied_usd": None if supplied is None else supplied / MICROS,
        "borrowed_usd_micros": None if borrowed is None else str(borrowed),
        "borrowed_usd": None if borrowed is None else borrowed / MICROS,
        "rewards_usd_micros": None if rewards is None else str(rewards),
        "rewards_usd": None if rewards is None else rewards / MICROS,
        "value_usd_micros": None if value is None else str(value),
        "value_usd": None if value is None else value / MICROS,
        "stake": None if position.stake is None else _stake(position.stake, paid),
        "health": None if position.health is None else health_answer(position.health),
        "range": None if position.range is None else range_answer(position.range),
        "locks": [lock_answer(lock) for lock in position.locks] if position.locks else [],
        "perp": None if position.perp is None else perp_answer(position.perp),
        "margin": None if position.margin is None else margin_answer(position.margin),
        "voting": None if position.voting is None else voting_answer(position.voting),
        "points": [points_answer(each) for each in position.points] if position.points else [],
        "unsupported_fields": (
            [*position.unsupported_fields] if why is None else [*position.unsupported_fields, why]
        ),
    }


def has_unknown(position: PositionRecord) -> bool:
    """Return whether what a position's assets are worth together cannot be known."""
    if position["value_usd_micros"] is not None:
        return False  # then it is known, and most are
    if not position["is_verified_market"]:
        return False  # it is worth nothing in any sum
    if lacks_account(position):
        return True
    is_unpriced = False
    for each in position["assets"]:
        if each["value_usd_micros"] is None:
            if _is_unknown(each):
                return True
            is_unpriced |= each["amount_raw"] != "0" and each["role"] != "reward"
    return is_unpriced and position["borrowed_usd_micros"] not in (None, "0")


def lacks_account(position: PositionRecord) -> bool:
    """Return whether an account that a position needs is not known: no line has what is there."""
    return _PARTIAL in position["unsupported_fields"]


def _is_unknown(unvalued: AssetAnswer) -> bool:
    """Return whether an asset without a worth may have one that is not known."""
    if unvalued["role"] == "borrow":
        return unvalued["amount_raw"] != "0"
    return unvalued["amount_raw"] is None and unvalued["is_verified"]


def _asset(asset: Asset, prices: Prices, counts: bool) -> tuple[AssetAnswer, int | None]:
    """Return an asset as it is answered, and its worth in millionths of a dollar.

    `counts`: the market it is in is verified, or nobody but the protocol can open one.
    """
    # A hundred assets are in a large answer: each call here is half a per cent of it.
    mint, raw, decimals, symbol = address_text(asset.mint), asset.amount_raw, asset.decimals, None
    token = prices.tokens.by_mint.get(mint)
    if token is not None:
        about = token.facts.about
        symbol = about["symbol"]
        if decimals is None:
            decimals = about["decimals"]
    if decimals is None:
        decimals = prices.decimals.get(mint)
    is_verified = mint in prices.verified and counts
    ours = None if token is None else token.price
    price_usd, source, micros = _priced(asset, token, decimals, is_verified)
    if not counts:
        micros = None
    answer: AssetAnswer = {
        "role": asset.role._value_,
        "mint": mint,
        "symbol": symbol,
        "amount_raw": None if raw is None else str(raw),
        "amount": _whole(raw, decimals),
        "price_usd": price_usd,
        "price_source": source,
        "price_slot": None if ours is None or source in _NOT_OURS else ours.slot,
        "is_verified": counts and (is_verified or source == "protocol"),
        "value_usd_micros": None if micros is None else str(micros),
        "value_usd": None if micros is None else micros / MICROS,
    }
    return answer, micros


def _whole(amount_raw: int | None, decimals: int | None) -> float | None:
    if amount_raw is None or decimals is None:
        return None
    try:
        return float(amount_raw / 10**decimals)
    except OverflowError:
        return None  # beyond what a number holds


def _priced(
    asset: Asset, token: Token | None, decimals: int | None, is_verified: bool
) -> tuple[float | None, _PriceSource | None, int | None]:
    """Return the price, where it comes from, and the worth in millionths of a dollar.

    The protocol's price replaces ours where the token is not verified, or where ours is only the
    par value of a dollar coin.
    """
    if asset.is_worthless:
        return 0.0, "protocol", 0
    if token is not None and token.price is not None and (ours_usd := token.price.price_usd):
        source = _SOURCES.get(token.source, "market")
        if asset.oracle_usd is None or (is_verified and source != "par"):
            raw = asset.amount_raw
            if raw is None or decimals is None or not is_verified:
                return ours_usd, source, None
            if token.pool_price is not None and raw >= 0:
                return ours_usd, source, _bounded(token.pool_price.worth(raw)[1])
            return ours_usd, source, _bounded(worth_micros(raw, 10**decimals, ours_usd))
    if asset.oracle_usd is None:
        raw = asset.amount_raw
        if token is None or token.pool_price is None or raw is None or raw < 0 or not is_verified:
            return None, None, None
        return None, None, _bounded(token.pool_price.worth(raw)[1])  # whatever its decimals
    price = number(asset.oracle_usd)
    if decimals is None or asset.amount_raw is None:
        return price, "protocol", None
    over, under = asset.oracle_usd.as_integer_ratio()
    value = abs(asset.amount_raw * MICROS * over) // (10**decimals * under)
    return price, "protocol", _bounded(value if over > 0 else -value)


def _bounded(micros: int | None) -> int | None:
    return None if micros is None or abs(micros) > _MOST_MICROS else micros


def _stake(stake: Stake, rewards: Rewards) -> StakeAnswer:
    return {
        "validator": _text(stake.validator),
        "status": stake.status,
        "effective_lamports": text(stake.effective_lamports),
        "effective_sol": sol(stake.effective_lamports),
        "epoch": stake.epoch,
        "epoch_slot": stake.epoch_slot,
        "activation_epoch": integer(stake.activation_epoch),
        "deactivation_epoch": integer(stake.deactivation_epoch),
        "authority": stake.authority,
        "locked_until_ms": integer(stake.locked_until_ms),
        "locked_until_epoch": integer(stake.locked_until_epoch),
        "rewards": rewards[0],
        "rewards_reason": rewards[1],
    }


def _text(key: bytes | None) -> str | None:
    return None if key is None else address_text(key)
