"""The venues of the simulated market, one file each.

`venue` is what they share and `directory` the list of live pools; `launches` creates a coin's
mint, `sqrt_price` computes concentrated liquidity, `routes` is Jupiter. A file named after a
venue and another word adds to it: `pump_launch`, `pump_fun_v2`, `raydium_cpmm_liquidity`,
`raydium_amm_v4_liquidity`, `raydium_clmm_liquidity`, `meteora_dlmm_liquidity`, `orca_liquidity`,
`orca_two_hop`. `ranges` is the arithmetic of Whirlpools and CLMM with the prices of `ticks`, and
`positions` what their instructions about positions share; `shares` is what the pools of CPMM and
AMM v4 share, which have LP tokens; `bins` is the arithmetic of DLMM.
"""
