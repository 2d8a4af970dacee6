"""Market makers' own AMMs: opaque data, no public interface; a swap is its token transfers.

An instruction of these programs is a swap where the trader's authority and the maker's each
moved a token; quotes, deposits and withdrawals are not. The places below come from mainnet
transactions (2024-11 to 2026-04) and hold in every one seen:

- the pool: the account that owns both vaults (SolFi, HumidiFi, BisonFi, GoonFi, Obric, and a
  program only known by its address, exa6gyh), or,
  where vaults own themselves or have one owner for all pools, the one account of the program
  that goes with the pair (AlphaQ, ZeroFi, Tessera). Aquifer's is the `dex_instance` that its
  coin accounts are derived from: ["coin", dex_instance, mint] gives each vault's owner.
- `sides`: whether the vaults keep one order whichever way the swap goes; the later one is
  then the pool's second side. ZeroFi and exa6gyh list input before output; for Aquifer and
  Scorch too few swaps were seen to decide.

Scorch's pool and ZeroFi's instruction 16 follow public tables of account layouts alone. Fees are
inside the quoted price and stated nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pipeline.decoding.contract import (
    Handler,
    Instruction,
    Leg,
    Malformed,
    Venue,
    mint_listed_second,
    swap_by_pair,
)


def _swap(*, pool: int, user: int, sides: bool) -> Handler:
    """Return a handler; the arguments are places in the instruction's accounts."""

    def read(ix: Instruction) -> Leg | None:
        paid = received = None
        makers = set()
        for transfer in ix.transfers():
            if transfer.authority == ix.account(user) or transfer.authority < ix.tx.signers:
                paid = paid or transfer
            else:
                received = received or transfer
                makers.add(transfer.authority)
        if paid is None and len(makers) > 1:
            raise Malformed("two authorities moved tokens and neither is known to be the trader's")
        if paid is None or received is None:
            return None
        leg = swap_by_pair(ix, pool, paid, received)
        if sides:
            leg.second_mint = mint_listed_second(ix, leg)
        return leg

    return read


def _venue(
    dex: str,
    program: str,
    *,
    pool: int,
    user: int,
    sides: bool = True,
    other: Mapping[int, Handler] | None = None,
) -> Venue:
    """Return a venue; `other` are instructions with places of their own, by their first byte."""
    return Venue(
        dex=dex,
        programs=(program,),
        handlers={bytes([tag]): handler for tag, handler in (other or {}).items()},
        any_tag=_swap(pool=pool, user=user, sides=sides),
        tag_size=1,
    )


VENUES: Final = (
    _venue("alphaq", "ALPHAQmeA7bjrVuccPsYPiCvsi428SNwte66Srvs4pHA", pool=1, user=0),
    _venue("aquifer", "AQU1FRd7papthgdrwPTTq5JacJh8YtwEXaBfKU3bTz45", pool=9, user=1, sides=False),
    _venue("bisonfi", "BiSoNHVpsVZW2F7rx2eQ59yQwKxzU5NvBcmKshCSUypi", pool=1, user=0),
    _venue("exa6gyh", "ExA6GYhHAeRNMWVNLrDir1SKPJZcZA2oaPq6uriSmxfJ", pool=1, user=0, sides=False),
    _venue("goonfi", "goonERTdGsjnkZqWuVjs73BZ3Pb9qoCUdBUL17BnS5j", pool=1, user=0),
    _venue("goonfi-v2", "goonuddtQRrWqqn5nFyczVKaie28f3kDkHWkHtURSLE", pool=1, user=0),
    _venue("humidifi", "9H6tua7jkLhdm3w8BvgpTn5LZNU7g4ZynDmCiNN3q6Rp", pool=1, user=0),
    _venue("obric-v2", "obriQD1zbpyLz95G5n7nJe6a4DPjpFwa5XYPoNm113y", pool=0, user=10),
    _venue(
        "scorch",
        "SCoRcH8c2dpjvcJD6FiPbCSQyQgu3PcUAWj2Xxx3mqn",
        pool=15,
        user=1,
        sides=False,
        other={1: _swap(pool=11, user=1, sides=False)},
    ),
    _venue("solfi", "SoLFiHG9TfgtdUXUjWAxi3LtvYuFyDLVhBWxdMZxyCe", pool=1, user=0),
    _venue("solfi-v2", "SV2EYYJyRz2YhfXwXnhNAevDEui5Q6yrfyo13WtupPF", pool=1, user=0),
    _venue("tessera", "TessVdML9pBGgG9yGks7o4HewRaXVAMuoVj4x83GLQH", pool=1, user=2),
    _venue(
        "zerofi",
        "ZERor4xhbUycZ6gb9ntrhqscUcZmAbQDjEAtCf4hbZY",
        pool=0,
        user=7,
        sides=False,
        other={16: _swap(pool=0, user=8, sides=False)},
    ),
)
