"""MCP: the wallet answers as tools of AI agents, over streamable HTTP and SSE; and a local one."""
