"""What a wallet has in all, over 10,000 random moves.

They are between wallet, lenders, pools, stakes and locks.

By token, in raw units: what its accounts hold without the tokens that represent positions, and what
its positions supply without what they owe, as the protocols' readings find them. Prices, interest
and trades are at rest, so a move costs its fee and a unit of rounding; whatever was counted twice,
or not at all, would show.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random

import pytest
from solders.pubkey import Pubkey

from infra.chain.market import Knobs, Market
from infra.chain.market.runtime import klend, klend_program, marginfi, spl, stake_program
from infra.chain.market.runtime import marginfi_program as lending
from infra.chain.market.runtime.execution import Execution, Intent, Step
from infra.chain.market.runtime.programs import STAKE, WSOL
from infra.chain.market.runtime.stake import (
    NEVER,
    STAKE_BYTES,
    STAKE_RENT_LAMPORTS,
    Stake,
    epoch_of,
)
from infra.chain.market.venues import orca_liquidity, raydium_clmm_liquidity
from infra.chain.market.venues.orca_whirlpool import Whirlpool
from infra.chain.market.venues.positions import Instructions, Place, place
from infra.chain.market.venues.ranges import RangedPool, RangedPosition
from infra.chain.market.venues.raydium_clmm import ClmmPool
from schemas.protocols.contract import Account, Held, Position, Protocol, Role, World
from schemas.protocols.registry import ALL, kind_of
from schemas.solana.addresses import text
from tests.infra.chain.market import jupiter_lock
from tests.infra.chain.market.jupiter_lock import Escrow, Schedule

pytestmark = pytest.mark.slow  # ten thousand transactions

MOVES = 10_000
KNOBS = Knobs(seed=9, rate=20, wallets=40, forks=0)
SOL_USD = 150
DAY_S = 86_400
MOST = (1 << 63, 1 << 63)
ROUNDING = 2  # units of a token; NFTs are never rounded
SOL = WSOL
PROGRAMS: dict[type[RangedPool], Instructions] = {
    Whirlpool: orca_liquidity,
    ClmmPool: raydium_clmm_liquidity,
}
PROTOCOLS = [
    each
    for each in ALL
    if each.name
    in {"marginfi", "kamino", "whirlpools", "raydium_clmm", "native_stake", "jupiter_lock"}
]


DONE = {
    *(f"{where} {what}" for where in ("lend", "owe") for what in ("deposit", "withdraw")),
    *(f"{where} {what}" for where in ("lend", "owe") for what in ("borrow", "repay")),
    *(f"provide {what}" for what in ("opened", "increased", "decreased", "closed")),
    *(f"stake {what}" for what in ("created", "deactivated", "withdrawn")),
    *(f"lock {what}" for what in ("created", "claimed", "cancelled", "closed")),
}


class Mover:
    """A wallet that moves what it has at random; each step is a transaction of its own."""

    def __init__(self, market: Market, seed: int) -> None:
        self.market = market
        self.ledger = market.world.ledger
        self.wallet = market.world.providers[1]
        self.address = self.wallet.address
        self.random = Random(seed)
        self.slot = market.knobs.start_slot
        self.time_s = market.knobs.start_time_ms // 1_000
        self.own: set[bytes] = set()  # accounts that it opened: its positions, and rent
        self.done: Counter[str] = Counter()
        self.last: tuple[str, int | None] = "", None
        self.places: list[Place] = []
        sides = {bank.mint for bank in market.world.lender.banks}
        self.pools = [each for each in market.world.ranged if {*each.sides} == sides]
        self.lent = lending.Holder(b"a" * 32, self.address)
        obligation = klend_program.obligation_address(market.world.klend.market, self.address)
        self.owing = klend_program.Holder(obligation, self.address)
        sol, usdc = market.world.lender.banks
        self.prices = {sol.address: SOL_USD * marginfi.ONE, usdc.address: marginfi.ONE}
        self.run("open", partial(lending.initialize, of=self.lent, group=market.world.lender.group))
        self.run(
            "open",
            partial(klend_program.initialize, of=self.owing, market=market.world.klend.market),
        )

    def run(self, what: str, *steps: Step) -> int:
        """Run a transaction; return its fee."""
        cosigners = (self.lent.account,) if what == "open" else ()
        tx = Execution(
            self.ledger,
            Intent(1, self.address, steps, bytes(32), cosigners=cosigners),
            self.slot,
            self.time_s,
        )
        tx.run()
        self.last = what, tx.err_code
        if tx.err_code is None:
            self.done[what] += 1
            self.own |= {at for at, before in tx.changes.lamports.items() if before is None}
            self.own -= {at for at in tx.changes.lamports if at not in self.ledger.lamports}
        else:
            self.done[f"{what} failed"] += 1
        return tx.intent.fee_lamports

    def move(self) -> int:
        """Move something; return the fee."""
        moves = (self.lend, self.owe, self.provide, self.stake, self.lock)
        return self.random.choice(moves)()

    def lend(self) -> int:
        bank = self.random.choice(self.market.world.lender.banks)
        unit = 10**9 if bank.mint.address == SOL else 10**6
        account = self.ledger.natives[self.lent.account]
        assert isinstance(account, marginfi.LendingAccount)
        balance = account.of(bank.address)  # it has a deposit or a debt of a bank, never both
        choices = ("borrow", "repay") if balance.debts else ("deposit", "withdraw")
        if not (balance.debts or balance.assets):
            choices = ("deposit", "borrow")
        what = self.random.choice(choices)
        amount = self.random.randrange(1, (4 if what == "borrow" else 20) * unit)
        step = getattr(lending, what)
        if what in ("withdraw", "repay") and self.random.random() < 0.1:
            amount = None
        return self.run(
            f"lend {what}",
            partial(step, of=self.lent, lent=bank, amount_raw=amount, prices=self.prices),
        )

    def owe(self) -> int:
        lent = self.random.choice(self.market.world.klend.lents)
        unit = 10**9 if lent.mint.address == SOL else 10**6
        what = self.random.choice(("deposit", "deposit", "withdraw", "borrow", "repay"))
        amount = self.random.randrange(1, (4 if what == "borrow" else 20) * unit)
        name = "collateral_raw" if what == "withdraw" else "amount_raw"
        step = partial(getattr(klend_program, what), of=self.owing, lent=lent, **{name: amount})
        fresh = [
            partial(klend_program.refresh_reserve, lent=each, price_sf=price * klend.ONE)
            for each, price in zip(self.market.world.klend.lents, (SOL_USD, 1), strict=True)
        ]
        refresh = partial(klend_program.refresh_obligation, of=self.owing)
        return self.run(f"owe {what}", *fresh, refresh, step)

    def provide(self) -> int:
        if len(self.places) < 4 and self.random.random() < 0.3:
            pool = self.random.choice(self.pools)
            middle = pool.tick // 64 * 64
            below, above = (self.random.randrange(-20, 20) * 64 for _ in range(2))
            lower, upper = middle + min(below, above), middle + max(below, above) + 64
            at = place(pool, self.address, self.random.randbytes(32), lower, upper)
            count = self.done["provide opened"]
            fee = self.run("provide opened", *PROGRAMS[type(pool)].opened(at, 10**8, MOST))
            if self.done["provide opened"] > count:
                self.places.append(at)
            return fee
        if not self.places:
            return self.stake()
        at = self.random.choice(self.places)
        position = self.ledger.natives[at.address]
        assert isinstance(position, RangedPosition)
        program = PROGRAMS[type(at.pool)]
        roll = self.random.random()
        if roll < 0.5:
            added = self.random.randrange(1, 10**9)
            return self.run("provide increased", *program.increased(at, added, MOST))
        if roll < 0.9 and position.liquidity:
            taken = self.random.randrange(1, position.liquidity + 1)
            return self.run("provide decreased", *program.decreased(at, taken))
        self.places.remove(at)
        return self.run("provide closed", *program.closed(at, position.liquidity))

    def stake(self) -> int:
        mine = [at for at in sorted(self.own) if isinstance(self.ledger.natives.get(at), Stake)]
        if len(mine) < 3:
            seed = f"stake:{self.done.total()}"
            at = bytes(Pubkey.create_with_seed(Pubkey(self.address), seed, STAKE.pubkey))
            lamports = STAKE_RENT_LAMPORTS + self.random.randrange(10**9, 5 * 10**9)
            vote = self.random.choice(self.market.world.validators).vote_account
            return self.run(
                "stake created",
                lambda tx: spl.create_account_with_seed(
                    tx, self.address, at, seed, lamports, STAKE_BYTES, STAKE
                ),
                lambda tx: stake_program.initialize(tx, at, self.address),
                lambda tx: stake_program.delegate(tx, at, vote, self.address),
            )
        at = self.random.choice(mine)
        stake = self.ledger.natives[at]
        assert isinstance(stake, Stake)
        if stake.deactivation_epoch == NEVER:
            return self.run(
                "stake deactivated", lambda tx: stake_program.deactivate(tx, at, self.address)
            )
        lamports = self.ledger.lamports[at]
        return self.run(
            "stake withdrawn",
            lambda tx: stake_program.withdraw(tx, at, self.address, self.address, lamports),
        )

    def lock(self) -> int:
        mine = self.escrows()
        if len(mine) < 4 and self.random.random() < 0.5:
            mint = self.random.choice(self.market.world.lender.banks).mint
            period_raw = self.random.randrange(1, mint.unit)
            periods = self.random.randrange(1, 6)
            # From nothing that has vested to all of it.
            cliff_s = self.time_s - self.random.randrange(-1, periods + 2) * DAY_S
            schedule = Schedule(
                cliff_s, DAY_S, self.random.randrange(mint.unit), period_raw, periods
            )
            escrow = Escrow(self.address, mint, self.random.randbytes(32), schedule)
            return self.run("lock created", partial(jupiter_lock.create, of=escrow))
        if not mine:
            return self.stake()
        at = self.random.choice(sorted(mine))
        if not mine[at].left_raw:
            return self.run("lock closed", partial(jupiter_lock.close, at=at))
        if self.random.random() < 0.3:
            return self.run("lock cancelled", partial(jupiter_lock.cancel, at=at))
        most_raw = self.random.randrange(1, mine[at].left_raw + 1)
        return self.run("lock claimed", partial(jupiter_lock.claim, at=at, most_raw=most_raw))

    def escrows(self) -> dict[bytes, Escrow]:
        natives = self.ledger.natives
        return {at: one for at in self.own if isinstance(one := natives.get(at), Escrow)}

    # What it has.

    def account(self, address: bytes) -> Account | None:
        found = self.market.account(address)
        if found is None:
            return None
        kind = kind_of(address, found.owner, found.data)
        return Account(address, kind, found.lamports, found.data, self.slot) if kind else None

    def has(self) -> Counter[bytes]:
        """Everything it has, by mint; rent of its accounts is its SOL."""
        tokens = Counter[bytes]()
        for token in self.ledger.tokens.values():
            if token.owner == self.address and token.amount_raw:
                tokens[token.mint.address] += token.amount_raw
        own = [account for at in self.own if (account := self.account(at)) is not None]
        held = Held(self.address, own, tokens)
        total = Counter(tokens)
        stakes = locks = 0
        for protocol in PROTOCOLS:
            for position in self.positions(protocol, held):
                assert not position.missing
                for mint, raw in position.stands_for.items():
                    total[mint] -= raw
                for asset in position.assets:
                    assert asset.amount_raw is not None
                    sign = -1 if asset.role is Role.BORROW else 1
                    total[asset.mint] += sign * asset.amount_raw
                stakes += position.stake is not None
                locks += bool(position.locks)
        assert stakes == sum(isinstance(self.ledger.natives.get(at), Stake) for at in self.own)
        assert locks == sum(bool(each.left_raw) for each in self.escrows().values())
        total[SOL] += self.ledger.lamports[self.address] + sum(map(self.rent, self.own))
        return total

    def rent(self, at: bytes) -> int:
        """Lamports that are in no position and no balance: a stake account's are its position."""
        if isinstance(self.ledger.natives.get(at), Stake):
            return 0
        token = self.ledger.tokens.get(at)
        wrapped = token.amount_raw if token and token.mint.address == SOL else 0
        return self.ledger.lamports.get(at, 0) - wrapped

    def positions(self, protocol: Protocol, held: Held) -> list[Position]:
        assert protocol.read is not None
        world = World(self.slot, self.time_s, epoch_of(self.slot))
        reading = protocol.read(held, world)
        try:
            wanted = next(reading)
            while True:
                sent = {at: account for at in wanted if (account := self.account(at)) is not None}
                wanted = reading.send(sent)
        except StopIteration as end:
            found: list[Position] = end.value
            return found


def test_nothing_is_counted_twice_or_lost() -> None:
    market = Market(KNOBS)
    mover = Mover(market, seed=1)
    lent = {bank.mint.address for bank in market.world.lender.banks}
    before = mover.has()
    for _ in range(MOVES):
        fee = mover.move()
        after = mover.has()
        expected = before.copy()
        expected[SOL] -= fee
        for mint in before.keys() | after.keys():
            away = abs(after[mint] - expected[mint])
            assert away <= (ROUNDING if mint in lent else 0), (mover.last, text(mint))
        before = after
    done = {what for what, count in mover.done.items() if count >= MOVES // 200}
    assert done >= DONE
