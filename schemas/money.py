"""What counts as money: SOL and the dollar coins. Nobody has a position in them."""

from __future__ import annotations

from typing import Final

WSOL: Final = "So11111111111111111111111111111111111111112"  # native SOL as well: one asset
USDC: Final = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
USDT: Final = "Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB"
USD1: Final = "USD1ttGY1N17NEEHLmELoaybftRBUSErhqYiQzvEmuB"
DOLLARS: Final = frozenset({USDC, USDT, USD1})  # in what a trade was worth, a coin is one dollar
MONEY: Final = DOLLARS | {WSOL}
SYMBOLS: Final = {WSOL: "SOL", USDC: "USDC", USDT: "USDT", USD1: "USD1"}

SOL_DECIMALS: Final = 9
DOLLAR_DECIMALS: Final = 6
