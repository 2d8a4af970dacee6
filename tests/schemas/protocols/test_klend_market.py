"""What the reading says of the simulated market's klend is what its ledger says."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache, partial

from hypothesis import given
from hypothesis import strategies as st

from infra.chain.market import Knobs, Market
from infra.chain.market.runtime import accounts
from infra.chain.market.runtime import klend_program as program
from infra.chain.market.runtime.execution import Execution, Intent, Step
from infra.chain.market.runtime.klend import BITS, Obligation, Reserve, ceiling
from infra.chain.market.runtime.klend_program import ALL
from schemas.protocols.contract import Account, Held, Position, Role, World
from schemas.protocols.kamino import PROTOCOL
from schemas.protocols.registry import kind_of

KNOBS = Knobs(seed=9, rate=100, wallets=200, forks=0.1, failed=0.1)
NEAR = Fraction(1, 10**9)


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


def obligations(market: Market) -> dict[bytes, Obligation]:
    natives = market.world.ledger.natives
    return {at: each for at, each in natives.items() if isinstance(each, Obligation)}


def positions(market: Market, wallet: bytes, slot: int) -> list[Position]:
    own = [account for at in obligations(market) if (account := stored(market, at)) is not None]
    assert PROTOCOL.read is not None
    reading = PROTOCOL.read(Held(wallet, own), World(slot, KNOBS.start_time_ms // 1_000, 0))
    try:
        wanted = next(reading)
        while True:
            found = {at: account for at in wanted if (account := stored(market, at)) is not None}
            wanted = reading.send(found)
    except StopIteration as end:
        result: list[Position] = end.value
        return result


def reserves_at(market: Market, past_slots: int) -> tuple[int, dict[bytes, Reserve]]:
    lender = market.world.klend
    reserves = {lent.address: lender.reserve(lent) for lent in lender.lents}
    slot = max(each.slot for each in reserves.values()) + past_slots
    return slot, {at: each.accrued(slot) for at, each in reserves.items()}


@given(past_slots=st.integers(0, 8) | st.integers(0, 50_000_000))
def test_amounts_and_health_are_the_ledgers_with_interest_until_now(past_slots: int) -> None:
    market = lent_market()
    slot, reserves = reserves_at(market, past_slots)
    supplied, borrowed = dict.fromkeys(reserves, 0), dict.fromkeys(reserves, 0)
    by_mint = {reserve.mint: at for at, reserve in reserves.items()}
    seen = debtors = 0
    for at, obligation in obligations(market).items():
        found = {
            each.account.address: each for each in positions(market, obligation.authority, slot)
        }
        if not obligation.reserves:
            assert at not in found
            continue
        position = found[at]
        assert position.missing == []
        assert position.unsupported_fields == []
        now = obligation.refreshed(reserves, slot)
        wanted = {}
        for deposit in now.deposits:
            if deposit.collateral_raw:
                amount_sf = reserves[deposit.reserve].redeemable_sf(deposit.collateral_raw)
                wanted[Role.SUPPLY, deposit.reserve] = amount_sf >> BITS
                supplied[deposit.reserve] += amount_sf >> BITS
        for borrow in now.borrows:
            if borrow.amount_sf:
                wanted[Role.BORROW, borrow.reserve] = ceiling(borrow.amount_sf)
                borrowed[borrow.reserve] += ceiling(borrow.amount_sf)
        lines = {(each.role, by_mint[each.mint]): each.amount_raw for each in position.assets}
        assert len(lines) == len(position.assets)
        assert lines == wanted
        seen += len(lines)
        health = position.health
        assert health is not None
        assert health.ltv is not None
        assert health.liquidation_ltv is not None
        # What the program stores is cut off at each step, far below a millionth of a cent.
        assert abs(health.ltv - Fraction(now.weighed_sf, now.collateral_sf)) < NEAR
        assert abs(health.liquidation_ltv - Fraction(now.limit_sf, now.collateral_sf)) < NEAR
        if now.weighed_sf:
            debtors += 1
            assert health.health_factor is not None
            ratio = Fraction(now.limit_sf, now.weighed_sf)
            assert abs(health.health_factor / ratio - 1) < NEAR
        else:
            assert health.health_factor is None
    assert seen > 8
    assert debtors > 2
    count = len(obligations(market))
    for at, reserve in reserves.items():
        total_raw = reserve.liquidity_sf >> BITS
        assert total_raw - count <= supplied[at] <= total_raw
        # Each debt is rounded up, and the reserve's own sum is cut off in other places.
        assert abs(borrowed[at] - ceiling(reserve.debt_sf)) <= count + 1


def ran(market: Market, slot: int, *steps: Step) -> Execution:
    """Return what steps on the borrower's obligation did, after all is refreshed."""
    lender = market.world.klend
    of = lender.holder(lender.borrower)
    refreshes: list[Step] = [
        partial(program.refresh_reserve, lent=lent, price_sf=lender.reserve(lent).price_sf)
        for lent in lender.lents
    ]
    every = [*refreshes, partial(program.refresh_obligation, of=of), *steps]
    intent = Intent(1, lender.keeper.address, every, bytes(32))
    tx = Execution(market.world.ledger, intent, slot, KNOBS.start_time_ms // 1_000)
    tx.run()
    assert tx.err_code is None
    return tx


@given(past_slots=st.integers(0, 1_000_000))
def test_the_sums_in_a_refreshed_obligation_are_what_the_reading_says_before(
    past_slots: int,
) -> None:
    market = lent_market()
    lender = market.world.klend
    of = lender.holder(lender.borrower)
    slot, _ = reserves_at(market, past_slots)
    found = {each.account.address: each for each in positions(market, of.authority, slot)}
    tx = ran(market, slot)
    data = obligations(market)[of.account].data()
    tx.changes.take_back(market.world.ledger)
    collateral, weighed, limit = (
        int.from_bytes(data[at : at + 16], "little") for at in (1192, 2208, 2256)
    )
    health = found[of.account].health
    assert health is not None
    assert health.health_factor is not None
    assert health.ltv is not None
    assert abs(health.health_factor * weighed / limit - 1) < NEAR
    assert abs(health.ltv - Fraction(weighed, collateral)) < NEAR


@given(
    operation=st.sampled_from(("deposit", "withdraw", "borrow", "repay", "repay all")),
    share=st.integers(1, 999),
    past_slots=st.integers(0, 1_000_000),
)
def test_an_operation_changes_what_a_wallet_has_by_no_more_than_a_unit_of_each_token(
    operation: str, share: int, past_slots: int
) -> None:
    market = lent_market()
    lender, ledger = market.world.klend, market.world.ledger
    wallet = lender.borrower
    of, (sol, usdc) = lender.holder(wallet), lender.lents
    slot, _ = reserves_at(market, past_slots)

    def worth() -> dict[bytes, int]:
        has = {each.mint.address: ledger.held(wallet.address, each.mint) for each in lender.lents}
        signs = {Role.SUPPLY: 1, Role.BORROW: -1}
        for position in positions(market, wallet.address, slot):
            for asset in position.assets:
                has[asset.mint] += (asset.amount_raw or 0) * signs[asset.role]
        return has

    deposited = obligations(market)[of.account].deposit_of(sol.address).collateral_raw
    steps: dict[str, Step] = {
        "deposit": partial(
            program.deposit,
            of=of,
            lent=sol,
            amount_raw=ledger.held(wallet.address, sol.mint) * share // 1_000,
        ),
        "withdraw": partial(
            program.withdraw, of=of, lent=sol, collateral_raw=deposited * share // 4_000
        ),
        "borrow": partial(program.borrow, of=of, lent=usdc, amount_raw=share * 1_000_003),
        "repay": partial(program.repay, of=of, lent=usdc, amount_raw=share * 1_000_003),
        "repay all": partial(program.repay, of=of, lent=usdc, amount_raw=ALL),
    }
    before = worth()
    tx = ran(market, slot, steps[operation])
    after = worth()
    tx.changes.take_back(ledger)
    assert worth() == before
    for mint, amount in before.items():
        # The reserve keeps what is rounded; a little of it is the wallet's own again.
        assert amount - 1 <= after[mint] <= amount + (operation == "withdraw")
