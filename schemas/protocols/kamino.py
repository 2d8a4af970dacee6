"""Kamino: lending (klend), farms and their rewards, vaults and managed liquidity.

Each part has its own kinds, routes and reading; they ask for their accounts together, but that
farms are read before vaults and strategies, whose shares are staked there.
"""

from __future__ import annotations

from typing import Final

from schemas.protocols.contract import Held, Protocol, Reading, World
from schemas.protocols.in_step import in_step
from schemas.protocols.kamino_parts import farms, lending, liquidity, vaults
from schemas.solana.addresses import key

_PARTS: Final = (
    lending,
    farms,
    vaults,
    liquidity,
)

# Anybody can open a lending market. Each of these is named as one of Kamino's in the public code of
# two independent projects at least: readers of portfolios, clients in Go, Rust and TypeScript,
# marginfi's bank configurations, Kamino's own application.
_VERIFIED_MARKETS: Final = (
    "7u3HeHxYDLhnCoErrtycNokbQYbWGzLs6JSDqGAv5PfF",  # Main
    "DxXdAyU3kCjnyggvHmY5nAwg5cRbbmdyX3npfDMjjMek",  # JLP
    "ByYiZxp8QrdN9qbdtaAiePN8AAr3qvTPppNJDpf5DVJ5",  # Altcoins
    "BJnbcRHqvppTyGesLzWASGKnmnF1wq9jZu6ExrjT7wvF",  # Ethena
    "H6rHXmXoCQvq8Ue81MqNh7ow5ysPa1dSozwW3PU1dDH6",  # Jito
    "GMqmFygF5iSm5nkckYU6tieggFcR42SyjkkhK5rswFRs",  # Bitcoin
    "6WEGfej9B9wjxRs6t4BYpb9iCXd8CpTpJ8fVSNzHCC5y",  # Maple
    "CqAoLuqWtavaVE8deBjMKe8ZfSt9ghR6Vb8nfsyabyHA",  # Prime (Figure)
    "47tfyEG9SsdEnUm9cw5kY9BXngQGqu3LBoop9j5uTAv8",  # OnRe
    "CF32kn7AY8X1bW7ZkGcHc4X9ZWTxqKGCJk6QwrQkDcdw",  # Superstate Opening Bell
    "52FSGeeokLpgvgAMdqxyt5Hoc2TbUYj5b8yxrEdZ37Vf",  # Huma
    "9Y7uwXgQ68mGqRtZfuFaP4hc4fxeJ7cE9zTtqTxVhfGU",  # Solstice
    "5wJeMrUYECGq41fxRESKALVcHnNX26TAWy4W98yULsua",  # xStocks
    "GVDUXFwS8uvBG35RjZv6Y8S1AkV5uASiMJ9qTUKqb5PL",  # Marinade
    "C7h9YnjPrDvNhe2cWWDhCu4CZEB1XTTH4RzjmsHuengV",  # Solblaze
    "eNLm5e5KVDX2vEcCkt75PpZ2GMfXcZES3QrFshgpVzp",  # Sanctum
    "3EZEy7vBTJ8Q9PWxKwdLVULRdsvVLT51rpBG3gH1TSJ5",  # Jupiter
    "9wmqLq3n3KdQBbNfwqrF3PwcLgZ9edZ7hW5TsaC3o6uj",  # JTO
    "4UwtBqa8DDtcWV6nWFregeMVkGdfWfiYeFxoHaR2hm9c",  # Fartcoin
    "7WQeTuLsFrZsgnHW7ddFdNfhfJAViqH4mvcFZPQ5zuQ9",  # Bonk
)


def read(held: Held, world: World) -> Reading:
    """Return the positions of all parts; raises Unreadable."""
    return in_step(lending.read(held, world), _farms_and_shares(held, world))


def _farms_and_shares(held: Held, world: World) -> Reading:
    """Return positions in farms, vaults and strategies, whose shares may be staked in farms."""
    farmed = yield from farms.read(held, world)
    shares = yield from in_step(
        vaults.read(held, world, farmed.of_vaults),
        liquidity.read(held, world, farmed.of_strategies),
    )
    return [*farmed.positions, *shares]


PROTOCOL: Final = Protocol(
    "kamino",
    tuple(kind for part in _PARTS for kind in part.KINDS),
    tuple(route for part in _PARTS for route in part.ROUTES),
    read,
    unsupported_fields=tuple(text for part in _PARTS for text in part.UNSUPPORTED),
    verified_markets=frozenset(map(key, _VERIFIED_MARKETS)),
    reads_tokens=True,
)
