"""What the API must say of days, swaps, lots and candles, from the oracle."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from pipeline.chaos.books import Match, Money
from pipeline.chaos.prices import UNITS
from schemas.times import DAY_MS
from tests.support.api.asking import Near
from tests.support.api.oracle import Known, Swap, day_text, is_gain
from tests.support.api.wallet_figures import Figures, added, outcome, percent, trading

MOVED = ("bought", "sold", "received", "sent", "burned", "unmatched")


# Days.


def pnl_days(known: Known, wallet: str, days: Iterable[int]) -> list[Figures]:
    """Return a wallet's days among some, oldest first; idle ones are left out."""
    own = known.days.get(wallet, {})
    return [date(day) | pnl(known, wallet, [day]) for day in sorted(days) if day in own]


def pnl(known: Known, wallet: str, days: Iterable[int]) -> Figures:
    """Return days of a wallet as one."""
    days = list(days)
    sums = added(known.days.get(wallet, {}).get(day, {}) for day in days)
    with_matches = known.days_with_matches.get(wallet, set())
    return trading(sums, matched=not with_matches.isdisjoint(days))


def token_days(known: Known, wallet: str, mint: str, days: Iterable[int]) -> list[Figures]:
    """Return a position's days among some, oldest first; idle ones are left out."""
    ends = known.ends.get((wallet, mint), {})
    return [
        {
            **date(day),
            **token_pnl(known, wallet, mint, [day]),
            "held_raw": str(ends[day].get("held_raw", 0)),
        }
        for day in sorted(days)
        if day in ends
    ]


def token_pnl(known: Known, wallet: str, mint: str, days: Iterable[int]) -> Figures:
    """Return days of a position as one."""
    days = set(days)
    sums = added(sums for day, sums in known.sums_of_days(wallet, mint).items() if day in days)
    matched = any(
        is_gain(match) and match.at.day in days for match in known.matches.get((wallet, mint), [])
    )
    found = outcome(sums, matched=matched)
    return {
        **found,
        "realized_pct": percent(found["realized_usd_micros"], found["matched_cost_usd_micros"]),
        **{f"{name}_raw": str(sums.get(f"{name}_raw", 0)) for name in MOVED},
    }


def volume_days(known: Known, wallet: str, days: Iterable[int]) -> list[Figures]:
    """Return what a wallet traded on days among some, oldest first; idle ones are left out."""
    own = known.days.get(wallet, {})
    return [date(day) | volume(known, wallet, [day]) for day in sorted(days) if day in own]


def volume(known: Known, wallet: str, days: Iterable[int]) -> Figures:
    """Return days of a wallet's trading as one."""
    sums = added(known.days.get(wallet, {}).get(day, {}) for day in days)
    traded = outcome(sums, matched=False)
    kept = {
        name: value
        for name, value in traded.items()
        if not name.startswith(("realized_", "matched_"))
    }
    return {
        **kept,
        "trades": traded["buys"] + traded["sells"],
        **{
            f"volume_{unit}": str(sums.get(f"bought_{unit}", 0) + sums.get(f"sold_{unit}", 0))
            for unit in ("lamports", "usd_micros")
        },
    }


def date(day: int) -> Figures:
    """Return which day it is."""
    return {"day": day_text(day), "from_ms": day * DAY_MS}


def all_days(known: Known) -> list[int]:
    """Return every day of the chain."""
    return list(range(known.oracle.slots[0].block_time_ms // DAY_MS, known.now_ms // DAY_MS + 1))


# Swaps.

_AS_IT_IS = (
    *("signature", "slot", "tx_index", "event_index", "block_time_ms", "dex", "program_id", "pool"),
    *("wallet", "fee_payer", "mint", "quote_mint", "side", "decimals", "quote_decimals"),
    *("pool_fee_mint", "router", "keeper"),
)
_AS_TEXT = (
    *("amount_raw", "quote_amount_raw", "wallet_amount_raw", "wallet_quote_amount_raw"),
    *("pool_fee_raw", "reserve_raw", "quote_reserve_raw", "liquidity", "sqrt_price_x64"),
    *("fee_lamports", "priority_fee_lamports", "tip_lamports"),
    *("sol_value_lamports", "usd_value_micros"),
)


def swap(known: Swap, answered: Figures, platform: str) -> Figures:
    """Return a swap as an answer has it; `platform` is its token's launchpad.

    CPMM's event does not say which part of the fee waits for the protocol in the vault, so its
    reserves may include it.
    """
    found: Figures = {name: known[name] for name in _AS_IT_IS}
    for name in _AS_TEXT:
        found[name] = None if known[name] is None else str(known[name])
    if known["dex"] == "raydium-cpmm":
        for name in ("reserve_raw", "quote_reserve_raw"):
            if 0 <= int(answered[name]) - known[name] <= known["pool_fee_raw"]:
                found[name] = answered[name]
    amount = Fraction(known["amount_raw"], 10 ** known["decimals"])
    quote = Fraction(known["quote_amount_raw"], 10 ** known["quote_decimals"])
    sol, usd = (
        None if value is None else Fraction(value, whole)
        for value, whole in (
            (known["sol_value_lamports"], 10**9),
            (known["usd_value_micros"], 10**6),
        )
    )
    return {
        **found,
        "amount": Near(amount),
        "quote_amount": Near(quote),
        "price": Near(quote / amount if amount else Fraction(0)),
        "price_sol": Near(None if sol is None or not amount else sol / amount),
        "price_usd": Near(None if usd is None or not amount else usd / amount),
        "sol_value": Near(sol),
        "usd_value": Near(usd),
        "fee_sol": Near(Fraction(known["fee_lamports"], 10**9)),
        "priority_fee_sol": Near(Fraction(known["priority_fee_lamports"], 10**9)),
        "tip_sol": Near(Fraction(known["tip_lamports"], 10**9)),
        "platform": platform,
        "commitment": "confirmed",
    }


# Lots.


def open_lots(known: Known, wallet: str, mint: str) -> list[Figures]:
    """Return the lots of a position that are not gone, oldest first."""
    return [
        {
            "number": lot.number,
            "slot": lot.slot,
            "tx_index": lot.tx_index,
            "time_ms": lot.time_ms,
            "opened_raw": str(lot.quantity_raw),
            "quantity_raw": str(lot.quantity_raw - lot.taken_raw),
            **_money("cost", None if lot.cost is None else lot.cost_left()),
        }
        for lot in known.books.positions[wallet, mint].lots
    ]


def lot_match(match: Match) -> Figures:
    """Return what one disposal took of one lot."""
    lot, gain = match.lot, None
    if is_gain(match) and match.cost and match.proceeds:
        gain = match.proceeds[0] - match.cost[0], match.proceeds[1] - match.cost[1]
    return {
        "kind": match.kind,
        "signature": match.at.signature,
        "slot": match.at.slot,
        "tx_index": match.at.tx_index,
        "event_index": match.at.event_index,
        "time_ms": match.at.time_ms,
        "lot_number": lot.number if lot else None,
        "lot_slot": lot.slot if lot else None,
        "lot_tx_index": lot.tx_index if lot else None,
        "lot_time_ms": lot.time_ms if lot else None,
        "quantity_raw": str(match.quantity_raw),
        **_money("cost", match.cost),
        **_money("proceeds", match.proceeds),
        **_money("realized", gain),
    }


def _money(name: str, money: Money | None) -> Figures:
    lamports, micros = money or (None, None)
    return {
        f"{name}_lamports": None if lamports is None else str(lamports),
        f"{name}_usd_micros": None if micros is None else str(micros),
    }


# Candles.


def candles(known: Known, mint: str, interval_s: int) -> dict[int, Figures]:
    """Return a token's candles, by their beginning in ms."""
    found: dict[int, Figures] = {}
    for (of, length_s, start_s), traded in sorted(known.markets.candles.items()):
        if (of, length_s) == (mint, interval_s):
            found[start_s * 1000] = {
                "start_ms": start_s * 1000,
                "is_closed": (start_s + interval_s) * 1000 <= known.now_ms,
                "amount_raw": str(traded.amount_raw),
                "volume_lamports": str(traded.lamports),
                "volume_usd_micros": str(traded.usd_micros),
                "buys": traded.buys,
                "sells": traded.sells,
                "slot": traded.slot,
            }
            for name, price in known.markets.prices.candle((of, length_s, start_s)).items():
                found[start_s * 1000][name] = Near(Fraction(price, UNITS) if price else None)
    return found
