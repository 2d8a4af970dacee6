"""What a transaction did to balances: cases by hand, the recorded mainnet, the market's ledger."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Iterable
from struct import pack
from typing import Any

import orjson
import pytest

from infra.chain.market import Knobs, Market, Truth
from infra.chain.source import SlotCompleted, SlotTransactions
from pipeline.decoders import orca_wavebreak as wavebreak
from pipeline.decoders import pump_fun, virtuals
from pipeline.decoding.reading import Decoded, Reason, decode_update
from pipeline.solana.transaction import Transaction
from schemas.events import Movement, Side, Swap
from schemas.money import MONEY, USDC, WSOL
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from schemas.solana.addresses import key, text
from tests.support.decoding import builder

CPMM = "CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C"
SWAP = bytes.fromhex("8fbe5adac41e33de")
JUPITER = "JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4"
ROUTE = bytes.fromhex("e517cb977ae3ad2a")
STAKE_POOL = "SPoo1Ku8WFXoNDMHPsrGSTSG1Y47rzgn41SLUNakuHy"
STAKE_PROGRAM = "Stake11111111111111111111111111111111111111"
Holding = tuple[str, str]  # owner, mint


def buy(tx: Any, *, to: str = "coins", checked: bool = False, paid: int = 100) -> Any:
    """Buy 5000 coins from a pool for USDC; accounts must be there."""
    names = ["trader", "auth", "x", "pool", "dollars", to, "vault in", "vault out", *["x"] * 5]
    call = tx.call(CPMM, names, SWAP + bytes(16))
    tx.transfer(call, "dollars", "vault in", "trader", paid)
    tx.transfer(call, "vault out", to, "auth", 5_000, checked=checked)
    return call


@pytest.fixture
def tx() -> Any:
    """A trader with dollars, and a pool with coins."""
    tx = builder.TransactionBuilder("trader")
    tx.token("dollars", USDC, "trader", 1_000)
    tx.token("coins", "coin", "trader", 30)
    tx.token("vault in", USDC, "auth", 10**6)
    tx.token("vault out", "coin", "auth", 10**6)
    return tx


def moved(decoded: Decoded) -> dict[Holding, tuple[int, int, int]]:
    """Received, sent and burned by wallet and mint."""
    return {
        (each.wallet, each.mint): (each.received_raw, each.sent_raw, each.burned_raw)
        for each in decoded.movements
    }


def test_balances_of_a_swap(tx: Any) -> None:
    buy(tx)
    tx.gain("trader", -5_000)
    decoded = decode_update(tx.info(), 1, 2)
    amounts = {
        (text(each.account), each.owner, each.mint, each.amount_raw, each.is_vault)
        for each in decoded.balances
    }
    address = builder.address
    assert amounts == {
        (address("dollars"), address("trader"), USDC, 900, False),
        (address("coins"), address("trader"), address("coin"), 5_030, False),
        (address("vault out"), address("auth"), address("coin"), 10**6 - 5_000, True),
        (address("trader"), address("trader"), WSOL, 10**12 - 5_000, False),
    }
    assert {each.decimals for each in decoded.balances} == {6, 9}
    assert decoded.movements == []


def test_what_is_handed_on_was_sent_and_received(tx: Any) -> None:
    buy(tx)
    tx.token("friend's", "coin", "friend")
    tx.transfer(None, "coins", "friend's", "trader", 4_000)
    decoded = decode_update(tx.info(), 1, 2)
    assert decoded.movements == [
        Movement(decoded.signature, 0, builder.address(owner), builder.address("coin"), 6, *raw, 0)
        for owner, raw in (("trader", (0, 4_000)), ("friend", (4_000, 0)))
    ]


@pytest.mark.parametrize("checked", [False, True])
def test_a_burn_is_no_transfer(tx: Any, checked: bool) -> None:
    buy(tx)
    tx.call(
        builder.TOKEN,
        "coins coin trader",
        pack("<BQB", 15, 70, 6) if checked else pack("<BQ", 8, 70),
    )
    tx.tokens[builder.address("coins")].post_raw -= 70
    tx.token("other", "coin", "trader", 9)
    tx.transfer(None, "other", "coins", "trader", 9)  # within the wallet: nothing
    decoded = decode_update(tx.info(), 1, 2)
    assert moved(decoded) == {(builder.address("trader"), builder.address("coin")): (0, 0, 70)}


def test_a_burn_is_found_among_what_looks_like_one(tx: Any) -> None:
    """Another program's data, a burn of money, and one of a vault come first."""
    burn = pack("<BQ", 8, 7)
    buy(tx)
    tx.call("another program", "coins coin trader", burn)
    for account, mint, owner in (
        ("dollars", USDC, "trader"),
        ("vault out", "coin", "auth"),
        ("coins", "coin", "trader"),
    ):
        tx.call(builder.TOKEN, [account, mint, owner], burn)
        tx.tokens[builder.address(account)].post_raw -= 7
    decoded = decode_update(tx.info(), 1, 2)
    assert moved(decoded) == {(builder.address("trader"), builder.address("coin")): (0, 0, 7)}


def test_the_most_that_an_account_can_hold(tx: Any) -> None:
    tx.token("whale's", "coin", "whale", 2**64 - 3)
    tx.transfer(None, "coins", "whale's", "trader", 2)
    decoded = decode_update(tx.info(), 1, 2)
    assert not decoded.undecoded
    assert 2**64 - 1 in {each.amount_raw for each in decoded.balances}


def test_a_worthless_mint_that_overflows_hides_nothing_else(tx: Any) -> None:
    """Its issuer mints and burns all there can be, twice, beside a purchase that is handed on."""
    tx.token("friend's", "coin", "friend")
    tx.token("junk", "junk coin", "trader")
    buy(tx)
    tx.transfer(None, "coins", "friend's", "trader", 4_000)
    issuer = tx.call("a program", "", b"")
    for _ in range(2):
        tx.mint_to(issuer, "junk coin", "junk", 2**64 - 1)
        tx.burn(None, "junk coin", "junk", "issuer", 2**64 - 1)
    decoded = decode_update(tx.info(), 1, 2)
    coin = builder.address("coin")
    assert moved(decoded) == {
        (builder.address("trader"), coin): (0, 4_000, 0),
        (builder.address("friend"), coin): (4_000, 0, 0),
    }
    assert {text(each.account) for each in decoded.balances} >= {
        builder.address(name) for name in ("coins", "friend's", "dollars", "vault out")
    }
    (undecoded,) = decoded.undecoded
    assert undecoded.reason is Reason.MALFORMED
    assert builder.address("junk coin") in undecoded.detail


@pytest.mark.parametrize("how", ["handed over", "opened again", "of another mint"])
def test_a_burn_is_that_of_the_owner_at_that_time(tx: Any, how: str) -> None:
    """Somebody burns what they have, then make a wallet the owner of the account."""
    tx.token("given", "coin" if how != "of another mint" else "other coin", "trader", 0)
    tx.token("given before", "coin", "giver", 40)
    tx.burn(None, "coin", "given before", "giver", 40)
    trader = key(builder.address("trader"))
    if how == "handed over":
        tx.call(builder.TOKEN, "given giver", b"\x06\x02\x01" + trader)
    else:
        mint = tx.tokens[builder.address("given")].mint
        tx.call(builder.TOKEN, "given giver giver", b"\x09")
        tx.call(builder.TOKEN, ["given", mint], b"\x12" + trader)
    info = as_one_account(tx, "given before", "given")
    decoded = decode_update(info, 1, 2)
    assert not decoded.undecoded
    coin, giver = builder.address("coin"), builder.address("giver")
    assert moved(decoded) == {(giver, coin): (0, 0, 40)}


@pytest.mark.parametrize("heights", [True, False])
def test_what_a_program_burns_is_sent_to_it(tx: Any, heights: bool) -> None:
    """A stake pool gives a stake account for its token: that is no sale for nothing."""
    tx.token("manager", "coin", "manager")
    pool = tx.call(STAKE_POOL, "stake-pool x x stake coins manager", bytes([10]) + bytes(8))
    tx.call(STAKE_PROGRAM, "stake new-stake", b"\x03" + bytes(11), under=pool)
    tx.burn(pool, "coin", "coins", "trader", 25)
    tx.transfer(pool, "coins", "manager", "trader", 1)
    decoded = decode_update(tx.info(heights=heights), 1, 2)
    coin, trader, manager = map(builder.address, ("coin", "trader", "manager"))
    assert (decoded.events, decoded.undecoded) == ([], [])
    assert moved(decoded) == {(trader, coin): (0, 26, 0), (manager, coin): (1, 0, 0)}


def test_burns_within_a_swap_cost_the_same_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A route's hop that burns out of the account that it sells from, in one Batch."""
    walked: list[int] = []
    subtree_end = Transaction.subtree_end

    def walk(tx: Transaction, position: int) -> int:
        walked.append(position)
        return subtree_end(tx, position)

    monkeypatch.setattr(Transaction, "subtree_end", walk)

    def walks(burns: int) -> int:
        tx = builder.TransactionBuilder("trader")
        tx.token("dollars", USDC, "trader")
        tx.token("coins", "coin", "trader", 1_000)
        tx.token("vault in", "coin", "auth")
        tx.token("vault out", USDC, "auth", 1_000)
        hop = tx.call("an amm", "x", b"", under=tx.call(JUPITER, "x trader", ROUTE))
        tx.transfer(hop, "coins", "vault in", "trader", 5)
        tx.transfer(hop, "vault out", "dollars", "auth", 7)
        tx.batch(hop, *(tx.burn(hop, "coin", "coins", "trader", 1) for _ in range(burns)))
        walked.clear()
        (swap,) = decode_update(tx.info(), 1, 2).events
        assert isinstance(swap, Swap)
        assert swap.wallet_amount_raw == 5 + burns
        return len(walked)

    assert walks(80) == walks(1)


def as_one_account(tx: Any, before: str, after: str) -> SubscribeUpdateTransactionInfo:
    """Let two accounts be one, as the transaction found and as it left it."""
    info = tx.info()
    at, index = (tx.keys.index(builder.address(name)) for name in (before, after))
    meta = info.meta
    for balances, gone in ((meta.pre_token_balances, index), (meta.post_token_balances, at)):
        balances.remove(next(each for each in balances if each.account_index == gone))
    for instruction in (
        *info.transaction.message.instructions,
        *(each for group in meta.inner_instructions for each in group.instructions),
    ):
        instruction.accounts = instruction.accounts.replace(bytes([index]), bytes([at]))
    for balance in meta.post_token_balances:
        if balance.account_index == index:
            balance.account_index = at
    return info


def test_what_a_venue_burns_of_the_seller_is_sold() -> None:
    """A curve that burns what it buys back; burning more beside it is no sale."""
    tx = builder.TransactionBuilder("trader")
    tx.token("coins", "coin", "trader", 900)
    tx.token("dollars", USDC, "trader")
    tx.token("vault", USDC, "curve", 500)
    accounts = ["trader", "curve", "coin", "coins", USDC, "vault", "dollars"]
    call = tx.call(wavebreak.PROGRAM, accounts, wavebreak.SELL_EXACT_IN + bytes(10))
    tx.call(builder.TOKEN, "coins coin trader", pack("<BQ", 8, 600), under=call)
    tx.transfer(call, "vault", "dollars", "curve", 400)
    tx.call(builder.TOKEN, "coins coin trader", pack("<BQ", 8, 100))
    tx.tokens[builder.address("coins")].post_raw -= 700
    decoded = decode_update(tx.info(), 1, 2)
    assert len(decoded.events) == 1
    assert moved(decoded) == {(builder.address("trader"), builder.address("coin")): (0, 0, 100)}


def test_a_swap_into_anothers_account_is_a_gift(tx: Any) -> None:
    tx.token("program's", "coin", "program")
    buy(tx, to="program's")
    decoded = decode_update(tx.info(), 1, 2)
    (swap,) = decoded.events
    assert isinstance(swap, Swap)
    coin = builder.address("coin")
    assert swap.wallet == builder.address("trader")
    assert moved(decoded) == {
        (builder.address("trader"), coin): (0, 5_000, 0),
        (builder.address("program"), coin): (5_000, 0, 0),
    }


def test_a_transfer_fee_is_nobodys() -> None:
    tx = builder.TransactionBuilder("trader")
    tx.mint("coin", fee_bps=100)
    tx.token("dollars", USDC, "trader", 1_000)
    tx.token("vault in", USDC, "auth", 10**6)
    for name, owner, raw in (
        ("coins", "trader", 0),
        ("vault out", "auth", 10**6),
        ("f", "friend", 0),
    ):
        tx.token(name, "coin", owner, raw, program=builder.TOKEN_2022)
    buy(tx, checked=True)
    tx.transfer(None, "coins", "f", "trader", 1_000, checked=True)
    decoded = decode_update(tx.info(), 1, 2)
    coin = builder.address("coin")
    assert moved(decoded) == {
        (builder.address("trader"), coin): (0, 1_000, 0),
        (builder.address("friend"), coin): (990, 0, 0),
    }
    held = {text(each.account): each for each in decoded.balances}
    assert held[builder.address("coins")].amount_raw == 4_950 - 1_000
    assert held[builder.address("coins")].is_token_2022
    assert not held[builder.address("dollars")].is_token_2022


def test_decimals_that_no_balance_states_are_the_swaps() -> None:
    """Coins of pump.fun have 6: bought into an account that the node recorded no balance of."""
    tx = builder.TransactionBuilder("trader")
    names = "global fees coin curve vault coins trader"
    call = tx.call(pump_fun.PROGRAM, names, pump_fun.BUY + bytes(16))
    body = pump_fun.TRADE_EVENT + key(builder.address("coin")) + pack("<QQ?", 400, 5_000, True)
    tx.cpi_event(call, body + bytes(32 + 8) + pack("<QQ", 1, 2))
    (movement,) = decode_update(tx.info(), 1, 2).movements
    assert (movement.mint, movement.decimals) == (builder.address("coin"), 6)


def test_accounts_opened_and_closed_begin_and_end_with_nothing(tx: Any) -> None:
    buy(tx)
    tx.token("new", "coin", "trader")
    tx.transfer(None, "coins", "new", "trader", 5_030)
    info = tx.info()
    keys = [*map(bytes, info.transaction.message.account_keys)]
    closed, opened = (
        keys.index(key(builder.address("coins"))),
        keys.index(key(builder.address("new"))),
    )
    for balances, gone in (
        (info.meta.pre_token_balances, opened),
        (info.meta.post_token_balances, closed),
    ):
        kept = [each for each in balances if each.account_index != gone]
        assert len(kept) == len(balances) - 1
        del balances[:]
        balances.extend(kept)
    decoded = decode_update(info, 1, 2)
    held = {text(each.account): each.amount_raw for each in decoded.balances}
    assert (held[builder.address("coins")], held[builder.address("new")]) == (0, 5_030)
    assert decoded.movements == []


@pytest.mark.parametrize("decimals", [0, 6])
def test_an_account_that_changes_hands(tx: Any, decimals: int) -> None:
    """SetAuthority moves no token, and yet the holder is another one."""
    tx.mint("coin", decimals=decimals)
    tx.token("given", "coin", "trader", 77)
    info = tx.info()
    for balance in info.meta.post_token_balances:
        if balance.ui_token_amount.amount == "77":
            balance.owner = builder.address("friend")
    decoded = decode_update(info, 1, 2)
    coin, trader, friend = map(builder.address, ("coin", "trader", "friend"))
    assert moved(decoded) == {(trader, coin): (0, 77, 0), (friend, coin): (77, 0, 0)}
    held = [each for each in decoded.balances if each.mint == coin]
    assert [(each.owner, each.amount_raw) for each in held] == [(trader, 0), (friend, 77)]
    assert {each.decimals for each in held} == {decimals}


def test_what_a_pool_itself_owns_is_a_vault(tx: Any) -> None:
    buy(tx)
    tx.token("fees", "coin", "pool")
    tx.transfer(None, "coins", "fees", "trader", 10)
    decoded = decode_update(tx.info(), 1, 2)
    coin = builder.address("coin")
    assert moved(decoded) == {(builder.address("trader"), coin): (0, 10, 0)}
    assert {text(each.account) for each in decoded.balances if each.is_vault} == {
        builder.address("fees"), builder.address("vault out"),
    }  # fmt: skip


def test_what_the_curve_of_a_migration_owns_is_a_vault() -> None:
    tx = builder.TransactionBuilder("anyone")
    tx.token("curve's", "coin", "curve", 9)
    tx.token("pool's", "coin", "new pool")
    names = [*(f"x{place}" for place in range(16)), "pool's"]
    names[0], names[8], names[11], names[12] = "curve", "new pool", USDC, "coin"
    call = tx.call(virtuals.PROGRAM, names, virtuals.CREATE_METEORA_POOL)
    tx.transfer(tx.call("vault", "x", b"deposit", under=call), "curve's", "pool's", "curve", 9)
    decoded = decode_update(tx.info(), 1, 2)
    assert decoded.movements == []
    assert {text(each.account) for each in decoded.balances if each.is_vault} == {
        builder.address("curve's"), builder.address("pool's"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("how", "is_wallet"),
    [
        ("create", False),
        ("assign", False),
        ("hold", False),
        ("wallet", True),
        ("create wallet", True),
        ("other program", True),
    ],
)
def test_a_cosigner_is_a_wallet_or_not(how: str, is_wallet: bool) -> None:
    tx = builder.TransactionBuilder("trader", "cosigner")
    program = key(builder.TOKEN)
    data = {
        "create": pack("<IQQ", 0, 1_461_600, 82) + program,
        "assign": pack("<I", 1) + program,
        "hold": pack("<IQ", 2, 1_461_600),
        "wallet": pack("<IQ", 2, 1_461_600),
        "create wallet": pack("<IQQ", 0, 1_461_600, 0) + key(builder.SYSTEM),
        "other program": pack("<IQQ", 0, 1_461_600, 82) + program,
    }[how]
    if how == "hold":
        tx.token("cosigner", "coin", "trader")
    called = "another program" if how == "other program" else builder.SYSTEM
    tx.call(called, "cosigner" if how == "assign" else "trader cosigner", data)
    tx.gain("cosigner", 1_461_600 - 10**12)
    info = tx.info()
    info.meta.pre_balances[1] = 0
    info.meta.post_balances[1] = 1_461_600
    owners = [each.owner for each in decode_update(info, 1, 2).balances]
    assert owners == [builder.address("cosigner")] * is_wallet


def test_a_failed_transaction_changed_nothing(tx: Any) -> None:
    buy(tx)
    decoded = decode_update(tx.info(failed=True), 1, 2)
    assert (decoded.balances, decoded.movements, decoded.events) == ([], [], [])


@pytest.mark.parametrize("damage", ["amount", "index", "address", "burn"])
def test_damage_is_counted(tx: Any, damage: str) -> None:
    tx.token("friend's", "coin", "friend")
    tx.transfer(None, "coins", "friend's", "trader", 10)
    if damage == "burn":
        tx.call(builder.TOKEN, "coins coin trader", b"\x08\x01")
    info = tx.info()
    balance = next(b for b in info.meta.post_token_balances if b.ui_token_amount.amount == "20")
    if damage == "amount":
        balance.ui_token_amount.amount = str(2**64)
    elif damage == "index":
        balance.account_index = 200
    elif damage == "address":
        keys = info.transaction.message.account_keys
        keys[balance.account_index] = keys[balance.account_index][:31]
    decoded = decode_update(info, 1, 2)
    assert (decoded.balances, decoded.movements) == ([], [])
    (undecoded,) = decoded.undecoded
    assert undecoded.reason is Reason.MALFORMED
    assert undecoded.detail.startswith("balances: ")
    assert undecoded.data == info.SerializeToString()


# -- the recorded mainnet, and the market ------------------------------------------------


def explained(decoded: Decoded) -> dict[Holding, int]:
    """What swaps and movements say that wallets' balances did, money apart."""
    change: defaultdict[Holding, int] = defaultdict(int)
    for event in decoded.events:
        if isinstance(event, Swap):
            sign = 1 if event.side is Side.BUY else -1
            change[event.wallet, event.mint] += sign * event.wallet_amount_raw
            change[event.wallet, event.quote_mint] -= sign * event.wallet_quote_amount_raw
    for each in decoded.movements:
        net = each.received_raw - each.sent_raw - each.burned_raw
        change[each.wallet, each.mint] += net
    return {holding: raw for holding, raw in change.items() if raw and holding[1] not in MONEY}


def recorded(info: SubscribeUpdateTransactionInfo, vaults: set[bytes]) -> dict[Holding, int]:
    """What the node says that they did."""
    keys = [
        *info.transaction.message.account_keys,
        *info.meta.loaded_writable_addresses,
        *info.meta.loaded_readonly_addresses,
    ]
    change: defaultdict[Holding, int] = defaultdict(int)
    for balances, sign in ((info.meta.pre_token_balances, -1), (info.meta.post_token_balances, 1)):
        for each in balances:
            if each.mint not in MONEY and keys[each.account_index] not in vaults:
                change[each.owner, each.mint] += sign * int(each.ui_token_amount.amount)
    return {holding: raw for holding, raw in change.items() if raw}


def test_swaps_and_movements_explain_the_recorded_mainnet(corpus: dict[str, Any]) -> None:
    seen: defaultdict[str, int] = defaultdict(int)
    for signature, (_, info) in corpus.items():
        decoded = decode_update(info, 1, 2)
        if decoded.failed:
            continue
        assert not [each for each in decoded.undecoded if each.detail.startswith("balances")]
        vaults = {each.account for each in decoded.balances if each.is_vault}
        assert explained(decoded) == recorded(info, vaults), signature
        message = info.transaction.message
        signers = list(message.account_keys[: message.header.num_required_signatures])
        for each in decoded.balances:
            if each.mint == WSOL and each.account in signers:
                assert text(each.account) == each.owner
                assert info.meta.post_balances[signers.index(each.account)] == each.amount_raw
                seen["native"] += 1
            seen["Token-2022"] += each.is_token_2022
            seen["vault"] += each.is_vault
        seen["movement"] += len(decoded.movements)
        seen["burn"] += sum(each.burned_raw > 0 for each in decoded.movements)
    assert min(seen[kind] for kind in ("native", "Token-2022", "vault", "movement")) > 5
    assert seen["burn"] == 2  # by their owners; programs burn more


@pytest.fixture(scope="module")
def market() -> tuple[list[tuple[dict[bytes, tuple[str, str, int]], list[Decoded]]], Any, Any]:
    """Slot after slot: the ledger's token accounts at its end, and the decoded transactions."""
    sink = io.BytesIO()
    market = Market(Knobs(seed=4, forks=0, skipped=0, failed=0), Truth(sink, flows=True))
    begin = holdings(market)
    slots = []
    decoded: list[Decoded] = []
    for event in market.generate(90):
        if isinstance(event, SlotTransactions):
            for transaction in event.transactions:
                if not transaction.is_vote:
                    info = SubscribeUpdateTransactionInfo.FromString(transaction.info)
                    decoded.append(decode_update(info, event.slot, 0))
        elif isinstance(event, SlotCompleted):
            slots.append((holdings(market), decoded))
            decoded = []
    return slots, begin, [orjson.loads(line) for line in sink.getvalue().splitlines()]


def holdings(market: Market) -> dict[bytes, tuple[str, str, int]]:
    """Owner, mint and amount of each token account, of other mints than money."""
    return {
        account.address: (account.owner_text, account.mint.text, account.amount_raw)
        for account in market.world.ledger.tokens.values()
        if account.mint.text not in MONEY
    }


@pytest.mark.slow  # runs the market
def test_balances_are_the_markets_after_each_slot(market: Any) -> None:
    slots, state, _ = market
    state = dict(state)
    compared = 0
    for ledger, transactions in slots:
        for decoded in transactions:
            for each in decoded.balances:
                if each.mint not in MONEY:
                    state[each.account] = (each.owner, each.mint, each.amount_raw)
                    compared += 1
        assert {account: state.get(account, (owner, mint, 0)) for account, (owner, mint, _) in
                ledger.items()} == ledger  # fmt: skip
    assert compared > 10_000


@pytest.mark.slow
def test_swaps_and_movements_add_up_to_what_wallets_hold(market: Any) -> None:
    slots, begin, _ = market
    balances = [each for _, slot in slots for decoded in slot for each in decoded.balances]
    vaults = {each.account for each in balances if each.is_vault}
    wallets = {text(each.account) for each in balances if each.mint == WSOL}
    books: defaultdict[Holding, int] = defaultdict(int, total(begin.items(), vaults))
    for _, transactions in slots:
        for decoded in transactions:
            for holding, raw in explained(decoded).items():
                books[holding] += raw
    at_the_end = total(slots[-1][0].items(), vaults)
    held = {holding: raw for holding, raw in at_the_end.items() if holding[0] in wallets}
    assert {holding: books[holding] for holding in held} == held
    assert len(held) > 500
    kinds = [each for _, slot in slots for decoded in slot for each in decoded.movements]
    assert sum(each.received_raw > 0 for each in kinds) > 50
    assert sum(each.sent_raw > 0 for each in kinds) > 50
    assert sum(each.burned_raw > 0 for each in kinds) > 5


def total(
    accounts: Iterable[tuple[bytes, tuple[str, str, int]]], vaults: set[bytes]
) -> dict[Holding, int]:
    """Sum what each owner holds of each mint."""
    held: defaultdict[Holding, int] = defaultdict(int)
    for account, (owner, mint, raw) in accounts:
        if account not in vaults:
            held[owner, mint] += raw
    return held


@pytest.mark.slow
def test_a_payers_sol_is_what_the_market_says(market: Any) -> None:
    slots, _, truth = market
    wanted = {
        row["signature"]: {account: after for account, _, after, _ in row["sol"]}
        for row in truth
        if row["kind"] == "flow"
    }
    compared = 0
    for _, transactions in slots:
        for decoded in transactions:
            native = {
                each.owner: each.amount_raw
                for each in decoded.balances
                if each.mint == WSOL and text(each.account) == each.owner
            }
            for owner, lamports in native.items():
                assert wanted[decoded.signature][owner] == lamports
            compared += len(native)
    assert compared > 5_000
