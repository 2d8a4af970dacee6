"""What routers call and no other file here decodes: an exchange read from what it moved.

It has no programs of its own: `pipeline.decoding.hops` finds its instructions.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Venue

DEX: Final = "unlisted"

VENUES: Final = (Venue(dex=DEX, programs=()),)
