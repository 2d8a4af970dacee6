"""Positions in many protocols: accounts of a local chain, copied for wallets of the bench.

What an account of such a kind says of its owner is 32 bytes at known offsets. A copy has a wallet
there, or the mint of an NFT that the wallet holds, and an address of its own; what it refers to is
the chain's.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice
from random import Random
from typing import Final, NamedTuple

from infra.bench.api.world import LAST_MS, LAST_SLOT
from infra.chain.market.knobs import Knobs
from infra.chain.market.market import Market
from schemas.protocols.contract import Kind
from schemas.protocols.mint import MINT, MINT_2022, MINT_2022_EXTENDED
from schemas.protocols.registry import kind_of

COPIES: Final = {
    "kamino_obligation": 5,
    "raydium_clmm_position": 5,
    "dlmm_position": 5,
    "damm_v2_position": 5,
    "jupiter_perps_position": 5,
    "jupiter_vault_position": 5,
    "stake": 5,
    "loopscale_loan": 4,
    "jupiter_lock_escrow": 4,
    "drift_user": 2,  # of which each has two positions and a health
}
"""Kind -> accounts of a wallet."""
_TRADERS: Final = 10  # of the chain: the fewest that it has
_NOBODY: Final = bytes(32)
_MINTS: Final = (MINT, MINT_2022, MINT_2022_EXTENDED)
_DECIMALS_AT: Final = 44  # of a mint's data


class Copied(NamedTuple):
    """An account with its kind; `nft` is the mint that finds it, where no wallet does."""

    address: bytes
    kind: Kind
    data: bytes
    lamports: int
    nft: bytes | None = None


class Chain:
    """A local chain before its first slot; everything follows from the seed."""

    def __init__(self, seed: int) -> None:
        """Have it begin at the bench's last slot."""
        self._random = Random(f"{seed} copied")  # noqa: S311 - figures to be had again
        knobs = Knobs(seed, wallets=_TRADERS, start_slot=LAST_SLOT, start_time_ms=LAST_MS)
        found = [
            Copied(each.address, kind, bytes(each.data), each.lamports)
            for each in Market(knobs).genesis_accounts()
            if (kind := kind_of(each.address, each.owner, each.data)) is not None
        ]
        self.references = [
            each for each in found if not each.kind.wallets and each.kind.name not in COPIES
        ]
        self._models = {
            name: cycle([each for each in found if each.kind.name == name]) for name in COPIES
        }

    @property
    def changing(self) -> list[bytes]:
        """Return the addresses of pools, reserves and markets, which change as slots go on."""
        return [
            each.address
            for each in self.references
            if each.kind.group == "positions" and not each.kind.addresses
        ]

    def mints(self) -> Iterator[tuple[bytes, int]]:
        """Yield the mints that its programs deal in, with their decimals."""
        for each in self.references:
            if each.kind in _MINTS:
                yield each.address, each.data[_DECIMALS_AT]

    def accounts(self, wallet: bytes) -> Iterator[Copied]:
        """Yield new accounts of a wallet, as many of each kind as COPIES says."""
        for name, count in COPIES.items():
            for model in islice(self._models[name], count):
                yield self._copy(model, wallet)

    def _copy(self, model: Copied, wallet: bytes) -> Copied:
        kind, data = model.kind, bytearray(model.data)
        for at in kind.wallets:
            if data[at : at + 32] != _NOBODY:
                data[at : at + 32] = wallet
        nft = self._random.randbytes(32) if kind.mints else None
        for at in kind.mints:
            data[at : at + 32] = nft or _NOBODY
        return Copied(self._random.randbytes(32), kind, bytes(data), model.lamports, nft)
