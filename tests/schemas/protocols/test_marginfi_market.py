"""What the reading says of the simulated market's lenders is what its ledger says."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from hypothesis import given
from hypothesis import strategies as st

from infra.chain.market import Knobs, Market
from infra.chain.market.runtime import accounts
from infra.chain.market.runtime import marginfi_program as program
from infra.chain.market.runtime.execution import Execution, Intent
from infra.chain.market.runtime.marginfi import Bank, LendingAccount, health
from infra.chain.market.runtime.marginfi_program import Holder
from schemas.protocols.contract import Account, Asset, Held, Position, Role, World
from schemas.protocols.marginfi import PROTOCOL
from schemas.protocols.registry import kind_of

KNOBS = Knobs(seed=9, rate=100, wallets=200, forks=0.1, failed=0.1)


@lru_cache(maxsize=1)
def lent_market() -> Market:
    market = Market(KNOBS)
    for _ in market.generate(300):
        pass
    return market


def stored(market: Market, address: bytes) -> Account | None:
    found = accounts.account(market.world.ledger, address)
    if found is None or (kind := kind_of(address, found.owner, found.data)) is None:
        return None
    return Account(address, kind, found.lamports, found.data, 1)


def positions(market: Market, wallet: bytes, time_s: int) -> list[Position]:
    natives = market.world.ledger.natives
    own = [
        account
        for at, each in natives.items()
        if isinstance(each, LendingAccount) and (account := stored(market, at)) is not None
    ]
    assert PROTOCOL.read is not None
    reading = PROTOCOL.read(Held(wallet, own), World(1, time_s, 0))
    try:
        wanted = next(reading)
        while True:
            found = {at: account for at in wanted if (account := stored(market, at)) is not None}
            wanted = reading.send(found)
    except StopIteration as end:
        result: list[Position] = end.value
        return result


def at_once(market: Market, past_s: int) -> tuple[int, dict[bytes, Bank]]:
    banks = {at: each for at, each in market.world.ledger.natives.items() if isinstance(each, Bank)}
    now_s = max(each.updated_s for each in banks.values()) + past_s
    return now_s, {at: each.accrued(now_s, each.price) for at, each in banks.items()}


@given(past_s=st.integers(0, 10_000_000))
def test_amounts_and_health_are_the_ledgers_with_interest_until_now(past_s: int) -> None:
    market = lent_market()
    now_s, banks = at_once(market, past_s)
    supplied, borrowed = dict.fromkeys(banks, 0), dict.fromkeys(banks, 0)
    by_mint = {bank.mint: at for at, bank in banks.items()}
    seen = 0
    for at, account in market.world.ledger.natives.items():
        if not isinstance(account, LendingAccount):
            continue
        found = {each.account.address: each for each in positions(market, account.authority, now_s)}
        if at not in found:
            assert account.balances == ()
            continue
        position = found[at]
        assert position.missing == []
        assert position.unsupported_fields == []
        lines = {(each.role, by_mint[each.mint]): each.amount_raw for each in position.assets}
        wanted = {}
        for balance in account.balances:
            bank = banks[balance.bank]
            if amount := bank.deposited(balance.assets):
                wanted[Role.SUPPLY, balance.bank] = amount
                supplied[balance.bank] += amount
            if amount := bank.owed(balance.debts):
                wanted[Role.BORROW, balance.bank] = amount
                borrowed[balance.bank] += amount
        assert lines == wanted
        seen += len(lines)
        assert position.health is not None
        if any(each.debts for each in account.balances):
            assert position.health.health_factor is not None
            secured, owed = health(account, banks, initial=False)
            # The program takes collateral and debts at the bad ends of the oracle's band.
            ratio = Fraction(secured, owed) * Fraction(999, 1001)
            assert abs(position.health.health_factor / ratio - 1) < Fraction(1, 10**8)
    assert seen > 8
    for at, bank in banks.items():
        holders = sum(
            isinstance(each, LendingAccount) for each in market.world.ledger.natives.values()
        )
        assert bank.deposited(bank.assets) - holders <= supplied[at] <= bank.deposited(bank.assets)
        assert bank.owed(bank.debts) <= borrowed[at] <= bank.owed(bank.debts) + holders


@given(share=st.integers(1, 999))
def test_a_deposit_changes_what_a_wallet_has_by_less_than_a_unit_of_each_token(share: int) -> None:
    market = lent_market()
    lender = market.world.lender
    ledger = market.world.ledger
    prices = {}
    for lent in lender.banks:
        bank = ledger.natives[lent.address]
        assert isinstance(bank, Bank)
        prices[lent.address] = bank.price
    at, account = next(
        (at, each)
        for at, each in ledger.natives.items()
        if isinstance(each, LendingAccount) and at != lender.keeping.account
    )
    wallet = account.authority
    lent = next(each for each in lender.banks if not account.of(each.address).debts)
    amount = ledger.held(wallet, lent.mint) * share // 1_000
    now_s, _ = at_once(market, 0)

    def worth() -> int:
        lines: list[Asset] = [
            asset
            for each in positions(market, wallet, now_s)
            for asset in each.assets
            if asset.mint == lent.mint.address
        ]
        signs = {Role.SUPPLY: 1, Role.BORROW: -1}
        deposited = sum((each.amount_raw or 0) * signs.get(each.role, 0) for each in lines)
        return ledger.held(wallet, lent.mint) + deposited

    before = worth()
    intent = Intent(
        1,
        lender.keeper.address,
        [lambda tx: program.deposit(tx, Holder(at, wallet), lent, amount, prices)],
        bytes(32),
    )
    tx = Execution(ledger, intent, 1, now_s)
    tx.run()
    assert tx.err_code is None
    after = worth()
    tx.changes.take_back(ledger)
    assert before - 1 <= after <= before
