"""A wallet that moves what it has at random, on a market where nobody else does anything.

Of what this chain runs it uses lenders, pools of every kind, shares of pools, stakes and locks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from random import Random

from solders.pubkey import Pubkey

from infra.chain.market import Market
from infra.chain.market.runtime import klend, klend_program, marginfi, spl, stake_program
from infra.chain.market.runtime import marginfi_program as lending
from infra.chain.market.runtime.execution import Execution, Intent, Step
from infra.chain.market.runtime.ledger import TokenAccount
from infra.chain.market.runtime.programs import STAKE, TOKEN, WSOL
from infra.chain.market.runtime.stake import (
    NEVER,
    STAKE_BYTES,
    STAKE_RENT_LAMPORTS,
    Stake,
    epoch_of,
)
from infra.chain.market.venues import (
    meteora_damm_v2_liquidity,
    orca_liquidity,
    raydium_amm_v4_liquidity,
    raydium_clmm_liquidity,
    raydium_cpmm_liquidity,
)
from infra.chain.market.venues.meteora_damm_v2 import DammPosition
from infra.chain.market.venues.meteora_damm_v2_liquidity import Share
from infra.chain.market.venues.orca_whirlpool import Whirlpool
from infra.chain.market.venues.positions import Instructions, Place, place
from infra.chain.market.venues.ranges import RangedPool, RangedPosition
from infra.chain.market.venues.raydium_amm_v4 import AmmV4Pool
from infra.chain.market.venues.raydium_clmm import ClmmPool
from infra.chain.market.venues.raydium_cpmm import CpmmPool
from infra.chain.market.venues.shares import SharePool
from schemas.protocols.contract import Account, Held, Position, Protocol, World
from schemas.protocols.registry import ALL, kind_of
from tests.infra.chain.market import jupiter_lock
from tests.infra.chain.market.jupiter_lock import Escrow, Schedule

DAY_S = 86_400
MOST = (1 << 63, 1 << 63)
SOL = WSOL
PROGRAMS: dict[type[RangedPool], Instructions] = {
    Whirlpool: orca_liquidity,
    ClmmPool: raydium_clmm_liquidity,
}
PROTOCOLS = [
    each
    for each in ALL
    if each.name
    in {
        *("marginfi", "kamino", "native_stake", "jupiter_lock"),
        *("whirlpools", "raydium_clmm", "meteora_damm_v2", "raydium_cpmm", "raydium_amm_v4"),
    }
]
DONE = {
    *(f"{where} {what}" for where in ("lend", "owe") for what in ("deposit", "withdraw")),
    *(f"{where} {what}" for where in ("lend", "owe") for what in ("borrow", "repay")),
    *(f"provide {what}" for what in ("opened", "increased", "decreased", "closed")),
    *(f"cover {what}" for what in ("opened", "increased", "decreased", "closed")),
    *(f"{pool.DEX} {what}" for pool in (CpmmPool, AmmV4Pool) for what in ("deposit", "withdraw")),
    *(f"{pool.DEX} shares moved" for pool in (CpmmPool, AmmV4Pool)),
    *(f"stake {what}" for what in ("created", "deactivated", "withdrawn")),
    *(f"lock {what}" for what in ("created", "claimed", "cancelled", "closed")),
}
"""What a mover does, each often."""


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
        self.covering: list[Share] = []
        sides = {bank.mint for bank in market.world.lender.banks}
        self.pools = [each for each in market.world.ranged if {*each.sides} == sides]
        self.whole_range = [each for each in market.world.whole_range if {*each.sides} == sides]
        self.shared = [self.pool_of_shares(CpmmPool), self.pool_of_shares(AmmV4Pool)]
        self.second: dict[bytes, bytes] = {}  # its other account of LP tokens, by mint
        self.lent = lending.Holder(b"a" * 32, self.address)
        obligation = klend_program.obligation_address(market.world.klend.market, self.address)
        self.owing = klend_program.Holder(obligation, self.address)
        self.sol_usd = 150
        self.run("open", partial(lending.initialize, of=self.lent, group=market.world.lender.group))
        self.run(
            "open",
            partial(klend_program.initialize, of=self.owing, market=market.world.klend.market),
        )
        for pool in self.shared:
            self.open_accounts(pool)

    def pool_of_shares(self, kind: type[SharePool]) -> SharePool:
        """Return a pool of SOL without transfer fees; of its other side the wallet gets some."""
        world = self.market.world
        pools = (each for each in world.directory.pools.values() if isinstance(each, kind))
        pool = next(
            each
            for each in pools
            if world.sol in each.sides and not any(side.transfer_fee_bps for side in each.sides)
        )
        other = pool.other(world.sol)
        account = self.ledger.associated(self.address, other)
        if account not in self.ledger.tokens:
            raw = pool.reserves()[pool.sides.index(other)] // 10
            self.ledger.endow(account, other, self.address, raw)
        return pool

    def open_accounts(self, pool: SharePool) -> None:
        """Open two accounts of a pool's LP token."""
        lp = self.ledger.mints[pool.lp_mint]
        at = self.second[lp.address] = self.random.randbytes(32)
        rent = lp.account_rent_lamports
        self.run(
            "open",
            lambda tx: spl.create_associated(tx, self.address, self.address, lp),
            lambda tx: spl.create_account(tx, self.address, at, rent, 165, TOKEN),
            lambda tx: spl.initialize_account(tx, at, lp, self.address),
        )

    @property
    def prices(self) -> lending.Prices:
        """Return what oracles say of the lender's banks."""
        sol, usdc = self.market.world.lender.banks
        return {sol.address: self.sol_usd * marginfi.ONE, usdc.address: marginfi.ONE}

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
        moves = (self.lend, self.owe, self.provide, self.cover, self.share, self.stake, self.lock)
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
            for each, price in zip(self.market.world.klend.lents, (self.sol_usd, 1), strict=True)
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

    def cover(self) -> int:
        """Provide over all prices; a position is an NFT."""
        program = meteora_damm_v2_liquidity
        if len(self.covering) < 4 and self.random.random() < 0.3:
            pool, mint = self.random.choice(self.whole_range), self.random.randbytes(32)
            share = program.share(pool, self.address, mint)
            count = self.done["cover opened"]
            fee = self.run("cover opened", *program.opened(share, 10**8 << 64, MOST))
            if self.done["cover opened"] > count:
                self.covering.append(share)
            return fee
        if not self.covering:
            return self.stake()
        share = self.random.choice(self.covering)
        position = self.ledger.natives[share.address]
        assert isinstance(position, DammPosition)
        roll = self.random.random()
        if roll < 0.5:
            added = self.random.randrange(1, 10**9 << 64)
            return self.run("cover increased", *program.increased(share, added, MOST))
        if roll < 0.9 and position.liquidity:
            taken = self.random.randrange(1, position.liquidity + 1)
            return self.run("cover decreased", *program.decreased(share, taken))
        self.covering.remove(share)
        return self.run("cover closed", *program.closed(share, position.liquidity))

    def share(self) -> int:
        """Deposit into a pool for LP tokens, move these between two accounts, or withdraw."""
        pool = self.random.choice(self.shared)
        lp = self.ledger.mints[pool.lp_mint]
        first = self.ledger.associated(self.address, lp)
        roll = self.random.random()
        if roll < 0.3:
            ways = (first, self.second[lp.address])
            source, to = self.random.choice((ways, ways[::-1]))
            raw = self.random.randrange(self.ledger.balance(source) + 1)
            step = partial(spl.transfer, source=source, destination=to, authority=self.address)
            return self.run(f"{pool.DEX} shares moved", partial(step, amount_raw=raw))
        held_raw = self.ledger.balance(first)
        if roll < 0.7 or not held_raw:
            lp_raw = pool.lp_raw // self.random.randrange(1_000, 10**6)
            return self.run(f"{pool.DEX} deposit", self.deposited(pool, lp_raw))
        raw = held_raw if self.random.random() < 0.3 else self.random.randrange(1, held_raw + 1)
        return self.run(f"{pool.DEX} withdraw", self.withdrawn(pool, raw))

    def deposited(self, pool: SharePool, lp_raw: int) -> Step:
        """Return the instruction that deposits for LP tokens."""
        lp, owner = self.ledger.mints[pool.lp_mint], self.address
        if isinstance(pool, CpmmPool):
            most = raydium_cpmm_liquidity.needed(pool, lp_raw)
            deposit = partial(raydium_cpmm_liquidity.deposit, pool=pool, lp_raw=lp_raw)
            return partial(deposit, lp=lp, owner=owner, most=most)
        assert isinstance(pool, AmmV4Pool)
        most = raydium_amm_v4_liquidity.needed(pool, lp_raw)
        return partial(raydium_amm_v4_liquidity.deposit, pool=pool, lp=lp, owner=owner, most=most)

    def withdrawn(self, pool: SharePool, lp_raw: int) -> Step:
        """Return the instruction that withdraws for LP tokens."""
        lp, owner = self.ledger.mints[pool.lp_mint], self.address
        if isinstance(pool, CpmmPool):
            withdraw = partial(raydium_cpmm_liquidity.withdraw, pool=pool)
        else:
            assert isinstance(pool, AmmV4Pool)
            withdraw = partial(raydium_amm_v4_liquidity.withdraw, pool=pool)
        return partial(withdraw, lp=lp, owner=owner, lp_raw=lp_raw)

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

    def tokens(self) -> list[TokenAccount]:
        """Return its token accounts that hold something."""
        of = self.ledger.tokens.values()
        return [each for each in of if each.owner == self.address and each.amount_raw]

    def held(self) -> Held:
        """Return its accounts, the pools of its LP tokens, and its tokens."""
        amounts = Counter[bytes]()
        for token in self.tokens():
            amounts[token.mint.address] += token.amount_raw
        found = (*self.own, *(pool.address for pool in self.shared if amounts[pool.lp_mint]))
        own = [account for at in found if (account := self.account(at)) is not None]
        return Held(self.address, own, amounts)

    def account(self, address: bytes) -> Account | None:
        found = self.market.account(address)
        if found is None:
            return None
        kind = kind_of(address, found.owner, found.data)
        return Account(address, kind, found.lamports, found.data, self.slot) if kind else None

    def positions(self, held: Held) -> Iterator[tuple[Protocol, Position]]:
        """Yield what the protocols' readings find, and whose it is."""
        world = World(self.slot, self.time_s, epoch_of(self.slot))
        for protocol in PROTOCOLS:
            for position in self.read(protocol, held, world):
                yield protocol, position

    def read(self, protocol: Protocol, held: Held, world: World) -> list[Position]:
        assert protocol.read is not None
        reading = protocol.read(held, world)
        try:
            wanted = next(reading)
            while True:
                sent = {at: account for at in wanted if (account := self.account(at)) is not None}
                wanted = reading.send(sent)
        except StopIteration as end:
            found: list[Position] = end.value
            return found

    def rent_lamports(self) -> int:
        """Return the lamports of accounts that are in no position and no balance."""
        return sum(map(self._rent, self.own))

    def _rent(self, at: bytes) -> int:
        if isinstance(self.ledger.natives.get(at), Stake):
            return 0  # a stake account's are its position
        token = self.ledger.tokens.get(at)
        wrapped = token.amount_raw if token and token.mint.address == SOL else 0
        return self.ledger.lamports.get(at, 0) - wrapped
