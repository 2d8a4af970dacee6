"""What is kept of a token's URI: what it said, or why it did not, and when to ask again."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Final

import orjson

from api.metadata.documents import Document
from api.metadata.failures import Failed, Reason
from api.metadata.raster import Raster
from schemas.times import DAY_MS

FRESH_MS: Final = DAY_MS
REFUSED_MS: Final = 3_600_000  # a setting may change
FIRST_RETRY_MS: Final = 60_000  # then twice as long after each failure
LAST_RETRY_MS: Final = 6 * 3_600_000
_MOST_DOUBLINGS: Final = 9


@dataclass(frozen=True, slots=True)
class Image:
    """A token's image, without its bytes."""

    media_type: str
    width: int
    height: int
    size: int  # bytes
    digest: str  # of the bytes, hex


@dataclass(frozen=True, slots=True)
class Record:
    """What one URI said of a token."""

    uri: str
    asked_ms: int  # when it was fetched last, or tried
    next_ms: int  # from when on it may be asked again
    failures: int = 0  # in a row
    fetched_ms: int | None = None  # when `document` came
    document: Document | None = None
    reason: Reason | None = None  # why there is no document
    detail: str | None = None
    image: Image | None = None
    image_reason: Reason | None = None
    image_detail: str | None = None

    def pack(self) -> bytes:
        """Return the record as JSON."""
        return orjson.dumps(asdict(self))

    def failed(self, failed: Failed, now_ms: int) -> Record:
        """Return the record after a failure; what came before stays."""
        failures = self.failures + 1
        kept = asdict(self) | {
            "asked_ms": now_ms,
            "failures": failures,
            "next_ms": now_ms + retry_ms(failed.reason, failures),
            "reason": failed.reason,
            "detail": failed.detail,
        }
        return _of(kept)


def unpack(packed: bytes) -> Record | None:
    """Return a record from its JSON; None where another version wrote it, which is as if absent."""
    try:
        return _of(orjson.loads(packed))
    except (orjson.JSONDecodeError, TypeError, KeyError):
        return None


def begun(uri: str) -> Record:
    """Return the record of a URI that was never asked."""
    return Record(uri, 0, 0)


def retry_ms(reason: Reason, failures: int) -> int:
    """Return how long a failure is remembered."""
    if reason in ("refused", "not_an_image", "too_many_pixels"):
        return REFUSED_MS
    return min(LAST_RETRY_MS, FIRST_RETRY_MS << min(failures - 1, _MOST_DOUBLINGS))


def image_of(data: bytes, raster: Raster) -> Image:
    """Return what is known of an image's bytes."""
    digest = blake2b(data, digest_size=16).hexdigest()
    return Image(raster.media_type, raster.width, raster.height, len(data), digest)


def _of(values: dict[str, object]) -> Record:
    document, image = values["document"], values["image"]
    if isinstance(document, dict):
        document = Document(**document)
    if isinstance(image, dict):
        image = Image(**image)
    return Record(**(values | {"document": document, "image": image}))  # type: ignore[arg-type]
