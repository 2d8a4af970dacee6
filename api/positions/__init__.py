"""What a wallet has beside its tokens: positions, computed from stored accounts when asked for."""
