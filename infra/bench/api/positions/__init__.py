"""Positions in the bench of the API: accounts of a lender and of pools, whose wallets are asked."""
