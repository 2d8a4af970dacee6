"""RPC methods that read accounts, from the store at the commitment asked for."""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Iterable
from operator import attrgetter
from typing import Any, Final, NoReturn

import orjson

from infra.chain.account_json import DataForm, ui_amount
from infra.chain.account_store import AccountStore, AccountView
from infra.chain.program_filters import ProgramFilters
from infra.chain.rpc_params import (
    KEY_EXCLUDED,
    Config,
    Params,
    RpcError,
    commitment_in,
    config_at,
    context,
    flag_in,
    invalid,
    list_at,
    pubkey,
    pubkey_at,
    refused,
    require_min_context_slot,
    with_context,
)
from infra.chain.source import AccountWrite, Source
from infra.chain.streamed import Streamed, in_order, json_list, selected, wrapped
from infra.chain.token_layout import (
    NATIVE_DECIMALS,
    NATIVE_MINT,
    TOKEN_PROGRAMS,
    is_mint,
    is_token_account,
    mint_decimals,
    mint_supply_raw,
    token_amount_raw,
    token_mint,
)
from schemas.solana import base58
from schemas.solana.addresses import TOKEN_PROGRAM

_MAX_ACCOUNTS: Final = 100
_LARGEST: Final = 20
# Smaller answers are made whole.
_STREAMED_BYTES: Final = 1 << 20
_STREAMED_ACCOUNTS: Final = 1_000
_ADDRESS: Final = attrgetter("address")


class AccountMethods:
    """Account methods, by the names they are called with."""

    def __init__(self, store: AccountStore, source: Source, *, program_scans: bool = True) -> None:
        """Take the accounts; without `program_scans` `getProgramAccounts` is refused."""
        self._store = store
        self._source = source
        self._program_scans = program_scans

    async def get_account_info(self, params: Params) -> dict[str, Any]:
        """Return an account, or null."""
        address = pubkey_at(params, 0)
        config = config_at(params, 1)
        form = DataForm.read(config, "binary")
        view = self._view(config)
        return with_context(view.slot, self._accounts(view, form, [address])[0])

    async def get_multiple_accounts(self, params: Params) -> dict[str, Any]:
        """Return accounts in the order they are asked for, null where there is none."""
        given = list_at(params, 0, "pubkeys")
        if len(given) > _MAX_ACCOUNTS:
            raise refused(f"Too many inputs provided; max {_MAX_ACCOUNTS}")
        addresses = [pubkey(each) for each in given]
        config = config_at(params, 1)
        form = DataForm.read(config, "base64")
        view = self._view(config)
        return with_context(view.slot, self._accounts(view, form, addresses))

    async def get_balance(self, params: Params) -> dict[str, Any]:
        """Return an account's lamports; 0 where there is none."""
        address = pubkey_at(params, 0)
        view = self._view(config_at(params, 1))
        account = self._account(view, address)
        return with_context(view.slot, account.lamports if account else 0)

    async def get_program_accounts(self, params: Params) -> Any:
        """Return the accounts that a program owns and the filters let through."""
        program = pubkey_at(params, 0)
        config = config_at(params, 1)
        filters = ProgramFilters.read(config.get("filters"))
        form = DataForm.read(config, "binary")
        in_context = flag_in(config, "withContext", default=False)
        is_sorted = flag_in(config, "sortResults", default=True)
        if not self._program_scans:
            raise RpcError(
                KEY_EXCLUDED,
                f"{base58.encode(program)} excluded from account secondary indexes; "
                "this RPC method unavailable for key",
            )
        view = self._view(config)
        match filters.token_key(program):
            case ("owner", wallet):
                candidates = view.of_token_owner(program, wallet)
            case ("mint", mint):
                candidates = view.of_mint(program, mint)
            case _:
                candidates = view.of_program(program)
        decimals = _decimals(view, form, candidates)
        found = await selected(candidates, filters.match)
        slot = view.slot if in_context else None
        return await _keyed(found, form, decimals, slot, is_sorted=is_sorted)

    async def get_token_accounts_by_owner(self, params: Params) -> Any:
        """Return a wallet's token accounts of a mint, or of a token program."""
        wallet = pubkey_at(params, 0)
        wanted = params[1] if len(params) > 1 else None
        config = config_at(params, 2)
        form = DataForm.read(config, "binary")
        mint: bytes | None = None
        match wanted:
            case {"mint": given, **others} if not others:
                mint = key = pubkey(given)
            case {"programId": given, **others} if not others:
                key = pubkey(given)
            case _:
                raise invalid("an object with `mint` or `programId` is expected.")
        view = self._view(config)
        program = key if mint is None else _mint(view, mint)[0]
        if program not in TOKEN_PROGRAMS:
            raise refused("Invalid param: unrecognized Token program id")
        found = [
            account
            for account in view.of_token_owner(program, wallet)
            if mint is None or token_mint(account.data) == mint
        ]
        decimals = _decimals(view, form, found)
        return await _keyed(found, form, decimals, view.slot, is_sorted=True)

    async def get_token_account_balance(self, params: Params) -> dict[str, Any]:
        """Return the amount in a token account."""
        address = pubkey_at(params, 0)
        view = self._view(config_at(params, 1))
        account = self._account(view, address) or _not_found()
        if not is_token_account(account.owner, account.data):
            raise refused("Invalid param: not a Token account")
        _, decimals = _mint(view, token_mint(account.data))
        return with_context(view.slot, ui_amount(token_amount_raw(account.data), decimals))

    async def get_token_supply(self, params: Params) -> dict[str, Any]:
        """Return a mint's supply."""
        address = pubkey_at(params, 0)
        view = self._view(config_at(params, 1))
        account = view.account(address)
        if account is None and not self._store.is_seeded:
            known = self._source.token_supply(address) or _not_found()
            return with_context(view.slot, ui_amount(known.amount_raw, known.decimals))
        account = account or _not_found()
        if account.owner not in TOKEN_PROGRAMS:
            raise refused("Invalid param: not a Token mint")
        if not is_mint(account.owner, account.data):
            raise refused("Invalid param: mint could not be unpacked")
        supply = ui_amount(mint_supply_raw(account.data), mint_decimals(account.data))
        return with_context(view.slot, supply)

    async def get_token_largest_accounts(self, params: Params) -> dict[str, Any]:
        """Return the 20 largest token accounts of a mint, largest first."""
        mint = pubkey_at(params, 0)
        view = self._view(config_at(params, 1))
        program, decimals = _mint(view, mint)
        largest: list[tuple[int, bytes]] = []  # a heap, the smallest first

        def weigh(account: AccountWrite) -> bool:
            holding = (token_amount_raw(account.data), account.address)
            if len(largest) < _LARGEST:
                heapq.heappush(largest, holding)
            elif holding > largest[0]:
                heapq.heapreplace(largest, holding)
            return False

        await selected(view.of_mint(program, mint), weigh)
        value = [
            {"address": base58.encode(address), **ui_amount(amount_raw, decimals)}
            for amount_raw, address in sorted(largest, reverse=True)
        ]
        return with_context(view.slot, value)

    def _view(self, config: Config) -> AccountView:
        view = self._store.view(commitment_in(config))
        require_min_context_slot(config, view.slot)
        return view

    def _account(self, view: AccountView, address: bytes) -> AccountWrite | None:
        """Return the store's account; the source's where that never said what there is."""
        account = view.account(address)
        if account is None and not self._store.is_seeded:
            known = self._source.account(address)
            if known is not None:
                return AccountWrite(
                    address, known.owner, known.lamports, known.data, 0, known.executable
                )
        return account

    def _accounts(
        self, view: AccountView, form: DataForm, addresses: list[bytes]
    ) -> list[dict[str, Any] | None]:
        accounts = [self._account(view, address) for address in addresses]
        decimals = _decimals(view, form, [each for each in accounts if each])
        for each in accounts:
            if each is not None:
                form.check(each)
        return [form.to_json(each, decimals) if each else None for each in accounts]


def _not_found() -> NoReturn:
    raise refused("Invalid param: could not find account")


def _mint(view: AccountView, mint: bytes) -> tuple[bytes, int]:
    """Return the token program of a mint, and its decimals; raises RpcError."""
    if mint == NATIVE_MINT:
        return TOKEN_PROGRAM, NATIVE_DECIMALS
    account = view.account(mint)
    if account is None:
        raise refused("Invalid param: could not find mint")
    if account.owner not in TOKEN_PROGRAMS:
        raise refused("Invalid param: not a Token mint")
    if not is_mint(account.owner, account.data):
        raise refused("Invalid param: Token mint could not be unpacked")
    return account.owner, mint_decimals(account.data)


def _decimals(
    view: AccountView, form: DataForm, accounts: Iterable[AccountWrite]
) -> dict[bytes, int]:
    """Return the decimals of the mints of token accounts, where parsing them needs these."""
    if form.encoding != "jsonParsed":
        return {}
    mints = {token_mint(each.data) for each in accounts if is_token_account(each.owner, each.data)}
    decimals = {}
    for mint in mints:
        try:
            decimals[mint] = _mint(view, mint)[1]
        except RpcError:  # an account without its mint is not parsed
            continue
    return decimals


def _are_few(accounts: list[AccountWrite]) -> bool:
    return (
        len(accounts) < _STREAMED_ACCOUNTS
        and sum(len(account.data) for account in accounts) < _STREAMED_BYTES
    )


async def _keyed(
    accounts: list[AccountWrite],
    form: DataForm,
    decimals: dict[bytes, int],
    slot: int | None,
    *,
    is_sorted: bool,
) -> Any:
    """Return accounts with their addresses; large answers in parts. A slot asks for a context."""

    def to_json(account: AccountWrite) -> dict[str, Any]:
        return {
            "pubkey": base58.encode(account.address),
            "account": form.to_json(account, decimals),
        }

    await selected(accounts, form.check)
    ordered = await in_order(accounts, _ADDRESS) if is_sorted else iter(accounts)
    if _are_few(accounts):
        value = [to_json(account) for account in ordered]
        return value if slot is None else with_context(slot, value)
    parts: AsyncIterator[bytes] = json_list(ordered, to_json)
    if slot is not None:
        before = b'{"context":' + orjson.dumps(context(slot)) + b',"value":'
        parts = wrapped(before, parts, b"}")
    return Streamed(parts)
