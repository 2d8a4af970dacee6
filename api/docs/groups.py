"""The groups of the documentation: paths by what a user wants to know, in the order of the page."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

_WALLET: Final = "/api/wallets/{wallet}"
_TOKEN: Final = "/api/tokens/{mint}"  # noqa: S105 - a path


class Group(NamedTuple):
    """One heading of the page, and the paths below it."""

    name: str
    description: str
    paths: tuple[str, ...] = ()


_PROTOCOLS: Final = Group("Wallet: DeFi by protocol", "Positions of one protocol, by its slug")
_ALL_PROTOCOLS: Final = Group("Wallet: DeFi positions", "Positions of a kind, of all protocols")

GROUPS: Final = (
    Group(
        "Wallet: holdings and worth",
        "What a wallet has now, what it is worth, and what it was worth",
        (
            f"{_WALLET}/analyze",
            f"{_WALLET}/networth",
            f"{_WALLET}/holdings",
            f"{_WALLET}/portfolio",
            "/api/wallets/batch",
        ),
    ),
    Group(
        "Wallet: profit and loss",
        "Positions with FIFO gains, by token and by day, and the lots behind them",
        (
            _WALLET,
            f"{_WALLET}/all-dex",
            f"{_WALLET}/{{mint}}",
            f"{_WALLET}/{{mint}}/lots",
            f"{_WALLET}/pnl/summary",
            f"{_WALLET}/pnl/daily",
            f"{_WALLET}/pnl/{{mint}}/daily",
            f"{_WALLET}/p08/funding",
            f"{_WALLET}/p09/pnl",
        ),
    ),
    Group(
        "Wallet: trades",
        "Every swap of a wallet, and volumes by day",
        (
            f"{_WALLET}/swaps",
            f"{_WALLET}/trades/{{mint}}",
            f"{_WALLET}/trades/daily",
        ),
    ),
    _ALL_PROTOCOLS,
    _PROTOCOLS,
    Group(
        "Token: facts and price",
        "What a token is, what it costs, where it trades, what trends",
        (
            "/api/tokens/trending",
            "/api/tokens/batch",
            _TOKEN,
            f"{_TOKEN}/image",
            f"{_TOKEN}/price",
            f"{_TOKEN}/pools",
        ),
    ),
    Group(
        "Token: holders and traders",
        "Who holds a token, and who realized most with it",
        (
            f"{_TOKEN}/holders",
            f"{_TOKEN}/leaderboard",
            "/api/tokens/leaderboard/batch",
            "/api/wallets/leaderboard/{mint}",
        ),
    ),
    Group(
        "Token: history",
        "Candles and swaps of a token",
        (f"{_TOKEN}/candles", f"{_TOKEN}/swaps"),
    ),
    Group(
        "Key and service",
        "What your key has left, and whether Soltape is well",
        (
            "/api/usage",
            "/api/health",
            "/api/health/live",
            "/api/system",
            "/mcp/health",
        ),
    ),
)

TAGS: Final = [{"name": group.name, "description": group.description} for group in GROUPS]
_BY_PATH: Final = {path: group for group in GROUPS for path in group.paths}
_POSITIONS: Final = "positions"  # the tag of the generated routes


def arrange(document: dict[str, Any]) -> None:
    """Tag each operation with its group, and order the paths; raises KeyError for one of none."""
    found = {path: _group(path, methods) for path, methods in document["paths"].items()}
    for path, methods in document["paths"].items():
        for operation in methods.values():
            operation["tags"] = [found[path].name]

    def place(path: str) -> tuple[int, int]:
        group = found[path]
        return GROUPS.index(group), group.paths.index(path) if path in group.paths else 0

    document["paths"] = {path: document["paths"][path] for path in sorted(found, key=place)}


def _group(path: str, methods: dict[str, Any]) -> Group:
    if path in _BY_PATH:
        return _BY_PATH[path]
    if any(_POSITIONS in operation.get("tags", ()) for operation in methods.values()):
        is_aggregate = path.removeprefix(f"{_WALLET}/").startswith("all-")
        return _ALL_PROTOCOLS if is_aggregate else _PROTOCOLS
    raise KeyError(f"{path} is in no group of {__name__}")
