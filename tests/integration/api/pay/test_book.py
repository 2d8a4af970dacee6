"""Paid answers in a real Valkey: small, bounded in total, and there for their payer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from redis.exceptions import ResponseError

from api.access import register
from api.http.compression import compress
from api.pay.book import Answer, Book, Claim
from api.pay.chain import Sight
from api.pay.room import FULL_S, SHARE, NoRoom, Room
from infra.redis.asks import Pipelined
from infra.settings import Settings
from schemas.redis_keys import PAYMENT, PAYMENT_ENDS, PAYMENT_SIZES
from tests.support.systems import running_valkey

LARGE = Answer(200, ((b"content-type", b"application/json"),), b'{"mint":"So11"}' * 40_000)
PLENTY = 1 << 30
TEN_MINUTES_MS = 600_000
NAMES = (PAYMENT_SIZES.make(), PAYMENT_ENDS.make())


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_valkey(tmp_path_factory.mktemp("payments")) as port:
        yield f"redis://127.0.0.1:{port}/0"


@pytest.fixture
async def redis(url: str) -> AsyncIterator[Pipelined]:
    connection = register.connect(Settings(_env_file=None, redis_url=url))
    await connection.ask([("FLUSHALL",)])
    yield connection
    await connection.aclose()


async def claimed(book: Book, payment: str) -> Claim:
    found = await book.claim(payment, "request")
    assert isinstance(found, Claim)
    return found


async def kept_bytes(redis: Pipelined) -> int:
    [all_] = await redis.ask([("HGET", PAYMENT_SIZES.make(), "")])
    return int(all_ or 0)


async def test_a_stored_answer_is_small_and_comes_back_whole(redis: Pipelined) -> None:
    book = Book(redis, PLENTY)
    first = await claimed(book, "a")
    await first.store(LARGE, "GET /x")
    [size] = await redis.ask([("HSTRLEN", PAYMENT.make(id="a"), "answer")])
    assert size < len(LARGE.body) / 10
    await first.leave()
    again = await claimed(book, "a")
    assert (again.state, again.answer) == ("stored", LARGE)


async def test_a_sight_is_kept_with_the_payment(redis: Pipelined) -> None:
    book = Book(redis, PLENTY)
    claim = await claimed(book, "a")
    await claim.see(Sight(7, is_known=False))
    await claim.store(LARGE, "GET /x")
    await claim.see(None)
    await claim.leave()
    again = await claimed(book, "a")
    assert again.sight == Sight(7, is_known=False)


async def test_an_answer_that_an_earlier_version_stored_comes_back(redis: Pipelined) -> None:
    name = PAYMENT.make(id="a")
    old = b'[200,[["content-type","application/json"]]]\n{}'
    fields = {"request": "request", "state": "stored", "lease_until_ms": 0, "answer": old}
    await redis.ask([("HSET", name, *(part for pair in fields.items() for part in pair))])
    assert (await claimed(Book(redis, PLENTY), "a")).answer == Answer(
        200, ((b"content-type", b"application/json"),), b"{}"
    )


async def test_all_answers_together_are_bounded_and_none_is_given_up(redis: Pipelined) -> None:
    size = len(await LARGE.pack())
    books = [Book(redis, 3 * (size + 512)) for _ in range(2)]  # as many processes
    claims = [await claimed(books[number % 2], str(number)) for number in range(4)]
    for each in claims[:3]:
        await each.store(LARGE, "GET /x")
    with pytest.raises(NoRoom):
        await claims[3].store(LARGE, "GET /x")
    with pytest.raises(NoRoom):  # at once, without the work of an answer
        books[1].room.check()
    await claims[3].drop()
    assert await kept_bytes(redis) == 3 * (size + 512)
    for number, each in enumerate(claims[:3]):
        await each.settle({"success": True})
        await each.leave()
        assert (await claimed(books[1], str(number))).answer == LARGE
    await (await claimed_after(books[0], redis, "0")).deliver()  # there is room again
    await (await claimed(books[0], "4")).store(LARGE, "GET /x")


async def test_one_caller_has_a_share_of_the_room_and_shuts_nobody_out(redis: Pipelined) -> None:
    size = len(await LARGE.pack()) + 512
    book = Book(redis, SHARE * (2 * size) + size - 1)  # two answers of each
    mine = [await claimed(book, str(number)) for number in range(3)]
    for each in mine[:2]:
        await each.store(LARGE, "GET /x", "203.0.113.9")
    with pytest.raises(NoRoom):
        await mine[2].store(LARGE, "GET /x", "203.0.113.9")
    book.room.check()  # there is room for others
    await (await claimed(book, "other")).store(LARGE, "GET /x", "203.0.113.10")
    await mine[0].settle({})
    await mine[0].deliver()
    await mine[2].store(LARGE, "GET /x", "203.0.113.9")
    for each in mine[1:]:
        await each.drop()
    fields = dict((await redis.ask([("HGETALL", PAYMENT_SIZES.make())]))[0])
    assert (len(fields), int(fields[b""])) == (3, size)  # the other's, their sum, and of all
    tiny = Book(redis, 2 * size + 1)
    await mine[0].leave()
    await (await claimed(tiny, "first")).store(LARGE, "GET /x", "203.0.113.9")  # whatever its size


async def claimed_after(book: Book, redis: Pipelined, payment: str) -> Claim:
    """Take a payment whose owner is gone."""
    await redis.ask([("HSET", PAYMENT.make(id=payment), "lease_until_ms", 0)])
    return await claimed(book, payment)


async def test_room_is_given_back_whatever_became_of_an_answer(redis: Pipelined) -> None:
    book = Book(redis, PLENTY)
    dropped, delivered, over = [await claimed(book, name) for name in ("a", "b", "c")]
    for each in (dropped, delivered, over):
        await each.store(LARGE, "GET /x")
    taken = await kept_bytes(redis)
    await dropped.drop()
    assert await kept_bytes(redis) * 3 == taken * 2
    await delivered.settle({})
    await delivered.deliver()
    await redis.ask([("ZADD", PAYMENT_ENDS.make(), 1, "c")])  # its time is over
    last = await claimed(book, "d")
    await last.store(LARGE, "GET /x")
    assert await kept_bytes(redis) * 3 == taken
    await last.drop()
    assert await kept_bytes(redis) == 0
    assert all(each > 0 for each in await redis.ask([("PTTL", name) for name in NAMES[:1]]))


async def test_a_settled_answer_is_kept_for_ten_minutes(redis: Pipelined) -> None:
    claim = await claimed(Book(redis, PLENTY), "a")
    await claim.store(LARGE, "GET /x")
    began_ms = await register.now_ms(redis)
    await claim.settle({})
    await claim.renew()
    await claim.leave()
    ended_ms = await register.now_ms(redis)
    [payment_ms, room_ms] = await redis.ask(
        [("PEXPIRETIME", PAYMENT.make(id="a")), ("ZSCORE", PAYMENT_ENDS.make(), "a")]
    )
    for ends_ms in (payment_ms, room_ms):
        assert began_ms + TEN_MINUTES_MS <= ends_ms <= ended_ms + TEN_MINUTES_MS


async def test_what_is_paid_for_can_be_had_from_a_full_redis(redis: Pipelined) -> None:
    book = Book(redis, PLENTY)
    claim, other = await claimed(book, "a"), await claimed(book, "b")
    await claim.store(LARGE, "GET /x")
    await claim.leave()
    await redis.ask([("CONFIG", "SET", "maxmemory", 1)])
    try:
        with pytest.raises(ResponseError, match="OOM"):
            await other.store(LARGE, "GET /x")
        with pytest.raises(ResponseError, match="OOM"):
            await book.claim("new", "request")
        again = await claimed(book, "a")
        assert again.answer == LARGE
        await again.settle({"success": True})
        await again.leave()
        last = await claimed(book, "a")
        assert (last.state, last.answer, last.settlement) == ("settled", LARGE, {"success": True})
        await last.deliver()
        assert await book.claim("a", "request") == "delivered"
    finally:
        await redis.ask([("CONFIG", "SET", "maxmemory", 0)])


async def test_a_process_asks_again_for_room_after_a_moment(redis: Pipelined) -> None:
    now_s = 0.0
    room = Room(redis, 1_000, lambda: now_s)
    await room.take("a", 400, 60)
    with pytest.raises(NoRoom):
        await room.take("b", 400, 60)
    with pytest.raises(NoRoom):
        room.check()
    now_s += FULL_S
    room.check()
    await room.leave("a")
    await room.take("b", len(await compress(b"{}")), 60)
