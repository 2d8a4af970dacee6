"""From the books' records to answers: what a position gained, and what it is worth now.

All sums are integers; a price is the exact ratio that its float stands for, and a worth is rounded
down to a lamport or a millionth of a dollar. Only what is told beside them is a float.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from api.amounts import human, sol, usd
from api.answers.positions import Open, Outcome, Paid, PositionOf, Priced, Trading, Unrealised
from api.readers.tokens import Token
from schemas.positions import Position, WalletDay
from schemas.prices import LastPrice

_LAMPORTS: Final = 10**9
_MICROS: Final = 10**6

Worth = tuple[int | None, int | None]  # lamports, millionths of a dollar
_UNKNOWN: Final = (None, None)


def worth(amount_raw: int, decimals: int | None, price: LastPrice | None) -> Worth:
    """Return what an amount is worth; None where price or decimals are not known."""
    if decimals is None or price is None:
        return _UNKNOWN
    whole = 10**decimals
    return (
        _times(amount_raw * _LAMPORTS, price.price_sol, whole),
        _times(amount_raw * _MICROS, price.price_usd, whole),
    )


def _times(amount: int, price: float | None, whole: int) -> int | None:
    if not price:  # 0 is the price in SOL of a dollar coin while SOL's own is not known
        return None
    over, under = price.as_integer_ratio()
    return amount * over // (under * whole)


def unrealised(position: Position, token: Token | None) -> Worth:
    """Return the gain in what is held at a known cost; None where nothing is, or no price."""
    known_raw = position.held_known_raw
    if token is None or not known_raw:
        return _UNKNOWN
    lamports, usd_micros = worth(known_raw, token.decimals, token.price)
    return (
        None if lamports is None else lamports - position.held_cost_lamports,
        None if usd_micros is None else usd_micros - position.held_cost_usd_micros,
    )


def held_worth(position: Position, token: Token | None) -> Worth:
    """Return what all that a position holds is worth."""
    if token is None:
        return _UNKNOWN
    return worth(position.held_raw, token.decimals, token.price)


def is_matched(record: Position | WalletDay) -> bool:
    """Return whether anything was sold or burned from lots of known cost, be it for nothing.

    A day does not tell quantities: a burn of lots that cost nothing, and a sale of a part of
    known cost for nothing, are not seen there.
    """
    if isinstance(record, Position):
        return record.sold_raw + record.burned_raw > record.unmatched_raw
    return record.sells > record.unmatched_sales or any(
        (
            record.matched_cost_lamports,
            record.matched_cost_usd_micros,
            record.matched_proceeds_lamports,
            record.matched_proceeds_usd_micros,
        )
    )


def outcome(record: Position | WalletDay) -> Outcome:
    """Return what trades came to; realised is null where nothing was matched."""
    cost_lamports, cost_usd_micros = record.matched_cost_lamports, record.matched_cost_usd_micros
    lamports = usd_micros = None
    if is_matched(record):
        lamports, usd_micros = record.realised_lamports, record.realised_usd_micros
    return {
        "buys": record.buys,
        "sells": record.sells,
        "wins": record.wins,
        "losses": record.losses,
        "bought_lamports": str(record.bought_lamports),
        "bought_sol": sol(record.bought_lamports),
        "bought_usd_micros": str(record.bought_usd_micros),
        "bought_usd": usd(record.bought_usd_micros),
        "sold_lamports": str(record.sold_lamports),
        "sold_sol": sol(record.sold_lamports),
        "sold_usd_micros": str(record.sold_usd_micros),
        "sold_usd": usd(record.sold_usd_micros),
        "matched_cost_lamports": str(cost_lamports),
        "matched_cost_usd_micros": str(cost_usd_micros),
        "realised_lamports": _text(lamports),
        "realised_sol": None if lamports is None else sol(lamports),
        "realised_usd_micros": _text(usd_micros),
        "realised_usd": None if usd_micros is None else usd(usd_micros),
        "realised_pct": percent(usd_micros, cost_usd_micros),
    }


def paid(record: Position | WalletDay) -> Paid:
    """Return fees and tips."""
    return {
        "fee_lamports": str(record.fee_lamports),
        "fee_sol": sol(record.fee_lamports),
        "priority_fee_lamports": str(record.priority_fee_lamports),
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
    """Return an amount's worth and the price it comes from."""
    price = None if token is None else token.price
    lamports, usd_micros = worth(amount_raw, decimals, price)
    return {
        "price_sol": None if price is None else price.price_sol or None,
        "price_usd": None if price is None else price.price_usd,
        "price_time_ms": None if price is None else price.time_ms,
        "price_slot": None if price is None else price.slot,
        "is_price_stale": None if token is None or price is None else token.is_stale(now_ms),
        "value_lamports": _text(lamports),
        "value_sol": None if lamports is None else sol(lamports),
        "value_usd_micros": _text(usd_micros),
        "value_usd": None if usd_micros is None else usd(usd_micros),
    }


def _unrealised(gain: Worth, cost_usd_micros: int) -> Unrealised:
    lamports, usd_micros = gain
    return {
        "unrealised_lamports": _text(lamports),
        "unrealised_sol": None if lamports is None else sol(lamports),
        "unrealised_usd_micros": _text(usd_micros),
        "unrealised_usd": None if usd_micros is None else usd(usd_micros),
        "unrealised_pct": percent(usd_micros, cost_usd_micros),
    }


def position_answer(mint: str, position: Position, token: Token | None, now_ms: int) -> PositionOf:
    """Return a position as it is told; `now_ms` is the chain's."""
    decimals = None if token is None else token.decimals
    known_raw = position.held_known_raw
    unknown_cost_raw = position.held_raw - known_raw
    entry_sol = entry_usd = None
    if known_raw and decimals is not None:
        whole = 10**decimals
        entry_sol = position.held_cost_lamports * whole / (known_raw * _LAMPORTS)
        entry_usd = position.held_cost_usd_micros * whole / (known_raw * _MICROS)
    has_traded = bool(position.first_trade_slot)
    return {
        "mint": mint,
        "name": None if token is None else token.about["name"],
        "symbol": None if token is None else token.about["symbol"],
        "decimals": decimals,
        "held_raw": str(position.held_raw),
        "held": human(position.held_raw, decimals),
        "unknown_cost_raw": str(unknown_cost_raw),
        "unknown_cost": human(unknown_cost_raw, decimals),
        "bought_raw": str(position.bought_raw),
        "bought": human(position.bought_raw, decimals),
        "sold_raw": str(position.sold_raw),
        "sold": human(position.sold_raw, decimals),
        "received_raw": str(position.received_raw),
        "received": human(position.received_raw, decimals),
        "sent_raw": str(position.sent_raw),
        "sent": human(position.sent_raw, decimals),
        "burned_raw": str(position.burned_raw),
        "burned": human(position.burned_raw, decimals),
        "unmatched_raw": str(position.unmatched_raw),
        "unmatched": human(position.unmatched_raw, decimals),
        **outcome(position),
        "held_cost_lamports": str(position.held_cost_lamports),
        "held_cost_sol": sol(position.held_cost_lamports),
        "held_cost_usd_micros": str(position.held_cost_usd_micros),
        "held_cost_usd": usd(position.held_cost_usd_micros),
        "average_entry_sol": entry_sol,
        "average_entry_usd": entry_usd,
        **priced(position.held_raw, token, now_ms, decimals),
        **_unrealised(unrealised(position, token), position.held_cost_usd_micros),
        **paid(position),
        "open_lots": position.lots_opened - position.lots_closed,
        "first_trade_slot": position.first_trade_slot if has_traded else None,
        "first_trade_ms": position.first_trade_ms if has_traded else None,
        "last_trade_slot": position.last_trade_slot if has_traded else None,
        "last_trade_ms": position.last_trade_ms if has_traded else None,
        "changed_slot": position.changed_slot,
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

    def add(self, position: Position, token: Token | None, now_ms: int) -> None:
        """Add a position."""
        if not position.held_raw:
            return
        self.held += 1
        self.unknown_cost += position.held_raw > position.held_known_raw
        self.cost_lamports += position.held_cost_lamports
        self.cost_usd_micros += position.held_cost_usd_micros
        lamports, usd_micros = held_worth(position, token)
        if lamports is not None:
            self.priced += 1
            self.stale += token is not None and token.is_stale(now_ms)
            self.value_lamports = lamports + (self.value_lamports or 0)
        if usd_micros is not None:
            self.value_usd_micros = usd_micros + (self.value_usd_micros or 0)
        lamports, usd_micros = unrealised(position, token)
        if lamports is not None:
            self.gain_lamports = lamports + (self.gain_lamports or 0)
        if usd_micros is not None:
            self.gain_usd_micros = usd_micros + (self.gain_usd_micros or 0)
            self.gain_cost_usd_micros += position.held_cost_usd_micros

    def answer(self) -> Open:
        """Return the sums as they are told; a worth is None where nothing held has one."""
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
            "value_lamports": _text(lamports),
            "value_sol": None if lamports is None else sol(lamports),
            "value_usd_micros": _text(usd_micros),
            "value_usd": None if usd_micros is None else usd(usd_micros),
            **_unrealised((self.gain_lamports, self.gain_usd_micros), self.gain_cost_usd_micros),
        }


def percent(part: int | None, whole: int) -> float | None:
    """Return a part in per cent; None where there is no whole, or no part is known."""
    return None if part is None or not whole else 100 * part / whole


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)
