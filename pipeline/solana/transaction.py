"""A transaction flattened: instructions in execution order, addresses joined, logs attributed.

The arrays `programs`, `accounts`, `data` and `heights` run parallel: entry n is the n-th
instruction to be executed, outer and inner ones counted alike, so n is its place (its
`position`) in the transaction. A Batch of a token program counts, and so does each instruction in
it, right after it. Everything else (token accounts, logs, fees) is worked out
only when a decoder asks, since most instructions are nobody's.

Sources: `facts` of Solana's runtime as in Agave (account index space, `stack_height`,
log lines); SPL Token and Token-2022 instruction layouts.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as Base64Error
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

from pipeline.solana.lazy import lazy
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from schemas.proto.solana_storage_pb2 import CompiledInstruction, InnerInstruction
from schemas.solana.addresses import (
    PRECOMPILES,
    SYSTEM_PROGRAM,
    TOKEN_2022_PROGRAM,
    TOKEN_PROGRAM,
    key,
    signature_text,
    text,
)
from schemas.solana.borsh import u64

LAMPORTS_PER_SIGNATURE: Final = 5_000
CPI_EVENT_TAG: Final = bytes.fromhex("e445a52e51cb9a1d")

# Accounts of instructions, as the token programs and the System program number them.
ACCOUNT, MINT, OWNER = 0, 1, 2  # of one that opens or closes an account
SOURCE, DESTINATION = 0, 1  # of a transfer, of a burn, of a transfer of SOL
CHECKED_DESTINATION = 2  # of a transfer that names the mint
MINTED, MINTED_TO = 0, 1

_BATCH: Final = b"\xff"
_TRANSFER: Final = 3
_INITIALIZE_ACCOUNT: Final = 1
_TRANSFER_CHECKED: Final = 12
_INITIALIZE_MINT: Final = (b"\x00", b"\x14")  # InitializeMint, InitializeMint2
_MINT_TO: Final = (b"\x07", b"\x0e")  # MintTo, MintToChecked
_BURN: Final = (b"\x08", b"\x0f")  # Burn, BurnChecked
_SUPPLY: Final = frozenset(_MINT_TO + _BURN)
_INITIALIZE_ACCOUNT_2: Final = 16
_INITIALIZE_ACCOUNT_3: Final = 18
_SET_OWNER: Final = b"\x06\x02\x01"  # SetAuthority: of the account's owner, to one that follows
_NAMING_AN_OWNER: Final = frozenset(
    bytes([tag])
    for tag in (_INITIALIZE_ACCOUNT, _INITIALIZE_ACCOUNT_2, _INITIALIZE_ACCOUNT_3, _SET_OWNER[0])
)
_TRANSFER_FEE_EXTENSION: Final = 26
_TRANSFER_CHECKED_WITH_FEE: Final = 1
_SYSTEM_TRANSFER: Final = b"\x02\x00\x00\x00"
_TOKEN_PROGRAMS: Final = frozenset({TOKEN_PROGRAM, TOKEN_2022_PROGRAM})


@dataclass(slots=True)
class TokenAccount:
    """A token account as the transaction found and left it; amounts in raw units."""

    mint: str
    owner: str
    decimals: int | None
    program: str
    pre_raw: int
    post_raw: int


@dataclass(slots=True)
class Transfer:
    """A token transfer; accounts are indexes into `Transaction.keys`."""

    position: int
    source: int
    destination: int
    authority: int
    amount_raw: int  # what left the source
    received_raw: int  # what reached the destination: less by a Token-2022 transfer fee


@dataclass(slots=True)
class _Log:
    """What the log has of each instruction."""

    fault: str  # why it may lack lines of the others
    lines: dict[int, list[str]] = field(default_factory=dict)
    whole: set[int] = field(default_factory=set)  # ended before the log did


class Transaction:
    """One transaction of a slot, in execution order.

    `boundaries` are the programs whose instruction ends another's subtree where the node
    recorded no stack heights (before Solana 1.14.6).
    """

    def __init__(
        self,
        info: SubscribeUpdateTransactionInfo,
        slot: int,
        block_time_ms: int,
        boundaries: frozenset[bytes] = frozenset(),
    ) -> None:
        self.slot = slot
        self.block_time_ms = block_time_ms
        self.index = info.index
        self.raw_signature = info.signature
        meta = self.meta = info.meta
        message = self.message = info.transaction.message
        keys = list(message.account_keys)
        keys += meta.loaded_writable_addresses
        keys += meta.loaded_readonly_addresses
        self.keys: list[bytes] = keys
        # Of token accounts that changed hands, or were opened anew for another mint: who held
        # them before. Known once `token_accounts` is.
        self.former_holders: dict[int, TokenAccount] = {}
        self._boundaries = boundaries
        self._received_by: dict[int, int | None] = {}  # what `_received` found so far

        instructions: list[CompiledInstruction | InnerInstruction] = []
        heights: list[int] = []
        inner = {group.index: group.instructions for group in meta.inner_instructions}
        for number, outer in enumerate(message.instructions):
            instructions.append(outer)
            heights.append(1)
            if (called := inner.get(number)) is not None:
                instructions += called
                heights += [each.stack_height for each in called]  # 0: not recorded
        programs = [each.program_id_index for each in instructions]
        accounts = [each.accounts for each in instructions]
        data = [each.data for each in instructions]
        self.programs = programs
        self.accounts = accounts
        self.data = data
        self.heights = heights
        self._batched: set[int] = set()
        if _BATCH in [each[:1] for each in data]:
            self._unpack_batches()

    def _unpack_batches(self) -> None:
        """Let the instructions of each Batch follow it, as if its caller had called them."""
        programs, accounts, data, heights = self.programs, self.accounts, self.data, self.heights
        self.programs, self.accounts, self.data, self.heights = [], [], [], []
        for program, indexes, body, height in zip(programs, accounts, data, heights, strict=True):
            items = [(indexes, body)]
            if program < len(self.keys) and self.keys[program] in _TOKEN_PROGRAMS:
                items += _batched(indexes, body)
            start = len(self.programs) + 1
            for indexes_of_item, body_of_item in items:
                self.programs.append(program)
                self.accounts.append(indexes_of_item)
                self.data.append(body_of_item)
                self.heights.append(height)
            self._batched.update(range(start, len(self.programs)))

    @property
    def failed(self) -> bool:
        """Return whether the transaction was rolled back: then only its fee was charged."""
        return self.meta.HasField("err")

    @lazy
    def signature(self) -> str:
        """The first signature, in base58."""
        return signature_text(self.raw_signature)

    @property
    def signers(self) -> int:
        """How many of the first keys signed."""
        return self.message.header.num_required_signatures

    @lazy
    def fee_payer(self) -> str:
        """The first key, in base58."""
        return text(self.keys[0])

    @lazy
    def signer_addresses(self) -> list[str]:
        """The keys that signed, in base58, the fee payer first."""
        return [text(address) for address in self.keys[: self.signers]]

    def program(self, position: int) -> bytes:
        """Return the program of an instruction."""
        return self.keys[self.programs[position]]

    # -- fees -----------------------------------------------------------------------------

    @property
    def fee_lamports(self) -> int:
        """What the transaction paid to the validator: base and priority fee."""
        return self.meta.fee

    @lazy
    def priority_fee_lamports(self) -> int:
        """The fee above the base fee of each signature, precompile signatures counted."""
        signatures = self.signers
        if not PRECOMPILES.isdisjoint(self.keys):
            for position, program in enumerate(self.programs):
                if self.keys[program] in PRECOMPILES and self.data[position]:
                    signatures += self.data[position][0]
        return max(0, self.meta.fee - LAMPORTS_PER_SIGNATURE * signatures)

    def lamports_to(self, recipients: frozenset[bytes]) -> int:
        """Sum the System transfers to any of `recipients`."""
        if recipients.isdisjoint(self.keys):
            return 0
        wanted = {index for index, address in enumerate(self.keys) if address in recipients}
        total = 0
        for position, program in enumerate(self.programs):
            data = self.data[position]
            if len(data) == 12 and data[:4] == _SYSTEM_TRANSFER:
                accounts = self.accounts[position]
                if self.keys[program] == SYSTEM_PROGRAM and accounts[DESTINATION] in wanted:
                    total += u64(data, 4)
        return total

    # -- instruction tree -----------------------------------------------------------------

    def subtree_end(self, position: int) -> int:
        """Return the position after the last instruction that `position` called."""
        heights = self.heights
        height = heights[position]
        size = len(heights)
        end = position + 1
        if height and (end == size or heights[end]):
            while end < size and heights[end] > height:
                end += 1
            return end
        # Heights were not recorded: an outer instruction owns all its inner ones, an inner
        # one what follows up to the next instruction of a program that could be its sibling
        # (events are no siblings: a program calls itself to emit them).
        while end < size and heights[end] != 1:
            if (
                height != 1
                and self.program(end) in self._boundaries
                and self.data[end][:8] != CPI_EVENT_TAG
            ):
                break
            end += 1
        return end

    def ancestors(self, position: int) -> Iterator[int]:
        """Yield the callers of an instruction, nearest first."""
        heights = self.heights
        height = heights[position]
        while height != 1:
            position -= 1
            while position >= 0 and not 0 < heights[position] < (height or 2):
                position -= 1
            if position < 0:
                return
            height = heights[position]
            yield position

    # -- token accounts and transfers -----------------------------------------------------

    @lazy
    def token_accounts(self) -> dict[int, TokenAccount]:
        """Token accounts with a recorded balance, by index."""
        found: dict[int, TokenAccount] = {}
        for balance in self.meta.post_token_balances:
            amount = balance.ui_token_amount
            found[balance.account_index] = TokenAccount(
                balance.mint,
                balance.owner,
                amount.decimals,
                balance.program_id,
                0,
                int(amount.amount or 0),
            )
        for balance in self.meta.pre_token_balances:
            amount = balance.ui_token_amount
            account = found.get(balance.account_index)
            if account is None:
                found[balance.account_index] = TokenAccount(
                    balance.mint,
                    balance.owner,
                    amount.decimals,
                    balance.program_id,
                    int(amount.amount or 0),
                    0,
                )
            else:
                account.pre_raw = int(amount.amount or 0)
                if balance.owner != account.owner or balance.mint != account.mint:
                    self.former_holders[balance.account_index] = TokenAccount(
                        balance.mint,
                        balance.owner,
                        amount.decimals,
                        balance.program_id,
                        account.pre_raw,
                        0,
                    )
        return found

    def token_account(self, index: int) -> TokenAccount | None:
        """Return a token account; a temporary one is known by the instruction that opened it."""
        account = self.token_accounts.get(index)
        return self._temporary_accounts.get(index) if account is None else account

    @lazy
    def _temporary_accounts(self) -> dict[int, TokenAccount]:
        found: dict[int, TokenAccount] = {}
        for position, program_index in enumerate(self.programs):
            owner = self._opened_for(position)
            if owner is None:
                continue
            accounts, program = self.accounts[position], self.keys[program_index]
            mint = text(self.keys[accounts[MINT]])
            found[accounts[ACCOUNT]] = TokenAccount(
                mint, text(owner), self.decimals.get(mint), text(program), 0, 0
            )
        return found

    def _opened_for(self, position: int) -> bytes | None:
        """Return the owner of the token account that an instruction opens, if it opens one."""
        data, accounts = self.data[position], self.accounts[position]
        if not data or self.program(position) not in _TOKEN_PROGRAMS:
            return None
        if data[0] == _INITIALIZE_ACCOUNT and len(accounts) >= 3:
            return self.keys[accounts[OWNER]]
        if data[0] in (_INITIALIZE_ACCOUNT_2, _INITIALIZE_ACCOUNT_3) and len(data) >= 33:
            return data[1:33]
        return None

    def holding(self, index: int, position: int) -> tuple[str, str] | None:
        """Return owner and mint of a token account as an instruction found it; None if it is none.

        The recorded balances have those before and after the transaction alone.
        """
        account = self.token_account(index)
        if account is None:
            return None
        later = self._new_holdings.get(index, [])
        before = bisect_left(later, position, key=itemgetter(0))
        if before:
            return later[before - 1][1]
        account = self.former_holders.get(index, account)
        return account.owner, account.mint

    @lazy
    def _new_holdings(self) -> dict[int, list[tuple[int, tuple[str, str]]]]:
        """Positions at which token accounts were opened or handed over, with owner and mint."""
        found: dict[int, list[tuple[int, tuple[str, str]]]] = {}
        naming = [at for at, data in enumerate(self.data) if data[:1] in _NAMING_AN_OWNER]
        for position in naming:
            data, accounts = self.data[position], self.accounts[position]
            if not accounts or self.program(position) not in _TOKEN_PROGRAMS:
                continue
            index, owner = accounts[ACCOUNT], self._opened_for(position)
            if owner is not None:
                mint = text(self.keys[accounts[MINT]])
            elif data[:3] == _SET_OWNER and len(data) >= 35:
                account = self.token_account(index)
                if account is None:
                    continue
                owner, mint = data[3:35], self.former_holders.get(index, account).mint
                if index in found:
                    _, (_, mint) = found[index][-1]
            else:
                continue
            found.setdefault(index, []).append((position, (text(owner), mint)))
        return found

    @lazy
    def decimals(self) -> dict[str, int]:
        """Decimals by mint, as far as the recorded balances have them."""
        return {
            account.mint: account.decimals
            for account in self.token_accounts.values()
            if account.decimals is not None
        }

    def transfers(self, position: int, *, nested: bool = False) -> list[Transfer]:
        """Return the token transfers an instruction made itself, with `nested` at any depth."""
        end = self.subtree_end(position)
        height = self.heights[position] + 1
        found = []
        for at in range(position + 1, end):
            if nested or self.heights[at] in (height, 0):
                transfer = self.transfer(at)
                if transfer is not None:
                    found.append(transfer)
        return found

    def lamport_transfers(self, position: int) -> list[Transfer]:
        """Return the System transfers an instruction made, at any depth; amounts in lamports."""
        found = []
        for at in range(position + 1, self.subtree_end(position)):
            data = self.data[at]
            if len(data) != 12 or data[:4] != _SYSTEM_TRANSFER:
                continue
            if self.program(at) == SYSTEM_PROGRAM:
                source, destination = self.accounts[at][SOURCE], self.accounts[at][DESTINATION]
                lamports = u64(data, 4)
                found.append(Transfer(at, source, destination, source, lamports, lamports))
        return found

    def minted_raw(self, position: int, mint: int) -> int:
        """Sum what an instruction minted of a mint (an index into `keys`), at any depth."""
        return sum(
            u64(self.data[at], 1)
            for at in range(position + 1, self.subtree_end(position))
            if self.data[at][:1] in _MINT_TO
            and self.program(at) in _TOKEN_PROGRAMS
            and self.accounts[at][MINTED] == mint
        )

    def makes_mint(self, mint: int) -> bool:
        """Return whether the transaction makes a mint (an index into `keys`)."""
        return any(
            data[:1] in _INITIALIZE_MINT
            and self.accounts[at][:1] == bytes([mint])
            and self.program(at) in _TOKEN_PROGRAMS
            for at, data in enumerate(self.data)
        )

    def transfer(self, position: int) -> Transfer | None:
        """Read one instruction as a token transfer; None where it is not one."""
        program = self.keys[self.programs[position]]
        if program not in _TOKEN_PROGRAMS:
            return None
        data = self.data[position]
        accounts = self.accounts[position]
        if not data:
            return None
        tag = data[0]
        if tag == _TRANSFER:
            source, destination, authority = accounts[:3]
            amount = u64(data, 1)
        elif tag == _TRANSFER_CHECKED:
            source, _, destination, authority = accounts[:4]
            amount = u64(data, 1)
        elif tag == _TRANSFER_FEE_EXTENSION and data[1] == _TRANSFER_CHECKED_WITH_FEE:
            source, _, destination, authority = accounts[:4]
            amount = u64(data, 2)
            fee = u64(data, 11)
            return Transfer(position, source, destination, authority, amount, amount - fee)
        else:
            return None
        received = amount
        if program == TOKEN_2022_PROGRAM:
            if destination not in self._received_by:
                self._received_by[destination] = self._received(destination)
            found = self._received_by[destination]
            received = amount if found is None or not 0 <= found <= amount else found
        return Transfer(position, source, destination, authority, amount, received)

    def _received(self, destination: int) -> int | None:
        """Return what Token-2022 transfers delivered to an account, from the recorded balances.

        A transfer does not say whether its mint withholds a fee. Where it is the only one
        into the account, what the account gained plus what left it again is what arrived.
        """
        account = self.token_accounts.get(destination)
        if account is None:
            return None
        left = 0
        arrivals = 0
        for position, program_index in enumerate(self.programs):
            if self.keys[program_index] != TOKEN_2022_PROGRAM:
                continue
            data = self.data[position]
            accounts = self.accounts[position]
            if not data or len(accounts) < 3:
                continue
            if data[0] == _TRANSFER:
                target, at = accounts[DESTINATION], 1
            elif data[0] == _TRANSFER_CHECKED:
                target, at = accounts[CHECKED_DESTINATION], 1
            elif data[0] == _TRANSFER_FEE_EXTENSION and data[1] == _TRANSFER_CHECKED_WITH_FEE:
                target, at = accounts[CHECKED_DESTINATION], 2
            elif data[:1] in _SUPPLY and destination in accounts[:3]:
                return None  # minted or burnt as well: the balances do not show it
            else:
                continue
            if accounts[SOURCE] == destination:
                left += u64(data, at)
            if target == destination:
                arrivals += 1
        return account.post_raw - account.pre_raw + left if arrivals == 1 else None

    # -- events ---------------------------------------------------------------------------

    def cpi_events(self, position: int) -> Iterator[bytes]:
        """Yield the events that an instruction emitted by calling its own program, tag first."""
        program = self.programs[position]
        for at in range(position + 1, self.subtree_end(position)):
            if self.programs[at] == program and self.data[at][:8] == CPI_EVENT_TAG:
                yield self.data[at][8:]

    def log_events(self, position: int) -> list[bytes]:
        """Return the events that an instruction logged itself as `Program data:`, tag first."""
        return [
            data
            for line in self._log.lines.get(position, ())
            if line.startswith("data: ") and (data := _base64(line[6:]))
        ]

    def log_texts(self, position: int) -> list[str]:
        """Return the texts that an instruction logged itself as `Program log:`."""
        return [line[5:] for line in self._log.lines.get(position, ()) if line.startswith("log: ")]

    def log_fault(self, position: int) -> str:
        """Return why the log may lack lines of an instruction; empty where it has all of them."""
        return "" if position in self._log.whole else self._log.fault

    @lazy
    def _log(self) -> _Log:
        """Attribute log lines to positions: the n-th `invoke` is the n-th instruction that logs."""
        found = _Log("log ends early" if self.meta.log_messages else "log absent")
        lines = found.lines
        stack: list[int] = []
        position = -1
        keys, programs = self.keys, self.programs
        size = len(programs)
        for line in self.meta.log_messages:
            if line[8:13] in ("log: ", "data:") and line[:8] == "Program ":
                if stack:
                    lines.setdefault(stack[-1], []).append(line[8:])
            elif line[-8:] == " success":
                if stack and line[:8] == "Program ":
                    found.whole.add(stack.pop())
            elif line[-1:] == "]" and " invoke [" in line and line[:8] == "Program ":
                position += 1
                while position < size and (
                    position in self._batched or keys[programs[position]] in PRECOMPILES
                ):
                    position += 1
                if position >= size or not line.startswith(text(keys[programs[position]]), 8):
                    found.fault = "log disagrees with instructions"  # trust these alone
                    break
                stack.append(position)
            elif " failed: " in line and line[:8] == "Program ":
                if stack:
                    found.whole.add(stack.pop())
            elif line == "Log truncated":
                found.fault = "log truncated"
                break
        return found


def _batched(accounts: bytes, data: bytes) -> list[tuple[bytes, bytes]]:
    """Return accounts and data of each instruction in a Batch; none where the bytes do not fit.

    Before the data of each stand two bytes: how many of the accounts are its own, and its length.
    None has neither, so there are no more of them than accounts.
    """
    if data[:1] != _BATCH:
        return []
    found = []
    account, at = 0, 1
    while at < len(data):
        own, size = data[at : at + 2].ljust(2, b"\0")
        account, at = account + own, at + 2 + size
        if not own or not size or account > len(accounts) or at > len(data):
            return []
        found.append((accounts[account - own : account], data[at - size : at]))
    return found


def _base64(line: str) -> bytes:
    """Decode the first field of a `Program data:` line; empty where it is no base64."""
    try:
        return b64decode(line.split(" ", 1)[0])
    except (Base64Error, ValueError):
        return b""


def keys(*addresses: str) -> frozenset[bytes]:
    """Return a set of addresses as bytes."""
    return frozenset(key(address) for address in addresses)
