"""What a wallet is worth: what it holds, its positions and its trades, in one answer."""
