"""Stores that note what is asked of Redis, trip by trip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from api.stores.clients import Stores
from infra.settings import Settings


class CountedStores(Stores):
    """Stores whose `trips` are the commands of each."""

    def __init__(self, settings: Settings) -> None:
        """Begin without a trip."""
        super().__init__(settings)
        self.trips: list[Sequence[tuple[Any, ...]]] = []

    async def ask(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Ask as `Stores` does."""
        self.trips.append(commands)
        return await super().ask(commands)
