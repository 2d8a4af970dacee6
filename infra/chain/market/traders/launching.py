"""Creating coins: on one of the launch platforms, with a first purchase by its creator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, Intent, Step
from infra.chain.market.runtime.ledger import Mint
from infra.chain.market.traders.swap_plan import SwapPlan, swap_step
from infra.chain.market.traders.trading import Trading
from infra.chain.market.venues import meteora_dbc, pump_launch, raydium_launchlab
from infra.chain.market.venues.meteora_dbc import DbcCurve
from infra.chain.market.venues.pump_fun import BondingCurve
from infra.chain.market.venues.pump_fun_v2 import DollarCurve
from infra.chain.market.venues.raydium_launchlab import LaunchLabCurve
from infra.chain.market.venues.venue import Trader
from infra.chain.market.world.wallets import Wallet
from schemas.amounts import LAMPORTS

Curve = BondingCurve | LaunchLabCurve | DbcCurve
PUMP_SHARE: Final = 0.7  # of all launches
LAUNCHLAB_SHARE: Final = 0.15
DOLLAR_SHARE: Final = 0.1  # of those on pump.fun

Texts = tuple[str, str, str]


class Launching:
    """The habit of creating coins; `born` is called where the launch succeeds."""

    def __init__(self, trading: Trading, born: Callable[[Execution, Curve], None]) -> None:
        self._trading = trading
        self._world = trading.world
        self._random = trading.random
        self._signer = trading.signer
        self._born = born
        self._launched = 0

    def launch(self) -> Intent | None:
        """Create a coin on one of the platforms; its creator buys first."""
        world, random = self._world, self._random
        creator = random.choice(world.holders)
        if world.ledger.lamports.get(creator.address, 0) < 5 * LAMPORTS:
            return self._trading.refill(creator)
        self._launched += 1
        number = self._launched
        address = world.address("launch", number)
        texts = (*world.names.draw(), world.uri(address, f"https://ipfs.example/{number}"))
        roll = random.random()
        if roll < PUMP_SHARE:
            return self._launch_pump(creator, address, texts)
        owner = creator.address
        curve: LaunchLabCurve | DbcCurve
        if roll < PUMP_SHARE + LAUNCHLAB_SHARE:
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

    def _launch_pump(self, creator: Wallet, address: bytes, texts: Texts) -> Intent:
        world, random = self._world, self._random
        dollars = random.random() < DOLLAR_SHARE
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


def _plain_coin(address: bytes, texts: Texts, platform: str, authority: bytes) -> Mint:
    name, symbol, uri = texts
    return Mint(
        address, 6, 0, authority=authority, name=name, symbol=symbol, uri=uri, platform=platform
    )
