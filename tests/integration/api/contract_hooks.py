"""What schemathesis cannot know: which addresses have something, and what no schema can say.

It loads this file itself (SCHEMATHESIS_HOOKS), in a process of its own.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import schemathesis
from hypothesis import strategies as st
from solders.pubkey import Pubkey

KNOWN = json.loads(Path(os.environ["CONTRACT_ADDRESSES"]).read_text())

# Refusals of requests that their schema allows: the code, and what the reason is then.
_BEYOND_SCHEMAS = {
    "invalid_address": r".* 32 bytes \(this is \d+\), got '\w+'( \(and \d+ more\))?$",
    "invalid_cursor": r".",
    "invalid_parameter": r"`(from|to)` .*(must be before|must span at most|must be a date)"
    r"|`platform` must be one of '.+', got '",  # the launchpads that the running pipeline knows
}

schemathesis.openapi.format(
    "solana-address",
    st.sampled_from(KNOWN)
    | st.binary(min_size=32, max_size=32).map(lambda data: str(Pubkey(data))),
)


@schemathesis.check
def refused_for_what_no_schema_can_say(_: Any, response: Any, case: Any) -> None:
    """A request that fits its schema may be refused, but for few reasons."""
    if response.status_code != 422 or case.meta is None:
        return
    if case.meta.generation.mode.is_positive:
        body = response.json()
        expected = _BEYOND_SCHEMAS.get(body["code"], "(?!)")
        assert re.match(expected, body["detail"]), f"{body['code']}: {body['detail']}"
