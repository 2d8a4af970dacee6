"""Stores against oracle, kind by kind."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, Final

from pipeline.chaos.books import Books, Lot, Position
from pipeline.chaos.differences import Differences
from pipeline.chaos.histories import perps
from pipeline.chaos.markets import FUZZY, INTERVALS_S, Markets, Volume
from pipeline.chaos.prices import NAMES
from pipeline.chaos.stores import Row, Stored
from pipeline.chaos.truth import Slot
from pipeline.chaos.values import SOL, Valuer
from schemas import positions
from schemas.markets import EXACT_BELOW, PRICE_SCALE, window
from schemas.solana.base58 import decode, encode

WINDOWS: Final = (("minutes", 5, 1), ("minutes", 60, 1), ("quarters", 1_440, 15))
_CURVES: Final = ("pump-fun", "raydium-launchlab", "meteora-dbc")
_U32_MAX: Final = 2**32 - 1
_MONEY: Final = ("sol", "usd")
_CANDLE_PRICES: Final = tuple(f"{name}_{money}" for name in NAMES for money in _MONEY)


@dataclass(slots=True)
class Oracle:
    """Everything computed from the truth."""

    slots: list[Slot]
    valuer: Valuer = field(default_factory=Valuer)
    books: Books = field(default_factory=Books)
    markets: Markets = field(default_factory=Markets)

    def __post_init__(self) -> None:
        for slot in self.slots:
            self.valuer.slot(slot)
            self.books.slot(slot)
            self.markets.slot(slot, self.valuer.sol_usd)
        self.books.finish()


def compare(oracle: Oracle, stored: Stored, found: Differences) -> None:
    """Note all differences."""
    tape(oracle, stored, found)
    books(oracle.books, stored, found)
    markets(oracle.markets, stored, found)
    perps(oracle.slots, stored, found)


# The tape.

Identity = tuple[str, int, int]
"""Signature, event_index and slot: what a rolled-back slot had may come again in a later one."""


def tape(oracle: Oracle, stored: Stored, found: Differences) -> None:
    """Compare slots, swaps, creations and migrations, and how many swaps each venue had."""
    found.maps(
        "slot",
        {slot.slot: _slot(slot, oracle.valuer.of_slot[slot.slot]) for slot in oracle.slots},
        {row["slot"]: _stored_slot(row) for row in stored.rows["slots"]},
    )
    swaps: dict[Identity, Row] = {}
    creations: dict[Identity, Row] = {}
    migrations: dict[Identity, Row] = {}
    for slot in oracle.slots:
        for tx in slot.transactions:
            for events, kept in (
                (tx.swaps, swaps),
                (tx.creations, creations),
                (tx.migrations, migrations),
            ):
                kept |= {_identity(event): event for event in events}
    _venues(swaps.values(), stored, found)
    fuzzy = _reserves(swaps)
    platforms = launchpads(oracle.slots)
    wanted = {key: _swap(swap) | {"platform": platforms[key]} for key, swap in swaps.items()}
    _events("swap", wanted, stored, found, fuzzy)
    _events("creation", creations, stored, found)
    _events("migration", migrations, stored, found)


def _venues(swaps: Iterable[Row], stored: Stored, found: Differences) -> None:
    """Compare how many swaps of each venue a slot has.

    What the chain garbles on purpose names no venue; nothing else is malformed.
    """
    counts = Counter((swap["slot"], swap["dex"]) for swap in swaps)
    found.maps(
        "venue",
        {key: (count, 0) for key, count in counts.items()},
        {
            (row["slot"], row["dex"]): (row["swaps"], row["malformed"])
            for row in stored.rows["outcomes"]
            if row["dex"] and (row["swaps"] or row["malformed"])
        },
    )


def _slot(slot: Slot, sol_usd: Fraction | None) -> Row:
    return {
        "parent": slot.parent,
        "blockhash": slot.blockhash,
        "block_time": slot.block_time_ms,
        "complete": True,
        "sol_usd": sol_usd,
    }


def _stored_slot(row: Row) -> Row:
    sol_usd = row["sol_usd"]
    found = {name: row[name] for name in ("parent", "blockhash", "block_time", "complete")}
    return {**found, "sol_usd": None if sol_usd is None else Fraction(sol_usd)}


def _identity(event: Row) -> Identity:
    return event["signature"], event["event_index"], event["slot"]


def _events(
    kind: str,
    expected: Mapping[Identity, Row],
    stored: Stored,
    found: Differences,
    fuzzy: Mapping[Identity, int] | None = None,
) -> None:
    """Compare the events of a table by their identity, in the columns that the truth knows."""
    table = stored.rows[f"{kind}s"]
    rows = {_identity(row): row for row in table}
    if len(rows) != len(table):
        found.add(kind, "identity", len(rows), f"{len(table)} rows")
    wanted, got = {}, {}
    for key, event in expected.items():
        row = rows.get(key)
        event = {"block_time": event["block_time_ms"], **event}
        columns = [name for name in event if row is None or name in row]
        wanted[key] = {name: event[name] for name in columns}
        if row is not None:
            got[key] = {name: row[name] for name in columns}
            for name in ("reserve_raw", "quote_reserve_raw"):
                if fuzzy and key in fuzzy and 0 <= row[name] - event[name] <= fuzzy[key]:
                    got[key][name] = event[name]
    got |= {key: row for key, row in rows.items() if key not in expected}
    found.maps(kind, wanted, got)


def launchpads(slots: Iterable[Slot]) -> dict[Identity, str]:
    """Return the launch platform of each swap's token, as far as the slots up to it name it.

    Its creation does. Without one, a curve names its own at each swap, and a migration names it
    for the swaps behind it.
    """
    found: dict[Identity, str] = {}
    created: dict[str, str] = {}
    migrated: dict[str, str] = {}
    for slot in slots:
        for tx in slot.transactions:
            events = (*tx.swaps, *tx.creations, *tx.migrations)
            for event in sorted(events, key=lambda each: each["event_index"]):
                mint, platform = event["mint"], event["platform"]
                if "side" in event:
                    named = platform if event["dex"] in _CURVES else ""
                    found[_identity(event)] = created.get(mint) or named or migrated.get(mint, "")
                elif platform:
                    (migrated if "from_pool" in event else created).setdefault(mint, platform)
    return found


def _swap(swap: Row) -> Row:
    """Return a swap as the table packs it."""
    payer, wallet = swap["fee_payer"], swap["wallet"]
    by_sol = swap["quote_mint"] == SOL
    known = {name: value for name, value in swap.items() if name != "fee_payer"}
    return {
        **known,
        "other_fee_payer": "" if payer == wallet else payer,
        "wallet_amount_diff_raw": swap["wallet_amount_raw"] - swap["amount_raw"],
        "wallet_quote_amount_diff_raw": swap["wallet_quote_amount_raw"] - swap["quote_amount_raw"],
        "sol_value_unlike_quote_lamports": None if by_sol else swap["sol_value_lamports"],
        "base_fee_lamports": swap["fee_lamports"] - swap["priority_fee_lamports"],
    }


def _reserves(swaps: Mapping[Identity, Row]) -> dict[Identity, int]:
    """Return by how much reserves may be more than the market knows them to be.

    Not more than the whole of the fee, of which a part is the protocol's.
    """
    return {key: swap["pool_fee_raw"] for key, swap in swaps.items() if swap["dex"] == FUZZY}


# Books of wallets.


def books(expected: Books, stored: Stored, found: Differences) -> None:
    """Compare positions, lots, matches, days and leaderboards."""
    places = expected.positions
    ends = expected.at_days_end
    found.maps(
        "position",
        {
            place: _sums(positions.Position, _last_day(ends, place, held))
            for place, held in places.items()
        },
        {place: _fields(position) for place, position in stored.positions.items()},
    )
    found.maps(
        "open lots",
        {place: [_lot(lot) for lot in _tail(held)] for place, held in places.items()},
        {place: list(map(tuple, lots)) for place, lots in stored.tails.items()},
    )
    found.maps(
        "chunk of lots",
        {
            (*place, number): [_lot(lot) for lot in lots]
            for place, held in places.items()
            for number, lots in held.chunks.items()
        },
        {key: list(map(tuple, lots)) for key, lots in stored.chunks.items()},
    )
    found.maps(
        "positions row",
        {key: _without_head(_sums(positions.Position, sums)) for key, sums in ends.items()},
        {
            (row["wallet"], row["mint"], _day(row)): _from_row(positions.Position, row)
            for row in stored.rows["positions"]
        },
    )
    _matches(expected, stored, found)
    days = {key: _sums(positions.WalletDay, sums) for key, sums in expected.days.items()}
    found.maps("day", days, {key: _fields(day) for key, day in stored.days.items()})
    found.maps(
        "wallet_days row",
        days,
        {
            (row["wallet"], _day(row)): _from_row(positions.WalletDay, row)
            for row in stored.rows["wallet_days"]
        },
    )
    totals: defaultdict[str, Row] = defaultdict(dict)
    for (wallet, _), sums in days.items():
        total = totals[wallet]
        for name, value in sums.items():
            before = total.get(name, 0)
            total[name] = max(before, value) if name == "changed_slot" else before + value
    found.maps("wallet", totals, {key: _fields(day) for key, day in stored.totals.items()})
    found.maps(
        "top of mint",
        {(mint, wallet): _realized(held.sums) for (wallet, mint), held in places.items()},
        stored.top_of_mint,
    )


def _without_head(position: Row) -> Row:
    """Leave out what a row does not have."""
    return {name: value for name, value in position.items() if name != "head_taken_raw"}


def _last_day(
    ends: Mapping[tuple[str, str, int], Row], place: tuple[str, str], held: Position
) -> Row:
    assert held.day is not None
    return ends[*place, held.day]


def _matches(expected: Books, stored: Stored, found: Differences) -> None:
    def key(row: Row) -> tuple[Any, ...]:
        lot = _U32_MAX if row["lot_number"] is None else row["lot_number"]
        return row["wallet"], row["mint"], row["slot"], row["tx_index"], row["kind"], lot

    wanted = [
        {
            "wallet": match.at.wallet,
            "mint": match.at.mint,
            "signature": match.at.signature,
            "slot": match.at.slot,
            "tx_index": match.at.tx_index,
            "event_index": match.at.event_index,
            "block_time": match.at.time_ms,
            "kind": match.kind,
            "lot_number": match.lot.number if match.lot else None,
            "lot_slot": match.lot.slot if match.lot else 0,
            "lot_tx_index": match.lot.tx_index if match.lot else 0,
            "lot_time": match.lot.time_ms if match.lot else 0,
            "quantity_raw": match.quantity_raw,
            "cost_lamports": match.cost[0] if match.cost else None,
            "cost_usd_micros": match.cost[1] if match.cost else None,
            "proceeds_lamports": match.proceeds[0] if match.proceeds else None,
            "proceeds_usd_micros": match.proceeds[1] if match.proceeds else None,
        }
        for match in expected.matches
    ]
    rows = stored.rows["lot_matches"]
    found.maps("match", {key(row): row for row in wanted}, {key(row): row for row in rows})


def _tail(held: Position) -> Iterable[Lot]:
    opened = held.sums["lots_opened"]
    first = opened - opened % positions.CHUNK_LOTS
    return [lot for lot in held.lots if lot.number >= first]


def _lot(lot: Lot) -> tuple[int, ...]:
    lamports, micros = lot.cost or (0, 0)
    known = int(lot.cost is not None)
    return lot.quantity_raw, lamports, micros, lot.slot, lot.time_ms, lot.tx_index, known


def _realized(sums: Mapping[str, int]) -> int:
    return sums["matched_proceeds_usd_micros"] - sums["matched_cost_usd_micros"]


def _fields(record: Any) -> Row:
    return {each.name: getattr(record, each.name) for each in fields(record)}


def _sums(record: type[Any], sums: Mapping[str, int]) -> Row:
    return {each.name: sums.get(each.name, 0) for each in fields(record)}


def _from_row(record: type[Any], row: Row) -> Row:
    """Return the fields of a record from a row, whose sums may be in two halves."""
    low = [name for name in row if name.endswith("_low")]
    overflow = row["overflow"] or [0] * len(low)
    found = {
        name.removesuffix("_low"): row[name] + (high << 64)
        for name, high in zip(low, overflow, strict=True)
    }
    renamed = {"changed_slot": "slot", "first_trade_ms": "first_trade_time"}
    renamed |= {"last_trade_ms": "last_trade_time"}
    for each in fields(record):
        if each.name not in found and each.name != "head_taken_raw":
            found[each.name] = row[renamed.get(each.name, each.name)]
    return found


def _day(row: Row) -> int:
    day: int = row["day"].toordinal() - 719_163
    return day


# Markets of mints.


def markets(expected: Markets, stored: Stored, found: Differences) -> None:
    """Compare candles, windows, balances and holders."""
    _candles(expected, stored, found)
    _windows(expected, stored, found)
    found.maps(
        "balance",
        expected.balances,
        {
            key: (encode(b.mint), b.amount_raw, b.decimals, b.is_token_2022)
            for key, b in stored.balances.items()
        },
    )
    holders = {mint: held.by_owner() for mint, held in expected.holders.items()}
    found.maps(
        "holder",
        {(mint, owner): raw for mint, of in holders.items() for owner, raw in of.items()},
        {
            key: stored.exact.get(key, 0) if score >= EXACT_BELOW else int(score)
            for key, score in stored.holders.items()
        },
    )
    found.maps(
        "holder count",
        {mint: len(of) for mint, of in holders.items()},
        {mint: head.holder_count for mint, head in stored.heads.items()},
    )
    found.maps(
        "creator's holding",
        {mint: holders[mint].get(held.creator, 0) for mint, held in expected.holders.items()},
        {mint: head.creator_raw for mint, head in stored.heads.items()},
    )
    found.maps(
        "account",
        {
            (mint, account): (owner, amount_raw, account in held.vaults)
            for mint, held in expected.holders.items()
            for account, (owner, amount_raw) in held.accounts.items()
            if amount_raw or account in held.vaults
        },
        {
            key: (encode(account.owner), account.amount_raw, account.is_vault)
            for key, account in stored.accounts.items()
        },
    )
    _snapshots(expected, stored, found)
    _traders(expected, stored, found)
    tokens = {
        row["mint"]: {n: v for n, v in row.items() if n not in ("mint", "slot")}
        for row in stored.rows["tokens"]
    }
    found.maps("token", dict(expected.tokens), tokens)
    found.maps(
        "last seen",
        {mint: slot.block_time_ms for mint, slot in expected.last.items()},
        {mint: head.time_ms for mint, head in stored.heads.items()},
    )


def _snapshots(expected: Markets, stored: Stored, found: Differences) -> None:
    """Compare the snapshots of holders."""
    rows = {(row["mint"], row["block_time"]): row for row in stored.rows["holder_snapshots"]}
    found.maps(
        "snapshot of holders",
        expected.snapshots,
        {
            key: {n: v for n, v in row.items() if n not in ("mint", "block_time")}
            for key, row in rows.items()
        },
    )


def _traders(expected: Markets, stored: Stored, found: Differences) -> None:
    """Compare who traded when and how much, and the scores that follow from it."""
    traders = {
        (mint, decode(pool) + decode(wallet)): minute << 27 | cents
        for mint in expected.trades
        for (pool, wallet), (minute, cents) in expected.traders(mint).items()
    }
    found.maps("trader", traders, stored.traders)
    scores = {
        mint: expected.score(mint)
        for mint, token in expected.tokens.items()
        if token["platform"] and mint in expected.trades
    }
    found.maps("trending", {m: score for m, score in scores.items() if score}, stored.trending)


def _candles(expected: Markets, stored: Stored, found: Differences) -> None:
    """Compare candles, those that are written and those that run, and last prices."""
    got: dict[tuple[str, int, int], Row] = {}
    for row in stored.rows["candles"]:
        key = row["mint"], row["interval_s"], row["start"] // 1000
        renamed = {"lamports": "volume_lamports", "usd_micros": "volume_usd_micros"}
        got[key] = {each.name: row[renamed.get(each.name, each.name)] for each in fields(Volume)}
        got[key] |= {name: row[name] for name in _CANDLE_PRICES}
    for (mint, place), candle in stored.candles.items():
        running = _fields(candle)
        key = mint, INTERVALS_S[place], candle.start_s
        got[key] = {each.name: running[each.name] for each in fields(Volume)}
        got[key] |= {name: running[name] / PRICE_SCALE for name in _CANDLE_PRICES}
    wanted = {
        key: _fields(volume)
        | {name: price / PRICE_SCALE for name, price in expected.prices.candle(key).items()}
        for key, volume in expected.candles.items()
    }
    last = {mint: dict(zip(_MONEY, of, strict=True)) for mint, of in expected.prices.last.items()}
    heads = {
        mint: {"sol": head.price_sol, "usd": head.price_usd}
        for mint, head in stored.heads.items()
        if head.price_sol
    }
    for mint in filter(expected.is_fuzzy, [*last]):
        _take_near(last[mint], heads.get(mint, {}))
    for key in wanted:
        if expected.is_fuzzy(key[0]):
            _take_near(wanted[key], {n: got.get(key, {}).get(n, 0) for n in _CANDLE_PRICES})
    found.maps("candle", wanted, got)
    found.maps("price", last, heads)


def _take_near(exact: Row, seen: Row) -> None:
    """Take figures for exact that are within a hundredth."""
    exact |= {
        name: figure for name, figure in seen.items() if abs(figure - exact[name]) * 100 <= figure
    }


def _windows(expected: Markets, stored: Stored, found: Differences) -> None:
    """Compare the rolling figures as they are at a mint's last event."""
    wanted: dict[tuple[str, str, int], Row] = {}
    got: dict[tuple[str, str, int], Row] = {}
    for mint, trades in expected.trades.items():
        now_min = max(trade.minute for trade in trades)
        pools = {trade.swap["pool"] for trade in trades}
        for name, minutes, width in WINDOWS:
            wanted[mint, name, minutes] = _window(expected, mint, now_min, minutes, width, None)
        for pool in pools:
            key = mint, f"pool:{pool}", 1_440
            wanted[key] = _window(expected, mint, now_min, 1_440, 15, pool)
        for key in [key for key in wanted if key[0] == mint]:
            packed = stored.series.get(key[:2])
            if packed is not None:
                figures = window(packed, now_min, key[2])
                got[key] = {
                    "traders": figures.traders,
                    "buys": figures.buys,
                    "sells": figures.sells,
                    "lamports": figures.buy_lamports + figures.sell_lamports,
                    "usd_micros": figures.buy_usd_micros + figures.sell_usd_micros,
                }
    found.maps("window", wanted, got)


def _window(
    expected: Markets, mint: str, now_min: int, minutes: int, width: int, pool: str | None
) -> Row:
    traders, volume = expected.window(mint, now_min, minutes, width, pool)
    return {
        "traders": traders,
        "buys": volume.buys,
        "sells": volume.sells,
        "lamports": volume.lamports,
        "usd_micros": volume.usd_micros,
    }
