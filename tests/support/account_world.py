"""A small chain with accounts of every kind, whose state differs by commitment."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from infra.chain.source import (
    Account,
    AccountWrite,
    Reward,
    SlotCompleted,
    SlotConfirmed,
    SlotEvent,
    SlotFinalized,
    SlotStarted,
    SlotTransactions,
    TokenSupply,
    VoteAccount,
)
from schemas.solana import base58, networks
from schemas.solana.addresses import STAKE_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from tests.support.account_writes import (
    address,
    closing,
    header,
    mint_account,
    token_account,
    write,
    writing,
)

FINALIZED_SLOT, CONFIRMED_SLOT, PROCESSED_SLOT = 1_201, 1_202, 1_203
SLOTS = {"finalized": FINALIZED_SLOT, "confirmed": CONFIRMED_SLOT, "processed": PROCESSED_SLOT}

NATIVE = address(1)
CLOSED_LATER = address(2)
MINT, MINT_2022, NO_MINT = address(10), address(11), address(12)
WALLET, OTHER_WALLET = address(20), address(21)
TOKEN, TOKEN_2022, ORPHAN = address(30), address(31), address(32)
HOLDERS = [address(number) for number in range(100, 125)]
STAKES = [address(number) for number in range(200, 210)]
VALIDATOR, DELINQUENT, UNSTAKED = address(300), address(301), address(302)


def text(key: bytes) -> str:
    return base58.encode(key)


def stake(number: int) -> bytes:
    return bytes([2, 0, 0, 0]) + WALLET + bytes([number]) * 32 + bytes(132)


class AccountSource:
    """A source whose events the test publishes."""

    genesis_hash = networks.SIMULATED
    slots_per_epoch = 100

    def __init__(self, genesis: tuple[AccountWrite, ...]) -> None:
        self._genesis = genesis

    def events(self) -> AsyncIterator[SlotEvent]:
        raise AssertionError("this chain is fed by hand")

    def genesis_accounts(self) -> tuple[AccountWrite, ...]:
        return self._genesis

    def vote_accounts(self, slot: int) -> tuple[VoteAccount, ...]:
        earned = tuple((epoch, epoch * 10, epoch * 10 - 10) for epoch in range(1, 8))

        def account(at: bytes, stake: int, last_vote: int) -> VoteAccount:
            return VoteAccount(at, address(400), stake, 7, last_vote, last_vote - 31, earned)

        return (
            account(VALIDATOR, 5_000, slot - 1),
            account(DELINQUENT, 6_000, slot - 128),
            account(UNSTAKED, 0, slot - 500),
        )

    def account(self, _: bytes) -> Account | None:
        raise AssertionError("the store knows every account")

    def token_supply(self, _: bytes) -> TokenSupply | None:
        raise AssertionError("the store knows every mint")


def genesis() -> tuple[AccountWrite, ...]:
    return (
        write(NATIVE, lamports=1_000, data=b"hello world"),
        write(CLOSED_LATER, lamports=9),
        write(MINT, TOKEN_PROGRAM, 10, mint_account(1_234_500, 6, authority=WALLET)),
        write(MINT_2022, TOKEN_2022_PROGRAM, 10, mint_account(77, 0, freeze=WALLET, extended=True)),
        write(TOKEN, TOKEN_PROGRAM, 10, token_account(MINT, WALLET, 500_000)),
        write(
            TOKEN_2022,
            TOKEN_2022_PROGRAM,
            10,
            token_account(MINT_2022, WALLET, 7, state=2, extended=True),
        ),
        write(ORPHAN, TOKEN_PROGRAM, 10, token_account(NO_MINT, WALLET, 1)),
        *(
            write(at, TOKEN_PROGRAM, 10, token_account(MINT, OTHER_WALLET, 10 * number))
            for number, at in enumerate(HOLDERS)
        ),
        *(write(at, STAKE_PROGRAM, 20, stake(number % 2)) for number, at in enumerate(STAKES)),
    )


REWARDS = (
    Reward(STAKES[0], 15, 35, "Staking", 7),
    Reward(VALIDATOR, 2, 90, "Voting", 7),
)


def events() -> Iterator[SlotEvent]:
    """An epoch's last slot, then three: one final, one confirmed, one processed."""
    last = FINALIZED_SLOT - 2
    yield from block(last, last - 1)
    yield from block(FINALIZED_SLOT, last, rewards=REWARDS)
    yield from block(CONFIRMED_SLOT, FINALIZED_SLOT, write(NATIVE, lamports=2_000))
    yield from block(PROCESSED_SLOT, CONFIRMED_SLOT, write(NATIVE, lamports=3_000))
    yield from confirmed(last, FINALIZED_SLOT, CONFIRMED_SLOT)
    yield SlotFinalized(last)
    yield SlotFinalized(FINALIZED_SLOT)


def block(
    slot: int, parent: int, *writes: AccountWrite, rewards: tuple[Reward, ...] = ()
) -> Iterator[SlotEvent]:
    yield SlotStarted(slot, parent)
    yield SlotTransactions(slot, (writing(slot, *writes),))
    closes = (closing(CLOSED_LATER),) if slot == CONFIRMED_SLOT else ()
    yield SlotCompleted(header(slot, parent), closes, rewards)


def ui(amount: int, decimals: int, number: float, string: str) -> dict[str, Any]:
    return {
        "amount": str(amount),
        "decimals": decimals,
        "uiAmount": number,
        "uiAmountString": string,
    }


def confirmed(*slots: int) -> Iterator[SlotEvent]:
    for slot in slots:
        yield SlotConfirmed(slot)
