"""Wallets that were put away, over the API: as if they were here."""

from __future__ import annotations

from api.wallets import positions
from pipeline.agents.pnl.memory import Rest
from schemas.money import WSOL
from schemas.redis_keys import WALLET_TOTALS, tag_of_wallets
from schemas.solana.base58 import decode
from schemas.topics import SETTLED_BY_WALLET

HOUR_MS = 3_600_000
NOBODY = "9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin"


def played(tape, pauses):
    """Trades and balances, then hours in which one wallet alone moves."""
    made = tape(21, wallets=6, mints=8)
    slots = made.slots(60, HOUR_MS // 20)
    for number, wallet in enumerate(made.wallets[:5]):
        batch = slots[-1][SETTLED_BY_WALLET.partition(wallet)]
        batch.balances.add(
            account=decode(wallet), owner=wallet, mint=WSOL, amount_raw=10**9, decimals=9
        )
        for at, mint in enumerate(made.mints[:number]):
            account = bytes([at + 1]) * 32
            batch.balances.add(account=account, owner=wallet, mint=mint, amount_raw=7, decimals=6)
    for _ in range(pauses):
        slot = made.empty(HOUR_MS // 2)
        mover = made.wallets[5]
        batch = slot[SETTLED_BY_WALLET.partition(mover)]
        for tx_index, mint in enumerate(made.mints[:4]):
            made.trade(batch, mover, mint, tx_index)
        slots.append(slot)
    return made, slots


async def answers(ask, made):
    """What is said about each wallet, and nobody, on every path that rests on the books."""
    found = {}
    for wallet in [*made.wallets, NOBODY]:
        for path in ("", "/all-dex", "/portfolio", "/holdings", "/pnl/summary"):
            found[wallet, path] = await ask.get(f"/api/wallets/{wallet}{path}")
        for each in found[wallet, ""]["positions"]:
            for path in (f"/{each['mint']}", f"/{each['mint']}/lots"):
                found[wallet, path] = await ask.get(f"/api/wallets/{wallet}{path}")
    wallets = [*made.wallets, NOBODY]
    found["batch", ""] = await ask.post("/api/wallets/batch", {"wallets": wallets})
    return found


async def here(books):
    """The wallets whose totals Redis has."""
    names = [WALLET_TOTALS.make(tag=tag_of_wallets(partition)) for partition in range(8)]
    return {wallet for name in names for wallet in await books.redis.hkeys(name)}


async def test_wallets_at_rest_are_answered_as_if_they_were_here(
    make_books, ask, tape, monkeypatch
):
    made, slots = played(tape, 20)
    books = await make_books()
    await books.play(slots)
    wanted = await answers(ask, made)
    assert len(wanted) > 80
    made, slots = played(tape, 20)
    away = await make_books(wallets_rest=Rest(4, 2))
    for at in range(0, len(slots), 5):
        await away.play(slots[at : at + 5])
    assert await here(away) == {decode(made.wallets[5])}
    for wallet in made.wallets[:5]:
        assert not await away.redis.keys(f"*{wallet}*")
    assert await answers(ask, made) == wanted
    # Those with many positions are read by the page.
    monkeypatch.setattr(positions.with_cold, "__defaults__", (2,))
    for wallet in made.wallets[:5]:
        whole = wanted[wallet, ""]["positions"]
        assert await ask.all_pages(wallet, 3) == whole


async def test_a_wallet_that_moves_again_is_here_again(make_books, ask, tape):
    found = []
    for rest in (None, Rest(4, 2)):
        made, slots = played(tape, 16)
        books = await make_books(wallets_rest=rest)
        await books.play(slots)
        again = made.empty()
        wallet = made.wallets[0]
        made.trade(again[SETTLED_BY_WALLET.partition(wallet)], wallet, made.mints[0], 1)
        await books.play([again])
        assert decode(wallet) in await here(books)
        found.append(await answers(ask, made))
    assert found[0] == found[1]


async def test_a_wallet_that_shares_a_bit_with_one_at_rest_is_unknown(make_books, ask, tape):
    made, slots = played(tape, 20)
    books = await make_books(wallets_rest=Rest(4, 2))
    await books.play(slots)
    for partition in range(8):
        await books.redis.setrange(f"away:{tag_of_wallets(partition)}", 0, b"\xff" * (1 << 22))
    answer = await ask.get(f"/api/wallets/{NOBODY}")
    assert answer["positions"] == []
    newcomer, slot = made.wallet(2), made.empty()
    made.trade(slot[2], newcomer, made.mints[0], 1, side=1)
    await books.play([slot])
    answer = await ask.get(f"/api/wallets/{newcomer}")
    assert len(answer["positions"]) == answer["totals"]["buys"] == 1
