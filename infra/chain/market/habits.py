"""What wallets do: each habit looks at the market and signs the next transaction."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

from infra.chain.market import pump_launch, spl
from infra.chain.market.execution import Execution, Intent
from infra.chain.market.genesis import SOL_PRICE_USDC, World
from infra.chain.market.ledger import Mint
from infra.chain.market.programs import VOTE
from infra.chain.market.pump_fun import BondingCurve
from infra.chain.market.venue import Pool, Trader
from infra.chain.market.wallets import LAMPORTS, Signer, SwapPlan, Wallet, swap_step

_ADJECTIVES = (
    *("Lucky", "Sleepy", "Turbo", "Quiet", "Golden", "Angry"),
    *("Tiny", "Cosmic", "Salty", "Brave", "Lazy", "Electric"),
)
_NOUNS = (
    *("Frog", "Wizard", "Toaster", "Otter", "Robot", "Banana"),
    *("Ghost", "Pigeon", "Goblin", "Cactus", "Whale", "Yeti"),
)

SWAP_UNITS = 200_000
PLAYED_CURVES = 40  # the youngest curves get nearly all attention


class Habits:
    """Chooses who acts next, and how."""

    def __init__(self, world: World, random: Random, failed: float) -> None:
        self._world = world
        self._random = random
        self._failed = failed
        self.signer = Signer(random)
        self._target_price = float(SOL_PRICE_USDC)
        self._launched = 0
        self.slot = 0
        self._urgent: deque[Callable[[], Intent | None]] = deque()
        self._mix: list[tuple[float, Callable[[], Intent | None]]] = []
        total = 0.0
        for weight, habit in (
            (0.10, self._keep_reference),
            (0.34, self._play_curve),
            (0.46, self._trade_pool),
            (0.06, self._transfer),
            (0.004, self._launch),
        ):
            total += weight
            self._mix.append((total, habit))
        self._total = total

    def next(self) -> Intent:
        """Return the next transaction."""
        while True:
            if self._urgent:
                intent = self._urgent.popleft()()
            else:
                roll = self._random.random() * self._total
                habit = next(habit for bound, habit in self._mix if roll < bound)
                intent = habit()
            if intent is not None:
                return intent

    def begin_slot(self, slot: int) -> None:
        """Look at what the last slots brought: new coins to snipe, full curves to migrate."""
        self.slot = slot
        self._target_price *= 1 + self._random.gauss(0, 0.0008)
        self._urgent.clear()
        for pool in reversed(self._world.directory.pools.values()):
            if not isinstance(pool, BondingCurve):
                continue
            if slot - pool.born_slot > 2:
                break
            for _ in range(self._random.randrange(4)):
                self._urgent.append(lambda pool=pool: self._snipe(pool))  # type: ignore[misc]
        for curve in self._curves():
            if not curve.tokens_raw:
                self._urgent.append(lambda curve=curve: self._migrate(curve))  # type: ignore[misc]

    def _curves(self) -> list[BondingCurve]:
        found: list[BondingCurve] = []
        for pool in reversed(self._world.directory.pools.values()):
            if isinstance(pool, BondingCurve):
                found.append(pool)
                if len(found) >= PLAYED_CURVES:
                    break
        return found

    def _slippage(self, quoted_raw: int) -> int:
        """Return the least accepted output; some ask for more than they can get, and fail."""
        if self._random.random() < self._failed:
            return quoted_raw * 3 // 2 + 1
        return quoted_raw * self._random.randrange(85, 100) // 100

    def _amount(self, reserve_raw: int, typical: float = 0.002) -> int:
        share = min(self._random.lognormvariate(0, 1.0) * typical, 0.05)
        return max(int(reserve_raw * share), 1_000)

    def vote(self) -> Intent:
        """Return a validator's vote."""
        random = self._random
        validator = random.choice(self._world.validators)
        data = b"\x0e\0\0\0" + random.randbytes(112)
        accounts = (validator.vote_account, validator.address)

        def vote(tx: Execution) -> None:
            tx.enter(VOTE, accounts, data, (True, False))
            tx.leave_builtin()

        return self.signer.vote(validator.address, vote)

    # Reference price.

    def _keep_reference(self) -> Intent | None:
        world, random = self._world, self._random
        pool = random.choice(world.reference)
        sol, usdc = world.sol, world.usdc
        one_sol = pool.quote(sol, LAMPORTS) / 1e6
        amount_sol = self._amount(pool.reserves()[0], 0.0004)
        if one_sol < self._target_price:
            mint_in, amount = usdc, int(amount_sol * one_sol / 1_000)
        else:
            mint_in, amount = sol, amount_sol
        maker = random.choice(world.makers)
        return self._swap(maker, pool, mint_in, amount)

    # Pools.

    def _trade_pool(self) -> Intent | None:
        world, random = self._world, self._random
        coin = random.choice(world.coins)
        pools = world.directory.of(coin)
        if not pools:
            return None
        pool = random.choice(pools)
        bot = random.random() < 0.5
        wallet = random.choice(world.bots if bot else world.holders)
        held = world.ledger.balance(world.ledger.associated(wallet.address, coin))
        if held and random.random() < 0.55:
            part = held if random.random() < 0.3 else held // random.randrange(2, 6)
            return self._swap(wallet, pool, coin, part) if part > 1_000 else None
        quote = pool.other(coin)
        reserve = pool.reserves()[pool.sides.index(quote)]
        return self._swap(wallet, pool, quote, self._amount(reserve))

    def _swap(self, wallet: Wallet, pool: Pool, mint_in: Mint, amount: int) -> Intent | None:
        world, random = self._world, self._random
        quoted = pool.quote(mint_in, amount)
        if quoted <= 0:
            return None
        sol = world.sol
        if mint_in is sol and not self._can_spend(wallet, amount):
            return self._refill(wallet)
        plan = SwapPlan(world.ledger, wallet, mint_in, amount, pool.other(mint_in))
        if pool.DEX == "raydium-amm-v4" and not wallet.keeps_wsol and random.random() < 0.5:
            plan.with_seed_account(sol, random)
        else:
            plan.with_associated(sol)
        step = swap_step(pool, plan.trader(), mint_in, amount, self._slippage(quoted))
        steps = [*plan.before, step, *plan.after]
        versioned = random.random() < 0.6
        return self.signer.sign(
            wallet,
            steps,
            SWAP_UNITS,
            hurry=0.6 if wallet.keeps_wsol else 0.3,
            version=0 if versioned else None,
            lookup=versioned and random.random() < 0.5,
        )

    def _can_spend(self, wallet: Wallet, lamports: int) -> bool:
        ledger = self._world.ledger
        if wallet.keeps_wsol:
            return ledger.balance(ledger.associated(wallet.address, self._world.sol)) >= lamports
        return ledger.lamports.get(wallet.address, 0) >= lamports + LAMPORTS // 10

    # Curves.

    def _play_curve(self) -> Intent | None:
        random, ledger = self._random, self._world.ledger
        curves = self._curves()
        if not curves:
            return self._launch()
        # Attention falls off with age.
        curve = curves[min(int(random.expovariate(0.15)), len(curves) - 1)]
        if not curve.tokens_raw:
            return None
        wallet = random.choice(self._world.holders)
        coin = curve.sides[0]
        held = ledger.balance(ledger.associated(wallet.address, coin))
        if held and random.random() < 0.7:
            return self._curve_sell(wallet, curve, held)
        buyers = [random.choice(self._world.holders) for _ in range(2)]
        for other in buyers:
            held = ledger.balance(ledger.associated(other.address, coin))
            if held and random.random() < 0.5:
                return self._curve_sell(other, curve, held)
        lamports = int(random.lognormvariate(-0.9, 1.0) * LAMPORTS)
        return self._curve_buy(wallet, curve, max(lamports, 1_000_000), hurry=0.4)

    def _snipe(self, curve: BondingCurve) -> Intent | None:
        sniper = self._random.choice(self._world.snipers)
        lamports = self._random.randrange(LAMPORTS // 10, 2 * LAMPORTS)
        return self._curve_buy(sniper, curve, lamports, hurry=0.95)

    def _curve_buy(
        self, wallet: Wallet, curve: BondingCurve, lamports: int, hurry: float
    ) -> Intent | None:
        world = self._world
        coin, sol = curve.sides
        quoted = curve.quote(sol, lamports)
        if quoted <= 0:
            return None
        if world.ledger.lamports.get(wallet.address, 0) < lamports + LAMPORTS // 10:
            return self._refill(wallet)
        owner = wallet.address
        account = world.ledger.associated(owner, coin)
        trader = Trader(owner, owner, account, owner)
        if self._random.random() < 0.5:
            step = swap_step(curve, trader, sol, lamports, self._slippage(quoted))
        else:
            tokens = quoted * 98 // 100
            limit = lamports * 103 // 100
            if self._random.random() < self._failed:
                limit //= 2

            def step(tx: Execution) -> None:
                curve.buy(tx, trader, tokens, limit)

        steps = [lambda tx: spl.create_associated(tx, owner, owner, coin), step]
        return self.signer.sign(wallet, steps, 120_000, hurry=hurry, version=0)

    def _curve_sell(self, wallet: Wallet, curve: BondingCurve, held: int) -> Intent | None:
        part = held if self._random.random() < 0.5 else held // 2
        coin = curve.sides[0]
        quoted = curve.quote(coin, part)
        if quoted <= 0:
            return None
        owner = wallet.address
        trader = Trader(owner, self._world.ledger.associated(owner, coin), owner, owner)
        step = swap_step(curve, trader, coin, part, self._slippage(quoted))
        return self.signer.sign(wallet, [step], 100_000, version=0)

    def _launch(self) -> Intent | None:
        world, random = self._world, self._random
        self._launched += 1
        number = self._launched
        name = f"{random.choice(_ADJECTIVES)} {random.choice(_NOUNS)}"
        symbol = name.split()[1].upper()[:6]
        coin = pump_launch.new_coin(
            world.address("launch", number),
            random.random() < 0.7,
            name,
            symbol,
            f"https://ipfs.example/{number}",
        )
        creator = random.choice(world.holders)
        if world.ledger.lamports.get(creator.address, 0) < 5 * LAMPORTS:
            return self._refill(creator)
        curve = BondingCurve(world.ledger, coin, world.sol, creator.address)
        owner = creator.address
        lamports = random.randrange(LAMPORTS // 20, 2 * LAMPORTS)
        trader = Trader(owner, owner, world.ledger.associated(owner, coin), owner)
        tokens = curve.quote(world.sol, lamports)

        def create(tx: Execution) -> None:
            curve.born_slot = tx.slot
            pump_launch.create(tx, world.directory, curve, owner)

        steps = [
            create,
            lambda tx: spl.create_associated(tx, owner, owner, coin),
            lambda tx: curve.buy(tx, trader, tokens, lamports * 2),
        ]
        return self.signer.sign(
            creator, steps, 400_000, hurry=0.8, cosigners=(coin.address,), version=0
        )

    def _migrate(self, curve: BondingCurve) -> Intent | None:
        world = self._world
        if not curve.alive or curve.tokens_raw:
            return None
        pool = pump_launch.migrated_pool(world.ledger, curve)
        user = self._random.choice(world.bots)

        def migrate(tx: Execution) -> None:
            pump_launch.migrate(tx, world.directory, curve, pool, user.address)

        return self.signer.sign(user, [migrate], 500_000, hurry=0.9)

    # Transfers.

    def _transfer(self) -> Intent | None:
        world, random = self._world, self._random
        sender, receiver = random.sample(world.holders, 2)
        owner, other = sender.address, receiver.address
        if random.random() < 0.4:
            lamports = random.randrange(1_000_000, LAMPORTS)
            if world.ledger.lamports.get(owner, 0) < lamports + LAMPORTS // 10:
                return self._refill(sender)
            return self.signer.sign(
                sender, [lambda tx: spl.transfer_lamports(tx, owner, other, lamports)], 1_000
            )
        coin = random.choice(world.coins)
        source = world.ledger.associated(owner, coin)
        held = world.ledger.balance(source)
        if held < 1_000:
            return None
        amount = held // random.randrange(2, 10)
        destination = world.ledger.associated(other, coin)
        move = spl.transfer_checked_with_fee if coin.transfer_fee_bps else spl.transfer_checked
        steps = [
            lambda tx: spl.create_associated(tx, owner, other, coin),
            lambda tx: move(tx, source, coin, destination, owner, amount),
        ]
        return self.signer.sign(sender, steps, 60_000)

    def _refill(self, wallet: Wallet) -> Intent | None:
        world = self._world
        payer = world.exchange
        target, sol = wallet.address, world.sol
        lamports = self._random.randrange(50, 500) * LAMPORTS
        if not wallet.keeps_wsol:
            steps = [lambda tx: spl.transfer_lamports(tx, payer.address, target, lamports)]
            return self.signer.sign(payer, steps, 1_000)
        account = world.ledger.associated(target, sol)
        return self.signer.sign(
            payer,
            [
                lambda tx: spl.transfer_lamports(tx, payer.address, account, lamports),
                lambda tx: spl.sync_native(tx, account),
            ],
            10_000,
        )
