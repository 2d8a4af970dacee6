"""A seeded, deterministic Solana market: byte-exact transactions and the truth about them.

`market` is the door. Four floors, each knows only those below it: `traders` (who acts),
`world` (what exists at the start), `venues` (where they trade), `runtime` (what executes).
`soak` runs a market fast and checks that it stays one.
"""

from infra.chain.market.knobs import Knobs
from infra.chain.market.market import Market
from infra.chain.market.runtime.truth import Truth
from infra.chain.market.world.figures import PositionTruth

__all__ = ["Knobs", "Market", "PositionTruth", "Truth"]
