"""`soltape pay`: pay for one call, and print its answer."""

from __future__ import annotations

import shlex
import sys
import time
from base64 import b64decode
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener, urlopen

import click
import orjson
from solders.keypair import Keypair

from api.pay import buying
from api.pay.buying import NotPaid
from api.pay.terms import PRICE_RAW
from infra.chain import demo_wallets
from infra.settings import check_url, load
from schemas.solana.networks import SIMULATED

PATIENT_S: Final = 300.0
"""How long a payment is sent again: its outcome is known once its blockhash has expired."""
_WITHIN_S: Final = 90.0
_RETRY_S: Final = 2.0
_LONGEST_RETRY_S: Final = 60.0
_SAID_TO_REPEAT: Final = frozenset({409, 429, 503})
"""Statuses that ask for the same request again where they come with `Retry-After`."""
_OF_PROXIES: Final = frozenset({502, 504})


class _NoAnswer(click.ClickException):
    """The server cannot be reached, the connection broke, or no answer says what was bought."""


class _NoRedirects(HTTPRedirectHandler):
    """Returns a redirect as the answer: only the server that the user named gets a payment."""

    def redirect_request(self, *_: Any) -> None:
        """Return no request: redirects are not followed."""
        return


_OPENER: Final = build_opener(_NoRedirects)


@click.command()
@click.argument("url")
@click.option(
    "--wallet",
    "wallet_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="PAY_WALLET",
    help="The payer's key pair: a file as `solana-keygen` writes it. Or PAY_WALLET. On the "
    "simulated chain a demo wallet pays where none is named.",
)
@click.option(
    "--most",
    "most_raw",
    type=click.IntRange(0),
    default=PRICE_RAW,
    show_default=True,
    help="The most to pay, in units of 10^-6 USDC.",
)
def pay(url: str, wallet_file: Path | None, most_raw: int) -> None:
    """Pay for one GET with USDC, and print the answer.

    URL is a whole address, or a path of the API here: /pay is put before it. The server is asked
    first; what it wants is paid from the wallet, unless it is more than --most. The payment's
    transaction is named on stderr. RPC_ENDPOINT leads to the node of the network that is paid on.

    Where the server does not say what became of the payment, the same one is sent again, for five
    minutes: it is never paid twice. After that, or where you interrupt it, the payment is printed,
    for you to repeat.

    \b
    Examples:
      soltape pay /api/wallets/<wallet>/holdings        (beside `soltape up`: a demo wallet pays)
      soltape pay /api/wallets/<wallet>/holdings --wallet payer.json
      soltape pay https://api.example.com/pay/api/wallets/<wallet>/pnl/summary --wallet payer.json
    """
    settings = load()
    if url.startswith("/"):
        url = settings.api_url + (url if url.startswith("/pay/") else f"/pay{url}")
    try:
        check_url(url, ("http", "https"))
    except ValueError as error:
        raise click.ClickException(f"{url}: {error}, or a path that begins with /") from None
    if settings.rpc_endpoint is None:
        raise click.ClickException("RPC_ENDPOINT is not set; a payment needs a recent blockhash")
    wallet = _wallet(wallet_file, settings.rpc_endpoint)
    status, headers, body = _get(url, {})
    if status == 402:
        try:
            challenge = orjson.loads(body)
            accepted = buying.chosen(challenge, settings.pay_asset, most_raw)
            found = _ask(settings.rpc_endpoint, "getLatestBlockhash", {"commitment": "confirmed"})
            blockhash = str(found["value"]["blockhash"])
            paid = buying.signed(accepted, challenge.get("resource"), wallet, blockhash)
        except (ValueError, KeyError, TypeError):
            raise click.ClickException(
                "the challenge or the node's blockhash is not JSON"
            ) from None
        except NotPaid as error:
            raise click.ClickException(f"not paid: {error}") from None
        status, headers, body = _bought(url, paid)
    if status != 200:
        reason = _reason(body)
        if 300 <= status < 400 and "location" in headers:
            reason = f"it leads to {headers['location']}; name the address itself"
        raise click.ClickException(f"{url} answered {status}: {reason}")
    if settled := headers.get("payment-response"):
        click.echo(f"paid: transaction {_transaction(settled)}", err=True)
    sys.stdout.buffer.write(body + b"\n")


def _bought(url: str, paid: str) -> tuple[int, dict[str, str], bytes]:
    """Return what a payment buys, sent again as long as that is not known.

    Raises ClickException, which has the payment: it may be settled.
    """
    try:
        return _sent(url, paid)
    except _NoAnswer as error:
        reason = error.message
    except KeyboardInterrupt:
        reason = "interrupted"
    raise click.ClickException(
        f"{reason}\nThe payment may be settled; what it bought is kept for ten minutes. To "
        "have that without paying again, send the same payment:\n"
        f"  curl -H 'payment-signature: {paid}' {shlex.quote(url)}"
    )


def _sent(url: str, paid: str) -> tuple[int, dict[str, str], bytes]:
    """Return the answer that says what a payment buys; raises _NoAnswer where none does in time."""
    until_s = time.monotonic() + PATIENT_S
    is_said = False
    while True:
        retry_s: float | None = _RETRY_S
        try:
            status, headers, body = _get(url, {"payment-signature": paid})
        except _NoAnswer as error:
            reason = error.message
        else:
            reason, retry_s = f"{url} answered {status}: {_reason(body)}", _retry_s(status, headers)
            if retry_s is None and status < 500:
                return status, headers, body
        if retry_s is None or time.monotonic() >= until_s:
            raise _NoAnswer(reason)
        if not is_said:
            click.echo(f"{reason}\nThe same payment is sent again ...", err=True)
            is_said = True
        time.sleep(retry_s)


def _retry_s(status: int, headers: dict[str, str]) -> float | None:
    """Return after which time to send the same payment again, None where that changes nothing."""
    if status in _OF_PROXIES:
        return _RETRY_S
    if status not in _SAID_TO_REPEAT or "retry-after" not in headers:
        return None
    said = headers["retry-after"]
    return min(float(said), _LONGEST_RETRY_S) if said.isdecimal() else _RETRY_S  # or a date


def _get(url: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
    try:
        try:
            answer = _OPENER.open(Request(url, headers=headers), timeout=_WITHIN_S)  # noqa: S310
        except HTTPError as refusal:
            answer = refusal
        with answer:
            return answer.status, _lower(answer.headers), answer.read()
    except (URLError, HTTPException, OSError) as error:
        raise _NoAnswer(f"{url} does not answer: {error}") from None


def _transaction(value: str) -> str:
    try:
        return str(orjson.loads(b64decode(value))["transaction"])
    except (ValueError, KeyError, TypeError):
        return "unknown"


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _wallet(file: Path | None, rpc_url: str) -> Keypair:
    """Return who pays: the wallet of a file, or a demo wallet on the simulated chain."""
    if file is None:
        try:
            is_simulated = _ask(rpc_url, "getGenesisHash") == SIMULATED
        except NotPaid as error:
            raise click.ClickException(str(error)) from None
        if not is_simulated:
            raise click.ClickException("name the payer's key pair: --wallet FILE, or PAY_WALLET")
        return demo_wallets.keypair(demo_wallets.PAYER)
    try:
        return Keypair.from_bytes(bytes(orjson.loads(file.read_bytes())))
    except (ValueError, TypeError, OSError):
        raise click.ClickException(f"{file}: not a key pair (a JSON list of 64 bytes)") from None


def _ask(rpc_url: str, method: str, *params: Any) -> Any:
    """Return what a node answers; raises NotPaid."""
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    request = Request(  # noqa: S310 - http
        rpc_url, orjson.dumps(call), {"content-type": "application/json"}
    )
    try:
        with urlopen(request, timeout=_WITHIN_S) as answer:  # noqa: S310 - http
            said = orjson.loads(answer.read())
            if "error" in said:
                raise NotPaid(
                    f"the node of RPC_ENDPOINT refuses {method}: {said['error']['message']}"
                )
            return said["result"]
    except (URLError, HTTPException, OSError, ValueError, KeyError, TypeError) as error:
        raise NotPaid(
            f"the node of RPC_ENDPOINT does not answer {method}: {type(error).__name__}"
        ) from None


def _reason(body: bytes) -> str:
    """Return what a problem or a challenge says."""
    try:
        problem = orjson.loads(body)
        return str(problem.get("detail") or problem.get("error") or "no reason given")
    except (ValueError, AttributeError):
        return "no reason given"
