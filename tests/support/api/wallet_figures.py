"""What the API must say of a wallet: the oracle's figures under the names of its answers.

Raw figures only: the human ones beside them are compared by `asking`.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

from pipeline.chaos.values import SOL
from schemas.times import DAY_MS
from tests.support.api.asking import Near
from tests.support.api.oracle import Known, day_text

Figures = dict[str, Any]
Sums = Mapping[str, int]
STALE_AFTER_MS = 3_600_000
PAID = ("fee_lamports", "priority_fee_lamports", "tip_lamports")
MONEY = (
    *("bought_lamports", "bought_usd_micros", "sold_lamports", "sold_usd_micros"),
    *("matched_cost_lamports", "matched_cost_usd_micros"),
)


def outcome(sums: Sums, *, matched: bool) -> Figures:
    """Return what trades came to; `matched`: whether a gain was realized at all, be it of 0."""
    found: Figures = {name: sums.get(name, 0) for name in ("buys", "sells", "wins", "losses")}
    found |= {name: str(sums.get(name, 0)) for name in (*MONEY, *PAID)}
    for unit in ("lamports", "usd_micros"):
        gain = sums.get(f"matched_proceeds_{unit}", 0) - sums.get(f"matched_cost_{unit}", 0)
        found[f"realized_{unit}"] = str(gain) if matched else None
    return found


def percent(part: str | None, whole: int | str) -> Near:
    """Return a part in per cent of a whole; None where either is not there."""
    if part is None or not int(whole):
        return Near(None)
    return Near(Fraction(100 * int(part), int(whole)))


def trading(sums: Sums, *, matched: bool) -> Figures:
    """Return what a wallet did within a time."""
    found = outcome(sums, matched=matched)
    decided = found["wins"] + found["losses"]
    return {
        **found,
        "realized_pct": percent(found["realized_usd_micros"], found["matched_cost_usd_micros"]),
        "unmatched_sales": sums.get("unmatched_sales", 0),
        "win_rate_pct": percent(found["wins"], decided),
    }


def added(parts: Iterable[Sums]) -> dict[str, int]:
    """Return sums of sums."""
    found: defaultdict[str, int] = defaultdict(int)
    for part in parts:
        for name, value in part.items():
            found[name] += value
    return dict(found)


class WalletFigures:
    """A wallet's figures; `prices` are what the API itself says of tokens, by mint."""

    def __init__(self, known: Known, prices: Mapping[str, Figures]) -> None:
        self._known = known
        self._prices = prices

    # Positions.

    def position(self, wallet: str, mint: str) -> Figures:
        """Return a position with its worth."""
        known = self._known
        sums = known.sums(wallet, mint)
        token = self._prices.get(mint, {})
        decimals = known.decimals(mint)
        found = outcome(sums, matched=known.matched_raw(wallet, mint) > 0)
        found["realized_pct"] = percent(
            found["realized_usd_micros"], found["matched_cost_usd_micros"]
        )
        for name in ("held", "bought", "sold", "received", "sent", "burned", "unmatched"):
            found[f"{name}_raw"] = str(sums.get(f"{name}_raw", 0))
        held_known = sums.get("held_known_raw", 0)
        for name in ("held_cost_lamports", "held_cost_usd_micros"):
            found[name] = str(sums.get(name, 0))
        for money, unit, whole in (("sol", "lamports", 10**9), ("usd", "usd_micros", 10**6)):
            entry = None
            if held_known and decimals is not None:
                cost = Fraction(sums.get(f"held_cost_{unit}", 0), whole)
                entry = cost / Fraction(held_known, 10**decimals)
            found[f"average_entry_{money}"] = Near(entry)
        traded = sums.get("buys", 0) + sums.get("sells", 0) > 0
        for name in ("first_trade_slot", "first_trade_ms", "last_trade_slot", "last_trade_ms"):
            found[name] = sums[name] if traded else None
        return {
            **found,
            **self._worth(mint, sums, decimals),
            "mint": mint,
            "name": token.get("name"),
            "symbol": token.get("symbol"),
            "decimals": decimals,
            "unknown_cost_raw": str(sums.get("held_raw", 0) - held_known),
            "open_lots": sums.get("lots_opened", 0) - sums.get("lots_closed", 0),
            "changed_slot": sums["changed_slot"],
        }

    def priced(self, mint: str, amount_raw: int, decimals: int | None) -> Figures:
        """Return what an amount is worth at the token's price."""
        token = self._prices.get(mint, {})
        found: Figures = {
            name: token.get(name)
            for name in ("price_sol", "price_usd", "price_time_ms", "price_slot", "is_price_stale")
        }
        for unit, price, whole in _UNITS:
            found[f"value_{unit}"] = worth(amount_raw, decimals, token.get(price), whole)
        return found

    def _worth(self, mint: str, sums: Sums, decimals: int | None) -> Figures:
        token = self._prices.get(mint, {})
        found = self.priced(mint, sums.get("held_raw", 0), decimals)
        held_known = sums.get("held_known_raw", 0)
        for unit, price, whole in _UNITS:
            value = worth(held_known, decimals, token.get(price), whole)
            gain = None
            if value is not None and held_known:
                gain = str(int(value) - sums.get(f"held_cost_{unit}", 0))
            found[f"unrealized_{unit}"] = gain
        found["unrealized_pct"] = percent(
            found["unrealized_usd_micros"], sums.get("held_cost_usd_micros", 0)
        )
        return found

    def positions(self, wallet: str) -> dict[str, Figures]:
        """Return all positions by mint."""
        mints = self._known.mints_of_wallet.get(wallet, [])
        return {mint: self.position(wallet, mint) for mint in mints}

    # Sums.

    def totals(self, wallet: str) -> Figures:
        """Return all that a wallet did."""
        days = self._known.days.get(wallet, {})
        return {
            **trading(added(days.values()), matched=self._matched(wallet, days)),
            "position_count": len(self._known.mints_of_wallet.get(wallet, [])),
        }

    def open(self, positions: Iterable[Figures]) -> Figures:
        """Return what positions hold, summed."""
        held = [position for position in positions if position["held_raw"] != "0"]
        priced = [position for position in held if position["value_lamports"] is not None]
        found: Figures = {
            "held_positions": len(held),
            "priced_positions": len(priced),
            "stale_positions": sum(bool(position["is_price_stale"]) for position in held),
            "unknown_cost_positions": sum(p["unknown_cost_raw"] != "0" for p in held),
        }
        for unit in ("lamports", "usd_micros"):
            found[f"held_cost_{unit}"] = str(sum(int(p[f"held_cost_{unit}"]) for p in held))
            for name in ("value", "unrealized"):
                parts = [p[f"{name}_{unit}"] for p in held if p[f"{name}_{unit}"] is not None]
                found[f"{name}_{unit}"] = str(sum(map(int, parts))) if parts else None
        cost = sum(
            int(p["held_cost_usd_micros"]) for p in held if p["unrealized_usd_micros"] is not None
        )
        found["unrealized_pct"] = percent(found["unrealized_usd_micros"], cost)
        return found

    def summary(self, wallet: str) -> Figures:
        """Return the last seven days."""
        today = self._known.now_ms // DAY_MS
        days = self._known.days.get(wallet, {})
        seven = {day: days.get(day, {}) for day in range(today - 6, today + 1)}
        return {
            **trading(added(seven.values()), matched=self._matched(wallet, seven)),
            "from_ms": (today - 6) * DAY_MS,
            "to_ms": (today + 1) * DAY_MS,
            "days": [
                {
                    **trading(sums, matched=self._matched(wallet, [day])),
                    "day": day_text(day),
                    "from_ms": day * DAY_MS,
                }
                for day, sums in seven.items()
            ],
        }

    def _matched(self, wallet: str, days: Iterable[int]) -> bool:
        """Return True if a gain was realized on one of the days, be it of 0."""
        return any(day in self._known.days_with_matches.get(wallet, ()) for day in days)

    # Balances.

    def native_lamports(self, wallet: str) -> int | None:
        """Return the wallet's own SOL; None where it was never seen."""
        balance = self._known.markets.balances.get((wallet, wallet))
        return balance[1] if balance else None

    def tokens(self, wallet: str) -> dict[str, Figures]:
        """Return what a wallet holds by mint, wrapped SOL among it."""
        accounts = sorted(
            (
                (mint, account, amount_raw, decimals, is_2022)
                for account, (mint, amount_raw, decimals, is_2022) in (
                    self._known.accounts.get(wallet, {}).items()
                )
                if account != wallet
            ),
            key=lambda each: (each[0], -each[2], each[1]),
        )
        found: dict[str, Figures] = {}
        for mint, group in itertools.groupby(accounts, key=lambda each: each[0]):
            rows = list(group)
            token = self._prices.get(mint, {})
            amount_raw = sum(row[2] for row in rows)
            found[mint] = {
                **self.priced(mint, amount_raw, rows[0][3]),
                "mint": mint,
                "name": token.get("name"),
                "symbol": token.get("symbol"),
                "decimals": rows[0][3],
                "program": "token-2022" if rows[0][4] else "token",
                "amount_raw": str(amount_raw),
                "accounts": [{"account": row[1], "amount_raw": str(row[2])} for row in rows],
            }
        return found

    def native(self, wallet: str) -> Figures | None:
        """Return the wallet's own SOL with its worth."""
        lamports = self.native_lamports(wallet)
        if lamports is None:
            return None
        return {**self.priced(SOL, lamports, 9), "lamports": str(lamports), "as_of_slot": None}


_UNITS = (("lamports", "price_sol", 10**9), ("usd_micros", "price_usd", 10**6))


def worth(amount_raw: int, decimals: int | None, price: float | None, whole: int) -> Any:
    """Return an amount's worth at the price of a whole token, rounded down, as JSON has it."""
    if price is None or decimals is None:
        return None
    return str(int(Fraction(price) * amount_raw * whole / 10**decimals))
