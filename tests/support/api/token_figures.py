"""What the API must say of tokens, from the oracle and from the world before its first slot.

A price follows from a token's pools in a way that is tested apart: here it has bounds, and what is
said of it must be consistent.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from infra.chain.market import Knobs, Market
from pipeline.chaos.markets import CURVES, PROGRAM, Trade
from pipeline.chaos.prices import disclosed_by
from pipeline.chaos.values import DOLLARS, MONEY, SOL
from schemas.solana.addresses import TOKEN_2022_PROGRAM, text
from tests.support.api.asking import Near
from tests.support.api.oracle import Coin, Known
from tests.support.api.wallet_figures import Figures, percent

PROGRAM_2022 = text(TOKEN_2022_PROGRAM)
NFT = Coin("Meteora Position NFT", "MPN", "", 1)  # of a position, minted when it is opened
DAY_MIN = 1_440
QUARTER_MIN = 15
DUST_LAMPORTS, DUST_RAW = 10_000, 100  # a trade below either shows no price and no depth
PUMP_FUN_FOR_SALE_RAW = 793_100_000_000_000  # of each coin, before it migrates
TRADER = (
    *("bought_raw", "bought_usd_micros", "sold_raw", "sold_usd_micros", "held_raw"),
    "unmatched_raw",
)
COUNTS = ("buys", "sells", "wins", "losses")
OTHER_SIDE = {"buys": "sells", "buy_volume_usd_micros": "sell_volume_usd_micros"}
OTHER_SIDE |= {sell: buy for buy, sell in OTHER_SIDE.items()}


def coins_of(seed: int, wallets: int, metadata_origin: str) -> dict[str, Coin]:
    """Return the mints that exist when the chain starts."""
    knobs = Knobs(seed=seed, wallets=wallets, metadata_origin=metadata_origin)
    world = Market(knobs).world
    return {
        mint.text: Coin(mint.name, mint.symbol, mint.uri, mint.supply_raw)
        for mint in world.ledger.mints.values()
    }


class TokenFigures:
    """Tokens' figures; `coins` are those that were there before the first slot."""

    def __init__(self, known: Known, coins: dict[str, Coin]) -> None:
        self._known = known
        self.coins = coins

    def about(self, mint: str) -> Figures:
        """Return what a token is, but for the supply that the RPC reports."""
        token = self._known.markets.tokens.get(mint, {})
        coin = self._coin(mint)
        is_created = bool(token.get("created_slot"))
        found: Figures = {
            "mint": mint,
            "decimals": token.get("decimals"),
            "creator": token.get("creator") or None,
            "platform": token.get("platform") or None,
            "dex": token.get("dex") or None,
            "pool": token.get("pool") or None,
            "quote_mint": token.get("quote_mint") or None,
            "token_program": token.get("token_program") or None,
            "created_slot": token.get("created_slot"),
            "created_ms": token.get("created_at"),
            "is_migrated": token.get("migrated_slot") is not None,
            "migrated_slot": token.get("migrated_slot"),
            "migrated_ms": token.get("migrated_at"),
            "migrated_dex": token.get("migrated_dex") or None,
            "migrated_pool": token.get("migrated_pool") or None,
        }
        if mint in DOLLARS:  # their accounts are not followed
            found["token_program"] = PROGRAM
        for name in ("name", "symbol", "uri"):
            value = token.get(name) if is_created else getattr(coin, name, None)
            found[name] = value or None
        if mint == SOL:  # known without the chain: the wrapped account's metadata is not its name
            found |= {"name": "Solana", "decimals": 9}
        if is_created:
            found |= self.supply(mint)
        return found

    def _coin(self, mint: str) -> Coin | None:
        """Return a mint that was there before the first slot, or the NFT of a DAMM v2 position."""
        token = self._known.markets.tokens.get(mint, {})
        is_nft = token.get("decimals") == 0 and token.get("token_program") == PROGRAM_2022
        return self.coins.get(mint) or (NFT if is_nft else None)

    def may_be_closed(self, mint: str, answer: Figures) -> bool:
        """Return whether the RPC may have had nothing: the NFT of a position ends with it."""
        return self._coin(mint) is NFT and answer["supply_source"] is None

    def supply(self, mint: str) -> Figures:
        """Return the supply in a token's creation."""
        token = self._known.markets.tokens[mint]
        return {
            "supply_raw": str(token["supply_raw"]),
            "supply_source": "creation",
            "supply_time_ms": token["created_at"],
            "supply_slot": token["created_slot"],
        }

    def wrong_supply(self, mint: str, answer: Figures) -> list[Any]:
        """Return what cannot be of the supply that the RPC reported for a token, or did not.

        Nothing is minted after its creation but shares of pools, which have no name. The RPC says
        of the chain as it is: what an orphaned transaction burned may be missing.
        """
        coin = self._coin(mint)
        if answer["supply_source"] != "rpc":
            return (
                [] if answer["supply_raw"] is None and answer["supply_source"] is None else [answer]
            )
        if coin is None or not coin.name:
            return [] if answer["name"] is None and int(answer["supply_raw"]) >= 0 else [answer]
        burned = self._known.burned[mint]
        fits = coin.supply_raw - burned <= int(answer["supply_raw"]) <= coin.supply_raw
        return [] if fits else [(coin.supply_raw, burned, answer["supply_raw"])]

    def named(self, mint: str) -> Figures:
        """Return which token it is."""
        about = self.about(mint)
        return {name: about[name] for name in ("mint", "name", "symbol", "decimals")}

    def wrong_price(self, mint: str, answer: Figures) -> list[Any]:
        """Return what cannot be of a price, or of what is said along with it."""
        found: list[Any] = []
        price, usd = answer["price_sol"], answer["price_usd"]
        if mint == SOL:
            expected: Figures = {"price_sol": 1.0, "price_usd": Near(self._known.sol_usd)}
            return [answer] if any(answer[n] != v for n, v in expected.items()) else []
        if price is None:
            rest = ("price_usd", "price_time_ms", "price_slot", "price_source", "is_price_stale")
            return [answer] if any(answer[name] is not None for name in rest) else []
        if mint not in DOLLARS:
            least, most = self._known.price_bounds(mint)
            if not least <= Fraction(price) <= most:
                found.append((float(least), price, float(most)))
        if usd is None:  # it has not traded since SOL itself has a price that is settled
            since = min(slot for slot, of in self._known.oracle.valuer.of_slot.items() if of)
            if answer["price_slot"] > since + 8:
                found.append(("price_usd", None, answer["price_slot"]))
        else:
            ratio = Fraction(usd) / Fraction(price) / self._known.sol_usd
            if not Fraction(9, 10) < ratio < Fraction(11, 10):
                found.append(("dollars for a SOL", float(ratio)))
        first, last = self._known.oracle.slots[0], self._known.oracle.slots[-1]
        # The live lane also has slots that were not confirmed, or not seen whole at the start.
        if not first.slot - 8 <= answer["price_slot"] <= last.slot + 8:
            found.append(("price_slot", answer["price_slot"]))
        if answer["is_price_stale"] is not False:
            found.append(("is_price_stale", answer["is_price_stale"]))
        if answer["change_24h_pct"] is not None:  # the chain is not a day old
            found.append(("change_24h_pct", answer["change_24h_pct"]))
        cap = None
        if answer["supply_raw"] is not None and usd is not None:
            cap = Fraction(int(answer["supply_raw"]), 10 ** answer["decimals"]) * Fraction(usd)
        if Near(cap) != answer["market_cap_usd"]:
            found.append(("market_cap_usd", Near(cap), answer["market_cap_usd"]))
        return found

    # Market.

    def market(self, mint: str, supply_raw: str | None) -> Figures:
        """Return a market's figures."""
        markets = self._known.markets
        followed = mint in markets.holders and mint not in MONEY
        holders = markets.holders[mint].by_owner() if followed else {}
        creator = markets.tokens[mint]["creator"] if mint in markets.tokens else ""
        held = str(holders.get(creator, 0)) if creator else None
        return {
            "creator_balance_raw": held,
            "creator_pct": percent(held, supply_raw or 0),
            "bonding_curve_pct": self.curve_pct(mint),
            "holder_count": len(holders) if mint in markets.last and mint not in MONEY else None,
            "last_activity_ms": markets.last[mint].block_time_ms if mint in markets.last else None,
        }

    def curve_pct(self, mint: str) -> Near:
        """Return how much of a token's curve is done."""
        token = self._known.markets.tokens.get(mint, {})
        if token.get("migrated_slot"):
            return Near(Fraction(100))
        done = None
        for trade in self._known.markets.trades.get(mint, []):
            swap = trade.swap
            whole, left = None, 0
            if swap["dex"] == "pump-fun":
                whole, left = PUMP_FUN_FOR_SALE_RAW, swap["reserve_raw"]
            elif swap["dex"] == "raydium-launchlab":
                whole, left = swap["for_sale_raw"], swap["reserve_raw"]
            elif swap["dex"] == "meteora-dbc":
                whole = swap["migration_quote_raw"]
                left = (whole or 0) - swap["quote_reserve_raw"]
            if whole:
                done = min(max(Fraction(100 * (whole - left), whole), Fraction(0)), Fraction(100))
        return Near(done)

    def liquidity_lamports(self, mint: str) -> int | None:
        """Return what pools hold, both sides, where that can be said without a price."""
        last = {
            trade.swap["pool"]: trade.swap
            for trade in self._known.markets.trades.get(mint, [])
            if trade.swap["amount_raw"] >= DUST_RAW
            and (trade.swap["sol_value_lamports"] or 0) >= DUST_LAMPORTS
        }
        simple = all(
            swap["quote_mint"] == SOL
            and swap["quote_reserve_raw"] is not None
            and swap["dex"] not in ("raydium-cpmm", *CURVES)
            for swap in last.values()
        )
        if not last or not simple:
            return None
        # A concentrated pool is at most as deep as its liquidity: fees in its vaults do not count.
        return sum(2 * (disclosed_by(swap)[0] or 0) for swap in last.values())

    def day(self, mint: str, pool: str | None = None) -> Figures | None:
        """Return the trades of the last 24 hours: quarter hours that began within them."""
        now_min = self._known.now_ms // 60_000
        trades = [
            trade
            for trade in self._known.markets.trades.get(mint, [])
            if pool in (None, trade.swap["pool"])
            and now_min - DAY_MIN < trade.minute - trade.minute % QUARTER_MIN <= now_min
        ]
        if not trades:
            return None
        buys = [trade for trade in trades if trade.swap["side"] == "buy"]
        sells = [trade for trade in trades if trade.swap["side"] == "sell"]
        return {
            "buys": len(buys),
            "sells": len(sells),
            "traders": len({trade.wallet for trade in trades}),
            "buy_volume_usd_micros": str(usd_micros(buys)),
            "sell_volume_usd_micros": str(usd_micros(sells)),
            "volume_usd_micros": str(usd_micros(trades)),
            "volume_lamports": str(sum(t.swap["sol_value_lamports"] or 0 for t in trades)),
        }

    def pools(self, mint: str) -> dict[str, Figures]:
        """Return the pools that a token was traded in; of SOL those with dollar coins."""
        if mint == SOL:
            return self._pools_of_sol()
        found: dict[str, Figures] = {}
        for trade in self._known.markets.trades.get(mint, []):
            swap = trade.swap
            before = found.get(swap["pool"], {"reserve_raw": None})
            reserve = before["reserve_raw"]
            if swap["reserve_raw"] is not None:
                reserve = str(swap["reserve_raw"])
            found[swap["pool"]] = {
                "pool": swap["pool"],
                "dex": swap["dex"],
                "quote_mint": swap["quote_mint"],
                "reserve_raw": reserve,
                "last_trade_slot": swap["slot"],
                "last_trade_ms": swap["block_time_ms"],
                "day": self.day(mint, swap["pool"]),
            }
        return found

    def _pools_of_sol(self) -> dict[str, Figures]:
        """Return the pools of dollar coins that are quoted in SOL, seen from SOL."""
        found: dict[str, Figures] = {}
        for coin in DOLLARS:
            trades = self._known.markets.trades.get(coin, [])
            reserves: dict[str, str | None] = {}
            for trade in trades:
                if trade.swap["quote_reserve_raw"] is not None:
                    reserves[trade.swap["pool"]] = str(trade.swap["quote_reserve_raw"])
            for name, pool in self.pools(coin).items():
                if pool["quote_mint"] == SOL:
                    day = pool["day"]
                    if day is not None:
                        day = {OTHER_SIDE.get(key, key): value for key, value in day.items()}
                    mirrored = {"quote_mint": coin, "reserve_raw": reserves.get(name), "day": day}
                    found[name] = pool | mirrored
        return found

    # Who holds, who gained.

    def holders(self, mint: str) -> list[tuple[str, int]]:
        """Return owners and balances, largest first; equal ones in any order."""
        found = self._known.markets.holders[mint].by_owner()
        return sorted(found.items(), key=lambda each: -each[1])

    def traders(self, mint: str) -> list[Figures]:
        """Return those that realized gains or losses, the largest gain first, then by address."""
        known = self._known
        found = []
        for wallet in known.wallets_of_mint.get(mint, []):
            sums = known.sums(wallet, mint)
            usd, lamports = (
                sums.get(f"matched_proceeds_{unit}", 0) - sums.get(f"matched_cost_{unit}", 0)
                for unit in ("usd_micros", "lamports")
            )
            if not usd:
                continue
            traded = sums.get("buys", 0) + sums.get("sells", 0) > 0
            found.append(
                {
                    "wallet": wallet,
                    "realized_usd_micros": str(usd),
                    "realized_lamports": str(lamports),
                    "realized_pct": percent(str(usd), sums.get("matched_cost_usd_micros", 0)),
                    **{name: str(sums.get(name, 0)) for name in TRADER},
                    **{name: sums.get(name, 0) for name in COUNTS},
                    "first_trade_ms": sums["first_trade_ms"] if traded else None,
                    "last_trade_ms": sums["last_trade_ms"] if traded else None,
                }
            )
        found.sort(key=lambda each: (-int(each["realized_usd_micros"]), each["wallet"]))
        return [{"rank": rank, **each} for rank, each in enumerate(found, start=1)]

    def trending(self) -> dict[str, int]:
        """Return the scores of the tokens of launch platforms, in 1/1024."""
        markets = self._known.markets
        scores = {
            mint: markets.score(mint)
            for mint, token in markets.tokens.items()
            if token["platform"] and mint in markets.trades
        }
        return {mint: score for mint, score in scores.items() if score}

    def trending_record(self, mint: str, supply_raw: str) -> Figures:
        """Return what the trending list says of a token of that supply, but price and score."""
        about, day = self.about(mint), self.day(mint)
        assert day is not None
        raw = int(supply_raw)
        market = self.market(mint, supply_raw)
        top10 = sum(raw for _, raw in self.holders(mint)[:10])
        return {
            **{name: about[name] for name in ("mint", "name", "symbol", "creator", "decimals")},
            "dex": about["platform"],
            "buy_count": day["buys"],
            "sell_count": day["sells"],
            "buy_volume_24h": dollars(day["buy_volume_usd_micros"]),
            "sell_volume_24h": dollars(day["sell_volume_usd_micros"]),
            "total_volume_24h": dollars(day["volume_usd_micros"]),
            "holder_count": market["holder_count"],
            "top10_holders_pct": Near(Fraction(100 * top10, raw)),
            "dev_holding_pct": market["creator_pct"],
            "bonding_curve_pct": market["bonding_curve_pct"],
            "is_migrated": about["is_migrated"],
            "supply": Near(Fraction(raw, 10 ** about["decimals"])),
        }


def usd_micros(trades: Iterable[Trade]) -> int:
    """Return what trades were worth."""
    return sum(trade.swap["usd_value_micros"] or 0 for trade in trades)


def dollars(micros: str) -> Near:
    """Return an answer's millionths of a dollar in dollars."""
    return Near(Fraction(int(micros), 10**6))
