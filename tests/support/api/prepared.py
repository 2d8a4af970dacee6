"""What every `soltape api` computes as it begins: here once, in the process it is forked from."""

from __future__ import annotations

from api.mcp.server import output_schema
from api.mcp.tools import TOOLS

for _tool in TOOLS:
    output_schema(_tool)
