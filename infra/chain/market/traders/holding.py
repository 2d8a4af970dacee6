"""What holders do beside trading: hand on, give away, burn, wrap, and put tokens into pools.

Much of it happens in one transaction with a swap, where a reader of the venues' transactions
sees it; some on its own, where nobody does.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, Intent, Step
from infra.chain.market.runtime.ledger import Mint
from infra.chain.market.traders.crowd import Crowd
from infra.chain.market.traders.trading import Trading, close_account, open_account
from infra.chain.market.venues import raydium_amm_v4_liquidity, raydium_cpmm_liquidity
from infra.chain.market.venues.raydium_amm_v4 import AmmV4Pool
from infra.chain.market.venues.raydium_cpmm import CpmmPool
from infra.chain.market.venues.shares import SharePool
from infra.chain.market.venues.venue import Pool
from infra.chain.market.world.wallets import Wallet
from schemas.amounts import LAMPORTS

_LEAST_RAW: Final = 10_000
_UNITS: Final = 60_000


class Holding:
    """Habits of those who hold coins."""

    def __init__(self, trading: Trading, crowd: Crowd) -> None:
        self._trading = trading
        self._world = trading.world
        self._random = trading.random
        self._signer = trading.signer
        self._crowd = crowd

    def buy_and_hand_on(self) -> Intent | None:
        """Buy a coin and send some or all of it to another wallet at once."""
        random, sol = self._random, self._world.sol
        coin, pools = self._crowd.coin_and_pools()
        pools = [pool for pool in pools if pool.other(coin) is sol]
        if not pools:
            return None
        buyer, receiver = random.sample(self._world.holders, 2)
        all_of_it = random.random() < 0.4

        def hand_on(least: int) -> list[Step]:
            amount = least if all_of_it else least // random.randrange(2, 6)
            return self._send(coin, buyer, receiver, amount) if amount > 0 else []

        lamports = random.randrange(LAMPORTS // 50, LAMPORTS)
        return self._trading.swap(buyer, random.choice(pools), sol, lamports, hand_on)

    def airdrop(self) -> Intent | None:
        """Sell a little of a coin and give the same coin to several others."""
        random = self._random
        found = self._holding()
        if found is None:
            return None
        giver, coin, pools, held = found
        others = [other for other in random.sample(self._world.holders, 5) if other is not giver]
        others = others[: random.randrange(2, 5)]
        each = held // 20

        def give(_: int) -> list[Step]:
            return [step for other in others for step in self._send(coin, giver, other, each)]

        return self._trading.swap(giver, random.choice(pools), coin, held // 10, give)

    def burn(self) -> Intent | None:
        """Burn some of a coin, alone or together with a sale."""
        random = self._random
        found = self._holding()
        if found is None:
            return None
        wallet, coin, pools, held = found
        owner = wallet.address
        account = self._world.ledger.associated(owner, coin)
        amount = held // random.randrange(3, 12)
        step = partial(_burn, account, coin, owner, amount)
        if random.random() < 0.3:
            return self._signer.sign(wallet, [step], _UNITS)
        return self._trading.swap(wallet, random.choice(pools), coin, held // 4, lambda _: [step])

    def wrap(self) -> Intent | None:
        """Wrap SOL, or unwrap it again: no trade."""
        world, random = self._world, self._random
        wallet = random.choice(world.holders)
        owner, sol = wallet.address, world.sol
        account = world.ledger.associated(owner, sol)
        if account in world.ledger.tokens:
            step = close_account(owner, account)
            return self._signer.sign(wallet, [step], _UNITS)
        lamports = random.randrange(LAMPORTS // 10, LAMPORTS)
        if world.ledger.lamports.get(owner, 0) < 2 * LAMPORTS:
            return None
        steps: list[Step] = [
            lambda tx: spl.create_associated(tx, owner, owner, sol),
            lambda tx: spl.transfer_lamports(tx, owner, account, lamports),
            lambda tx: spl.sync_native(tx, account),
        ]
        return self._signer.sign(wallet, steps, _UNITS)

    def provide(self) -> Intent | None:
        """Put both tokens into a pool, or take them out: no trade either."""
        world, random = self._world, self._random
        ledger = world.ledger
        pools = [pool for pool in world.directory.pools.values() if isinstance(pool, SharePool)]
        pools = [pool for pool in pools if pool.lp_mint in ledger.mints]
        if not pools:
            return None
        pool = random.choice(pools)
        lp = ledger.mints[pool.lp_mint]
        wallet = random.choice(world.bots)
        owner = wallet.address
        share = ledger.held(owner, lp)
        if share and random.random() < 0.5:
            open_both: list[Step] = [open_account(owner, side) for side in pool.sides]
            step = _withdrawn(pool, lp, owner, share // random.randrange(1, 3))
            return self._signer.sign(wallet, [*open_both, step], 2 * _UNITS)
        lp_raw = pool.lp_raw // random.randrange(500, 5_000)
        if not lp_raw:
            return None
        costs, put = _deposited(pool, lp, owner, lp_raw)
        for side, amount in zip(pool.sides, costs, strict=True):
            if ledger.held(owner, side) < amount:
                return None
        return self._signer.sign(wallet, [open_account(owner, lp), put], 2 * _UNITS)

    def _holding(self) -> tuple[Wallet, Mint, list[Pool], int] | None:
        """Find a holder of some coin, with the coin's pools and what is held."""
        coin, pools = self._crowd.coin_and_pools()
        ledger = self._world.ledger
        for wallet in (self._random.choice(self._world.holders) for _ in range(12)):
            held = ledger.held(wallet.address, coin)
            if held >= _LEAST_RAW and pools:
                return wallet, coin, pools, held
        return None

    def _send(self, coin: Mint, sender: Wallet, receiver: Wallet, amount: int) -> list[Step]:
        ledger = self._world.ledger
        owner, other = sender.address, receiver.address
        source, destination = ledger.associated(owner, coin), ledger.associated(other, coin)
        move = spl.transfer_checked_with_fee if coin.transfer_fee_bps else spl.transfer_checked
        return [
            lambda tx: spl.create_associated(tx, owner, other, coin),
            lambda tx: move(tx, source, coin, destination, owner, amount),
        ]


def _burn(account: bytes, coin: Mint, owner: bytes, amount: int, tx: Execution) -> None:
    spl.burn(tx, account, coin, owner, amount)


def _deposited(
    pool: SharePool, lp: Mint, owner: bytes, lp_raw: int
) -> tuple[tuple[int, int], Step]:
    """Return what LP tokens may cost at most, and the instruction that pays for them."""
    if isinstance(pool, CpmmPool):
        first, second = raydium_cpmm_liquidity.needed(pool, lp_raw)
        most = first * 21 // 20 + 1, second * 21 // 20 + 1
        return most, partial(
            raydium_cpmm_liquidity.deposit,
            pool=pool,
            lp=lp,
            owner=owner,
            lp_raw=lp_raw,
            most=most,
        )
    assert isinstance(pool, AmmV4Pool)
    coin, pc = raydium_amm_v4_liquidity.needed(pool, lp_raw)
    most = coin, pc * 21 // 20 + 1
    return most, partial(raydium_amm_v4_liquidity.deposit, pool=pool, lp=lp, owner=owner, most=most)


def _withdrawn(pool: SharePool, lp: Mint, owner: bytes, lp_raw: int) -> Step:
    if isinstance(pool, CpmmPool):
        take = raydium_cpmm_liquidity.withdraw
        return partial(take, pool=pool, lp=lp, owner=owner, lp_raw=lp_raw)
    assert isinstance(pool, AmmV4Pool)
    pay = raydium_amm_v4_liquidity.withdraw
    return partial(pay, pool=pool, lp=lp, owner=owner, lp_raw=lp_raw)
