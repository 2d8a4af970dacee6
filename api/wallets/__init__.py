"""Wallets: positions, holdings, portfolio."""
