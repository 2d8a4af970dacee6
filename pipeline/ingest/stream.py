"""The Yellowstone stream of a process, which goes on when a standby becomes the producer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from infra.settings import Settings
from pipeline.ingest.geyser import GeyserClient
from pipeline.ingest.intake import Intake
from pipeline.ingest.subscription import subscribe_request
from schemas.proto.geyser_pb2 import SubscribeRequest


class Stream:
    """Fills `intake` once started.

    `resume`, `identified`, `request` and `explain` are GeyserClient's; until `attach` it resumes
    nowhere.
    """

    def __init__(
        self,
        settings: Settings,
        request: Callable[[int | None], SubscribeRequest] = subscribe_request,
        explain: Callable[[str], str] = str,
    ) -> None:
        self.intake = Intake(settings.geyser_queue_size)
        self._genesis_hash: str | None = None
        self._resume: Callable[[], int | None] = lambda: None
        self._identified: Callable[[str | None], None] = lambda _: None
        self._client = GeyserClient(
            settings, self.intake, lambda: self._resume(), self._identify, request, explain
        )
        self._task: asyncio.Task[None] | None = None

    def attach(
        self, resume: Callable[[], int | None], identified: Callable[[str | None], None]
    ) -> None:
        """Resume where `resume` says from now on, and report the chain to `identified`."""
        self._resume, self._identified = resume, identified
        identified(self._genesis_hash)

    def start(self) -> asyncio.Task[None]:
        """Return the task that reads the stream; it ends only by cancellation or a bug."""
        if self._task is None:
            self._task = asyncio.create_task(self._client.run())
        return self._task

    async def close(self) -> None:
        """End the stream."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _identify(self, genesis_hash: str | None) -> None:
        self._genesis_hash = genesis_hash
        self._identified(genesis_hash)
