"""Pay per call: the wallets' paths without a key, for a payment over x402."""
