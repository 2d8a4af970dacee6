"""`soltape mcp`: tools for an agent on this machine, over standard input and output."""
