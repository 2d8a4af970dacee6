"""Who trades on the simulated market, and how.

`habits` chooses who acts next. `crowd` trades old coins, `routing` goes through Jupiter, `ordering`
places limit orders and fills them, `launching` creates coins, `curves` trades young ones, `holding`
hands tokens on, and `desk` keeps prices together and re-centers liquidity at each slot's end.
`staking`, `lending` and `providing` have wallets of their own. They share `valuation` (what a coin
is worth to them), `trading` (a swap as a signed transaction), `swap_plan` and `signing`.
"""
