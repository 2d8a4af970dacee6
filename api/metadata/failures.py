"""Why what a URI names cannot be had."""

from __future__ import annotations

from typing import Literal

Reason = Literal[
    "no_uri",
    "off",
    "pending",
    "refused",
    "unreachable",
    "timeout",
    "http_error",
    "redirects",
    "too_large",
    "bad_encoding",
    "not_json",
    "no_image",
    "not_an_image",
    "too_many_pixels",
]


class Failed(Exception):
    """Ends a fetch; `detail` is one of our own sentences, with nothing of the other side in it."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
