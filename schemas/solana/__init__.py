"""Solana's own shapes: addresses, borsh, token accounts, RPC."""
