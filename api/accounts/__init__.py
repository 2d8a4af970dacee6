"""Which wallets and tokens are followed on the chain because somebody asked, and since when."""
