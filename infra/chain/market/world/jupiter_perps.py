"""The Jupiter Perps of the world: a pool of SOL and USDC, and wallets that bet against it."""

from __future__ import annotations

from typing import Final, NamedTuple

from infra.chain.market.runtime.doves import (
    AG_FEED_RENT_LAMPORTS,
    FEED_RENT_LAMPORTS,
    MICRO_USD,
    AgPriceFeed,
    PriceFeed,
    ag_feed_address,
    feed_address,
)
from infra.chain.market.runtime.jupiter_perps import (
    CUSTODY_RENT_LAMPORTS,
    DECREASE,
    INCREASE,
    LONG,
    POOL_RENT_LAMPORTS,
    POSITION_RENT_LAMPORTS,
    SHORT,
    USD,
    Custody,
    Pool,
    Position,
    PositionRequest,
    aum_usd,
    increased,
)
from infra.chain.market.runtime.jupiter_perps_program import (
    AUTHORITY,
    LP_BUMP,
    LP_MINT,
    POOL,
    POOL_BUMP,
    Keepers,
    Listed,
    Place,
    place,
    request_address,
)
from infra.chain.market.runtime.ledger import Ledger, Mint
from infra.chain.market.runtime.programs import JUPITER_PERPS, pda_and_bump
from infra.chain.market.runtime.stake import Native
from infra.chain.market.world.wallets import Wallet
from schemas.amounts import LAMPORTS

_POOLED_SOL: Final = 60_000 * LAMPORTS
_POOLED_USDC: Final = 9_000_000 * USD
_LP_USD: Final = 4  # a token of the pool, at the start
_SIZES: Final = 3  # times as large as its collateral is a demo wallet's position
_DEMO_USD: Final = 1_500


class Asked(NamedTuple):
    """Where a wallet's requests about a position are: address and bump of each change."""

    increase: tuple[bytes, int]
    decrease: tuple[bytes, int]


class PerpsWallets(NamedTuple):
    """Who uses the pool; demo wallets never close their position, which is there at the start."""

    keeper: Wallet
    api_keeper: Wallet
    exchange: Wallet
    traders: list[Wallet]
    demo_longs: list[Wallet]
    demo_shorts: list[Wallet]


class JupiterPerps:
    """The pool, its custodies and the places of its traders' positions."""

    def __init__(
        self,
        ledger: Ledger,
        mints: tuple[Mint, Mint],
        sol_usd: int,
        wallets: PerpsWallets,
        time_s: int,
    ) -> None:
        """Put the pool, with SOL and USDC in it, on the ledger, and the demo wallets' positions."""
        self._ledger = ledger
        self.wallets = wallets
        self.keepers = Keepers(wallets.keeper.address, wallets.api_keeper.address)
        sol, usdc = mints
        self.sol = self._listed(sol, sol_usd * USD, _POOLED_SOL, time_s)
        self.usdc = self._listed(usdc, USD, _POOLED_USDC, time_s)
        self.places = {
            each.address: self._places(each)
            for each in (*wallets.traders, *wallets.demo_longs, *wallets.demo_shorts)
        }
        self.asked = {
            each.address: Asked(*(request_address(each, 1, way) for way in (INCREASE, DECREASE)))
            for both in self.places.values()
            for each in both
        }
        self.demo = {
            wallet.address: self.places[wallet.address][number]
            for number, some in enumerate((wallets.demo_longs, wallets.demo_shorts))
            for wallet in some
        }
        for each in self.demo.values():
            self._open(each, (sol_usd * USD, USD), time_s)
        custodies = [self.custody(each) for each in (self.sol, self.usdc)]
        worth = sum(aum_usd(each, sol_usd * USD) for each in custodies)
        addresses = self.sol.address, self.usdc.address
        pool = Pool(addresses, (POOL_BUMP, LP_BUMP), time_s, worth, time_s)
        self._put(POOL, pool, POOL_RENT_LAMPORTS)
        shares = ledger.add_mint(
            Mint(LP_MINT, 6, 0, authority=AUTHORITY, name="Jupiter Perps LP", symbol="JLP")
        )
        holder = wallets.exchange.address
        ledger.endow(ledger.associated(holder, shares), shares, holder, worth // _LP_USD)

    @property
    def reported_s(self) -> int:
        """Return the time of the oldest price of the oracle."""
        feeds = [self._ledger.natives[of.doves_ag] for of in (self.sol, self.usdc)]
        return min(each.time_s for each in feeds if isinstance(each, AgPriceFeed))

    def custody(self, of: Listed) -> Custody:
        """Return a custody as it was last changed."""
        custody = self._ledger.natives[of.address]
        assert isinstance(custody, Custody)
        return custody

    def position(self, of: Place) -> Position | None:
        """Return a position, None where there is none or it is closed."""
        position = self._ledger.natives.get(of.address)
        assert position is None or isinstance(position, Position)
        return position if position is not None and position.size_usd else None

    def request(self, address: bytes) -> PositionRequest | None:
        """Return a request that waits, None where there is none."""
        request = self._ledger.natives.get(address)
        assert request is None or isinstance(request, PositionRequest)
        return request

    def _put(self, address: bytes, native: Native, lamports: int) -> None:
        self._ledger.natives[address] = native
        self._ledger.lamports[address] = lamports

    def _places(self, wallet: Wallet) -> tuple[Place, Place]:
        long = place(wallet.address, LONG, self.sol, self.sol)
        return long, place(wallet.address, SHORT, self.sol, self.usdc)

    def _listed(self, mint: Mint, price: int, pooled_raw: int, time_s: int) -> Listed:
        address, bump = pda_and_bump(JUPITER_PERPS, b"custody", POOL, mint.address)
        seeds = (b"custody_token_account", POOL, mint.address)
        vault, vault_bump = pda_and_bump(JUPITER_PERPS, *seeds)
        pair = f"{mint.symbol}USD"
        feed, ag_feed = feed_address(pair), ag_feed_address(mint.address)
        reported = price * MICRO_USD
        self._put(feed, PriceFeed(pair, reported, time_s), FEED_RENT_LAMPORTS)
        agreed = AgPriceFeed(mint.address, feed, reported, time_s)
        self._put(ag_feed, agreed, AG_FEED_RENT_LAMPORTS)
        self._ledger.endow(vault, mint, AUTHORITY, pooled_raw)
        custody = Custody(
            *(POOL, mint.address, vault, (bump, vault_bump), mint.decimals, mint.decimals == 6),
            *(feed, ag_feed, time_s),
            owned_raw=pooled_raw,
        )
        self._put(address, custody, CUSTODY_RENT_LAMPORTS)
        return Listed(address, mint, vault, feed, ag_feed)

    def _open(self, of: Place, prices: tuple[int, int], time_s: int) -> None:
        """Open a position with collateral from nowhere: its owner has paid it long ago."""
        sides = self.custody(of.custody), self.custody(of.collateral)
        price = prices[0] if of.side == LONG else prices[1]
        amount_raw = sides[1].tokens(_DEMO_USD * USD, price)
        custodies = of.custody.address, of.collateral.address
        empty = Position(of.wallet, POOL, *custodies, of.side, of.bump)
        size_usd = _SIZES * _DEMO_USD * USD
        done = increased(empty, sides, (prices[0], price), amount_raw, size_usd, time_s)
        assert done is not None
        self._put(of.address, done.position, POSITION_RENT_LAMPORTS)
        natives = self._ledger.natives
        natives[of.custody.address] = done.custody
        natives[of.collateral.address] = done.collateral
        mint = of.collateral.mint
        vault = self._ledger.tokens[of.collateral.vault]
        vault.amount_raw += amount_raw
        if of.side == LONG:  # wrapped SOL is its lamports
            self._ledger.lamports[vault.address] += amount_raw
        mint.supply_raw += amount_raw
