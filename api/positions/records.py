"""From what a reading returns to what is answered: prices, worths and sums.

An asset is worth our price, the same as in holdings, so that a deposit does not change what a
wallet is worth. Where there is none it is worth what the protocol last saw. A sum whose parts are
not all known is null: an unknown amount, or a debt without a price, which would pass for none. So
are the sums of a position that lacks an account: what it has there is in none of its lines.
"""

from __future__ import annotations

from collections.abc import Iterable
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
from api.positions.rewards import Rewards
from api.tokens.reader import Token, Tokens
from api.wallets.figures import worth
from schemas.amounts import MICROS, sol, text, usd
from schemas.protocols.contract import Asset, Position, Role, Stake
from schemas.solana.addresses import text as address_text

_MOST_MICROS = 1 << 256  # a worth above it is the price's mistake, and no number in JSON

_PARTIAL: Final = "sums: an account that the position needs is not known, and what it has there"

_PriceSource = Literal["market", "protocol"]


def mints_of(positions: Iterable[Position]) -> set[str]:
    """Return the mints whose prices are needed."""
    return {address_text(asset.mint) for position in positions for asset in position.assets}


def record(
    slug: str, position: Position, tokens: Tokens, paid: Rewards = (None, "not_asked")
) -> PositionRecord:
    """Return a position as it is answered; `paid` are the rewards of a stake account."""
    assets: list[AssetAnswer] = []
    supplies, borrows, earned = _Sum(), _Sum(), _Sum()
    for asset in position.assets:
        answer, micros = _asset(asset, tokens)
        assets.append(answer)
        if asset.role is Role.BORROW:
            borrows.add(micros, is_unknown=micros is None and asset.amount_raw != 0)
        else:
            of_role = earned if asset.role is Role.REWARD else supplies
            of_role.add(micros, is_unknown=asset.amount_raw is None)
    supplied, borrowed, rewards = supplies.value, borrows.value, earned.value
    if position.missing:
        supplied = borrowed = rewards = None
    value = None
    is_known = not (supplies.is_unknown or borrows.is_unknown or earned.is_unknown)
    if is_known and any(each is not None for each in (supplied, borrowed, rewards)):
        value = (supplied or 0) + (rewards or 0) - (borrowed or 0)
    return {
        "position_id": address_text(position.id or position.account.address),
        "protocol": slug,
        "route": position.route,
        "market": _text(position.market),
        "slot": position.account.slot,
        "reference_slot": position.reference_slot,
        "assets": assets,
        "supplied_usd_micros": text(supplied),
        "supplied_usd": usd(supplied),
        "borrowed_usd_micros": text(borrowed),
        "borrowed_usd": usd(borrowed),
        "rewards_usd_micros": text(rewards),
        "rewards_usd": usd(rewards),
        "value_usd_micros": text(value),
        "value_usd": usd(value),
        "stake": None if position.stake is None else _stake(position.stake, paid),
        "health": None if position.health is None else health_answer(position.health),
        "range": None if position.range is None else range_answer(position.range),
        "locks": [lock_answer(lock) for lock in position.locks],
        "perp": None if position.perp is None else perp_answer(position.perp),
        "margin": None if position.margin is None else margin_answer(position.margin),
        "voting": None if position.voting is None else voting_answer(position.voting),
        "points": [points_answer(each) for each in position.points],
        "unsupported_fields": [
            *position.unsupported_fields,
            *([_PARTIAL] if position.missing else ()),
        ],
    }


def has_unknown(assets: Iterable[AssetAnswer]) -> bool:
    """Return whether what assets are worth together cannot be known."""
    return any(
        each["amount_raw"] is None
        or (
            each["role"] == Role.BORROW.value
            and each["value_usd_micros"] is None
            and each["amount_raw"] != "0"
        )
        for each in assets
    )


class _Sum:
    """What assets are worth together, in millionths of a dollar."""

    __slots__ = ("_micros", "is_unknown")

    def __init__(self) -> None:
        self._micros: int | None = None
        self.is_unknown = False

    def add(self, micros: int | None, *, is_unknown: bool) -> None:
        """Add an asset; one that is unknown makes the sum unknown, one without a price does not."""
        self.is_unknown = self.is_unknown or is_unknown
        if micros is not None:
            self._micros = (self._micros or 0) + micros

    @property
    def value(self) -> int | None:
        """Return the sum; None where none has a price, or a part is not known."""
        return None if self.is_unknown else self._micros


def _asset(asset: Asset, tokens: Tokens) -> tuple[AssetAnswer, int | None]:
    """Return an asset as it is answered, and its worth in millionths of a dollar."""
    mint = address_text(asset.mint)
    token = tokens.get(mint)
    decimals = asset.decimals
    if decimals is None and token is not None:
        decimals = token.decimals
    price_usd, source, micros = _priced(asset, token, decimals)
    answer: AssetAnswer = {
        "role": asset.role.value,
        "mint": mint,
        "symbol": None if token is None else token.about["symbol"],
        "amount_raw": text(asset.amount_raw),
        "amount": _whole(asset.amount_raw, decimals),
        "price_usd": price_usd,
        "price_source": source,
        "value_usd_micros": text(micros),
        "value_usd": usd(micros),
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
    asset: Asset, token: Token | None, decimals: int | None
) -> tuple[float | None, _PriceSource | None, int | None]:
    """Return the price, where it comes from, and the worth in millionths of a dollar."""
    if token is not None and token.price is not None and token.price.price_usd:
        if asset.amount_raw is None:
            return token.price.price_usd, "market", None
        micros = worth(asset.amount_raw, decimals, token.price)[1]
        return token.price.price_usd, "market", _bounded(micros)
    if asset.oracle_usd is None:
        return None, None, None
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
