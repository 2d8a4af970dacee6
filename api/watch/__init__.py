"""Tracked wallets watched: net worth by the hour, and an alert where a position crosses a line."""
