"""Tokens with what their mint accounts say: supply, decimals, authorities, extensions.

A mint's account is the truth about its supply: burns and later mints show there, no matter who made
them. Where it is not covered, the creation's event or RPC said what the supply was then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from api.accounts.following import FollowState
from api.accounts.mints import Mint, MintReader, NoMint
from api.tokens.answers import MintAccountAnswer, MintReason
from api.tokens.facts import Facts, facts
from api.tokens.pool_prices import PoolPrices
from api.tokens.reader import SOL_MINT, Token, TokenReader, Tokens
from schemas.solana.addresses import text

MAX_LAG_MS: Final = 60_000  # of the lane behind the markets
EXTENSIONS: Final[Mapping[int, str]] = {
    1: "transfer_fee",
    3: "mint_close_authority",
    4: "confidential_transfer",
    6: "default_account_state",
    9: "non_transferable",
    10: "interest_bearing",
    12: "permanent_delegate",
    14: "transfer_hook",
    16: "confidential_transfer_fee",
    18: "metadata_pointer",
    19: "token_metadata",
    20: "group_pointer",
    21: "token_group",
    22: "group_member_pointer",
    23: "token_group_member",
    24: "confidential_mint_burn",
    25: "scaled_ui_amount",
    26: "pausable",
    28: "permissioned_burn",
}
"""Token-2022's `ExtensionType`, of mints."""

_REASONS: Final[Mapping[FollowState, MintReason]] = {
    FollowState.NOT_INGESTED: "not_ingested",
    FollowState.LANE_STALLED: "lane_stalled",
    FollowState.PENDING: "pending",
    FollowState.WITHDRAWN: "withdrawn",
    FollowState.KEY_LIMIT: "key_limit",
    FollowState.LIMIT: "limit",
    FollowState.NOT_ASKED: "not_asked",
    FollowState.NOT_FOUND: "not_found",
    FollowState.UNREADABLE: "unreadable",
}

Accounts = Mapping[str, Mint | NoMint]


class SuppliedTokens:
    """Reads tokens and their mint accounts, for all requests of a process."""

    def __init__(self, reader: TokenReader, mints: MintReader, pools: PoolPrices) -> None:
        self._reader = reader
        self._mints = mints
        self._pools = pools

    async def read(
        self, mints: Iterable[str], *, with_day: bool = False
    ) -> tuple[Tokens, Accounts]:
        """Return tokens, and the account of each mint or why it is not known; raises Problem.

        A mint of which only its account is known is a token, too. What no market prices has the
        price of its pool, if it is a share of one.
        """
        wanted = [*mints]
        tokens, accounts = await asyncio.gather(
            self._reader.read(wanted, with_day=with_day), self._mints.read(wanted)
        )
        known: dict[str, Mint | NoMint] = {}
        for mint, account in accounts.items():
            known[mint] = account = unless_stalled(account, tokens.now_ms)
            if isinstance(account, Mint) and mint != SOL_MINT:
                token = tokens.by_mint.get(mint) or _blank(mint)
                token = replace(token, facts=supplied(token.facts, account), json=b"")
                tokens.by_mint[mint] = token
                if account.as_of_slot < tokens.as_of_slot:
                    tokens.as_of_slot, tokens.as_of_ms = account.as_of_slot, account.as_of_ms
        decimals = {
            mint: unpriced.decimals
            for mint in wanted
            if (unpriced := tokens.get(mint)) is not None and unpriced.price is None
        }
        if decimals:
            await self._pools.price(tokens, decimals)
        return tokens, known


def unless_stalled(account: Mint | NoMint, now_ms: int) -> Mint | NoMint:
    """Return a mint's account, unless the lane is far behind the markets, which are at `now_ms`."""
    if isinstance(account, Mint) and now_ms - account.as_of_ms > MAX_LAG_MS:
        return NoMint(FollowState.LANE_STALLED)
    return account


def supplied(known: Facts, mint: Mint) -> Facts:
    """Return what a token is, with what its mint's account says; not for SOL, which has none."""
    account = mint.account
    unit = 10**account.decimals
    about = known.about.copy()
    about["decimals"] = account.decimals
    about["supply_raw"] = str(account.supply_raw)
    about["supply"] = account.supply_raw / unit
    about["supply_source"] = "account"
    about["supply_time_ms"] = None
    about["supply_slot"] = mint.slot
    about["token_program"] = text(mint.program)
    if own := mint.texts:
        about["name"] = about["name"] or own.name or None
        about["symbol"] = about["symbol"] or own.symbol or None
        about["uri"] = about["uri"] or own.uri or None
    return Facts(about, account.supply_raw, unit)


def mint_account(account: Mint | NoMint | None) -> MintAccountAnswer | None:
    """Return what a mint's account says beside its supply; None where it is not known."""
    if not isinstance(account, Mint):
        return None
    found, extensions = account.account, account.account.extensions
    fee = extensions.transfer_fee.newer if extensions and extensions.transfer_fee else None
    hook = extensions.transfer_hook if extensions else None
    return {
        "changed_slot": account.slot,
        "mint_authority": _text(found.mint_authority),
        "freeze_authority": _text(found.freeze_authority),
        "close_authority": _text(extensions.close_authority if extensions else None),
        "permanent_delegate": _text(extensions.permanent_delegate if extensions else None),
        "transfer_hook": _text(hook.program if hook else None),
        "transfer_fee_bps": fee.basis_points if fee else None,
        "extensions": [
            EXTENSIONS.get(number, f"extension_{number}")
            for number in (extensions.kinds if extensions else ())
        ],
    }


def mint_reason(account: Mint | NoMint | None, asked: FollowState | None) -> MintReason | None:
    """Return why a mint's account is not known; `asked` is why it was not asked for."""
    if account is None or isinstance(account, Mint):
        return None
    standing = account.standing
    if standing is FollowState.PENDING and asked in (
        FollowState.KEY_LIMIT,
        FollowState.LIMIT,
        FollowState.NOT_ASKED,
    ):
        standing = asked
    return _REASONS[standing]


def _blank(mint: str) -> Token:
    return Token(mint, facts(mint, None, None), None, None, None, b"")


def _text(address: bytes | None) -> str | None:
    return None if address is None else text(address)
