"""The market before its first slot: quotes, old coins, their pools, and wallets with means."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

from infra.chain import demo_wallets
from infra.chain.market.runtime.ledger import Ledger, Mint
from infra.chain.market.runtime.programs import (
    JITO_TIP_ACCOUNTS,
    PROGRAMS,
    TOKEN,
    TOKEN_2022,
    USDC,
    USDT,
    WSOL,
    derived,
)
from infra.chain.market.runtime.stake import STAKE_RENT_LAMPORTS, Stake, Vote
from infra.chain.market.runtime.stake_pool import STAKE_POOL_RENT_LAMPORTS, StakePool
from infra.chain.market.venues.directory import Directory
from infra.chain.market.venues.meteora_damm_v2 import DammV2Pool
from infra.chain.market.venues.meteora_dlmm import DlmmPool
from infra.chain.market.venues.orca_whirlpool import Whirlpool
from infra.chain.market.venues.pump_swap import LARGE, PumpSwapPool
from infra.chain.market.venues.ranges import RangedPool
from infra.chain.market.venues.raydium_amm_v4 import AmmV4Pool
from infra.chain.market.venues.raydium_clmm import ClmmPool
from infra.chain.market.venues.raydium_cpmm import CpmmPool, sorted_sides
from infra.chain.market.venues.shares import SharePool
from infra.chain.market.venues.venue import Pool
from infra.chain.market.world.drift import Drift, DriftWallets
from infra.chain.market.world.jupiter_perps import JupiterPerps, PerpsWallets
from infra.chain.market.world.klend_lending import KlendLender, KlendWallets
from infra.chain.market.world.lending import Lender
from infra.chain.market.world.names import Names
from infra.chain.market.world.wallets import Validator, Wallet
from schemas.amounts import LAMPORTS
from schemas.solana.base58 import encode

SOL_PRICE_USDC: Final = 150
STAKED_SOL_PERCENT: Final = 118  # of SOL
POOLED_SOL_PERCENT: Final = 104
OLD_COINS: Final = 24
EXCHANGE_LAMPORTS: Final = 50_000_000 * LAMPORTS
MAKERS: Final = 3
COMMISSIONS: Final = (0, 5, 7, 10)  # percent, of validators
EXCHANGE_HOLDS: Final = 10  # times as much of a coin as its pools, as far as a supply can go
_U64_MAX: Final = (1 << 64) - 1  # the largest supply that a mint can note
_DEMO_BINS: Final = 20  # on each side of the price, of a demo wallet's positions
_FEWEST_DRIFTERS: Final = 32  # so many that one transaction cannot log all their funding
DOLLARS_RAW: Final = 1_500_000_000_000  # of USDC and of USDT in their pool


class World:
    """What exists when the chain starts."""

    def __init__(
        self,
        seed: int,
        random: Random,
        wallets: int,
        metadata_origin: str = "",
        start_time_s: int = 0,
        start_slot: int = 0,
    ) -> None:
        self.seed = seed
        self._metadata_origin = metadata_origin
        self.random = random
        self.ledger = Ledger()
        self.directory = Directory()
        self.names = Names(random)
        for program in PROGRAMS:
            self.ledger.lamports[program.address] = 1_141_440
        for tip_account in JITO_TIP_ACCOUNTS:
            self.ledger.lamports[tip_account] = LAMPORTS
        self.sol = self.ledger.add_mint(Mint(WSOL, 9, 0, name="Wrapped SOL", symbol="SOL"))
        self.usdc = self.ledger.add_mint(Mint(USDC, 6, 0, name="USD Coin", symbol="USDC"))
        self.usdt = self.ledger.add_mint(Mint(USDT, 6, 0, name="USDT", symbol="USDT"))
        self.staked_sol = self.ledger.add_mint(
            Mint(self.address("staked-sol"), 9, 0, name="Staked SOL", symbol="stSOL")
        )
        self.exchange = self._wallet("exchange", EXCHANGE_LAMPORTS)
        self.holders = [
            self._wallet(f"holder-{n}", random.randrange(20, 2_000) * LAMPORTS)
            for n in range(wallets)
        ]
        self.bots = [
            self._wallet(f"bot-{n}", 5_000 * LAMPORTS, keeps_wsol=True)
            for n in range(max(wallets // 40, 4))
        ]
        self.snipers = [
            self._wallet(f"sniper-{n}", 3_000 * LAMPORTS) for n in range(max(wallets // 40, 4))
        ]
        self.makers = [self._wallet(f"maker-{n}", 200_000 * LAMPORTS, True) for n in range(MAKERS)]
        self.validators = [self._validator(number) for number in range(8)]
        self._payments()
        self.stakers = [
            self._bare_wallet(f"staker-{n}", 50 * LAMPORTS) for n in range(max(wallets // 20, 4))
        ]
        self._stake()
        self.pooled_sol = self._stake_pool()
        lenders = [
            self._wallet(f"lender-{n}", (500 if n else 20_000) * LAMPORTS, keeps_wsol=True)
            for n in range(max(wallets // 20, 4))
        ]
        self.lender = Lender(
            seed, self.ledger, {self.sol: SOL_PRICE_USDC, self.usdc: 1}, lenders, start_time_s
        )
        self.worth: dict[bytes, float] = {  # lamports a raw unit
            WSOL: 1.0,
            USDC: 1_000 / SOL_PRICE_USDC,
            USDT: 1_000 / SOL_PRICE_USDC,
            self.staked_sol.address: STAKED_SOL_PERCENT / 100,
        }
        self.reference = self._reference_pools()
        self.providers = [
            self._wallet(f"provider-{n}", 500 * LAMPORTS, keeps_wsol=True)
            for n in range(max(wallets // 20, 4))
        ]
        self.dollars = self._dollar_pool()
        self.coins = self._coins()
        self._stock_makers()
        obligors = [
            self._wallet(f"obligor-{n}", (500 if n else 20_000) * LAMPORTS, keeps_wsol=True)
            for n in range(max(wallets // 20, 4))
        ]
        self.klend = KlendLender(
            seed,
            self.ledger,
            {self.sol: SOL_PRICE_USDC, self.usdc: 1},
            KlendWallets(obligors[0], self.lender.borrower, obligors[1:]),
            start_slot,
            start_time_s,
        )
        self.jupiter_perps = self._jupiter_perps(wallets, start_time_s)
        self.drift = self._drift(wallets, start_slot, start_time_s)
        self.ranged = self._provide()
        self._share()
        self.binned = self._provide_bins()
        self.whole_range = self._provide_over_all_prices()
        self.launched: dict[bytes, Pool] = {}  # curves of launched coins by mint, oldest first

    def address(self, *labels: object) -> bytes:
        """Return an address of this world."""
        return derived(self.seed, *labels)

    def uri(self, mint: bytes, nowhere: str) -> str:
        """Return where a coin's metadata is: at the origin, else `nowhere`."""
        if not self._metadata_origin:
            return nowhere
        return f"{self._metadata_origin}/metadata/{encode(mint)}.json"

    def _wallet(self, name: str, lamports: int, keeps_wsol: bool = False) -> Wallet:
        wallet = Wallet(self._wallet_address(name), keeps_wsol)
        self.ledger.lamports[wallet.address] = lamports
        if keeps_wsol:
            account = self.ledger.associated(wallet.address, self.sol)
            self.ledger.endow(account, self.sol, wallet.address, lamports)
        dollars = lamports * SOL_PRICE_USDC // 1_000
        for mint, amount in ((self.usdc, dollars), (self.staked_sol, lamports // 4)):
            account = self.ledger.associated(wallet.address, mint)
            self.ledger.endow(account, mint, wallet.address, amount)
        return wallet

    def _wallet_address(self, name: str) -> bytes:
        demo = demo_wallets.ADDRESSES | demo_wallets.KNOWN
        return demo.get(name) or self.address("wallet", name)

    def _bare_wallet(self, name: str, lamports: int) -> Wallet:
        wallet = Wallet(self._wallet_address(name))
        self.ledger.lamports[wallet.address] = lamports
        return wallet

    def _payments(self) -> None:
        """Give calls that are paid for a seller, and somebody who pays the fees."""
        seller = demo_wallets.address(demo_wallets.SELLER)
        account = self.ledger.associated(seller, self.usdc)
        self.ledger.endow(account, self.usdc, seller, 0)
        for name in (demo_wallets.SELLER, demo_wallets.FEE_PAYER):
            self.ledger.lamports[demo_wallets.address(name)] = 100 * LAMPORTS

    def _stake(self) -> None:
        """Give validators stakes of their own, and some wallets one that has long been active."""
        owners = [each.address for each in self.validators]
        owners += [each.address for each in (*self.stakers, *self.holders[::10])]
        for number, owner in enumerate(owners):
            own = number < len(self.validators)
            validator = self.validators[number % len(self.validators)]
            lamports = (2_000 if own else 5 + number % 40) * LAMPORTS
            address = self.address("stake", number)
            self.ledger.lamports[address] = lamports + STAKE_RENT_LAMPORTS
            self.ledger.natives[address] = Stake(
                owner, owner, validator.vote_account, lamports, activation_epoch=0
            )

    def _stake_pool(self) -> Mint:
        """Return the token of a stake pool that no market trades; some wallets hold it."""
        mint = self.ledger.add_mint(
            Mint(self.address("pooled-sol"), 9, 0, name="Pooled SOL", symbol="poolSOL")
        )
        for number, wallet in enumerate((*self.stakers, *self.holders[::5])):
            account = self.ledger.associated(wallet.address, mint)
            self.ledger.endow(account, mint, wallet.address, (1 + number % 30) * LAMPORTS)
        address = self.address("stake-pool")
        lamports = mint.supply_raw * POOLED_SOL_PERCENT // 100
        self.ledger.lamports[address] = STAKE_POOL_RENT_LAMPORTS
        self.ledger.natives[address] = StakePool(
            self.exchange.address, mint.address, lamports, mint.supply_raw
        )
        return mint

    def _jupiter_perps(self, wallets: int, time_s: int) -> JupiterPerps:
        keeper, api_keeper, *traders = (
            self._wallet(f"leverager-{n}", 500 * LAMPORTS, keeps_wsol=True)
            for n in range(max(wallets // 20, 6))
        )
        demo_longs = [self.lender.borrower, self.stakers[0]]
        return JupiterPerps(
            self.ledger,
            (self.sol, self.usdc),
            SOL_PRICE_USDC,
            PerpsWallets(keeper, api_keeper, self.exchange, traders, demo_longs, self.holders[:1]),
            time_s,
        )

    def _drift(self, wallets: int, slot: int, time_s: int) -> Drift:
        keeper, *traders = (
            self._wallet(f"drifter-{n}", 500 * LAMPORTS)
            for n in range(max(wallets // 20, _FEWEST_DRIFTERS))
        )
        demo = [self.holders[0], self.lender.borrower, self.stakers[0]]
        return Drift(
            *(self.ledger, self.usdc, SOL_PRICE_USDC),
            DriftWallets(keeper, traders, demo),
            *(slot, time_s),
        )

    def _validator(self, number: int) -> Validator:
        validator = Validator(self.address("validator", number), self.address("vote", number))
        self.ledger.lamports[validator.address] = 1_000 * LAMPORTS
        self.ledger.lamports[validator.vote_account] = 27_074_400
        self.ledger.natives[validator.vote_account] = Vote(
            validator.address, COMMISSIONS[number % len(COMMISSIONS)]
        )
        return validator

    def _reference_pools(self) -> list[Pool]:
        ledger = self.ledger
        sides = (self.sol, self.usdc)
        depth = 40_000 * LAMPORTS
        amounts = (depth, depth * SOL_PRICE_USDC // 1_000)
        keeper = self.makers[0].address
        pools: list[Pool] = [
            Whirlpool(ledger, self.address("orca", "sol-usdc"), sides, amounts, 400),
            AmmV4Pool(ledger, self.address("v4", "sol-usdc"), sides, amounts),
            ClmmPool(ledger, sides, amounts, 400),
            DlmmPool(ledger, self.address("dlmm", "sol-usdc"), sides, amounts, keeper, 10),
            DammV2Pool(ledger, self.address("damm", "sol-usdc"), sides, amounts),
        ]
        for pool in pools:
            self.directory.add(pool)
        return pools

    def _provide(self) -> list[RangedPool]:
        """Return the pools of ticks of SOL, staked SOL and USDC, with a demo wallet's positions."""
        tokens = {self.sol, self.usdc, self.staked_sol}
        pools = [
            pool
            for pool in self.directory.pools.values()
            if isinstance(pool, RangedPool) and tokens.issuperset(pool.sides)
        ]
        for pool in pools:
            middle = pool.tick // pool.spacing * pool.spacing
            reach = 500 // pool.spacing * pool.spacing  # five percent of the price
            owner = self.lender.borrower.address
            pool.found(owner, middle - reach, middle + reach, pool.liquidity // 500)
        return pools

    def _share(self) -> None:
        """Give a demo wallet a part of a pool of each kind that has LP tokens."""
        wallet = self.stakers[0].address
        kinds: set[type[SharePool]] = set()
        for pool in self.directory.pools.values():
            if isinstance(pool, SharePool) and type(pool) not in kinds and self.sol in pool.sides:
                kinds.add(type(pool))
                pool.hand(wallet, pool.lp_raw // 500)

    def _provide_bins(self) -> list[DlmmPool]:
        """Return the pools of bins of SOL, staked SOL and USDC, with a demo wallet's positions."""
        tokens = {self.sol, self.usdc, self.staked_sol}
        pools = [
            pool
            for pool in self.directory.pools.values()
            if isinstance(pool, DlmmPool) and tokens.issuperset(pool.sides)
        ]
        for pool in pools:
            held_x, held_y = pool.vault_balances()
            bounds = pool.active_bin - _DEMO_BINS, pool.active_bin + _DEMO_BINS
            owner = self.lender.borrower.address
            pool.found(owner, *bounds, (held_x // 500, held_y // 500))
        return pools

    def _provide_over_all_prices(self) -> list[DammV2Pool]:
        """Return the DAMM v2 pools of SOL, staked SOL and USDC, with a demo wallet's positions."""
        tokens = {self.sol, self.usdc, self.staked_sol}
        pools = [
            pool
            for pool in self.directory.pools.values()
            if isinstance(pool, DammV2Pool) and tokens.issuperset(pool.sides)
        ]
        for pool in pools:
            pool.found(self.holders[0].address, pool.liquidity // 500)
        return pools

    def _dollar_pool(self) -> Pool:
        pool = ClmmPool(self.ledger, (self.usdc, self.usdt), (DOLLARS_RAW, DOLLARS_RAW), 100)
        self.directory.add(pool)
        return pool

    def _stock_makers(self) -> None:
        """Give makers of every coin and dollar as much as lets them trade on both sides."""
        for mint in (self.usdt, *self.coins):
            pools = self.directory.of(mint)
            held = sum(pool.vault_balances()[pool.sides.index(mint)] for pool in pools)
            for maker in self.makers:
                account = self.ledger.associated(maker.address, mint)
                before = self.ledger.balance(account)
                if before:
                    mint.supply_raw -= before
                self.ledger.endow(account, mint, maker.address, max(held // 2, before))
            self._stock_exchange(mint, held)

    def _stock_exchange(self, mint: Mint, in_pools_raw: int) -> None:
        owner = self.exchange.address
        account = self.ledger.associated(owner, mint)
        if account not in self.ledger.tokens:
            amount_raw = min(EXCHANGE_HOLDS * in_pools_raw, _U64_MAX - mint.supply_raw)
            self.ledger.endow(account, mint, owner, amount_raw)

    def _coin(self, number: int) -> Mint:
        taxed = number % 8 == 7
        name, symbol = self.names.draw()
        address = self.address("coin", number)
        return self.ledger.add_mint(
            Mint(
                address,
                6 if number % 3 else 9,
                0,
                TOKEN_2022 if taxed or number % 4 == 2 else TOKEN,
                transfer_fee_bps=100 if taxed else 0,
                transfer_fee_max_raw=10**15 if taxed else 0,
                name=name,
                symbol=symbol,
                uri=self.uri(address, f"https://coins.example/{number}.json"),
            )
        )

    def _coins(self) -> list[Mint]:
        coins = [self._coin(number) for number in range(OLD_COINS)]
        for number, coin in enumerate(coins):
            depth = self.random.randrange(200, 5_000) * LAMPORTS
            amounts = (self.random.randrange(10**5, 10**8) * coin.unit, depth)
            self.worth[coin.address] = amounts[1] / amounts[0]
            for pool in self._pools_of(number, coin, amounts):
                self.directory.add(pool)
        for pool in self._staked_sol_pools(coins):
            self.directory.add(pool)
        return [*coins, self.staked_sol]

    def _staked_sol_pools(self, coins: list[Mint]) -> Iterator[Pool]:
        """Yield pools of staked SOL: against SOL, and as the quote of coins, on several venues.

        Where the venue orders its sides by address, the coin may as well be the quote.
        """
        ledger, staked = self.ledger, self.staked_sol
        depth = 30_000 * LAMPORTS
        sides = (staked, self.sol)
        amounts = (depth, depth * STAKED_SOL_PERCENT // 100)
        yield Whirlpool(ledger, self.address("orca", "staked-sol"), sides, amounts, 100)
        keeper = self.makers[0].address
        yield DlmmPool(ledger, self.address("dlmm", "staked-sol"), sides, amounts, keeper, 25)
        yield DammV2Pool(ledger, self.address("damm", "staked-sol"), sides, amounts, 0, swap2=True)
        for number, coin in enumerate(coins):
            if number % 4 == 2 or coin.transfer_fee_bps:
                depth = self.random.randrange(100, 2_000) * LAMPORTS
                worth = depth * self.worth[staked.address]
                amounts = (int(worth / self.worth[coin.address]), depth)
                ordered = sorted_sides(coin, staked)
                straight = ordered[0] is coin
                yield CpmmPool(ledger, ordered, amounts if straight else amounts[::-1])
                if number % 8 < 4:
                    address = self.address("orca", "staked", number)
                    yield Whirlpool(ledger, address, (coin, staked), amounts)

    def _pools_of(self, number: int, coin: Mint, amounts: tuple[int, int]) -> Iterator[Pool]:
        """Yield a coin's pools: every venue gets some, taxed coins only where they can trade."""
        ledger = self.ledger
        sides = (coin, self.sol)
        plain = coin.program is TOKEN
        if plain and number % 2:
            yield AmmV4Pool(ledger, self.address("v4", number), sides, amounts)
        if not coin.transfer_fee_bps:
            if number % 3 != 1:
                creator = self.address("creator", number)
                yield PumpSwapPool(ledger, creator, sides, creator, LARGE, amounts)
            if number % 3 != 2:
                address = self.address("dlmm", number)
                step, variant = (40, 80, 50)[number % 3], number % 4 % 3
                keeper = self.makers[0].address
                yield DlmmPool(ledger, address, sides, amounts, keeper, step, variant)
        if number % 2 or coin.transfer_fee_bps:
            address = self.address("orca", number)
            flipped = number % 5 == 1
            both = sides[::-1] if flipped else sides
            yield Whirlpool(ledger, address, both, amounts[::-1] if flipped else amounts)
        if number % 4 in (1, 2) or coin.transfer_fee_bps:
            ordered = sorted_sides(*sides)
            yield CpmmPool(ledger, ordered, amounts if ordered == sides else amounts[::-1])
        if number % 4 in (0, 3):
            address = self.address("damm", number)
            yield DammV2Pool(ledger, address, sides, amounts, number % 2, number % 8 > 3)
        if number % 4 in (1, 3):
            ordered = sorted_sides(*sides)
            yield ClmmPool(ledger, ordered, amounts if ordered == sides else amounts[::-1])
        if number % 6 == 0:  # against the dollar
            dollars = amounts[1] * SOL_PRICE_USDC // 1_000
            yield ClmmPool(ledger, (coin, self.usdc), (amounts[0], dollars))
