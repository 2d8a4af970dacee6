"""A seeded, deterministic Solana market: byte-exact transactions and the truth about them."""

from infra.chain.market.market import Knobs, Market
from infra.chain.market.truth import Truth

__all__ = ["Knobs", "Market", "Truth"]
