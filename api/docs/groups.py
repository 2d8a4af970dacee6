"""The groups of the documentation: paths by what a user wants to know, in the order of the page."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

_WALLET: Final = "/api/wallets/{wallet}"
_TOKEN: Final = "/api/tokens/{mint}"  # noqa: S105 - a path


class Group(NamedTuple):
    """One heading of the page, and the paths below it."""

    name: str
    description: str
    paths: frozenset[str] = frozenset()


_PROTOCOLS: Final = Group("Wallet: DeFi by protocol", "Positions of one protocol, by its slug")
_ALL_PROTOCOLS: Final = Group("Wallet: DeFi positions", "Positions of a kind, of all protocols")

GROUPS: Final = (
    Group(
        "Wallet: holdings and worth",
        "What a wallet has now, what it is worth, and what it was worth",
        frozenset(
            {
                f"{_WALLET}/analyze",
                f"{_WALLET}/networth",
                f"{_WALLET}/holdings",
                f"{_WALLET}/portfolio",
                "/api/wallets/batch",
            }
        ),
    ),
    Group(
        "Wallet: profit and loss",
        "Positions with FIFO gains, by token and by day, and the lots behind them",
        frozenset(
            {
                _WALLET,
                f"{_WALLET}/all-dex",
                f"{_WALLET}/{{mint}}",
                f"{_WALLET}/{{mint}}/lots",
                f"{_WALLET}/pnl/summary",
                f"{_WALLET}/pnl/daily",
                f"{_WALLET}/pnl/{{mint}}/daily",
                f"{_WALLET}/p08/funding",
                f"{_WALLET}/p09/pnl",
            }
        ),
    ),
    Group(
        "Wallet: trades",
        "Every swap of a wallet, and volumes by day",
        frozenset(
            {
                f"{_WALLET}/swaps",
                f"{_WALLET}/trades/{{mint}}",
                f"{_WALLET}/trades/daily",
            }
        ),
    ),
    _ALL_PROTOCOLS,
    _PROTOCOLS,
    Group(
        "Token: facts and price",
        "What a token is, what it costs, where it trades, what trends",
        frozenset(
            {
                "/api/tokens/trending",
                "/api/tokens/batch",
                _TOKEN,
                f"{_TOKEN}/image",
                f"{_TOKEN}/price",
                f"{_TOKEN}/pools",
            }
        ),
    ),
    Group(
        "Token: holders and traders",
        "Who holds a token, and who realized most with it",
        frozenset(
            {
                f"{_TOKEN}/holders",
                f"{_TOKEN}/leaderboard",
                "/api/tokens/leaderboard/batch",
                "/api/wallets/leaderboard/{mint}",
            }
        ),
    ),
    Group(
        "Token: history",
        "Candles and swaps of a token",
        frozenset({f"{_TOKEN}/candles", f"{_TOKEN}/swaps"}),
    ),
    Group(
        "Key and service",
        "What your key has left, and whether Soltape is well",
        frozenset(
            {
                "/api/usage",
                "/api/health",
                "/api/health/live",
                "/api/system",
                "/mcp/health",
            }
        ),
    ),
)

TAGS: Final = [{"name": group.name, "description": group.description} for group in GROUPS]
_BY_PATH: Final = {path: group for group in GROUPS for path in group.paths}
_POSITIONS: Final = "positions"  # the tag of the generated routes


def group(path: str, operation: dict[str, Any]) -> None:
    """Put an operation into its group; raises KeyError for a path of none."""
    if path in _BY_PATH:
        found = _BY_PATH[path]
    elif _POSITIONS in operation.get("tags", ()):
        is_aggregate = path.removeprefix(f"{_WALLET}/").startswith("all-")
        found = _ALL_PROTOCOLS if is_aggregate else _PROTOCOLS
    else:
        raise KeyError(f"{path} is in no group of {__name__}")
    operation["tags"] = [found.name]
