"""JSON-RPC of a Solana node."""
