"""`ColdRows` of books of which nothing is ever put away."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.agents.pnl.cold_rows import Asleep
from schemas.positions import ColdWallet


class NothingCold:
    """Fails where it is asked."""

    async def positions(
        self, mints: Sequence[str], slot: int, wallets: Sequence[str] = ()
    ) -> list[Asleep]:
        raise AssertionError("nothing is cold here")

    async def places(self, wallets: Sequence[str], slot: int) -> list[tuple[str, str]]:
        raise AssertionError("nothing is cold here")

    async def wallets(self, wallets: Sequence[str], slot: int) -> dict[str, ColdWallet]:
        raise AssertionError("nothing is cold here")
