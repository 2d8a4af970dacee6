"""Launching coins, sniping and playing their curves, and moving full ones to a pool."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from infra.chain.market import meteora_dbc, pump_launch, raydium_launchlab, spl
from infra.chain.market.execution import Execution, Intent, Step
from infra.chain.market.genesis import World
from infra.chain.market.ledger import Mint
from infra.chain.market.meteora_dbc import DbcCurve
from infra.chain.market.pump_fun import BondingCurve
from infra.chain.market.pump_fun_v2 import DollarCurve
from infra.chain.market.pump_swap import PumpSwapPool
from infra.chain.market.raydium_cpmm import CpmmPool
from infra.chain.market.raydium_launchlab import LaunchLabCurve
from infra.chain.market.venue import Pool, Trader
from infra.chain.market.wallets import LAMPORTS, Signer, SwapPlan, Wallet, swap_step

_ADJECTIVES: Final = (
    *("Lucky", "Sleepy", "Turbo", "Quiet", "Golden", "Angry"),
    *("Tiny", "Cosmic", "Salty", "Brave", "Lazy", "Electric"),
)
_NOUNS: Final = (
    *("Frog", "Wizard", "Toaster", "Otter", "Robot", "Banana"),
    *("Ghost", "Pigeon", "Goblin", "Cactus", "Whale", "Yeti"),
)
PLAYED_CURVES: Final = 40  # the youngest curves get all attention

Curve = BondingCurve | LaunchLabCurve | DbcCurve
CURVES: Final = (BondingCurve, LaunchLabCurve, DbcCurve)
Refill = Callable[[Wallet], Intent]


class LaunchHabits:
    """Habits around bonding curves."""

    def __init__(
        self, world: World, random: Random, signer: Signer, failed: float, refill: Refill
    ) -> None:
        self._world = world
        self._random = random
        self._signer = signer
        self._failed = failed
        self._refill = refill
        self._launched = 0
        self._curves: list[Curve] = []

    def begin_slot(self, slot: int) -> list[Callable[[], Intent | None]]:
        """Look at what the last slots brought; returns what cannot wait."""
        pools = self._world.directory.pools.values()
        self._curves = [pool for pool in pools if isinstance(pool, CURVES)][-PLAYED_CURVES:]
        urgent: list[Callable[[], Intent | None]] = []
        for curve in self._curves:
            if curve.full:
                urgent.append(partial(self.migrate, curve))
            elif slot - curve.born_slot <= 2:
                count = self._random.randrange(4)
                urgent += [partial(self.snipe, curve)] * count
        return urgent

    def retire(self, curves_kept: int, pools_kept: int) -> None:
        """Forget the oldest coins, so that a chain can run for days."""
        directory, ledger = self._world.directory, self._world.ledger
        pools = list(directory.pools.values())
        curves = [pool for pool in pools if isinstance(pool, CURVES)]
        launched = self._world.launched
        moved = [pool for pool in pools if not isinstance(pool, CURVES)]
        moved = [pool for pool in moved if any(side.address in launched for side in pool.sides)]
        for pool in (*curves[:-curves_kept], *moved[:-pools_kept]):
            pool.alive = False
            directory.remove(pool)
            [coin] = (side.address for side in pool.sides if side.address in launched)
            curve = launched.pop(coin)
            shares = [pool.lp_mint] if isinstance(pool, CpmmPool | PumpSwapPool) else []
            owned = (pool.address, *pool.vaults, curve.address, *curve.vaults)
            ledger.forget(coin, *shares, *owned)

    # Trading curves.

    def play(self) -> Intent | None:
        """Buy or sell one of the young coins; attention falls off with age."""
        random, ledger = self._random, self._world.ledger
        if not self._curves:
            return self.launch()
        age = min(int(random.expovariate(0.15)), len(self._curves) - 1)
        curve = self._curves[-1 - age]
        if curve.full or not curve.alive:
            return None
        coin = curve.sides[0]
        for wallet in (random.choice(self._world.holders) for _ in range(4)):
            held = ledger.balance(ledger.associated(wallet.address, coin))
            if held and random.random() < (0.1 if _is_hit(curve) else 0.6):
                return self._sell(wallet, curve, held)
        wallet = random.choice(self._world.holders)
        lamports = int(random.lognormvariate(-0.9, 1.0) * LAMPORTS)
        lamports = max(lamports * (6 if _is_hit(curve) else 1), 1_000_000)
        return self._buy(wallet, curve, lamports, hurry=0.4)

    def snipe(self, curve: Curve) -> Intent | None:
        """Buy within two slots after the creation."""
        sniper = self._random.choice(self._world.snipers)
        lamports = self._random.randrange(LAMPORTS // 10, 2 * LAMPORTS)
        return self._buy(sniper, curve, lamports, hurry=0.95)

    def _least(self, quoted_raw: int) -> int:
        if self._random.random() < self._failed:
            return quoted_raw * 3 // 2 + 1
        return quoted_raw * self._random.randrange(85, 100) // 100

    def _buy(self, wallet: Wallet, curve: Curve, lamports: int, hurry: float) -> Intent | None:
        ledger, random = self._world.ledger, self._random
        coin, sol = curve.sides
        if isinstance(curve, DollarCurve):
            return self._buy_with_dollars(wallet, curve, lamports // 10, hurry)
        quoted = curve.quote(sol, lamports)
        if quoted <= 0:
            return None
        if ledger.lamports.get(wallet.address, 0) < lamports + LAMPORTS // 10:
            return self._refill(wallet)
        if not isinstance(curve, BondingCurve):
            return self._swap(wallet, curve, sol, lamports, quoted, hurry)
        owner = wallet.address
        trader = Trader(owner, owner, ledger.associated(owner, coin), owner)
        limit = lamports * 103 // 100
        if random.random() < self._failed:
            limit //= 2
        step: Step
        if random.random() < 0.5:
            step = partial(_buy_tokens, curve, trader, quoted * 98 // 100, limit)
        else:
            step = swap_step(curve, trader, sol, lamports, self._least(quoted))
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
        limit = dollars // 2 if self._random.random() < self._failed else dollars * 103 // 100
        steps: list[Step] = [
            lambda tx: spl.create_associated(tx, owner, owner, coin),
            partial(_buy_tokens, curve, trader, tokens, limit),
        ]
        return self._signer.sign(wallet, steps, 150_000, hurry=hurry, version=0)

    def _sell(self, wallet: Wallet, curve: Curve, held: int) -> Intent | None:
        part = held if self._random.random() < 0.5 else held // 2
        coin = curve.sides[0]
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
        step = swap_step(curve, trader, coin, part, self._least(quoted))
        return self._signer.sign(wallet, [step], 100_000, version=0)

    def _swap(
        self, wallet: Wallet, curve: Pool, mint_in: Mint, amount: int, quoted: int, hurry: float
    ) -> Intent:
        world = self._world
        plan = SwapPlan(world.ledger, wallet, mint_in, amount, curve.other(mint_in))
        plan.with_associated(world.sol)
        step = swap_step(curve, plan.trader(), mint_in, amount, self._least(quoted))
        steps = [*plan.before, step, *plan.after]
        return self._signer.sign(wallet, steps, 180_000, hurry=hurry, version=0)

    # Launching and moving.

    def launch(self) -> Intent | None:
        """Create a coin on one of the platforms; its creator buys first."""
        world, random = self._world, self._random
        creator = random.choice(world.holders)
        if world.ledger.lamports.get(creator.address, 0) < 5 * LAMPORTS:
            return self._refill(creator)
        self._launched += 1
        number = self._launched
        name = f"{random.choice(_ADJECTIVES)} {random.choice(_NOUNS)}"
        texts = (name, name.split()[1].upper()[:6], f"https://ipfs.example/{number}")
        address = world.address("launch", number)
        roll = random.random()
        if roll < 0.7:
            return self._launch_pump(creator, address, texts)
        owner = creator.address
        curve: LaunchLabCurve | DbcCurve
        if roll < 0.85:
            platform = random.choice(tuple(raydium_launchlab.PLATFORMS))
            coin = _plain_coin(address, texts, platform, raydium_launchlab.AUTHORITY)
            curve = LaunchLabCurve(world.ledger, coin, world.sol, owner)
            create: Callable[..., None] = raydium_launchlab.initialize
        else:
            platform = random.choice(tuple(meteora_dbc.CONFIGS))
            coin = _plain_coin(address, texts, platform, meteora_dbc.AUTHORITY)
            curve = DbcCurve(world.ledger, coin, world.sol, owner)
            create = meteora_dbc.initialize
        lamports = random.randrange(LAMPORTS // 20, 2 * LAMPORTS)
        plan = SwapPlan(world.ledger, creator, world.sol, lamports, coin)
        plan.with_associated(world.sol)

        def launch(tx: Execution) -> None:
            create(tx, world.directory, curve, owner)
            self._born(tx, curve)

        steps = [
            launch,
            *plan.before,
            swap_step(curve, plan.trader(), world.sol, lamports, 1),
            *plan.after,
        ]
        return self._signer.sign(
            creator, steps, 500_000, hurry=0.8, cosigners=(address,), version=0
        )

    def _launch_pump(self, creator: Wallet, address: bytes, texts: tuple[str, str, str]) -> Intent:
        world, random = self._world, self._random
        dollars = random.random() < 0.1
        coin = pump_launch.new_coin(address, dollars or random.random() < 0.7, *texts)
        owner = creator.address
        curve = BondingCurve(world.ledger, coin, world.sol, owner)
        if dollars:
            curve = DollarCurve(world.ledger, coin, world.usdc, owner)
        lamports = random.randrange(LAMPORTS // 20, 2 * LAMPORTS)
        trader = Trader(owner, owner, world.ledger.associated(owner, coin), owner)
        tokens = curve.quote(curve.sides[1], lamports)

        def launch(tx: Execution) -> None:
            pump_launch.create(tx, world.directory, curve, owner)
            self._born(tx, curve)

        steps: list[Step] = [launch]
        if not dollars:
            steps += [
                lambda tx: spl.create_associated(tx, owner, owner, coin),
                lambda tx: curve.buy(tx, trader, tokens, lamports * 2),
            ]
        return self._signer.sign(
            creator, steps, 400_000, hurry=0.8, cosigners=(address,), version=0
        )

    def _born(self, tx: Execution, curve: Curve) -> None:
        curve.born_slot = tx.slot
        launched = self._world.launched
        coin = curve.sides[0]
        launched[coin.address] = curve
        tx.changes.undo.append(lambda: launched.pop(coin.address, None))

    def migrate(self, curve: Curve) -> Intent | None:
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
            damm = meteora_dbc.migrated_pool(world.ledger, curve)
            move = partial(_move, meteora_dbc.migrate, world, curve, damm, user.address)
        return self._signer.sign(user, [move], 600_000, hurry=0.9)


def _is_hit(curve: Curve) -> bool:
    """One curve in eight is loved, and fills up."""
    return curve.address[0] % 8 == 0


def _plain_coin(
    address: bytes, texts: tuple[str, str, str], platform: str, authority: bytes
) -> Mint:
    name, symbol, uri = texts
    return Mint(
        address, 6, 0, authority=authority, name=name, symbol=symbol, uri=uri, platform=platform
    )


def _buy_tokens(
    curve: BondingCurve, trader: Trader, tokens: int, limit: int, tx: Execution
) -> None:
    curve.buy(tx, trader, tokens, limit)


def _move(
    migrate: Callable[..., None], world: World, curve: Pool, pool: Pool, user: bytes, tx: Execution
) -> None:
    migrate(tx, world.directory, curve, pool, user)
