"""From the books' records to answers: what a position gained, and what it is worth now.

All sums are integers; a price is the exact ratio behind its float, and a worth is rounded
down to a lamport or a millionth of a dollar. Only the figures beside them are floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from api.tokens.reader import Token, is_stale
from api.wallets.position_answers import (
    CompactPosition,
    Open,
    Outcome,
    Paid,
    PositionOf,
    Priced,
    Trading,
    Unrealized,
)
from schemas.amounts import LAMPORTS, MICROS, sol, text, usd
from schemas.positions import Position, WalletDay
from schemas.prices import LastPrice

Worth = tuple[int | None, int | None]  # lamports, millionths of a dollar
_UNKNOWN: Final = (None, None)


class Valued(NamedTuple):
    """What a position is worth now; None where price or decimals are not known."""

    value_lamports: int | None  # of all that is held
    value_usd_micros: int | None
    gain_lamports: int | None  # in what is held at a known cost; None where nothing is
    gain_usd_micros: int | None


_NOT_VALUED: Final = Valued(None, None, None, None)
_NOTHING_HELD: Final = {
    (in_sol, in_usd): Valued(0 if in_sol else None, 0 if in_usd else None, None, None)
    for in_sol in (False, True)
    for in_usd in (False, True)
}


def worth(amount_raw: int, decimals: int | None, price: LastPrice | None) -> Worth:
    """Return what an amount is worth; None where price or decimals are not known."""
    if decimals is None or price is None:
        return _UNKNOWN
    unit = 10**decimals
    lamports = usd_micros = None
    if price.price_sol:  # 0 for a dollar coin while SOL's own price is not known
        over, under = price.price_sol.as_integer_ratio()
        lamports = amount_raw * LAMPORTS * over // (under * unit)
    if price.price_usd:
        usd_micros = worth_micros(amount_raw, unit, price.price_usd)
    return lamports, usd_micros


def worth_micros(amount_raw: int, unit: int, price_usd: float) -> int:
    """Return what an amount is worth in millionths of a dollar; `unit` is a whole token."""
    over, under = price_usd.as_integer_ratio()
    return amount_raw * MICROS * over // (under * unit)


def valued(position: Position, token: Token | None) -> Valued:
    """Return what a position is worth."""
    if token is None:
        return _NOT_VALUED
    decimals, price, known_raw = token.decimals, token.price, position.held_known_raw
    if not position.held_raw:  # as most are: nothing to compute
        if price is None or decimals is None:
            return _NOT_VALUED
        return _NOTHING_HELD[bool(price.price_sol), bool(price.price_usd)]
    value_lamports, value_usd_micros = worth(position.held_raw, decimals, price)
    if not known_raw:
        return Valued(value_lamports, value_usd_micros, None, None)
    if known_raw == position.held_raw:
        lamports, usd_micros = value_lamports, value_usd_micros
    else:
        lamports, usd_micros = worth(known_raw, decimals, price)
    return Valued(
        value_lamports,
        value_usd_micros,
        None if lamports is None else lamports - position.held_cost_lamports,
        None if usd_micros is None else usd_micros - position.held_cost_usd_micros,
    )


def is_matched(record: Position | WalletDay) -> bool:
    """Return whether anything was sold or burned from lots of known cost, be it for nothing.

    A day has no quantities: a burn of lots that cost nothing, and a sale of a part of
    known cost for nothing, are not seen there.
    """
    if isinstance(record, Position):
        return record.sold_raw + record.burned_raw > record.unmatched_raw
    return record.sells > record.unmatched_sales or bool(
        record.matched_cost_lamports
        or record.matched_cost_usd_micros
        or record.matched_proceeds_lamports
        or record.matched_proceeds_usd_micros
    )


def outcome(record: Position | WalletDay) -> Outcome:
    """Return what trades came to; realized is null where nothing was matched."""
    cost_lamports, cost_usd_micros = record.matched_cost_lamports, record.matched_cost_usd_micros
    bought_lamports, bought_usd_micros = record.bought_lamports, record.bought_usd_micros
    sold_lamports, sold_usd_micros = record.sold_lamports, record.sold_usd_micros
    lamports = usd_micros = pct = None
    if matched := is_matched(record):
        lamports = record.matched_proceeds_lamports - cost_lamports
        usd_micros = record.matched_proceeds_usd_micros - cost_usd_micros
        pct = percent(usd_micros, cost_usd_micros)
    return {
        "buys": record.buys,
        "sells": record.sells,
        "wins": record.wins,
        "losses": record.losses,
        "bought_lamports": str(bought_lamports),
        "bought_sol": sol(bought_lamports),
        "bought_usd_micros": str(bought_usd_micros),
        "bought_usd": usd(bought_usd_micros),
        "sold_lamports": str(sold_lamports),
        "sold_sol": sol(sold_lamports),
        "sold_usd_micros": str(sold_usd_micros),
        "sold_usd": usd(sold_usd_micros),
        "matched_cost_lamports": str(cost_lamports),
        "matched_cost_sol": sol(cost_lamports),
        "matched_cost_usd_micros": str(cost_usd_micros),
        "matched_cost_usd": usd(cost_usd_micros),
        "realized_lamports": str(lamports) if matched else None,
        "realized_sol": sol(lamports),
        "realized_usd_micros": str(usd_micros) if matched else None,
        "realized_usd": usd(usd_micros),
        "realized_pct": pct,
    }


def paid(record: Position | WalletDay) -> Paid:
    """Return fees and tips."""
    return {
        "fee_lamports": str(record.fee_lamports),
        "fee_sol": sol(record.fee_lamports),
        "priority_fee_lamports": str(record.priority_fee_lamports),
        "priority_fee_sol": sol(record.priority_fee_lamports),
        "tip_lamports": str(record.tip_lamports),
        "tip_sol": sol(record.tip_lamports),
    }


def trading(record: WalletDay) -> Trading:
    """Return what a wallet did within the record's time."""
    return {
        **outcome(record),
        **paid(record),
        "unmatched_sales": record.unmatched_sales,
        "win_rate_pct": percent(record.wins, record.wins + record.losses),
    }


def priced(amount_raw: int, token: Token | None, now_ms: int, decimals: int | None) -> Priced:
    """Return an amount's worth and the price it comes from; `now_ms` is the chain's."""
    price = None if token is None else token.price
    return priced_at(price, now_ms, worth(amount_raw, decimals, price))


def priced_at(price: LastPrice | None, now_ms: int, value: Worth) -> Priced:
    """Return a worth and the price it comes from."""
    lamports, usd_micros = value
    return {
        "price_sol": None if price is None else price.price_sol or None,
        "price_usd": None if price is None else price.price_usd,
        "price_time_ms": None if price is None else price.time_ms,
        "price_slot": None if price is None else price.slot,
        "is_price_stale": None if price is None else is_stale(price, now_ms),
        "value_lamports": text(lamports),
        "value_sol": sol(lamports),
        "value_usd_micros": text(usd_micros),
        "value_usd": usd(usd_micros),
    }


def _unrealized(lamports: int | None, usd_micros: int | None, cost_usd_micros: int) -> Unrealized:
    return {
        "unrealized_lamports": text(lamports),
        "unrealized_sol": sol(lamports),
        "unrealized_usd_micros": text(usd_micros),
        "unrealized_usd": usd(usd_micros),
        "unrealized_pct": percent(usd_micros, cost_usd_micros),
    }


def position_answer(
    mint: str,
    position: Position,
    token: Token | None,
    now_ms: int,
    worths: Valued | None = None,
) -> PositionOf:
    """Return a position as answers have it; `worths` is what `valued` returned, if called."""
    if worths is None:
        worths = valued(position, token)
    name = symbol = decimals = unit = price = None
    if token is not None:
        about, price = token.about, token.price
        name, symbol, decimals, unit = (
            about["name"],
            about["symbol"],
            about["decimals"],
            token.facts.unit,
        )
    held_raw, known_raw = position.held_raw, position.held_known_raw
    bought_raw, sold_raw = position.bought_raw, position.sold_raw
    received_raw, sent_raw = position.received_raw, position.sent_raw
    burned_raw, unmatched_raw = position.burned_raw, position.unmatched_raw
    cost_lamports, cost_usd_micros = position.held_cost_lamports, position.held_cost_usd_micros
    entry_sol = entry_usd = None
    if known_raw and unit is not None:
        entry_sol = cost_lamports * unit / (known_raw * LAMPORTS)
        entry_usd = cost_usd_micros * unit / (known_raw * MICROS)
    has_traded = position.first_trade_slot > 0
    return {
        "mint": mint,
        "name": name,
        "symbol": symbol,
        "decimals": decimals,
        "held_raw": str(held_raw),
        "held": None if unit is None else held_raw / unit,
        "unknown_cost_raw": str(held_raw - known_raw),
        "unknown_cost": None if unit is None else (held_raw - known_raw) / unit,
        "bought_raw": str(bought_raw),
        "bought": None if unit is None else bought_raw / unit,
        "sold_raw": str(sold_raw),
        "sold": None if unit is None else sold_raw / unit,
        "received_raw": str(received_raw),
        "received": None if unit is None else received_raw / unit,
        "sent_raw": str(sent_raw),
        "sent": None if unit is None else sent_raw / unit,
        "burned_raw": str(burned_raw),
        "burned": None if unit is None else burned_raw / unit,
        "unmatched_raw": str(unmatched_raw),
        "unmatched": None if unit is None else unmatched_raw / unit,
        **outcome(position),
        "held_cost_lamports": str(cost_lamports),
        "held_cost_sol": sol(cost_lamports),
        "held_cost_usd_micros": str(cost_usd_micros),
        "held_cost_usd": usd(cost_usd_micros),
        "average_entry_sol": entry_sol,
        "average_entry_usd": entry_usd,
        **priced_at(price, now_ms, worths[:2]),
        **_unrealized(worths.gain_lamports, worths.gain_usd_micros, cost_usd_micros),
        **paid(position),
        "open_lots": position.lots_opened - position.lots_closed,
        "first_trade_slot": position.first_trade_slot if has_traded else None,
        "first_trade_ms": position.first_trade_ms if has_traded else None,
        "last_trade_slot": position.last_trade_slot if has_traded else None,
        "last_trade_ms": position.last_trade_ms if has_traded else None,
        "changed_slot": position.changed_slot,
    }


def compact_answer(
    mint: str, position: Position, token: Token | None, now_ms: int, worths: Valued
) -> CompactPosition:
    """Return what a list shows of a position; `worths` is what `valued` says of it."""
    name = symbol = unit = price = None
    if token is not None:
        name, symbol, unit = token.about["name"], token.about["symbol"], token.facts.unit
        price = token.price
    traded = outcome(position)
    cost_usd_micros, gain_usd_micros = position.held_cost_usd_micros, worths.gain_usd_micros
    return {
        "mint": mint,
        "name": name,
        "symbol": symbol,
        "held": None if unit is None else position.held_raw / unit,
        "held_cost_usd": usd(cost_usd_micros),
        "price_usd": None if price is None else price.price_usd,
        "is_price_stale": None if price is None else is_stale(price, now_ms),
        "value_usd": usd(worths.value_usd_micros),
        "unrealized_usd": usd(gain_usd_micros),
        "unrealized_pct": percent(gain_usd_micros, cost_usd_micros),
        "realized_usd": traded["realized_usd"],
        "realized_pct": traded["realized_pct"],
        "buys": position.buys,
        "sells": position.sells,
        "win_rate_pct": percent(position.wins, position.wins + position.losses),
        "last_trade_ms": position.last_trade_ms if position.first_trade_slot else None,
    }


@dataclass(slots=True)
class OpenSum:
    """What positions hold, summed; what has no price is counted, and in no worth."""

    held: int = 0
    priced: int = 0
    stale: int = 0
    unknown_cost: int = 0
    cost_lamports: int = 0
    cost_usd_micros: int = 0
    value_lamports: int | None = None
    value_usd_micros: int | None = None
    gain_lamports: int | None = None
    gain_usd_micros: int | None = None
    gain_cost_usd_micros: int = 0  # of the positions in `gain_usd_micros`

    def add(self, position: Position, worths: Valued, *, is_stale: bool) -> None:
        """Add a position; `worths` is what `valued` says of it."""
        if not position.held_raw:
            return
        self.held += 1
        self.unknown_cost += position.held_raw > position.held_known_raw
        self.cost_lamports += position.held_cost_lamports
        self.cost_usd_micros += position.held_cost_usd_micros
        lamports, usd_micros, gain_lamports, gain_usd_micros = worths
        if lamports is not None:
            self.priced += 1
            self.stale += is_stale
            self.value_lamports = lamports + (self.value_lamports or 0)
        if usd_micros is not None:
            self.value_usd_micros = usd_micros + (self.value_usd_micros or 0)
        if gain_lamports is not None:
            self.gain_lamports = gain_lamports + (self.gain_lamports or 0)
        if gain_usd_micros is not None:
            self.gain_usd_micros = gain_usd_micros + (self.gain_usd_micros or 0)
            self.gain_cost_usd_micros += position.held_cost_usd_micros

    def answer(self) -> Open:
        """Return the sums as answers have them; a worth is None where nothing held has one."""
        lamports, usd_micros = self.value_lamports, self.value_usd_micros
        return {
            "held_positions": self.held,
            "priced_positions": self.priced,
            "stale_positions": self.stale,
            "unknown_cost_positions": self.unknown_cost,
            "held_cost_lamports": str(self.cost_lamports),
            "held_cost_sol": sol(self.cost_lamports),
            "held_cost_usd_micros": str(self.cost_usd_micros),
            "held_cost_usd": usd(self.cost_usd_micros),
            "value_lamports": text(lamports),
            "value_sol": sol(lamports),
            "value_usd_micros": text(usd_micros),
            "value_usd": usd(usd_micros),
            **_unrealized(self.gain_lamports, self.gain_usd_micros, self.gain_cost_usd_micros),
        }


def percent(part: int | None, whole: int) -> float | None:
    """Return a part in per cent; None where there is no whole, or no part is known."""
    return None if part is None or not whole else 100 * part / whole
