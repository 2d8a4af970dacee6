"""Trading young coins: sniping, buying into the rise, selling into the fall, moving to a pool."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import accumulate
from math import exp, log
from random import Random
from typing import Final

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, Intent, Step
from infra.chain.market.runtime.ledger import Mint, metadata_address
from infra.chain.market.runtime.programs import USDC
from infra.chain.market.traders.launching import Curve, Launching
from infra.chain.market.traders.swap_plan import SwapPlan, swap_step
from infra.chain.market.traders.trading import Habit, Trading
from infra.chain.market.traders.valuation import Life
from infra.chain.market.venues import meteora_dbc, pump_launch, raydium_launchlab
from infra.chain.market.venues.meteora_damm_v2 import DammV2Pool, nft_account, position_address
from infra.chain.market.venues.meteora_dbc import DbcCurve
from infra.chain.market.venues.pump_fun import BondingCurve
from infra.chain.market.venues.pump_fun_v2 import DollarCurve
from infra.chain.market.venues.pump_swap import PumpSwapPool
from infra.chain.market.venues.raydium_cpmm import CpmmPool
from infra.chain.market.venues.raydium_launchlab import LaunchLabCurve
from infra.chain.market.venues.venue import Pool, Trader
from infra.chain.market.world.genesis import World
from infra.chain.market.world.wallets import Wallet
from schemas.amounts import LAMPORTS

EAGERNESS: Final = 4.0
LEAST_SHARE: Final = 0.06  # of trades against what the coin is worth
ATTENTION_EVERY_SLOTS: Final = 5
OPENING_MS: Final = 60_000  # a market begins with some coins that are popular already
POPULAR_EVERY: Final = 5  # of the coins launched then
BUYS_AGAIN: Final = 0.5  # of purchases: by one who bought before
SNIPED_SLOTS: Final = 2
LINGER_MS: Final = 120_000  # a dead coin is still on the chain for so long
WHALES: Final = 0.005
WHALE_FACTOR: Final = 8


class Curves:
    """Habits around launched coins, from their creation to their death."""

    def __init__(self, trading: Trading, slot_ms: int, tempo: float) -> None:
        self._trading = trading
        self._world = trading.world
        self._random = trading.random
        self._signer = trading.signer
        self._slot_ms = slot_ms
        self._tempo = tempo
        self._fates = Random(trading.random.random())  # noqa: S311 - reproducible, not secret
        self._launching = Launching(trading, self._born)
        self._time_ms = 0.0
        self._born_count = 0
        self.lives: dict[bytes, Life] = {}  # by coin, oldest first
        self._newest: list[Life] = []
        self._known: list[Life] = []
        self._weights: list[float] = []
        self._graduates: list[Mint] = []

    def begin_slot(self, slot: int, time_ms: float) -> list[Habit]:
        """Look at what the last slots brought; returns what cannot wait."""
        self._time_ms = time_ms
        lives = self.lives
        if slot % ATTENTION_EVERY_SLOTS == 0 or not self._known:
            self._known = [life for life in lives.values() if not life.over(time_ms)]
            self._weights = list(accumulate(map(self._weight, self._known)))
            self._graduates = [life.coin for life in self._known if not life.curve.alive]
        urgent: list[Habit] = []
        self._newest = [life for life in self._newest if life.coin.address in lives]
        for life in self._newest:
            urgent += [partial(self.snipe, life)] * self._random.randrange(4)
        sniped_ms = SNIPED_SLOTS * self._slot_ms
        self._newest = [life for life in self._newest if time_ms - life.born_ms < sniped_ms]
        urgent += [
            partial(self.migrate, curve)
            for curve in self._world.directory.curves.values()
            if curve.full
        ]
        return urgent

    def launch(self) -> Intent | None:
        """Create a coin."""
        return self._launching.launch()

    def _weight(self, life: Life) -> float:
        return life.popularity * life.attention(self._time_ms)

    def _born(self, tx: Execution, curve: Curve) -> None:
        coin = curve.sides[0].address
        launched, lives = self._world.launched, self.lives
        opening = self._time_ms < OPENING_MS and self._born_count % POPULAR_EVERY == 0
        self._born_count += 1
        life = Life.drawn(curve, self._time_ms, self._fates, tempo=self._tempo, popular=opening)
        launched[coin] = curve
        lives[coin] = life
        self._newest.append(life)
        tx.changes.undo.append(lambda: (launched.pop(coin, None), lives.pop(coin, None)))

    def graduates(self) -> list[Mint]:
        """Return the coins that left their curve and are alive."""
        return self._graduates

    def retire(self, curves_kept: int, pools_kept: int) -> set[bytes]:
        """Forget coins that died some time ago, and the oldest beyond these numbers.

        Returns the addresses of all accounts that are gone or changed.
        """
        lives = self.lives.values()
        long_ago = self._time_ms - LINGER_MS / self._tempo
        gone = {life: None for life in lives if life.over(long_ago)}
        on_curve = [life for life in lives if life.curve.alive and life not in gone]
        moved = [life for life in lives if not life.curve.alive and life not in gone]
        gone.update(dict.fromkeys((*on_curve[:-curves_kept], *moved[:-pools_kept])))
        return {address for life in gone for address in self._forget(life)}

    def _forget(self, life: Life) -> set[bytes]:
        """Drop a coin with its curve, pools and accounts; returns the accounts."""
        directory, coin = self._world.directory, life.coin
        owned = [metadata_address(coin)]
        shares: list[bytes] = []
        for pool in (life.curve, *directory.of(coin)):
            pool.alive = False
            directory.remove(pool)
            owned += (pool.address, *pool.vaults)
            if isinstance(pool, CpmmPool | PumpSwapPool):
                shares.append(pool.lp_mint)
            if isinstance(pool, DammV2Pool):
                nft = pool.first_nft
                owned += (nft_account(nft), nft, position_address(nft))
        del self.lives[coin.address], self._world.launched[coin.address]
        return self._world.ledger.forget(coin.address, *shares, *owned)

    # Trading.

    def play(self) -> Intent | None:
        """Buy or sell a young coin; the popular ones are traded more."""
        random = self._random
        if not self._known:
            return self.launch()
        [life] = random.choices(self._known, cum_weights=self._weights)
        market = self.market_of(life)
        if market is None:
            return None
        gap = life.log_worth(self._time_ms) - log(market.price_of(life.coin) / life.first_price)
        selling = 1 / (1 + exp(min(EAGERNESS * gap, 50.0)))
        if random.random() < min(max(selling, LEAST_SHARE), 1 - LEAST_SHARE):
            return self._sell_some(life, market)
        again = life.bought_by and random.random() < BUYS_AGAIN
        wallet = random.choice(life.bought_by if again else self._world.holders)
        lamports = self._size(market, life, gap)
        life.bought_by.append(wallet)
        return self._buy(wallet, market, lamports, hurry=0.4)

    def snipe(self, life: Life) -> Intent | None:
        """Buy within two slots after the creation."""
        if not life.curve.alive or life.curve.full:
            return None
        sniper = self._random.choice(self._world.snipers)
        life.bought_by.append(sniper)
        spent = self._random.lognormvariate(-1.5, 0.8) * self._one_sol(life.curve)
        return self._buy(sniper, life.curve, int(spent), hurry=0.95)

    def _one_sol(self, market: Pool) -> float:
        """Return what one SOL is worth in a curve's quote, raw."""
        dollars = isinstance(market, DollarCurve)
        return LAMPORTS / (self._world.worth[USDC] if dollars else 1.0)

    def market_of(self, life: Life) -> Pool | None:
        """Return where a coin is traded now."""
        if life.curve.alive:
            return None if life.curve.full else life.curve
        pools = self._world.directory.of(life.coin)
        return pools[0] if pools else None

    def _size(self, market: Pool, life: Life, gap: float) -> int:
        """Return what is spent: as usual, or a part of what the price is below the worth."""
        random, one_sol = self._random, self._one_sol(market)
        usual = random.lognormvariate(-1.2, 1.1) * one_sol
        if random.random() < WHALES:
            usual *= WHALE_FACTOR
        if gap <= 0:
            return int(usual / 4 + one_sol / 1_000)
        price = life.first_price * exp(life.log_worth(self._time_ms))
        mint, needed = market.trade_to(price if market.sides[0] is life.coin else 1 / price)
        if mint is life.coin:
            needed = 0
        return int(max(min(usual, needed), needed * random.uniform(0.02, 0.2), one_sol / 1_000))

    def _sell_some(self, life: Life, market: Pool) -> Intent | None:
        """Let one who bought sell; who has sold everything is forgotten."""
        ledger, coin, bought_by = self._world.ledger, life.coin, life.bought_by
        while bought_by:
            place = self._random.randrange(len(bought_by))
            wallet = bought_by[place]
            held = ledger.held(wallet.address, coin)
            if held:
                return self._sell(wallet, market, coin, held)
            bought_by[place] = bought_by[-1]
            bought_by.pop()
        return None

    def _buy(self, wallet: Wallet, curve: Pool, lamports: int, hurry: float) -> Intent | None:
        ledger, random = self._world.ledger, self._random
        sol = self._world.sol
        if isinstance(curve, DollarCurve):
            return self._buy_with_dollars(wallet, curve, lamports, hurry)
        quoted = curve.quote(sol, lamports)
        if quoted <= 0:
            return None
        if ledger.lamports.get(wallet.address, 0) < lamports + LAMPORTS // 10:
            return self._trading.refill(wallet)
        if not isinstance(curve, BondingCurve):
            return self._swap(wallet, curve, sol, lamports, quoted, hurry)
        coin, owner = curve.sides[0], wallet.address
        trader = Trader(owner, owner, ledger.associated(owner, coin), owner)
        limit = lamports * 103 // 100
        if self._trading.fails():
            limit //= 2
        step: Step
        if random.random() < 0.5:
            step = partial(_buy_tokens, curve, trader, quoted * 98 // 100, limit)
        else:
            step = swap_step(curve, trader, sol, lamports, self._trading.least(quoted))
        steps = [lambda tx: spl.create_associated(tx, owner, owner, coin), step]
        return self._signer.sign(wallet, steps, 120_000, hurry=hurry, version=0)

    def _buy_with_dollars(
        self, wallet: Wallet, curve: DollarCurve, dollars: int, hurry: float
    ) -> Intent | None:
        ledger = self._world.ledger
        coin, usdc = curve.sides
        owner = wallet.address
        source = ledger.associated(owner, usdc)
        dollars = min(dollars, ledger.balance(source) // 10)
        tokens = curve.quote(usdc, dollars)
        # How a full curve in USDC moves on is not known: it never fills up here.
        if tokens <= 0 or tokens * 4 > curve.tokens_raw:
            return None
        trader = Trader(owner, source, ledger.associated(owner, coin), owner)
        limit = dollars // 2 if self._trading.fails() else dollars * 103 // 100
        steps: list[Step] = [
            lambda tx: spl.create_associated(tx, owner, owner, coin),
            partial(_buy_tokens, curve, trader, tokens, limit),
        ]
        return self._signer.sign(wallet, steps, 150_000, hurry=hurry, version=0)

    def _sell(self, wallet: Wallet, curve: Pool, coin: Mint, held: int) -> Intent | None:
        part = held if self._random.random() < 0.5 else held // 2
        quoted = curve.quote(coin, part)
        if quoted <= 0:
            return None
        if not isinstance(curve, BondingCurve):
            return self._swap(wallet, curve, coin, part, quoted, 0.2)
        owner = wallet.address
        ledger = self._world.ledger
        dollars = isinstance(curve, DollarCurve)
        proceeds = ledger.associated(owner, self._world.usdc) if dollars else owner
        trader = Trader(owner, ledger.associated(owner, coin), proceeds, owner)
        step = swap_step(curve, trader, coin, part, self._trading.least(quoted))
        steps = [step, *self._trading.after_sale(wallet, coin, part)]
        return self._signer.sign(wallet, steps, 100_000, version=0)

    def _swap(
        self, wallet: Wallet, curve: Pool, mint_in: Mint, amount: int, quoted: int, hurry: float
    ) -> Intent:
        world = self._world
        plan = SwapPlan(world.ledger, wallet, mint_in, amount, curve.other(mint_in))
        plan.with_associated(world.sol)
        step = swap_step(curve, plan.trader(), mint_in, amount, self._trading.least(quoted))
        after = self._trading.after_sale(wallet, mint_in, amount)
        steps = [*plan.before, step, *plan.after, *after]
        return self._signer.sign(wallet, steps, 180_000, hurry=hurry, version=0)

    # Moving.

    def migrate(self, curve: Pool) -> Intent | None:
        """Move a full curve to its pool."""
        world = self._world
        if not curve.alive or not curve.full:
            return None
        user = self._random.choice(world.bots)
        move: Step
        if isinstance(curve, BondingCurve):
            pump = pump_launch.migrated_pool(world.ledger, curve)
            move = partial(_move, pump_launch.migrate, world, curve, pump, user.address)
        elif isinstance(curve, LaunchLabCurve):
            cpmm = raydium_launchlab.migrated_pool(world.ledger, curve)
            move = partial(_move, raydium_launchlab.migrate, world, curve, cpmm, user.address)
        else:
            assert isinstance(curve, DbcCurve)
            damm = meteora_dbc.migrated_pool(world.ledger, curve)
            move = partial(_move, meteora_dbc.migrate, world, curve, damm, user.address)
        return self._signer.sign(user, [move], 600_000, hurry=0.9)


def _buy_tokens(
    curve: BondingCurve, trader: Trader, tokens: int, limit: int, tx: Execution
) -> None:
    curve.buy(tx, trader, tokens, limit)


def _move(
    migrate: Callable[..., None], world: World, curve: Pool, pool: Pool, user: bytes, tx: Execution
) -> None:
    migrate(tx, world.directory, curve, pool, user)
