"""What exists before the first slot: `genesis` (coins, pools, money), `wallets`, `names`.

`still` has accounts of protocols whose programs do not run here.
"""
