"""Tokens: facts, prices, holders, leaderboards, trending."""
