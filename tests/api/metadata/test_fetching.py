"""Fetching from strangers: nothing private is reached, and nothing costs more than it may."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import tracemalloc
import zlib
from contextlib import contextmanager

import pytest
import trustme

from api.metadata.failures import Failed
from api.metadata.resolving import SystemResolver
from tests.api.metadata.conftest import OK, PRIVATE, PUBLIC, Names, fetcher_of, serving

MOST = 1_000


def head(*lines: str) -> bytes:
    return "\r\n".join(("HTTP/1.1 200 OK", *lines, "", "")).encode()


def redirect(to: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n".encode()


@contextmanager
def at_most(most_bytes):
    """Fail where Python's memory grows by more within."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most_bytes
    finally:
        tracemalloc.stop()


async def reason(fetcher, url, most=MOST):
    with pytest.raises(Failed) as caught:
        await fetcher.get(url, most)
    return caught.value.reason


async def test_what_is_public_is_fetched_by_its_name(port):
    names = Names({"coins.example": [[PUBLIC]]})
    async with serving(OK, PUBLIC, port) as server:
        body = await fetcher_of(names, port).get(f"http://coins.example:{port}/a.json?b=1", MOST)
    assert body == b"{}"
    assert server.heads[0].startswith("GET /a.json?b=1 HTTP/1.1\r\n")
    assert f"Host: coins.example:{port}" in server.heads[0]


async def test_a_name_with_one_private_address_is_refused(port):
    names = Names({"both.example": [[PUBLIC, PRIVATE]]})
    async with serving(OK, PRIVATE, port) as private, serving(OK, PUBLIC, port) as public:
        assert await reason(fetcher_of(names, port), f"http://both.example:{port}/") == "refused"
    assert private.heads == public.heads == []


async def test_a_name_that_is_rebound_does_not_reach_the_private_server(port):
    names = Names({"moving.example": [[PUBLIC], [PRIVATE]]})
    url = f"http://moving.example:{port}/"
    async with serving(OK, PRIVATE, port) as private, serving(OK, PUBLIC, port) as public:
        fetcher = fetcher_of(names, port)
        assert await fetcher.get(url, MOST) == b"{}"
        assert names.asked == ["moving.example"]  # once for the whole request
        assert await reason(fetcher, url) == "refused"
    assert len(public.heads) == 1
    assert private.heads == []


async def test_a_redirect_to_a_name_that_is_rebound_is_checked_again(port):
    names = Names({"moving.example": [[PUBLIC], [PRIVATE]]})
    again = redirect(f"http://moving.example:{port}/again")
    async with serving(OK, PRIVATE, port) as private, serving(again, PUBLIC, port):
        assert await reason(fetcher_of(names, port), f"http://moving.example:{port}/") == "refused"
    assert private.heads == []


@pytest.mark.parametrize(
    "place",
    ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "localhost", "[::1]", "0",
     "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "127.0.0.1."],
)  # fmt: skip
async def test_no_way_to_write_loopback_reaches_it(place, port):
    async with serving(OK, PRIVATE, port) as private:
        fetcher = fetcher_of(SystemResolver(), port)
        found = await reason(fetcher, f"http://{place}:{port}/")
    assert found in ("refused", "unreachable")
    assert private.heads == []


@pytest.mark.parametrize(
    "to",
    ["http://127.0.0.1:{port}/", "//127.0.0.1:{port}/", "http://private.example:{port}/",
     "http://[::ffff:127.0.0.1]:{port}/", "http://user@127.0.0.1:{port}/", "file:///etc/passwd",
     "http://2130706433:{port}/", "gopher://public.example/", "http://public.example:22/",
     "http:\\\\127.0.0.1:{port}\\"],
)  # fmt: skip
async def test_a_redirect_to_what_is_not_public_is_refused(to, port):
    names = Names(
        {
            "public.example": [[PUBLIC]],
            "private.example": [[PRIVATE]],
            "2130706433": [[PRIVATE]],
        }
    )
    leads = redirect(to.format(port=port))
    async with serving(OK, PRIVATE, port) as private, serving(leads, PUBLIC, port):
        assert await reason(fetcher_of(names, port), f"http://public.example:{port}/") == "refused"
    assert private.heads == []


async def test_three_redirects_are_followed_and_a_fourth_is_not(port):
    names = Names({"public.example": [[PUBLIC]]})

    async def answer(_, writer):
        left = int(server.heads[-1].split()[1].removeprefix("/"))
        writer.write(redirect(f"/{left - 1}") if left else OK)
        await writer.drain()

    async with serving(answer, PUBLIC, port) as server:
        fetcher = fetcher_of(names, port)
        assert await fetcher.get(f"http://public.example:{port}/3", MOST) == b"{}"
        assert await reason(fetcher, f"http://public.example:{port}/4") == "redirects"


async def test_the_trusted_origin_is_exempt_and_nothing_beside_it(port):
    names = Names({"other.example": [[PRIVATE]], "public.example": [[PUBLIC]]})
    trusted = f"http://127.0.0.1:{port}"
    async with serving(OK, PRIVATE, port) as private:
        fetcher = fetcher_of(names, port, trusted=trusted)
        assert await fetcher.get(f"{trusted}/a.json", MOST) == b"{}"
        for other in (
            f"https://127.0.0.1:{port}/",
            "http://127.0.0.1/",
            f"http://127.0.0.1:{port + 1}/",
            f"http://other.example:{port}/",
            f"http://127.0.0.1.:{port}/",
            f"http://user:password@127.0.0.1:{port}/",
            f"http://127.0.0.1:{port}@other.example:{port}/",
        ):
            names.answers.setdefault("127.0.0.1.", [[PRIVATE]])
            assert await reason(fetcher, other) == "refused", other
        assert len(private.heads) == 1
        async with serving(redirect(f"{trusted}/b.json"), PUBLIC, port):
            assert await fetcher.get(f"http://public.example:{port}/", MOST) == b"{}"
        assert private.heads[1].startswith("GET /b.json ")


async def test_the_trusted_origin_cannot_lead_to_other_private_places(port):
    names = Names({"other.example": [[PRIVATE]]})
    trusted = f"http://127.0.0.1:{port}"
    leads = redirect(f"http://other.example:{port}/")
    async with serving(leads, PRIVATE, port) as private:
        assert await reason(fetcher_of(names, port, trusted=trusted), trusted) == "refused"
    assert len(private.heads) == 1


@pytest.mark.parametrize(
    "answer",
    [
        head(f"content-length: {MOST + 1}") + bytes(MOST + 1),
        head("connection: close") + bytes(50 * MOST),
        head("transfer-encoding: chunked") + b"ffff\r\n" + bytes(0xFFFF) + b"\r\n0\r\n\r\n",
    ],
    ids=["announced", "unannounced", "chunked"],
)
async def test_what_is_too_large_is_cut_off(answer, port):
    names = Names({"large.example": [[PUBLIC]]})
    async with serving(answer, PUBLIC, port):
        url = f"http://large.example:{port}/"
        assert await reason(fetcher_of(names, port), url) == "too_large"


@pytest.mark.parametrize(("coding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_a_bomb_is_not_unpacked(coding, pack, port):
    names = Names({"bomb.example": [[PUBLIC]]})
    bomb = pack(bytes(50 << 20))
    assert len(bomb) < 1 << 20
    async with serving(
        head(f"content-encoding: {coding}", "connection: close") + bomb, PUBLIC, port
    ):
        with at_most(8 << 20):
            url = f"http://bomb.example:{port}/"
            assert await reason(fetcher_of(names, port), url, 1 << 20) == "too_large"


async def test_what_fits_is_taken_compressed_as_well(port):
    names = Names({"small.example": [[PUBLIC]]})
    packed = gzip.compress(b"x" * MOST)
    answer = head("content-encoding: gzip", f"content-length: {len(packed)}") + packed
    async with serving(answer, PUBLIC, port):
        url = f"http://small.example:{port}/"
        assert await fetcher_of(names, port).get(url, MOST) == b"x" * MOST
        assert await reason(fetcher_of(names, port), url, MOST - 1) == "too_large"


@pytest.mark.parametrize(
    "answer",
    [
        head("content-encoding: br", "content-length: 2") + b"{}",
        head("content-encoding: gzip", "content-length: 2") + b"{}",
        head("content-encoding: gzip", "connection: close")
        + gzip.compress(b"x" * 900, mtime=0)[:-9],
    ],
)
async def test_another_encoding_than_asked_for_is_refused(answer, port):
    names = Names({"odd.example": [[PUBLIC]]})
    async with serving(answer, PUBLIC, port):
        assert await reason(fetcher_of(names, port), f"http://odd.example:{port}/") == (
            "bad_encoding"
        )


async def drips(_, writer):
    writer.write(head("connection: close"))
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.01)


async def drips_headers(_, writer):
    writer.write(b"HTTP/1.1 200 OK\r\nx: ")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.01)


async def says_nothing(reader, _):
    await reader.read()


@pytest.mark.parametrize("handler", [drips, drips_headers, says_nothing])
async def test_a_slow_host_ends_after_the_whole_time(handler, port):
    names = Names({"slow.example": [[PUBLIC]]})
    began = asyncio.get_running_loop().time()
    async with serving(handler, PUBLIC, port):
        fetcher = fetcher_of(names, port, total_s=0.5)
        assert await reason(fetcher, f"http://slow.example:{port}/", 1 << 20) == "timeout"
    assert asyncio.get_running_loop().time() - began < 30


async def pours_headers(_, writer):
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        writer.write(b"a: " + b"x" * 8_000 + b"\r\n")
        await writer.drain()


async def pours_a_header(_, writer):
    writer.write(b"HTTP/1.1 200 OK\r\na: ")
    while True:
        writer.write(b"x" * 8_000)
        await writer.drain()


async def pours_interim_answers(_, writer):
    while True:
        writer.write(b"HTTP/1.1 103 Early Hints\r\na: " + b"x" * 1_000 + b"\r\n\r\n")
        await writer.drain()


async def pours_chunk_extensions(_, writer):
    writer.write(head("transfer-encoding: chunked") + b"1;a=")
    while True:
        writer.write(b"x" * 8_000)
        await writer.drain()


async def pours_trailers(_, writer):
    writer.write(head("transfer-encoding: chunked") + b"0\r\n")
    while True:
        writer.write(b"a: " + b"x" * 8_000 + b"\r\n")
        await writer.drain()


@pytest.mark.parametrize(
    "handler",
    [pours_headers, pours_a_header, pours_interim_answers, pours_chunk_extensions, pours_trailers],
)
async def test_what_is_poured_around_the_body_takes_no_memory(handler, port):
    names = Names({"pouring.example": [[PUBLIC]]})
    async with serving(handler, PUBLIC, port):
        fetcher = fetcher_of(names, port, total_s=1.0)
        with at_most(8 << 20):
            found = await reason(fetcher, f"http://pouring.example:{port}/")
    assert found in ("unreachable", "timeout", "too_large")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "http_error"),
        (b"HTTP/1.1 206 Partial Content\r\ncontent-length: 0\r\n\r\n", "http_error"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "unreachable"),
        (b"", "unreachable"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\ncut", "unreachable"),
        (b"HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n", "http_error"),
    ],
)
async def test_what_is_no_answer_is_named(answer, expected, port):
    names = Names({"odd.example": [[PUBLIC]]})
    async with serving(answer, PUBLIC, port):
        assert await reason(fetcher_of(names, port), f"http://odd.example:{port}/") == expected


async def test_nobody_listening_is_named(port):
    names = Names({"away.example": [[PUBLIC]], "many.example": [[PUBLIC] * 40]})
    assert await reason(fetcher_of(names, port), f"http://away.example:{port}/") == "unreachable"


async def test_tls_is_asked_for_the_name_and_wants_its_certificate(port, monkeypatch):
    authority, other = trustme.CA(), trustme.CA()
    named = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = lambda _, name, __: named.append(name)
    authority.issue_cert("coins.example").configure_cert(context)

    async def answer(_, writer):
        writer.write(OK)
        await writer.drain()
        writer.close()

    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    strange = ssl.create_default_context()
    other.configure_trust(strange)
    names = Names({name: [[PUBLIC]] for name in ("coins.example", "others.example")})
    listener = await asyncio.start_server(answer, PUBLIC, port, ssl=context)
    async with listener:
        for known, name, is_taken in (
            (trusting, "coins.example", True),
            (trusting, "others.example", False),
            (strange, "coins.example", False),
        ):
            # private `_SSL_CONTEXT_VERIFIED`: aiohttp takes no other place for a test's authority.
            monkeypatch.setattr("aiohttp.connector._SSL_CONTEXT_VERIFIED", known)
            asked = fetcher_of(names, port).get(f"https://{name}:{port}/", MOST)
            if is_taken:
                assert await asked == b"{}"
            else:
                with pytest.raises(Failed):
                    await asked
    assert named == ["coins.example", "others.example", "coins.example"]


async def test_a_host_is_asked_by_two_at_once_at_most(port):
    names = Names({"busy.example": [[PUBLIC]]})
    running = most = 0

    async def answer(_, writer):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.3)
        running -= 1
        writer.write(OK)
        await writer.drain()

    async with serving(answer, PUBLIC, port):
        fetcher = fetcher_of(names, port)
        url = f"http://busy.example:{port}/"
        await asyncio.gather(*(fetcher.get(url, MOST) for _ in range(6)))
    assert most == 2
