"""What wallets do: each habit looks at the market and signs the next transaction."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final

from infra.chain.market import spl
from infra.chain.market.execution import Execution, Intent, Step
from infra.chain.market.genesis import SOL_PRICE_USDC, World
from infra.chain.market.holder_habits import HolderHabits
from infra.chain.market.launch_habits import CURVES, LaunchHabits
from infra.chain.market.ledger import Mint
from infra.chain.market.orca_two_hop import two_hop_step
from infra.chain.market.orca_whirlpool import Whirlpool
from infra.chain.market.programs import VOTE
from infra.chain.market.routes import KINDS, SHARED_AUTHORITY, Hop, Route, quote
from infra.chain.market.venue import Pool, Trader
from infra.chain.market.wallets import LAMPORTS, Signer, SwapPlan, Wallet, swap_step

SWAP_UNITS: Final = 200_000
ROUTE_UNITS: Final = 600_000
MOST_TRADED_BACK: Final = 0.05  # of a reference pool's reserve in one trade

Habit = Callable[[], Intent | None]


class Habits:
    """Chooses who acts next, and how."""

    def __init__(self, world: World, random: Random, failed: float) -> None:
        self._world = world
        self._random = random
        self._failed = failed
        self.signer = Signer(random)
        self.launches = LaunchHabits(world, random, self.signer, failed, self._refill)
        holders = HolderHabits(world, random, self.signer, self._coin_and_pools, self._swap)
        self._target_price = float(SOL_PRICE_USDC)
        self._urgent: deque[Habit] = deque()
        self._mix: list[tuple[float, Habit]] = []
        self._total = 0.0
        for weight, habit in (
            (0.10, self._keep_reference),
            (0.30, self.launches.play),
            (0.36, self._trade_pool),
            (0.14, self._route),
            (0.03, self._arbitrage),
            (0.01, self._two_hop),
            (0.06, self._transfer),
            (0.004, self.launches.launch),
            (0.01, holders.buy_and_hand_on),
            (0.006, holders.airdrop),
            (0.008, holders.burn),
            (0.004, holders.wrap),
            (0.004, holders.provide),
        ):
            self._total += weight
            self._mix.append((self._total, habit))

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
        """Look at what the last slots brought, and move the price that makers quote."""
        self._target_price *= 1 + self._random.gauss(0, 0.0008)
        self._urgent = deque(self.launches.begin_slot(slot))

    def vote(self) -> Intent:
        """Return a validator's vote."""
        validator = self._random.choice(self._world.validators)
        data = b"\x0e\0\0\0" + self._random.randbytes(112)
        accounts = (validator.vote_account, validator.address)

        def vote(tx: Execution) -> None:
            tx.enter(VOTE, accounts, data, (True, False))
            tx.leave_builtin()

        return self.signer.vote(validator.address, vote)

    def _least(self, quoted_raw: int) -> int:
        """Return the least accepted output; some ask for more than they can get, and fail."""
        if self._random.random() < self._failed:
            return quoted_raw * 3 // 2 + 1
        return quoted_raw * self._random.randrange(85, 100) // 100

    def _amount(self, reserve_raw: int, typical: float = 0.002) -> int:
        share = min(self._random.lognormvariate(0, 1.0) * typical, 0.05)
        return max(int(reserve_raw * share), 1_000)

    # Reference price.

    def _keep_reference(self) -> Intent | None:
        """Trade SOL against USDC towards a price that walks at random."""
        world, random = self._world, self._random
        pool = random.choice(world.reference)
        sol, usdc = world.sol, world.usdc
        one_sol = pool.quote(sol, LAMPORTS) / 1e6
        sol_reserve = pool.reserves()[pool.sides.index(sol)]
        # What others have moved the price by is traded back, as arbitrage does.
        off = self._target_price / one_sol - 1
        amount_sol = self._amount(sol_reserve, 0.0004)
        amount_sol = max(amount_sol, int(sol_reserve * min(abs(off) / 2, MOST_TRADED_BACK)))
        if off > 0:
            mint_in, amount = usdc, int(amount_sol * one_sol / 1_000)
        else:
            mint_in, amount = sol, amount_sol
        return self._swap(random.choice(world.makers), pool, mint_in, amount)

    # Pools.

    def _coin(self) -> Mint:
        """Return a coin to trade: an old one, or one that left its curve."""
        world, random = self._world, self._random
        if world.launched and random.random() < 0.25:
            young = list(world.launched.values())
            for coin in (random.choice(young[-200:]).sides[0] for _ in range(3)):
                if self._pools(coin):
                    return coin
        return random.choice(world.coins)

    def _pools(self, coin: Mint) -> list[Pool]:
        return [pool for pool in self._world.directory.of(coin) if not isinstance(pool, CURVES)]

    def _coin_and_pools(self) -> tuple[Mint, list[Pool]]:
        coin = self._coin()
        return coin, self._pools(coin)

    def _trade_pool(self) -> Intent | None:
        world, random = self._world, self._random
        coin = self._coin()
        pools = self._pools(coin)
        if not pools:
            return None
        pool = random.choice(pools)
        wallet = random.choice(world.bots if random.random() < 0.5 else world.holders)
        held = world.ledger.balance(world.ledger.associated(wallet.address, coin))
        if held and random.random() < 0.55:
            part = held if random.random() < 0.3 else held // random.randrange(2, 6)
            return self._swap(wallet, pool, coin, part) if part > 1_000 else None
        asset = pool.other(coin)
        reserve = pool.reserves()[pool.sides.index(asset)]
        return self._swap(wallet, pool, asset, self._amount(reserve))

    def _swap(
        self,
        wallet: Wallet,
        pool: Pool,
        mint_in: Mint,
        amount: int,
        then: Callable[[int], list[Step]] | None = None,
    ) -> Intent | None:
        """Swap; `then` gives what follows it, from the least that comes out."""
        world, random = self._world, self._random
        quoted = pool.quote(mint_in, amount)
        if quoted <= 0:
            return None
        sol = world.sol
        if not self._can_spend(wallet, mint_in, amount):
            return self._refill(wallet) if mint_in is sol else None
        mint_out = pool.other(mint_in)
        plan = SwapPlan(world.ledger, wallet, mint_in, amount, mint_out)
        wraps = sol in (mint_in, mint_out) and not wallet.keeps_wsol
        if pool.DEX == "raydium-amm-v4" and wraps and random.random() < 0.5:
            plan.with_seed_account(sol, random)
        else:
            plan.with_associated(sol)
        least = self._least(quoted)
        step = swap_step(pool, plan.trader(), mint_in, amount, least)
        steps = [*plan.before, step, *plan.after, *(then(least) if then else ())]
        return self._sign_swap(wallet, steps, SWAP_UNITS)

    def _sign_swap(self, wallet: Wallet, steps: list[Step], units: int, tag: str = "") -> Intent:
        versioned = tag == "jupiter" or self._random.random() < 0.6
        return self.signer.sign(
            wallet,
            steps,
            units,
            hurry=0.6 if wallet.keeps_wsol else 0.3,
            version=0 if versioned else None,
            lookup=versioned and self._random.random() < 0.6,
            tag=tag,
        )

    def _can_spend(self, wallet: Wallet, mint: Mint, amount: int) -> bool:
        ledger, sol = self._world.ledger, self._world.sol
        if mint is sol and not wallet.keeps_wsol:
            return ledger.lamports.get(wallet.address, 0) >= amount + LAMPORTS // 10
        return ledger.balance(ledger.associated(wallet.address, mint)) >= amount

    # Several legs.

    def _hops(self) -> list[Hop]:
        """Return a route: into a coin, out of one, or from one to another, over SOL or USDC."""
        world, random = self._world, self._random
        first = random.choice((world.sol, world.usdc, world.staked_sol, self._coin()))
        length = random.choice((1, 1, 2, 2, 3))
        hops: list[Hop] = []
        mint, seen = first, {first.address}
        while len(hops) < length:
            choices = [
                pool
                for pool in self._pools(mint)
                if pool.other(mint).address not in seen and pool.alive
            ]
            if not choices:
                break
            last = len(hops) + 1 == length
            if not last:  # go on over something liquid
                liquid = (world.sol, world.usdc, world.staked_sol)
                choices = [pool for pool in choices if pool.other(mint) in liquid] or choices
            pool = random.choice(choices)
            hops.append(Hop(pool, mint))
            mint = pool.other(mint)
            seen.add(mint.address)
        return hops

    def _route(self) -> Intent | None:
        """Swap through Jupiter, over one to three pools."""
        world, random = self._world, self._random
        ledger, sol = world.ledger, world.sol
        hops = self._hops()
        if not hops:
            return None
        first, last = hops[0].mint_in, hops[-1].mint_out
        wallet = random.choice(world.bots if random.random() < 0.3 else world.holders)
        owner = wallet.address
        if first is sol:
            amount = self._amount(hops[0].pool.reserves()[hops[0].pool.sides.index(sol)])
            if not self._can_spend(wallet, sol, amount):
                return self._refill(wallet)
        else:
            held = ledger.balance(ledger.associated(owner, first))
            most = hops[0].pool.reserves()[hops[0].pool.sides.index(first)] // 50
            amount = min(held // random.randrange(2, 9), most)
        quoted = quote(hops, amount) if amount >= 10_000 else 0
        if quoted <= 0:
            return None
        kind = random.choice(KINDS)
        slippage_bps = random.randrange(30, 500)
        if random.random() < self._failed:
            quoted = quoted * 3 // 2
        route = Route(ledger, kind, owner, hops, amount, quoted, slippage_bps)
        plan = SwapPlan(ledger, wallet, first, amount, last).with_associated(sol)
        between = [hop.mint_in for hop in hops[1:]]
        if kind.startswith("shared"):
            for mint in (first, *between, last):
                self._open_shared(mint)
        else:
            plan.before += [_open(owner, mint) for mint in between]
            if sol in between and not wallet.keeps_wsol:
                plan.after.append(_close(owner, ledger.associated(owner, sol)))
        steps = [*plan.before, route.execute, *plan.after]
        return self._sign_swap(wallet, steps, ROUTE_UNITS, "jupiter")

    def _open_shared(self, mint: Mint) -> None:
        """Jupiter's own accounts exist for every token that it routes."""
        ledger = self._world.ledger
        account = ledger.associated(SHARED_AUTHORITY, mint)
        if account not in ledger.tokens:
            ledger.endow(account, mint, SHARED_AUTHORITY, 0)

    def _arbitrage(self) -> Intent | None:
        """Buy a coin where it is cheap and sell it where it is dear, in one transaction."""
        world, random = self._world, self._random
        sol = world.sol
        coin = self._coin()
        pools = [pool for pool in self._pools(coin) if pool.other(coin) is sol]
        if len(pools) < 2:
            return None
        bot = random.choice(world.bots)
        amount = self._amount(min(pool.reserves()[pool.sides.index(sol)] for pool in pools))
        if not self._can_spend(bot, sol, amount):
            return self._refill(bot)
        cheap = max(pools, key=lambda pool: pool.quote(sol, amount))
        bought = cheap.quote(sol, amount)
        sold = bought * 99 // 100
        dear = max((p for p in pools if p is not cheap), key=lambda p: p.quote(coin, sold))
        back = dear.quote(coin, sold)
        if back <= 0 or bought <= 0:
            return None
        owner, ledger = bot.address, world.ledger
        wsol, account = ledger.associated(owner, sol), ledger.associated(owner, coin)
        steps: list[Step] = [
            _open(owner, coin),
            swap_step(cheap, Trader(owner, wsol, account, owner), sol, amount, sold),
            swap_step(dear, Trader(owner, account, wsol, owner), coin, sold, back * 97 // 100),
        ]
        return self._sign_swap(bot, steps, 2 * SWAP_UNITS)

    def _two_hop(self) -> Intent | None:
        """Go from one coin to another over SOL inside Orca."""
        world, random = self._world, self._random
        ledger, sol = world.ledger, world.sol
        pools = [
            pool
            for pool in self._pools(sol)
            if isinstance(pool, Whirlpool) and not pool.v2 and pool not in world.reference
        ]
        if len(pools) < 2:
            return None
        first, second = random.sample(pools, 2)
        mint_in, mint_out = first.other(sol), second.other(sol)
        bot = random.choice(world.bots)
        owner = bot.address
        amount = ledger.balance(ledger.associated(owner, mint_in)) // 3
        if amount < 10_000:
            return self._swap(bot, first, sol, self._amount(first.reserves()[1]))
        quoted = quote((Hop(first, mint_in), Hop(second, sol)), amount)
        if quoted <= 0:
            return None
        accounts = tuple(ledger.associated(owner, mint) for mint in (mint_in, sol, mint_out))
        step = two_hop_step(first, second, owner, accounts, amount, self._least(quoted))
        return self._sign_swap(bot, [_open(owner, mint_out), step], 2 * SWAP_UNITS)

    # Transfers.

    def _transfer(self) -> Intent | None:
        world, random = self._world, self._random
        sender, receiver = random.sample(world.holders, 2)
        owner, other = sender.address, receiver.address
        if random.random() < 0.4:
            lamports = random.randrange(1_000_000, LAMPORTS)
            if not self._can_spend(sender, world.sol, lamports):
                return self._refill(sender)
            return self.signer.sign(
                sender, [lambda tx: spl.transfer_lamports(tx, owner, other, lamports)], 1_000
            )
        coin = self._coin()
        source = world.ledger.associated(owner, coin)
        held = world.ledger.balance(source)
        if held < 1_000:
            return None
        amount = held // random.randrange(2, 10)
        destination = world.ledger.associated(other, coin)
        move = spl.transfer_checked_with_fee if coin.transfer_fee_bps else spl.transfer_checked
        steps: list[Step] = [
            lambda tx: spl.create_associated(tx, owner, other, coin),
            lambda tx: move(tx, source, coin, destination, owner, amount),
        ]
        return self.signer.sign(sender, steps, 60_000)

    def _refill(self, wallet: Wallet) -> Intent:
        """Send SOL from an exchange to a wallet that has run out of it."""
        world = self._world
        payer = world.exchange
        target, sol = wallet.address, world.sol
        lamports = self._random.randrange(50, 500) * LAMPORTS
        if not wallet.keeps_wsol:
            steps: list[Step] = [
                lambda tx: spl.transfer_lamports(tx, payer.address, target, lamports)
            ]
            return self.signer.sign(payer, steps, 1_000)
        account = world.ledger.associated(target, sol)
        steps = [
            lambda tx: spl.transfer_lamports(tx, payer.address, account, lamports),
            lambda tx: spl.sync_native(tx, account),
        ]
        return self.signer.sign(payer, steps, 10_000)


def _open(owner: bytes, mint: Mint) -> Step:
    return lambda tx: spl.create_associated(tx, owner, owner, mint)


def _close(owner: bytes, account: bytes) -> Step:
    return lambda tx: spl.close_account(tx, account, owner, owner)
