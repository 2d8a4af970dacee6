"""From a tool to the service that answers it: the one place that knows both."""

from __future__ import annotations

from typing import Final

from api.http.encoding import Encoded
from api.mcp.tools import Tool
from api.services import Services
from api.wallets.holdings import Wanted

NEWEST: Final = 50
WAIT_MS: Final = 1_500
"""As REST's path answers without a query."""


async def ask(services: Services, tool: Tool, wallet: str, holder: str) -> Encoded:
    """Return what REST answers for a wallet on the tool's path; raises Problem.

    `holder` is the fingerprint of the key, on whose account more is asked for.
    """
    match tool.path:
        case "holdings":
            return await services.wallets.holdings(wallet, Wanted(None, False), holder, WAIT_MS)
        case "all-dex":
            return await services.wallets.newest(wallet, NEWEST)
        case "analyze":
            return await services.analysis.analyze(wallet, holder)
    return await services.positions.of_aggregate(wallet, tool.path, holder)
