"""Metadata of tokens for every door: what is kept is answered at once, what is not is fetched.

No answer waits for a stranger's server. What a token's URI says is fetched in the background of
the process that was asked, kept in Redis for all of them, and asked again after a day, or after a
failure with growing pauses.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import structlog
from prometheus_client import Counter

from api.http.errors import Problem
from api.metadata.answers import MetadataAnswer
from api.metadata.cache import MetadataCache, now_ms
from api.metadata.documents import read_document
from api.metadata.failures import Failed, Reason
from api.metadata.fetching import Fetcher
from api.metadata.hosts import Hosts
from api.metadata.queue import Queue
from api.metadata.raster import recognise
from api.metadata.records import FRESH_MS, Image, Record, begun, image_of, retry_ms
from api.metadata.resolving import SystemResolver
from api.metadata.targets import Targets
from api.stores.caches import BoundedCache
from api.stores.clients import Stores
from infra.settings import Settings

log = structlog.get_logger(__name__)

FETCHED: Final = Counter(
    "soltape_api_metadata_total",
    "Documents and images of tokens that were fetched, by outcome: found, or the reason.",
    ["what", "outcome"],
)
_DUE: Final = 1 << 14
MOST_DOCUMENT_BYTES: Final = 64 << 10
MOST_IMAGE_BYTES: Final = 1 << 20


class Known(NamedTuple):
    """What a token's URI says, or why that is not known."""

    answer: MetadataAnswer | None
    reason: Reason | None
    detail: str | None


class ImageBytes(NamedTuple):
    """A token's image."""

    image: Image
    data: bytes


class MetadataService:
    """What the URIs of tokens say, for all requests of a process."""

    def __init__(self, stores: Stores, settings: Settings, fetcher: Fetcher | None = None) -> None:
        self._is_on = settings.metadata_fetch
        self._cache = MetadataCache(stores, settings.metadata_cache_mib << 20)
        targets = Targets(
            settings.metadata_trusted_origin,
            settings.metadata_ipfs_gateway,
            settings.metadata_arweave_gateway,
        )
        self._fetcher = fetcher or Fetcher(targets, SystemResolver(), Hosts())
        self._queue = Queue(self._fetch, targets)
        self._due: BoundedCache[str, str] = BoundedCache(_DUE)  # mint -> URI

    async def known(self, mint: str, uri: str | None) -> Known:
        """Return what is known of a token's URI; `want` has it fetched where it is time to.

        Raises Problem.
        """
        if not uri:
            return Known(None, "no_uri", "the token's metadata has no URI")
        if not self._is_on:
            return Known(None, "off", "METADATA_FETCH is off")
        record = await self._cache.record(mint)
        if record is not None and record.uri != uri:
            record = None
        if record is None or now_ms() >= record.next_ms:
            self._due.put(mint, uri)
        if record is None:
            return Known(None, "pending", "it is fetched beside the requests, ask again")
        if record.document is None:
            return Known(None, record.reason, record.detail)
        return Known(_answer(mint, record), None, None)

    def want(self, mint: str, holder: str) -> None:
        """Have a token's URI fetched where it is due, for a key's fingerprint.

        Answers are shared by all keys, the places to wait in are not.
        """
        uri = self._due.kept.get(mint)
        if uri is not None and self._queue.put(mint, uri, holder):
            del self._due.kept[mint]

    async def image(self, mint: str) -> ImageBytes | Known:
        """Return a token's image, or why it is not known; raises Problem."""
        record, data = await self._cache.image(mint)
        if record is None:
            return Known(None, "pending", f"nothing is kept of it; /api/tokens/{mint} asks for it")
        if record.image is None or data is None:
            reason = record.image_reason or record.reason or "no_image"
            return Known(None, reason, record.image_detail or record.detail)
        return ImageBytes(record.image, data)

    async def aclose(self) -> None:
        """End what is being fetched."""
        await self._queue.aclose()

    async def _fetch(self, mint: str, uri: str) -> None:
        try:
            if not await self._cache.begin(mint):
                return
            try:
                kept, image = await self._cache.image(mint)
                if kept is None or kept.uri != uri:
                    kept, image = begun(uri), None
                elif now_ms() < kept.next_ms:  # another process was first
                    return
                await self._cache.keep(mint, *await self._ask(kept, image))
            finally:
                await self._cache.end(mint)
        except Problem as problem:  # it is logged and counted by the store
            log.info("metadata is not kept", mint=mint, reason=problem.detail)

    async def _ask(self, kept: Record, image: bytes | None) -> tuple[Record, bytes | None]:
        """Return what to keep now: what comes, else what was there and the failure."""
        try:
            document = read_document(await self._fetcher.get(kept.uri, MOST_DOCUMENT_BYTES))
        except Failed as failed:
            FETCHED.labels("document", failed.reason).inc()
            return kept.failed(failed, now_ms()), image
        FETCHED.labels("document", "found").inc()
        at_ms = now_ms()
        record = Record(
            kept.uri, at_ms, at_ms + FRESH_MS, fetched_ms=at_ms, document=document, image=kept.image
        )
        try:
            if document.image_uri is None:
                raise Failed("no_image", "its metadata names no image")
            data = await self._fetcher.get(document.image_uri, MOST_IMAGE_BYTES)
            raster = recognise(data)
        except Failed as failed:
            FETCHED.labels("image", failed.reason).inc()
            failures = kept.failures + 1
            again_ms = retry_ms(failed.reason, failures)
            if failed.reason == "no_image":
                again_ms, failures = FRESH_MS, 0
            unchanged = kept.document is not None and (
                kept.document.image_uri == document.image_uri is not None
            )
            record = replace(
                record,
                next_ms=at_ms + again_ms,
                failures=failures,
                image=kept.image if unchanged else None,
                image_reason=failed.reason,
                image_detail=failed.detail,
            )
            return record, image if unchanged else None
        FETCHED.labels("image", "found").inc()
        return replace(record, image=image_of(data, raster)), data


def _answer(mint: str, record: Record) -> MetadataAnswer:
    document, image = record.document, record.image
    assert document is not None, "it is asked for only where there is one"
    return {
        "name": document.name,
        "symbol": document.symbol,
        "description": document.description,
        "website": document.website,
        "twitter": document.twitter,
        "telegram": document.telegram,
        "discord": document.discord,
        "image": None
        if image is None
        else {
            "path": f"/api/tokens/{mint}/image",
            "media_type": image.media_type,
            "width": image.width,
            "height": image.height,
            "bytes": image.size,
        },
        "image_reason": record.image_reason if image is None else None,
        "image_detail": record.image_detail if image is None else None,
        "fetched_ms": record.fetched_ms or record.asked_ms,
    }
