"""Hylo: hyUSD, sHYUSD and leveraged tokens that a wallet holds, at their market prices.

The program keeps nothing by wallet. What a token is worth by its reserves is not computed: no real
account of the program was read. Source: seeds in the IDLs of the exchange and the earn pool,
collateral in the SDK's `tokens.rs`.
"""

from __future__ import annotations

from typing import Final

from schemas.protocols.balances import read_balances
from schemas.protocols.contract import Held, Protocol, Reading, Route, Shape, World
from schemas.solana.addresses import key
from schemas.solana.derived import derived

EXCHANGE: Final = key("HYEXCHtHkBagdStcJCp3xbbb9B7sdMdWXFNj6mdsG4hn")
EARN_POOL: Final = key("HysTabVUfmQBFcmzu1ctRd1Y1fxd66RBpboy1bmtDSQQ")
HYUSD: Final = derived(EXCHANGE, b"hyUSD")
XSOL: Final = derived(EXCHANGE, b"xSOL")
SHYUSD: Final = derived(EARN_POOL, b"staked_hyUSD")
COLLATERALS: Final = {
    "cbBTC": key("cbbtcf3aa214zXHbiAZQwf4122FBYbraNdFqgw4iMij"),
    "HYPE": key("98sMhvDwXj1RQi5c5Mndm3vPe9cBqPrbLaufMXFNMh5g"),
    "ONyc": key("5Y8NV33Vv7WbnLfq3zBcKSdYPrk7g2KoiQoe7M2tcxp5"),
    "PST": key("59obFNBzyTBGowrkif5uK7ojS58vsuWz3ZCvg6tfZAGw"),
    "WETH": key("7vfCXTUXx5WJV5JADk17DUJ4ksgau7utNKj4b963voxs"),
    "ZEC": key("A7bdiYdS5GjqGFtxf17ppRHtDKPkkRqbKtR27dxvQXaS"),
}
MINTS: Final = (
    HYUSD,
    SHYUSD,
    XSOL,
    *(derived(EXCHANGE, b"exo_levercoin", each) for each in COLLATERALS.values()),
)


def read(held: Held, world: World) -> Reading:
    """Return the tokens of Hylo that a wallet holds."""
    return (yield from read_balances("positions", MINTS, held, world))


PROTOCOL: Final = Protocol(
    "hylo",
    (),
    (Route("positions", Shape.YIELD, "hyUSD, sHYUSD and leveraged tokens, at market prices"),),
    read,
    identified="guess",
    unsupported_fields=(
        "what tokens are worth by their reserves: no real account of the program was read",
        "leveraged tokens of collateral that was added after the list in this file",
    ),
    reads_tokens=True,
)
