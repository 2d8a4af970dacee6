"""What exists before the first slot: `genesis` (coins, pools, money), `wallets`, `names`."""
