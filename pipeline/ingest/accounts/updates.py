"""Accounts in a node's messages, and closings in the balances of a transaction."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.ingest.accounts.ledger import UNSEEN, Update
from schemas.proto.geyser_pb2 import SubscribeUpdateAccountInfo, SubscribeUpdateTransactionInfo
from schemas.solana.addresses import SYSTEM_PROGRAM


def update_of(info: SubscribeUpdateAccountInfo) -> Update:
    """Return the version in an account message."""
    return Update(info.pubkey, info.owner, info.lamports, info.data, info.write_version)


def closing(address: bytes) -> Update:
    """Return the version of an account that is gone."""
    return Update(address, SYSTEM_PROGRAM, 0, b"", UNSEEN)


def closed_by(info: SubscribeUpdateTransactionInfo) -> Iterator[Update]:
    """Yield a closing of each account that had lamports before a transaction and none after.

    Only its program can take an account's lamports: for accounts of subscribed programs this is
    complete. One that is made again in the same slot comes as a version of its own, which wins.
    """
    pre, post = info.meta.pre_balances, info.meta.post_balances
    emptied = [at for at, (b, a) in enumerate(zip(pre, post, strict=False)) if b and not a]
    if emptied:
        keys = keys_of(info)
        for at in emptied:
            if at < len(keys):
                yield closing(keys[at])


def keys_of(info: SubscribeUpdateTransactionInfo) -> list[bytes]:
    """Return the accounts of a transaction in the order that its indexes count."""
    return [
        *info.transaction.message.account_keys,
        *info.meta.loaded_writable_addresses,
        *info.meta.loaded_readonly_addresses,
    ]


def writable_keys(info: SubscribeUpdateTransactionInfo) -> list[bytes]:
    """Return the accounts that a transaction may have written."""
    message = info.transaction.message
    keys, header = message.account_keys, message.header
    signed = header.num_required_signatures
    writable_signed = signed - header.num_readonly_signed_accounts
    writable = len(keys) - header.num_readonly_unsigned_accounts
    own = [key for at, key in enumerate(keys) if at < writable_signed or signed <= at < writable]
    return [*own, *info.meta.loaded_writable_addresses]
