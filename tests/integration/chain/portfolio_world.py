"""The demo wallets' accounts as a reader expects them that knows the programs by heart.

Still accounts have made-up addresses, and little of what surrounds them on mainnet.
`PortfolioWorld` serves them where the programs keep them and as long as the programs allocate them,
beside the names of NFTs, the vaults of pools and the account of a partial unstaking. Of what they
count nothing is changed; pools of concentrated liquidity have the price of their tick, and those of
AMM v4 have just counted Raydium's part of what they earned.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from hashlib import sha256
from typing import Final

from solders.pubkey import Pubkey

from infra.chain.demo_wallets import ADDRESSES
from infra.chain.market.market import Market
from infra.chain.source import Account as ChainAccount
from infra.chain.source import AccountWrite, SlotEvent, TokenSupply, VoteAccount
from schemas.protocols.contract import Account
from schemas.protocols.math.ticks import orca_sqrt_price_x64, raydium_sqrt_price_x64
from schemas.protocols.registry import kind_of
from schemas.solana import networks
from schemas.solana.addresses import TOKEN_PROGRAM, key

STAKER: Final = ADDRESSES["staker-0"]
METADATA: Final = key("metaqbxxUerdq28cj1RbAWkYQm3ybzjb6a8bt518x1s")
NAMES: Final = {
    "whirlpools_position": "Orca Whirlpool Position",
    "raydium_clmm_position": "Raydium Concentrated Liquidity",
    "damm_v2_position": "Meteora Position NFT",
    "helium_position": "Voting Escrow Token Position",
}
"""Kind of a position that an NFT represents -> what its program calls the NFT."""
KNOWN: Final = {
    "marginfi_group": key("4qp6Fx6tnZkY5Wropq9wUYgtFxXKwE6viZxFHg3rdAG8"),
    "jupiter_dao_locker": key("CVMdMd79no569tjc5Sq7kzz8isbfCcFyBS5TLGsrZ5dN"),
    "parcl_exchange": key("82dGS7Jt4Km8ZgwZVRsJ2V6vPXEhVdgDaMP7cqPGG1TW"),
}
"""Kind of an account of which mainnet has one that counts -> its address there."""
SIZES: Final = {"streamflow_entry": 224, "streamflow_pool": 296}
"""Bytes that a program allocates for a kind, where the last of them are no field's."""
_FIRST: Final = bytes(8)  # the number of a wallet's first account of a kind
_NFT_AT: Final = {"damm_v2_position": 40, "helium_position": 40}
_STRATEGY_STATUS_AT: Final = 808
_LIVE: Final = 2
_PRICED: Final = {
    "whirlpools_whirlpool": (65, 81, orca_sqrt_price_x64),
    "raydium_clmm_pool": (253, 269, raydium_sqrt_price_x64),
}
"""Kind of a pool -> offsets of its root of a price and of its tick, and what a tick's root is."""
_COLLATERALS_AT: Final = range(969, 969 + 5 * 73, 73)


class PortfolioWorld:
    """A source of accounts alone: no slot follows."""

    genesis_hash = networks.SIMULATED
    slots_per_epoch = 432_000

    def __init__(self, market: Market) -> None:
        writes = [*market.genesis_accounts()]
        moved = dict(_moved(writes))
        [escrow] = [each.address for each in writes if _kind(each) == "s2e_escrow"]
        rewritten = [_rewritten(each, moved, escrow) for each in writes]
        self._accounts = {write.address: write for write in rewritten}
        for address, data in [*_beside(self._accounts)]:
            self._accounts[address] = AccountWrite(address, *data, write_version=0)

    def accounts(self) -> dict[bytes, Account]:
        """Return those of a kind."""
        return {
            write.address: Account(write.address, kind, write.lamports, write.data, 1)
            for write in self._accounts.values()
            if (kind := kind_of(write.address, write.owner, write.data)) is not None
        }

    def genesis_accounts(self) -> tuple[AccountWrite, ...]:
        return (*self._accounts.values(),)

    def events(self) -> AsyncIterator[SlotEvent]:
        raise AssertionError("nothing happens here")

    def vote_accounts(self, slot: int) -> tuple[VoteAccount, ...]:
        return ()

    def account(self, address: bytes) -> ChainAccount | None:
        return None

    def token_supply(self, mint: bytes) -> TokenSupply | None:
        return None


def _moved(writes: list[AccountWrite]) -> Iterator[tuple[bytes, bytes]]:
    """Yield addresses, and those where the programs keep such accounts."""
    for write in writes:
        name = _kind(write)
        to: bytes | None = KNOWN.get(name)
        if name in _NFT_AT:
            at = _NFT_AT[name]
            to = pda(write.owner, b"position", write.data[at : at + 32])
        elif name == "jupiter_dao_escrow":
            to = pda(write.owner, b"Escrow", KNOWN["jupiter_dao_locker"], write.data[40:72])
        elif name == "parcl_lp_position":
            exchange = KNOWN["parcl_exchange"]
            to = pda(write.owner, b"lp_position", exchange, STAKER, _FIRST)
        elif name == "parcl_settlement_request":
            to = pda(write.owner, b"settlement_request", STAKER, _FIRST)
        if to is not None and to != write.address:
            yield write.address, to


def _kind(write: AccountWrite) -> str:
    kind = kind_of(write.address, write.owner, write.data)
    return "" if kind is None else kind.name


def _rewritten(write: AccountWrite, moved: Mapping[bytes, bytes], escrow: bytes) -> AccountWrite:
    """Return an account at its program's address, naming others by theirs."""
    name, data = _kind(write), write.data
    for old, new in moved.items():
        if old in data:
            data = data.replace(old, new)
    data = data.ljust(SIZES.get(name, 0), b"\0")
    if name in _PRICED:
        at, tick_at, sqrt_price_x64 = _PRICED[name]
        tick = int.from_bytes(data[tick_at : tick_at + 4], "little", signed=True)
        data = data[:at] + sqrt_price_x64(tick).to_bytes(16, "little") + data[at + 16 :]
    elif name == "kamino_strategy":
        at = _STRATEGY_STATUS_AT
        data = data[:at] + _LIVE.to_bytes(8, "little") + data[at + 8 :]
    elif name == "s2e_unstake":
        data = data[:8] + escrow + data[40:]
    elif name == "loopscale_loan":
        for at in _COLLATERALS_AT:  # what identifies a token is its mint
            data = data[: at + 41] + data[at : at + 32] + data[at + 73 :]
    return write._replace(address=moved.get(write.address, write.address), data=data)


def _beside(
    accounts: Mapping[bytes, AccountWrite],
) -> Iterator[tuple[bytes, tuple[bytes, int, bytes]]]:
    """Yield accounts that mainnet has beside these: address; owner, lamports and data."""
    for write in accounts.values():
        kind = kind_of(write.address, write.owner, write.data)
        if kind is None:
            continue
        if kind.name in NAMES:
            [mint] = kind.represented_by(write.data)
            yield (
                pda(METADATA, b"metadata", METADATA, mint),
                (METADATA, 1, metadata(mint, NAMES[kind.name])),
            )
        elif kind.name == "whirlpools_whirlpool":
            for at in (101, 181):
                vault = write.data[at + 32 : at + 64]
                if vault not in accounts:
                    mint = write.data[at : at + 32]
                    yield vault, (TOKEN_PROGRAM, 1, token(mint, write.address, 1))
        elif kind.name == "raydium_amm_pool":
            at = write.data[592:624]
            yield at, (write.owner, 1, counted(accounts[at].data, write.data, accounts))
        elif kind.name == "loopscale_strategy":
            mint, idle = write.data[42:74], write.data[148:156]
            elsewhere = write.data[188:196]
            amount = sum(int.from_bytes(each, "little") for each in (idle, elsewhere))
            yield (
                sha256(write.address).digest(),
                (TOKEN_PROGRAM, 1, token(mint, write.address, amount)),
            )
        elif kind.name == "jupiter_dao_escrow":
            unstaking = sha256(b"account:PartialUnstaking").digest()[:8] + write.address
            total = write.data[162:170]
            yield (
                sha256(write.address).digest(),
                (write.owner, 1, (unstaking + total).ljust(156, b"\0")),
            )


def counted(targets: bytes, pool: bytes, accounts: Mapping[bytes, AccountWrite]) -> bytes:
    """Return target orders of a pool of AMM v4 all of whose profit is counted."""
    scale = _u64(pool, 120)
    coin, pc = (
        (_u64(accounts[pool[vault_at : vault_at + 32]].data, 64) - _u64(pool, profit_at))
        * scale
        // 10 ** _u64(pool, decimals_at)
        for vault_at, profit_at, decimals_at in ((336, 192, 32), (368, 200, 40))
    )
    return targets[:1024] + pc.to_bytes(16, "little") + coin.to_bytes(16, "little") + targets[1056:]


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def metadata(mint: bytes, name: str) -> bytes:
    """Return the data of a Metaplex metadata account."""
    texts = (name.encode(), b"NFT", b"")
    described = b"".join(len(each).to_bytes(4, "little") + each for each in texts)
    return (b"\x04" + bytes(32) + mint + described + bytes(9)).ljust(607, b"\0")


def token(mint: bytes, owner: bytes, amount_raw: int) -> bytes:
    """Return the data of a token account."""
    return (mint + owner + amount_raw.to_bytes(8, "little")).ljust(108, b"\0") + b"\1" + bytes(56)


def pda(program: bytes, *seeds: bytes) -> bytes:
    """Return a program's address for seeds."""
    return bytes(Pubkey.find_program_address(list(seeds), Pubkey(program))[0])
