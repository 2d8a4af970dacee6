"""What every door answers about Soltape itself and about the caller's key."""

from __future__ import annotations

from api.access.grants import Grant
from api.http.encoding import Encoded
from api.stores.caches import SingleFlight
from api.stores.clients import Stores
from api.system.availability import AvailabilityWatch
from api.system.health import HealthReader
from api.system.health_answers import Health
from api.system.tape import SystemReader
from api.system.usage import read_usage
from infra.settings import Settings


class SystemService:
    """Answers about the process, the tape and a key."""

    def __init__(self, settings: Settings, stores: Stores) -> None:
        self._stores = stores
        self._reads = SingleFlight()
        self.availability = AvailabilityWatch(stores.access)
        self._health = HealthReader(settings, stores, self.availability)
        self._tape = SystemReader(stores)

    async def health(self) -> Health:
        """Return whether the stores answer and how far the pipeline has come."""
        return await self._health.read()

    async def watch_availability(self) -> None:
        """Note how available we are, until cancelled."""
        await self.availability.run(self.health)

    async def last_hour(self) -> Encoded:
        """Return how fast the tape runs (`answers.System`); raises Problem."""
        return await self._tape.last_hour()

    async def usage(self, grant: Grant) -> Encoded:
        """Return what the key behind a grant has used (`usage_answers.Usage`); raises Problem."""
        return await self._reads.get(read_usage, self._stores, grant)
