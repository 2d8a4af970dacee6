"""Where an answer leads: OpenAPI links from its parts to the operations with more about them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

_WALLET: Final = "/api/wallets/{wallet}"
_TOKEN: Final = "/api/tokens/{mint}"  # noqa: S105 - a path


class Link(NamedTuple):
    """From the answer of one path to another path, and what goes there."""

    name: str
    source: str  # method and path
    target: str  # path of a GET
    parameters: dict[str, str]  # of the target, from the answer or its request
    about: str


def _of_body(**pointers: str) -> dict[str, str]:
    return {name: f"$response.body#{pointer}" for name, pointer in pointers.items()}


def _next_page(template: str) -> Link:
    names = [part.partition("}")[0] for part in template.split("{")[1:]]
    return Link(
        "nextPage",
        f"get {template}",
        template,
        {name: f"$request.path.{name}" for name in names} | _of_body(cursor="/page/next_cursor"),
        "What follows, while `page.has_more`",
    )


_MINT: Final = _of_body(mint="/mint")
_OF_TOKEN: Final = (
    ("price", f"{_TOKEN}/price", "What it costs"),
    ("holders", f"{_TOKEN}/holders", "Who holds it"),
    ("leaderboard", f"{_TOKEN}/leaderboard", "Who gained most with it"),
    ("pools", f"{_TOKEN}/pools", "Where it trades"),
    ("candles", f"{_TOKEN}/candles", "What it has cost"),
    ("swaps", f"{_TOKEN}/swaps", "Who traded it"),
)
_POSITION: Final = _of_body(wallet="/wallet", mint="/positions/0/mint")
_OF_POSITION: Final = _of_body(wallet="/wallet", mint="/mint")
_PAGED: Final = (
    _WALLET,
    f"{_WALLET}/swaps",
    f"{_WALLET}/trades/{{mint}}",
    f"{_TOKEN}/swaps",
    f"{_WALLET}/{{mint}}/lots",
)
_OF_PERPS: Final = ("/funding", "/pnl")  # below the slugs that an operator chooses
_BOARDS: Final = (f"{_TOKEN}/leaderboard", "/api/wallets/leaderboard/{mint}")

LINKS: Final = (
    Link("token", "get /api/tokens/trending", _TOKEN, _of_body(mint="/tokens/0/mint"), "The first"),
    Link("token", "post /api/tokens/batch", _TOKEN, _of_body(mint="/tokens/0/mint"), "The first"),
    *(Link(name, f"get {_TOKEN}", target, _MINT, about) for name, target, about in _OF_TOKEN),
    Link(
        "holder",
        f"get {_TOKEN}/holders",
        f"{_WALLET}/holdings",
        _of_body(wallet="/holders/0/address"),
        "What else the largest holder has",
    ),
    *(
        Link(
            "trader",
            f"get {board}",
            f"{_WALLET}/{{mint}}",
            _of_body(wallet="/traders/0/wallet", mint="/mint"),
            "The position of the wallet that gained most",
        )
        for board in _BOARDS
    ),
    Link(
        "trader",
        f"get {_TOKEN}/swaps",
        _WALLET,
        _of_body(wallet="/swaps/0/wallet"),
        "The wallet of the newest swap",
    ),
    Link("position", f"get {_WALLET}", f"{_WALLET}/{{mint}}", _POSITION, "The first, by itself"),
    Link("position", f"get {_WALLET}/all-dex", f"{_WALLET}/{{mint}}", _POSITION, "The first"),
    Link("summary", f"get {_WALLET}", f"{_WALLET}/pnl/summary", _of_body(wallet="/wallet"), "Week"),
    Link("lots", f"get {_WALLET}/{{mint}}", f"{_WALLET}/{{mint}}/lots", _OF_POSITION, "Why so"),
    Link(
        "trades",
        f"get {_WALLET}/{{mint}}",
        f"{_WALLET}/trades/{{mint}}",
        _OF_POSITION,
        "The swaps behind it",
    ),
    Link(
        "days",
        f"get {_WALLET}/{{mint}}",
        f"{_WALLET}/pnl/{{mint}}/daily",
        _OF_POSITION,
        "The same by day",
    ),
    Link(
        "token",
        f"get {_WALLET}/holdings",
        _TOKEN,
        _of_body(mint="/tokens/0/mint"),
        "The most valuable token",
    ),
    Link(
        "wallet",
        "post /api/wallets/batch",
        _WALLET,
        _of_body(wallet="/wallets/0/wallet"),
        "All positions of the first",
    ),
)


def add(document: dict[str, Any]) -> None:
    """Put the links into a document; raises KeyError for a path that it does not have."""
    paths = document["paths"]
    below = [path for path in paths if path.startswith(_WALLET) and path.endswith(_OF_PERPS)]
    for link in (*LINKS, *map(_next_page, (*_PAGED, *below))):
        method, _, source = link.source.partition(" ")
        links = paths[source][method]["responses"]["200"].setdefault("links", {})
        links[link.name] = {
            "operationId": paths[link.target]["get"]["operationId"],
            "parameters": link.parameters,
            "description": link.about,
        }
