"""`soltape pay` where the server does not say at once what a payment bought."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner, Result

from api.pay import command
from tests.api.pay.test_payment import BLOCKHASH, FEE_PAYER, PAYER, TERMS

PATH = "/pay/api/wallets/x/holdings"
UNSETTLED = (503, {"retry-after": "0"}, b'{"detail": "It is not known yet"}')
Answer = tuple[int, dict[str, str], bytes] | None
"""None: the connection breaks."""


class Seller:
    """A node, and a server that answers payments one after the other; the last answer stays."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = [*answers]
        self.payments: list[str] = []

    def answer(self, payment: str | None) -> Answer:
        if payment is None:
            return 402, {}, TERMS.challenge(FEE_PAYER, f"http://here{PATH}", "payment required")
        self.payments.append(payment)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def serving(seller: Seller) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = seller.answer(self.headers.get("payment-signature"))
            if found is None:
                self.connection.close()
                return
            status, headers, body = found
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(orjson.dumps({"result": {"value": {"blockhash": BLOCKHASH}}}))

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def wallet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "payer.json"
    file.write_bytes(orjson.dumps(list(bytes(PAYER))))
    return file


def paying(url: str, wallet: Path, monkeypatch: pytest.MonkeyPatch) -> Result:
    monkeypatch.setenv("RPC_ENDPOINT", url)
    return CliRunner().invoke(command.pay, [url + PATH, "--wallet", str(wallet)])


def test_one_payment_is_sent_until_its_answer_comes(
    wallet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seller = Seller(None, *[UNSETTLED] * 20, (502, {}, b"bad"), (200, {}, b'{"tokens": []}'))
    with serving(seller) as url:
        done = paying(url, wallet, monkeypatch)
    assert (done.exit_code, done.stdout) == (0, '{"tokens": []}\n'), done.output
    assert (len(seller.payments), len({*seller.payments})) == (23, 1)


@pytest.mark.parametrize("answer", [UNSETTLED, None, (500, {}, b"")])
def test_a_payment_that_may_be_settled_is_printed_to_be_repeated(
    wallet: Path, monkeypatch: pytest.MonkeyPatch, answer: Answer
) -> None:
    monkeypatch.setattr(command, "PATIENT_S", 0.0)
    seller = Seller(answer)
    with serving(seller) as url:
        done = paying(url, wallet, monkeypatch)
    assert (done.exit_code, done.stdout) == (1, ""), done.output
    [payment] = seller.payments
    assert f"curl -H 'payment-signature: {payment}' {url}{PATH}\n" in done.stderr


def test_a_payment_is_printed_where_its_payer_waits_no_longer(
    wallet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    seller = Seller(UNSETTLED)
    with serving(seller) as url:
        done = paying(url, wallet, monkeypatch)
    assert done.exit_code == 1
    [payment] = seller.payments
    assert f"curl -H 'payment-signature: {payment}' {url}{PATH}\n" in done.stderr


@pytest.mark.parametrize(
    "headers",
    [{"retry-after": "0", "content-length": "1000"}, {"retry-after": "nan"}, {"retry-after": "-1"}],
)
def test_a_payment_is_sent_again_after_an_answer_that_is_none(
    wallet: Path, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]
) -> None:
    monkeypatch.setattr(command, "_RETRY_S", 0.0)  # private `_RETRY_S`: the test need not wait
    seller = Seller((503, headers, b"{"), (200, {}, b"{}"))
    with serving(seller) as url:
        done = paying(url, wallet, monkeypatch)
    assert (done.exit_code, done.stdout, len(seller.payments)) == (0, "{}\n", 2), done.output


def test_a_payment_is_shown_to_no_other_server(
    wallet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Seller((200, {}, b"{}"))
    with serving(other) as elsewhere:
        seller = Seller((307, {"location": elsewhere + PATH}, b""))
        with serving(seller) as url:
            done = paying(url, wallet, monkeypatch)
    assert (done.exit_code, len(seller.payments), other.payments) == (1, 1, [])
    assert f"answered 307: it leads to {elsewhere}{PATH}" in done.stderr


def test_a_node_that_answers_in_another_protocol_is_named(
    wallet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seller = Seller((200, {}, b"{}"))
    with serving(seller) as url, socket.create_server(("127.0.0.1", 0)) as node:

        def answer() -> None:
            asker, _ = node.accept()
            with asker:
                asker.recv(65536)
                asker.sendall(b"-ERR unknown command\r\n")

        threading.Thread(target=answer, daemon=True).start()
        monkeypatch.setenv("RPC_ENDPOINT", f"http://127.0.0.1:{node.getsockname()[1]}")
        done = CliRunner().invoke(command.pay, [url + PATH, "--wallet", str(wallet)])
    assert (done.exit_code, seller.payments) == (1, [])
    assert "the node of RPC_ENDPOINT does not answer getLatestBlockhash" in done.stderr


def test_a_payment_whose_answer_was_delivered_is_not_sent_again(
    wallet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seller = Seller((409, {}, b'{"detail": "The payment\'s answer was delivered"}'))
    with serving(seller) as url:
        done = paying(url, wallet, monkeypatch)
    assert (done.exit_code, len(seller.payments)) == (1, 1)
    assert "answer was delivered" in done.stderr
