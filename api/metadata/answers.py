"""The shapes of what is answered of a token's URI: a stranger's words, not the chain's."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from api.http.addresses import EXAMPLE_MINT
from api.metadata.failures import Reason
from api.wallets.position_answers import about

_CLEANED = "bounded, without control and direction characters"


class ImageAnswer(TypedDict):
    """A token's image, as it is served here."""

    path: Annotated[str, about("where it is served", f"/api/tokens/{EXAMPLE_MINT}/image")]
    media_type: Annotated[
        str,
        about("`image/png`, `image/jpeg`, `image/gif` or `image/webp`, by its bytes", "image/png"),
    ]
    width: Annotated[int, about("pixels", 512)]
    height: Annotated[int, about("pixels", 512)]
    bytes: Annotated[int, about("its size", 48_213)]


class MetadataAnswer(TypedDict):
    """What the JSON at a token's URI says: its maker's words, unchecked."""

    name: Annotated[str | None, about(f"a name; {_CLEANED}, at most 64 characters", "Example")]
    symbol: Annotated[str | None, about("a symbol, at most 32 characters", "EXM")]
    description: Annotated[
        str | None, about("a description, at most 1,000 characters", "An example of a token")
    ]
    website: Annotated[
        str | None, about("http or https; null: none that is", "https://example.com/")
    ]
    twitter: Annotated[str | None, about("likewise, of X", "https://x.com/example")]
    telegram: Annotated[str | None, about("likewise", "https://t.me/example")]
    discord: Annotated[str | None, about("likewise", None)]
    image: Annotated[ImageAnswer | None, about("null: there is none, `image_reason` says why")]
    image_reason: Annotated[
        Reason | None,
        about("why there is no image; as `metadata_reason`, and `no_image`: none is named", None),
    ]
    image_detail: Annotated[str | None, about("the same in words", None)]
    fetched_ms: Annotated[int, about("when it was fetched", 1_763_699_990_000)]
