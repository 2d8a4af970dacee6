"""Transactions that clients send to the simulated chain."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from infra.chain import demo_wallets
from infra.chain.market import Knobs, Market
from infra.chain.market.market import MAX_BLOCKHASH_AGE
from infra.chain.source import ChainTransaction, SlotCompleted, SlotEvent, SlotTransactions
from infra.chain.submission import (
    MAX_BYTES,
    MAX_INSTRUCTIONS,
    Refused,
    Submission,
    Unreadable,
    parse,
)
from pipeline.decoding.reading import decode_update
from schemas.money import USDC
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from schemas.solana import base58
from schemas.solana.addresses import TOKEN_PROGRAM

PAYER = demo_wallets.keypair(demo_wallets.PAYER)
SELLER = demo_wallets.address(demo_wallets.SELLER)
MEMO = Pubkey.from_string("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")
BUDGET = Pubkey.from_string("ComputeBudget111111111111111111111111111111")
SYSTEM = Pubkey.from_string("11111111111111111111111111111111")
TOKEN = Pubkey.from_bytes(TOKEN_PROGRAM)
FORKING = Knobs(seed=3, wallets=10, rate=20.0, forks=0.3)


class Chain:
    """A market, and the hash of its newest block."""

    def __init__(self, knobs: Knobs | None = None) -> None:
        self.market = Market(knobs or Knobs(seed=3, wallets=10, rate=20.0, forks=0.0))
        self._events = self.market.stream()
        self.blockhash = b""
        self.until_block()

    def __iter__(self) -> Iterator[SlotEvent]:
        return (event for _, event in self._events)

    def until_block(self) -> list[ChainTransaction]:
        """Run to the end of a block; return its transactions."""
        found: list[ChainTransaction] = []
        for event in self:
            if isinstance(event, SlotTransactions):
                found += event.transactions
            elif isinstance(event, SlotCompleted):
                self.blockhash = base58.decode(event.header.blockhash)
                return found
        raise AssertionError

    def landed(self, signature: bytes) -> ChainTransaction:
        """Run until a transaction is in a block."""
        for _ in range(20):
            for each in self.until_block():
                if each.signature == signature:
                    return each
        raise AssertionError("it did not land within 20 blocks")

    def account(self, wallet: bytes) -> Pubkey:
        world = self.market.world
        return Pubkey.from_bytes(world.ledger.associated(wallet, world.usdc))

    def balance(self, wallet: bytes) -> int:
        return self.market.world.ledger.balance(bytes(self.account(wallet)))


@pytest.fixture
def chain() -> Chain:
    return Chain()


def transfer(chain: Chain, amount_raw: int, authority: Keypair = PAYER, *, note: str = "") -> bytes:
    mint = Pubkey.from_bytes(chain.market.world.usdc.address)
    accounts = [
        AccountMeta(chain.account(bytes(PAYER.pubkey())), is_signer=False, is_writable=True),
        AccountMeta(mint, is_signer=False, is_writable=False),
        AccountMeta(chain.account(SELLER), is_signer=False, is_writable=True),
        AccountMeta(authority.pubkey(), is_signer=True, is_writable=False),
    ]
    data = bytes([12]) + amount_raw.to_bytes(8, "little") + bytes([6])
    steps = [Instruction(TOKEN, data, accounts), Instruction(MEMO, note.encode(), [])]
    return signed(chain, steps, authority)


def signed(chain: Chain, steps: list[Instruction], signer: Keypair = PAYER) -> bytes:
    recent = Hash(chain.blockhash)
    message = MessageV0.try_compile(PAYER.pubkey(), steps, [], recent)
    keys = {each.pubkey(): each for each in (PAYER, signer)}
    needed = message.account_keys[: message.header.num_required_signatures]
    wire = bytes(to_bytes_versioned(message))
    signatures = [keys[each].sign_message(wire) for each in needed]
    return bytes(VersionedTransaction.populate(message, signatures))


def submitted(chain: Chain, wire: bytes) -> Submission:
    submission = parse(wire)
    chain.market.submit(submission)
    return submission


def test_a_transfer_lands_as_it_was_signed_and_moves_what_it_says(chain: Chain) -> None:
    had_raw = chain.balance(SELLER)
    submission = submitted(chain, transfer(chain, 400, note="lunch"))
    landed = chain.landed(submission.signatures[0])
    assert not landed.failed
    assert chain.balance(SELLER) == had_raw + 400
    info = SubscribeUpdateTransactionInfo.FromString(landed.info)
    message = info.transaction.message
    assert tuple(message.account_keys) == submission.keys
    assert message.recent_blockhash == submission.recent_blockhash
    assert [each.data for each in message.instructions] == [
        data for _, _, data in submission.instructions
    ]
    assert 'Program log: Memo (len 5): "lunch"' in info.meta.log_messages
    owners = {each.owner for each in info.meta.post_token_balances}
    assert owners == {base58.encode(bytes(PAYER.pubkey())), base58.encode(SELLER)}
    assert landed.writes


def test_a_payment_is_a_change_of_balances_on_the_tape_and_no_trade(chain: Chain) -> None:
    """Both lanes have it: balances with the transaction, and the accounts that holdings are of."""
    seller, had_raw = base58.encode(SELLER), chain.balance(SELLER)
    landed = chain.landed(submitted(chain, transfer(chain, 400)).signatures[0])
    found = decode_update(SubscribeUpdateTransactionInfo.FromString(landed.info), 1, 2)
    assert (found.events, found.movements, found.undecoded) == ([], [], [])
    usdc = [each for each in found.balances if each.mint == USDC]
    assert [each.amount_raw for each in usdc if each.owner == seller] == [had_raw + 400]
    assert {each.owner for each in usdc} == {seller, base58.encode(bytes(PAYER.pubkey()))}
    [account] = [each for each in landed.writes if each.address == bytes(chain.account(SELLER))]
    assert int.from_bytes(account.data[64:72], "little") == had_raw + 400


def test_it_lands_once(chain: Chain) -> None:
    wire = transfer(chain, 400)
    submission = submitted(chain, wire)
    with pytest.raises(Refused, match="AlreadyProcessed"):
        chain.market.submit(parse(wire))
    chain.landed(submission.signatures[0])
    with pytest.raises(Refused, match="AlreadyProcessed"):
        chain.market.submit(parse(wire))


def test_no_fork_takes_it_back() -> None:
    chain = Chain(FORKING)
    sent = 0
    before_raw = chain.balance(SELLER)
    for number in range(60):
        chain.until_block()
        with suppress(Refused):  # its hash may be that of an abandoned block
            submitted(chain, transfer(chain, 1, note=str(number)))
            sent += 1
    for _ in range(10):
        chain.until_block()
    assert sent > 20
    assert chain.balance(SELLER) == before_raw + sent


def test_a_transfer_of_more_than_there_is_fails_and_costs_the_fee(chain: Chain) -> None:
    payer = bytes(PAYER.pubkey())
    wire = transfer(chain, chain.balance(payer) + 1_000_000_000_000)
    simulated = chain.market.simulate(parse(wire))
    assert simulated.error == {"InstructionError": [0, {"Custom": 1}]}
    submission = submitted(chain, wire)
    had_raw = chain.balance(SELLER)
    assert chain.landed(submission.signatures[0]).failed
    assert chain.balance(SELLER) == had_raw


def test_a_simulation_changes_nothing(chain: Chain) -> None:
    had_raw = chain.balance(SELLER)
    lamports = dict(chain.market.world.ledger.lamports)
    found = chain.market.simulate(parse(transfer(chain, 400)))
    assert found.error is None
    assert found.units_consumed > 0
    assert chain.balance(SELLER) == had_raw
    assert chain.market.world.ledger.lamports == lamports


def test_nobody_moves_what_is_anothers(chain: Chain) -> None:
    thief = demo_wallets.keypair(demo_wallets.FEE_PAYER)
    found = chain.market.simulate(parse(transfer(chain, 400, thief)))
    assert found.error == {"InstructionError": [0, {"Custom": 4}]}


def test_a_wrong_signature_is_refused(chain: Chain) -> None:
    transaction = VersionedTransaction.from_bytes(transfer(chain, 400))
    forged = VersionedTransaction.populate(transaction.message, [Signature.default()])
    with pytest.raises(Refused, match="SignatureFailure"):
        chain.market.submit(parse(bytes(forged)))


def test_a_blockhash_expires(chain: Chain) -> None:
    wire = transfer(chain, 400)
    for _ in range(MAX_BLOCKHASH_AGE + 2):
        chain.until_block()
    with pytest.raises(Refused, match="BlockhashNotFound"):
        chain.market.submit(parse(wire))


def test_what_the_chain_does_not_run_is_refused(chain: Chain) -> None:
    other = Instruction(Pubkey.from_bytes(bytes([7]) * 32), b"", [])
    with pytest.raises(Unreadable, match="this chain runs Compute Budget"):
        chain.market.submit(parse(signed(chain, [other])))


def budget(units: int, micro_lamports: int) -> list[Instruction]:
    return [
        Instruction(BUDGET, b"\x02" + units.to_bytes(4, "little"), []),
        Instruction(BUDGET, b"\x03" + micro_lamports.to_bytes(8, "little"), []),
    ]


@pytest.mark.parametrize("micro_lamports", [2**64 - 1, 2**50])
def test_a_fee_that_the_payer_has_not_is_refused(chain: Chain, micro_lamports: int) -> None:
    wire = signed(chain, budget(2**32 - 1, micro_lamports))
    assert chain.market.simulate(parse(wire)).error == "InsufficientFundsForFee"
    with pytest.raises(Refused, match="InsufficientFundsForFee"):
        chain.market.submit(parse(wire))
    chain.until_block()


def test_a_payer_without_funds_when_its_turn_comes_pays_nothing(chain: Chain) -> None:
    ledger = chain.market.world.ledger
    payer, seller = bytes(PAYER.pubkey()), SELLER
    had = ledger.lamports[payer]
    half = [*budget(1_400_000, had * 6 // 14), lamports(had // 100)]  # 6 tenths are the fee
    wires = [signed(chain, [*half, Instruction(MEMO, note, [])]) for note in (b"a", b"b")]
    seller_had = ledger.lamports[seller]
    first, second = (submitted(chain, wire) for wire in wires)
    assert not chain.landed(first.signatures[0]).failed
    assert second.signatures[0] not in {each.signature for each in chain.until_block()}
    assert ledger.lamports[seller] == seller_had + had // 100


def lamports(amount: int, *, is_writable: bool = True) -> Instruction:
    accounts = [
        AccountMeta(PAYER.pubkey(), is_signer=True, is_writable=True),
        AccountMeta(Pubkey.from_bytes(SELLER), is_signer=False, is_writable=is_writable),
    ]
    data = (2).to_bytes(4, "little") + amount.to_bytes(8, "little")
    return Instruction(SYSTEM, data, accounts)


def test_an_account_that_is_read_only_is_not_written(chain: Chain) -> None:
    chain.market.simulate(parse(signed(chain, [lamports(1)])))
    with pytest.raises(Unreadable, match="read-only"):
        chain.market.submit(parse(signed(chain, [lamports(1, is_writable=False)])))


def test_more_instructions_than_the_runtime_takes_are_refused(chain: Chain) -> None:
    notes = [Instruction(MEMO, b"", [])] * (MAX_INSTRUCTIONS - 1)
    failing = lamports(2**64 - 1)
    most = parse(signed(chain, [*notes, failing]))
    chain.market.submit(most)
    assert chain.landed(most.signatures[0]).failed
    with pytest.raises(Unreadable, match="at most 64 instructions"):
        parse(signed(chain, [*notes, *notes, failing]))


def test_an_account_twice_is_refused(chain: Chain) -> None:
    message = MessageV0.try_compile(PAYER.pubkey(), [lamports(1)], [], Hash(chain.blockhash))
    keys = list(message.account_keys)
    twice = MessageV0(message.header, [*keys, keys[-1]], message.recent_blockhash, [], [])
    signature = PAYER.sign_message(bytes(to_bytes_versioned(twice)))
    wire = bytes(VersionedTransaction.populate(twice, [signature]))
    with pytest.raises(Refused, match="AccountLoadedTwice"):
        chain.market.submit(parse(wire))


@pytest.mark.parametrize("wire", [b"", b"\x01", bytes(200), b"\xff" * 300, bytes(MAX_BYTES + 1)])
def test_what_is_no_transaction_is_refused(wire: bytes) -> None:
    with pytest.raises(Unreadable):
        parse(wire)
