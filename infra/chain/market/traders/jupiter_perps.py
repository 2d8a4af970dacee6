"""Traders of Jupiter Perps: they open, change and close longs and shorts, and are liquidated.

They have wallets and random numbers of their own: no price depends on what they do.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Final

from infra.chain.market.runtime import doves, spl
from infra.chain.market.runtime import jupiter_perps_program as program
from infra.chain.market.runtime.execution import Intent, Step
from infra.chain.market.runtime.jupiter_perps import DECREASE, INCREASE, LONG, USD, Position
from infra.chain.market.runtime.jupiter_perps_program import Listed, Place, Request
from infra.chain.market.traders.signing import Signer
from infra.chain.market.world.genesis import World
from infra.chain.market.world.wallets import Wallet
from schemas.amounts import LAMPORTS

PERPS: Final = "perps"  # tag of the intents
SHARE: Final = 0.004  # of the market's rate
_LEVERAGES: Final = (2, 3, 5, 10, 25, 100, 300)
_DEMO_LEVERAGES: Final = (2, 3)
_INSTANT: Final = 0.3  # share of the changes that are made at once
_REPORT_EVERY_S: Final = 10
_LOOK_EVERY_SLOTS: Final = 8  # for what can be liquidated
_LIQUIDATED_AT_ONCE: Final = 2
_GREATEST_PART: Final = 40  # of what the pool has free, at most one part is borrowed at once
_SLIPPAGE_BPS: Final = 100
_LEAST_USD: Final = 20 * USD
_MOST_COLLATERAL_USD: Final = 5_000
_REFILL_USD: Final = 20_000


class PerpTrading:
    """The habit of leveraged bets."""

    def __init__(self, world: World, signer: Signer, seed: int, per_slot: float, failed: float):
        self._world = world
        self._perps = world.jupiter_perps
        self._signer = signer
        self._random = Random(f"jupiter-perps/{seed}")  # noqa: S311 - reproducible, not secret
        self._per_slot = per_slot * SHARE
        self._failed = failed
        self._asked: dict[bytes, Request] = {}  # last ones; after a fork they may wait again
        self._tried: set[bytes] = set()  # of them, those that a keeper could not do

    def turn(self, slot: int, time_s: int) -> Iterator[Intent]:
        """Yield the next slot's transactions; each must have run before the next."""
        if not self._per_slot:
            return
        if time_s - self._perps.reported_s >= _REPORT_EVERY_S:
            steps = [*self._reporting(self._perps.sol), *self._reporting(self._perps.usdc)]
            yield self._intent(self._perps.keepers.keeper, steps)
        yield from self._keep()
        if slot % _LOOK_EVERY_SLOTS == 0:
            yield from self._liquidate()
        count = int(self._per_slot) + (self._random.random() < self._per_slot % 1)
        for _ in range(count):
            wallet, both = self._random.choice(list(self._perps.places.items()))
            of = self._perps.demo.get(wallet) or self._random.choice(both)
            intent = self._change(of)
            if intent is not None:
                yield intent

    # Keepers.

    def _keep(self) -> Iterator[Intent]:
        """Do what wallets asked for; close what could not be done."""
        keeper = self._perps.keepers.keeper
        for address, request in self._asked.items():
            if self._perps.request(address) is None:  # done, or never there
                self._tried.discard(address)
                continue
            close: Step = partial(program.close_request, keeper=keeper, request=request)
            if address in self._tried:
                yield self._intent(keeper, [close])
                continue
            self._tried.add(address)
            does = program.increase if request.change == INCREASE else program.decrease
            step: Step = partial(does, keeper=keeper, request=request)
            yield self._intent(keeper, [*self._reporting(self._perps.sol), step, close])

    def _liquidate(self) -> Iterator[Intent]:
        keeper, price = self._perps.keepers.keeper, self._price()
        found = 0
        for both in self._perps.places.values():
            for of in both:
                position = self._perps.position(of)
                if position is None or not position.is_liquidatable(
                    self._perps.custody(of.collateral), price
                ):
                    continue
                step: Step = partial(program.liquidate, signer=keeper, of=of)
                yield self._intent(keeper, [*self._reporting(self._perps.sol), step])
                found += 1
                if found == _LIQUIDATED_AT_ONCE:
                    return

    def _price(self) -> int:
        """Return SOL in millionths of a dollar, as the reference pools trade it."""
        sol, usdc = self._world.sol, self._world.usdc
        return int(self._world.reference[0].mid() * 10 ** (sol.decimals - usdc.decimals) * USD)

    def _reporting(self, of: Listed) -> list[Step]:
        """Return what brings a token's oracle to the price of now."""
        keeper = self._perps.keepers.keeper
        price = (self._price() if of is self._perps.sol else USD) * doves.MICRO_USD
        return [
            partial(doves.update, signer=keeper, feed=of.doves, price=price),
            partial(doves.aggregate, signer=keeper, ag_feed=of.doves_ag, feed=of.doves),
        ]

    # Wallets.

    def _change(self, of: Place) -> Intent | None:
        """Return what a wallet does with one of its positions."""
        ledger = self._world.ledger
        if any(self._perps.request(each) for each, _ in self._perps.asked[of.address]):
            return None
        if ledger.lamports.get(of.wallet, 0) < LAMPORTS:
            return None
        if ledger.associated(of.wallet, of.collateral.mint) not in ledger.tokens:
            return None
        position = self._perps.position(of)
        roll = self._random.random()
        is_demo = of.wallet in self._perps.demo
        if position is None or roll < (0.5 if is_demo else 0.2):
            return self._increase(of)
        if is_demo or roll < 0.5:
            size_usd = position.size_usd // self._random.randrange(3, 9)
            if size_usd < _LEAST_USD:
                return None if is_demo else self._decrease(of, position, None, 0)
            withdrawn_usd = position.collateral_usd * size_usd // position.size_usd
            return self._decrease(of, position, size_usd, withdrawn_usd)
        if roll < 0.6:  # collateral alone
            return self._decrease(of, position, 0, position.collateral_usd // 8)
        return self._decrease(of, position, None, 0)

    def _increase(self, of: Place) -> Intent | None:
        random, ledger = self._random, self._world.ledger
        is_demo = of.wallet in self._perps.demo
        collateral = self._perps.custody(of.collateral)
        price = self._price()
        own_price = price if of.side == LONG else USD
        held = ledger.held(of.wallet, of.collateral.mint)
        most_raw = collateral.tokens(_MOST_COLLATERAL_USD * USD, own_price)
        amount_raw = min(held // random.randrange(30, 120), most_raw)
        worth_usd = collateral.usd(amount_raw, own_price)
        if worth_usd < _LEAST_USD:
            refill_raw = collateral.tokens(_REFILL_USD * USD, own_price)
            return None if is_demo else self._refill(of, refill_raw)
        leverage = random.choice(_DEMO_LEVERAGES if is_demo else _LEVERAGES)
        free_raw = collateral.owned_raw - collateral.locked_raw
        most_usd = collateral.usd(free_raw, own_price) // _GREATEST_PART
        size_usd = min(worth_usd * leverage, most_usd)
        slippage = self._slippage(price, is_most=of.side == LONG)
        if random.random() < _INSTANT:
            step: Step = partial(
                program.instant_increase,
                keepers=self._perps.keepers,
                of=of,
                size_usd=size_usd,
                amount_raw=amount_raw,
                slippage=slippage,
            )
            return self._instant(of.wallet, step)
        return self._ask(of, INCREASE, size_usd, amount_raw, slippage)

    def _decrease(
        self, of: Place, position: Position, size_usd: int | None, withdrawn_usd: int
    ) -> Intent:
        slippage = self._slippage(self._price(), is_most=not position.is_long)
        if self._random.random() < _INSTANT:
            step: Step = partial(
                program.instant_decrease,
                keepers=self._perps.keepers,
                of=of,
                size_usd=size_usd,
                withdrawn_usd=withdrawn_usd,
                slippage=slippage,
            )
            return self._instant(of.wallet, step)
        is_entire = size_usd is None
        return self._ask(of, DECREASE, size_usd or 0, withdrawn_usd, slippage, is_entire=is_entire)

    def _slippage(self, price: int, *, is_most: bool) -> int:
        """Return the worst price that is accepted; now and then one that nobody meets."""
        bps = -_SLIPPAGE_BPS if self._random.random() < self._failed else _SLIPPAGE_BPS
        return price * (10_000 + (bps if is_most else -bps)) // 10_000

    def _ask(
        self,
        of: Place,
        change: int,
        size_usd: int,
        collateral_raw: int,
        slippage: int,
        *,
        is_entire: bool = False,
    ) -> Intent:
        asked = self._perps.asked[of.address]
        address, bump = asked.increase if change == INCREASE else asked.decrease
        request = Request(
            *(of, address, bump, 1, change, size_usd, collateral_raw, slippage, is_entire)
        )
        self._asked[address] = request
        return self._intent(of.wallet, [partial(program.ask, request=request)])

    def _instant(self, wallet: bytes, step: Step) -> Intent:
        return self._intent(
            wallet, [*self._reporting(self._perps.sol), step], tuple(self._perps.keepers)
        )

    def _refill(self, of: Place, amount_raw: int) -> Intent:
        """Send collateral from an exchange to a wallet that has run out of it."""
        payer: Wallet = self._perps.wallets.exchange
        mint, ledger = of.collateral.mint, self._world.ledger
        account = ledger.associated(of.wallet, mint)
        if of.side == LONG:
            return self._intent(
                payer.address,
                [
                    lambda tx: spl.transfer_lamports(tx, payer.address, account, amount_raw),
                    lambda tx: spl.sync_native(tx, account),
                ],
            )
        source = ledger.associated(payer.address, mint)
        return self._intent(
            payer.address,
            [lambda tx: spl.transfer_checked(tx, source, mint, account, payer.address, amount_raw)],
        )

    def _intent(
        self, wallet: bytes, steps: list[Step], cosigners: tuple[bytes, ...] = ()
    ) -> Intent:
        return Intent(
            serial=self._signer.next_serial(),
            payer=wallet,
            steps=steps,
            recent_blockhash=self._signer.recent_blockhash,
            cosigners=cosigners,
            tag=PERPS,
        )
