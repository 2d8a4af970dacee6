"""Square roots of prices at ticks, in Q64: each program rounds its own way.

Sources: Orca whirlpools `tick_math.rs`, Raydium CLMM `tick_math.rs`; their factors are powers of
1.0001 ** (1/2) as each program has rounded them.
"""

from __future__ import annotations

from typing import Final

MAX_TICK: Final = 443636
MIN_TICK: Final = -MAX_TICK

_ONE_X64: Final = 1 << 64
_ONE_X96: Final = 1 << 96
_MAX_U128: Final = (1 << 128) - 1

# of 1.0001 ** (2 ** n / 2), n = 0..18, in Q96
_ORCA_UP_X96: Final = (
    79232123823359799118286999567,
    79236085330515764027303304731,
    79244008939048815603706035061,
    79259858533276714757314932305,
    79291567232598584799939703904,
    79355022692464371645785046466,
    79482085999252804386437311141,
    79736823300114093921829183326,
    80248749790819932309965073892,
    81282483887344747381513967011,
    83390072131320151908154831281,
    87770609709833776024991924138,
    97234110755111693312479820773,
    119332217159966728226237229890,
    179736315981702064433883588727,
    407748233172238350107850275304,
    2098478828474011932436660412517,
    55581415166113811149459800483533,
    38992368544603139932233054999993551,
)
# of 1.0001 ** -(2 ** n / 2), n = 0..18, in Q64
_ORCA_DOWN_X64: Final = (
    18445821805675392311,
    18444899583751176498,
    18443055278223354162,
    18439367220385604838,
    18431993317065449817,
    18417254355718160513,
    18387811781193591352,
    18329067761203520168,
    18212142134806087854,
    17980523815641551639,
    17526086738831147013,
    16651378430235024244,
    15030750278693429944,
    12247334978882834399,
    8131365268884726200,
    3584323654723342297,
    696457651847595233,
    26294789957452057,
    37481735321082,
)
# the same, as Raydium has rounded them
_RAYDIUM_DOWN_X64: Final = (
    0xFFFCB933BD6FB800,
    0xFFF97272373D4000,
    0xFFF2E50F5F657000,
    0xFFE5CACA7E10F000,
    0xFFCB9843D60F7000,
    0xFF973B41FA98E800,
    0xFF2EA16466C9B000,
    0xFE5DEE046A9A3800,
    0xFCBE86C7900BB000,
    0xF987A7253AC65800,
    0xF3392B0822BB6000,
    0xE7159475A2CAF000,
    0xD097F3BDFD2F2000,
    0xA9F746462D9F8000,
    0x70D869A156F31C00,
    0x31BE135F97ED3200,
    0x09AA508B5B85A500,
    0x005D6AF8DEDC582C,
    0x00002216E584F5FA,
)


def orca_sqrt_price_x64(tick: int) -> int:
    """Return the square root of the price at a tick as Orca computes it; raises ValueError."""
    _check(tick)
    if tick < 0:
        return _product(-tick, _ORCA_DOWN_X64, _ONE_X64, 64)
    return _product(tick, _ORCA_UP_X96, _ONE_X96, 96) >> 32


def raydium_sqrt_price_x64(tick: int) -> int:
    """Return the square root of the price at a tick as Raydium computes it; raises ValueError."""
    _check(tick)
    ratio = _product(abs(tick), _RAYDIUM_DOWN_X64, _ONE_X64, 64)
    return _MAX_U128 // ratio if tick > 0 else ratio


def array_start(tick: int, spacing: int, ticks: int) -> int:
    """Return the first tick of the array that has a tick; an array has `ticks` of them."""
    return tick // (spacing * ticks) * spacing * ticks


def _check(tick: int) -> None:
    if not MIN_TICK <= tick <= MAX_TICK:
        raise ValueError(f"tick {tick} is beyond {MAX_TICK}")


def _product(bits: int, factors: tuple[int, ...], one: int, shift: int) -> int:
    """Return the product of the factors of an exponent's bits, rounded down after each."""
    ratio = one
    for number, factor in enumerate(factors):
        if bits >> number & 1:
            ratio = ratio * factor >> shift
    return ratio
