"""A chain source: what the local chain's server asks of a recording or a simulated market.

A source yields the life of its slots as events, in the order they happen and paced in real
time. The server keeps blocks, answers subscriptions and RPC, and injects delivery faults; a
source never delays, repeats or reorders on purpose.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo


class AccountWrite(NamedTuple):
    """An account as a transaction, or the bank itself, left it; closed where it has no lamports."""

    address: bytes  # 32 bytes
    owner: bytes  # program; that of a closed account is the System program
    lamports: int
    data: bytes
    write_version: int  # ascends over the chain
    executable: bool = False


@dataclass(frozen=True, slots=True)
class ChainTransaction:
    """An executed transaction, serialized once for all subscribers."""

    signature: bytes  # 64 bytes
    index: int  # position in its block, from 0, ascending
    info: bytes  # serialized geyser.SubscribeUpdateTransactionInfo, `index` included
    accounts: frozenset[bytes]  # static and loaded keys, 32 bytes each
    is_vote: bool
    failed: bool
    writes: tuple[AccountWrite, ...] = ()  # in the order written; empty: the source has none

    def without_writes(self) -> ChainTransaction:
        """Return the transaction alone, as blocks keep it."""
        return ChainTransaction(
            self.signature, self.index, self.info, self.accounts, self.is_vote, self.failed
        )

    @classmethod
    def from_info(cls, info: SubscribeUpdateTransactionInfo) -> ChainTransaction:
        """Serialize a complete message; `info.index` must be set."""
        meta = info.meta
        return cls(
            signature=info.signature,
            index=info.index,
            info=info.SerializeToString(),
            accounts=frozenset(
                (
                    *info.transaction.message.account_keys,
                    *meta.loaded_writable_addresses,
                    *meta.loaded_readonly_addresses,
                )
            ),
            is_vote=info.is_vote,
            failed=meta.HasField("err"),
        )


@dataclass(frozen=True, slots=True)
class BlockHeader:
    """What a block says beside its transactions."""

    slot: int
    parent_slot: int
    blockhash: str  # base58
    parent_blockhash: str
    block_time: int  # seconds since the Unix epoch
    block_height: int  # of the fork the block is on


@dataclass(frozen=True, slots=True)
class SlotStarted:
    """A bank was created on top of `parent_slot`; first event of a slot, once."""

    slot: int
    parent_slot: int


@dataclass(frozen=True, slots=True)
class SlotTransactions:
    """The next transactions of a started slot, as they are executed (many of these a slot).

    Indexes ascend over the slot's batches; a source that left transactions out may skip some.
    """

    slot: int
    transactions: tuple[ChainTransaction, ...]


@dataclass(frozen=True, slots=True)
class Reward:
    """Lamports that the bank paid at the start of an epoch."""

    address: bytes  # a stake or a vote account
    lamports: int
    post_lamports: int
    kind: str  # "Staking" or "Voting", as the RPC says it
    commission: int  # percent


@dataclass(frozen=True, slots=True)
class SlotCompleted:
    """The bank is frozen: the slot is processed and its block can be fetched."""

    header: BlockHeader
    writes: tuple[AccountWrite, ...] = ()  # sysvars, rewards, pools: once a slot
    rewards: tuple[Reward, ...] = ()  # in the first block of an epoch
    has_entries: bool = False  # it is made here, and so are its entries


@dataclass(frozen=True, slots=True)
class SlotConfirmed:
    """The cluster voted for a completed slot; its ancestors were confirmed before it."""

    slot: int


@dataclass(frozen=True, slots=True)
class SlotFinalized:
    """A confirmed slot is rooted; its ancestors were finalized before it."""

    slot: int


@dataclass(frozen=True, slots=True)
class SlotDead:
    """A started slot will never be completed; transactions may have been seen already."""

    slot: int
    error: str


# A fork is two slots with the same parent, of which one is never finalized. It is rarely confirmed,
# and then rolled back. A skipped slot never appears: the next slot's parent is the last that does.
SlotEvent = (
    SlotStarted | SlotTransactions | SlotCompleted | SlotConfirmed | SlotFinalized | SlotDead
)


@dataclass(frozen=True, slots=True)
class Account:
    """An account's current state, as far as the source keeps it."""

    owner: bytes  # program, 32 bytes
    lamports: int
    data: bytes
    executable: bool = False


@dataclass(frozen=True, slots=True)
class TokenSupply:
    """A mint's current supply in raw units."""

    amount_raw: int
    decimals: int


@dataclass(frozen=True, slots=True)
class VoteAccount:
    """A validator as the cluster counts it at a slot."""

    address: bytes  # of the vote account
    node: bytes  # identity of its validator
    activated_stake_lamports: int  # effective in the slot's epoch
    commission_pct: int
    last_vote_slot: int
    root_slot: int
    epoch_credits: tuple[tuple[int, int, int], ...]  # (epoch, credits, those before), ascending


@runtime_checkable
class Describes(Protocol):
    """A source that knows what its coins are called; the server then serves their metadata."""

    def described(self, mint: bytes) -> tuple[str, str] | None:
        """Return a coin's name and symbol, None where there is none of that address."""
        ...


class Source(Protocol):
    """A chain as seen by the server; one consumer, read once."""

    @property
    def genesis_hash(self) -> str:
        """Return what identifies the chain: that of `schemas.solana.networks`."""
        ...

    @property
    def slots_per_epoch(self) -> int:
        """Return the length of every epoch; epoch 0 begins at slot 0."""
        ...

    def events(self) -> AsyncIterator[SlotEvent]:
        """Yield the slots' events, paced in real time; ends when the source has no more."""
        ...

    def genesis_accounts(self) -> Iterable[AccountWrite]:
        """Return all accounts as they are before the first event; none: the source has none.

        To be asked before the events are. Programs, and accounts whose data the source does not
        keep, are left out, as they are from the writes.
        """
        ...

    def vote_accounts(self, slot: int) -> Sequence[VoteAccount]:
        """Return the validators at the end of a slot; none where the source has none."""
        ...

    def account(self, address: bytes) -> Account | None:
        """Return the account, or None where the source has no data of it."""
        ...

    def token_supply(self, mint: bytes) -> TokenSupply | None:
        """Return the supply, or None where the source does not know the mint."""
        ...
