"""What a process can answer: every reader and every cache, built once, behind every door.

A door (REST now) translates: it checks what a caller sent, calls a method here with plain values,
and sends the encoded answer. So all doors of a process share one set of caches and say the same.
"""

from __future__ import annotations

from api.accounts.following import Following
from api.accounts.mints import MintReader
from api.analysis.networth import NetWorthService
from api.analysis.service import AnalysisService
from api.history.service import HistoryService
from api.metadata.service import MetadataService
from api.positions.accounts_reader import AccountsReader
from api.positions.by_mint import ByMint
from api.positions.prices import PriceReader
from api.positions.reader import Positions
from api.positions.rewards import RewardsReader
from api.positions.service import PositionService
from api.stores.clients import Stores
from api.stores.gaps import GapReader
from api.system.service import SystemService
from api.tokens.backing import Backing
from api.tokens.pool_prices import PoolPrices
from api.tokens.reader import TokenReader
from api.tokens.service import TokenService
from api.wallets.service import WalletService
from infra.settings import Settings, SettingsError
from schemas.protocols import registry


class Services:
    """The answers by subject. Every method raises Problem."""

    def __init__(self, settings: Settings) -> None:
        """Build all; raises SettingsError where PROTOCOLS names what there is not."""
        self.stores = Stores(settings)
        reader = TokenReader(self.stores)
        gaps = GapReader(self.stores, settings.api_timeout_s / 2)
        self._following = Following(self.stores, settings)
        accounts = AccountsReader(self.stores)
        pools = PoolPrices(self.stores, reader, accounts)
        backing = Backing(self.stores)
        verified = registry.verified_markets(settings.verified_markets)
        positions = Positions(
            accounts,
            ByMint(self.stores, accounts),
            PriceReader(reader, MintReader(self.stores), pools, backing, verified),
            RewardsReader(self.stores, self._following),
            self._following,
        )
        try:
            slugs = registry.served(settings.protocols)
        except registry.Conflict as error:
            raise SettingsError(str(error)) from None
        self.positions = PositionService(positions, slugs, registry.SLUGS)
        self.wallets = WalletService(
            self.stores, reader, gaps, self._following, pools, backing, self.positions.of_many
        )
        self.analysis = AnalysisService(self.wallets.reader, self.positions)
        self.networth = NetWorthService(self.stores, self._following)
        self._metadata = MetadataService(self.stores, settings)
        self.tokens = TokenService(
            self.stores, reader, gaps, self._following, self._metadata, pools
        )
        self.history = HistoryService(self.stores, reader, gaps, settings.clickhouse_swaps_days)
        self.system = SystemService(settings, self.stores)

    async def close(self) -> None:
        """End who waits, and close the connections to the stores."""
        await self._following.aclose()
        await self._metadata.aclose()
        await self.stores.close()
