"""The Drift of the world: a perp market of SOL, a spot market of USDC, and their users."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from infra.chain.market.runtime.drift import (
    MARKET_INDEX,
    ORACLE_DECIMALS,
    STATS_BYTES,
    STEP,
    USD,
    USER_BYTES,
    LazerOracle,
    PerpMarket,
    SpotMarket,
    User,
    UserStats,
    filled,
    rent_lamports,
)
from infra.chain.market.runtime.drift_program import SIGNER, Account, Markets, account
from infra.chain.market.runtime.ledger import Ledger, Mint
from infra.chain.market.runtime.programs import DRIFT, pda
from infra.chain.market.runtime.stake import Native
from infra.chain.market.world.wallets import Wallet

_POOLED_USD: Final = 5_000_000 * USD
_DEPOSIT_USD: Final = 10_000 * USD
_NEW: Final = 4  # traders that have no user yet
_KINDS: Final = (b"spot_market", b"perp_market", b"spot_market_vault", b"insurance_fund_vault")
_SOL_FEED, _USDC_FEED = 6, 7


class DriftWallets(NamedTuple):
    """Who uses Drift; demo wallets have a position and do nothing more."""

    keeper: Wallet
    traders: list[Wallet]
    demo: list[Wallet]


class Drift:
    """The markets, and where wallets' users are."""

    def __init__(
        self,
        ledger: Ledger,
        usdc: Mint,
        sol_usd: int,
        wallets: DriftWallets,
        slot: int,
        time_s: int,
    ) -> None:
        """Put the markets on the ledger, and users with positions both ways."""
        self._ledger = ledger
        self.wallets = wallets
        index = MARKET_INDEX.to_bytes(2, "little")
        oracle, spot_oracle = (
            self._oracle(feed, dollars, slot, time_s)
            for feed, dollars in ((_SOL_FEED, sol_usd), (_USDC_FEED, 1))
        )
        spot, perp, vault, insurance = (pda(DRIFT, kind, index) for kind in _KINDS)
        self.markets = Markets(perp, spot, oracle, spot_oracle, vault, usdc)
        for account_address, amount_raw in ((vault, _POOLED_USD), (insurance, 0)):
            ledger.endow(account_address, usdc, SIGNER, amount_raw)
        deposits = SpotMarket(
            *(spot, spot_oracle, usdc.address, vault, insurance, time_s, _POOLED_USD)
        )
        self._put(spot, deposits, len(deposits.data()))
        market = PerpMarket(
            *(perp, oracle, sol_usd * USD, time_s, slot), funded_s=time_s, pool_raw=_POOLED_USD
        )
        self._put(perp, market, len(market.data()))
        everyone = (*wallets.demo, *wallets.traders)
        self.accounts = {each.address: account(each.address) for each in everyone}
        for number, wallet in enumerate(everyone[:-_NEW]):
            self._open(self.accounts[wallet.address], number, slot)

    @property
    def market(self) -> PerpMarket:
        """Return the perp market as it was last changed."""
        market = self._ledger.natives[self.markets.perp]
        assert isinstance(market, PerpMarket)
        return market

    def user(self, of: Account) -> User | None:
        """Return a wallet's user, None where it has none."""
        user = self._ledger.natives.get(of.user)
        assert user is None or isinstance(user, User)
        return user

    def _put(self, address: bytes, native: Native, size: int) -> None:
        self._ledger.natives[address] = native
        self._ledger.lamports[address] = rent_lamports(size)

    def _oracle(self, feed: int, dollars: int, slot: int, time_s: int) -> bytes:
        address = pda(DRIFT, b"pyth_lazer", feed.to_bytes(4, "little"))
        oracle = LazerOracle(dollars * 10**ORACLE_DECIMALS, time_s, slot)
        self._put(address, oracle, len(oracle.data()))
        return address

    def _open(self, of: Account, number: int, slot: int) -> None:
        """Make a user whose deposit comes from nowhere, and let it trade once."""
        natives, market = self._ledger.natives, self.market
        spot = natives[self.markets.spot]
        assert isinstance(spot, SpotMarket)
        usdc = self.markets.mint
        self._ledger.tokens[self.markets.vault].amount_raw += _DEPOSIT_USD
        usdc.supply_raw += _DEPOSIT_USD
        natives[spot.address] = replace(spot, deposits_raw=spot.deposits_raw + _DEPOSIT_USD)
        user = User(of.authority, _DEPOSIT_USD, deposited_usd=_DEPOSIT_USD, active_slot=slot)
        base = (100 + 150 * (number % 15)) * STEP * (-1 if number % 3 == 1 else 1)
        user, market, worth, fee = filled(user, market, base, market.price, slot)
        natives[self.markets.perp] = market
        self._put(of.user, user, USER_BYTES)
        self._put(of.stats, UserStats(of.authority, fee, worth), STATS_BYTES)
