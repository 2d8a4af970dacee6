"""The payer's side: from a challenge to the header that pays for it.

Source: package `x402` 2.25.0, `mechanisms.svm.exact`: limit and price of compute units,
TransferChecked, and a memo without which two payments within one blockhash were the same.
"""

from __future__ import annotations

from base64 import b64encode
from secrets import token_hex
from typing import Any, Final

import orjson
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from api.pay.terms import DECIMALS, NETWORKS, SCHEME, header
from schemas.solana.addresses import TOKEN_PROGRAM

_COMPUTE: Final = Pubkey.from_string("ComputeBudget111111111111111111111111111111")
_MEMO: Final = Pubkey.from_string("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")
_ASSOCIATED: Final = Pubkey.from_string("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL")
_TOKEN: Final = Pubkey.from_bytes(TOKEN_PROGRAM)
_UNITS: Final = 20_000
_UNIT_PRICE: Final = 1  # micro-lamports


class NotPaid(Exception):
    """The challenge is not paid; the text says why."""


def chosen(challenge: Any, asset: str, most_raw: int) -> dict[str, Any]:
    """Return what of a challenge can be paid here in an asset, USDC's mint; raises NotPaid.

    `most_raw` bounds what is paid in that asset alone: the same number of another is another sum.
    """
    accepts = challenge.get("accepts") if isinstance(challenge, dict) else None
    for accepted in accepts if isinstance(accepts, list) else ():
        if not isinstance(accepted, dict):
            continue
        if accepted.get("scheme") != SCHEME or accepted.get("network") not in NETWORKS:
            continue
        if accepted.get("asset") != asset:
            continue
        amount = accepted.get("amount")
        if not isinstance(amount, str) or not amount.isdecimal():
            raise NotPaid("the challenge has no amount")
        if int(amount) > most_raw:
            raise NotPaid(
                f"the server asks for {int(amount)} units of 10^-{DECIMALS} USDC, more than "
                f"--most allows ({most_raw})"
            )
        return accepted
    raise NotPaid(
        f"the server takes no payment by `{SCHEME}` on Solana in USDC, by PAY_ASSET {asset}"
    )


def signed(accepted: dict[str, Any], resource: Any, wallet: Keypair, blockhash: str) -> str:
    """Return the value of `PAYMENT-SIGNATURE`; raises NotPaid."""
    try:
        mint = Pubkey.from_string(accepted["asset"])
        pay_to = Pubkey.from_string(accepted["payTo"])
        fee_payer = Pubkey.from_string(accepted["extra"]["feePayer"])
        recent = Hash.from_string(blockhash)
        amount = int(accepted["amount"])
    except (KeyError, TypeError, ValueError) as error:
        raise NotPaid(f"the challenge cannot be read: {error}") from None
    payer = wallet.pubkey()
    transfer = Instruction(
        _TOKEN,
        bytes([12]) + amount.to_bytes(8, "little") + bytes([DECIMALS]),
        [
            AccountMeta(_token_account(payer, mint), is_signer=False, is_writable=True),
            AccountMeta(mint, is_signer=False, is_writable=False),
            AccountMeta(_token_account(pay_to, mint), is_signer=False, is_writable=True),
            AccountMeta(payer, is_signer=True, is_writable=False),
        ],
    )
    instructions = [
        Instruction(_COMPUTE, bytes([2]) + _UNITS.to_bytes(4, "little"), []),
        Instruction(_COMPUTE, bytes([3]) + _UNIT_PRICE.to_bytes(8, "little"), []),
        transfer,
        Instruction(_MEMO, token_hex(16).encode(), []),
    ]
    message = MessageV0.try_compile(fee_payer, instructions, [], recent)
    signature = wallet.sign_message(bytes(to_bytes_versioned(message)))
    transaction = VersionedTransaction.populate(message, [Signature.default(), signature])
    payload: dict[str, Any] = {
        "x402Version": 2,
        "payload": {"transaction": b64encode(bytes(transaction)).decode()},
        "accepted": accepted,
    }
    if resource is not None:
        payload["resource"] = resource
    return header(orjson.dumps(payload)).decode()


def _token_account(owner: Pubkey, mint: Pubkey) -> Pubkey:
    seeds = [bytes(owner), bytes(_TOKEN), bytes(mint)]
    return Pubkey.find_program_address(seeds, _ASSOCIATED)[0]
