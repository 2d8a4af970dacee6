"""Transactions built by hand, as Yellowstone delivers them.

Accounts are called by short names, or by their address where it matters. Balances follow the
transfers; logs follow the calls.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from pipeline.solana.transaction import CPI_EVENT_TAG
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from schemas.solana.addresses import key, text

TOKEN = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
TOKEN_2022 = "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"
SYSTEM = "11111111111111111111111111111111"
FEE_DENOMINATOR = 10_000


def address(name: str) -> str:
    """The address of a name: itself where it is one, else one made of its hash."""
    is_address = len(name) >= 32 and name.isalnum()
    return name if is_address else text(sha256(name.encode()).digest())


@dataclass
class Token:
    """A token account."""

    mint: str
    owner: str
    pre_raw: int
    post_raw: int
    program: str
    recorded: bool  # not so where it was opened and closed in the transaction


@dataclass
class Call:
    """An instruction, its log lines and what it calls."""

    program: str
    accounts: list[str]
    data: bytes
    logs: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)


class TransactionBuilder:
    """Builds one transaction; the first signer pays the fee."""

    def __init__(self, *signers: str, slot_index: int = 0) -> None:
        self.index = slot_index
        self.keys = [address(name) for name in signers or ("trader",)]
        self.signers = len(self.keys)
        self.tokens: dict[str, Token] = {}
        self.fee_bps: dict[str, int] = {}  # Token-2022 transfer fee by mint
        self.decimals: dict[str, int] = {}
        self.lamports: dict[str, int] = {}  # what an account gained, fees aside
        self.calls: list[Call] = []

    # -- state ----------------------------------------------------------------------------

    def token(
        self,
        name: str,
        mint: str,
        owner: str,
        amount_raw: int = 0,
        *,
        program: str = TOKEN,
        recorded: bool = True,
    ) -> str:
        """Give an account tokens before the transaction."""
        self.tokens[address(name)] = Token(
            address(mint), address(owner), amount_raw, amount_raw, program, recorded
        )
        return name

    def mint(self, name: str, *, decimals: int = 6, fee_bps: int = 0) -> str:
        """Say what a mint is like."""
        self.decimals[address(name)] = decimals
        self.fee_bps[address(name)] = fee_bps
        return name

    # -- instructions ---------------------------------------------------------------------

    def call(
        self,
        program: str,
        accounts: Sequence[str] | str,
        data: bytes,
        *,
        under: Call | None = None,
        logs: Iterable[str] = (),
    ) -> Call:
        """Add an instruction; `accounts` may be names in one text."""
        names = accounts.split() if isinstance(accounts, str) else list(accounts)
        call = Call(address(program), [address(name) for name in names], data, list(logs))
        (self.calls if under is None else under.calls).append(call)
        return call

    def transfer(
        self,
        under: Call | None,
        source: str,
        destination: str,
        authority: str,
        amount_raw: int,
        *,
        checked: bool = False,
        names_fee: bool = False,
    ) -> Call:
        """Move tokens; a mint's transfer fee is withheld, the instruction names it on demand."""
        giver, taker = self.tokens[address(source)], self.tokens[address(destination)]
        fee = amount_raw * self.fee_bps.get(giver.mint, 0) // FEE_DENOMINATOR
        giver.post_raw -= amount_raw
        taker.post_raw += amount_raw - fee
        raw = amount_raw.to_bytes(8, "little")
        decimals = bytes([self.decimals.get(giver.mint, 6)])
        if names_fee:
            data = bytes([26, 1]) + raw + decimals + fee.to_bytes(8, "little")
        elif checked:
            data = bytes([12]) + raw + decimals
        else:
            data = bytes([3]) + raw
        between = [giver.mint] if names_fee or checked else []
        return self.call(
            giver.program, [source, *between, destination, authority], data, under=under
        )

    def batch(self, under: Call, *calls: Call) -> Call:
        """Put calls of a token program that follow each other under `under` into one Batch."""
        under.calls = [call for call in under.calls if call not in calls]
        data = b"".join(bytes([len(each.accounts), len(each.data)]) + each.data for each in calls)
        accounts = [account for each in calls for account in each.accounts]
        return self.call(calls[0].program, accounts, b"\xff" + data, under=under)

    def send(self, under: Call | None, source: str, destination: str, lamports: int) -> Call:
        """Move SOL by a System transfer."""
        self.gain(source, -lamports)
        self.gain(destination, lamports)
        data = (2).to_bytes(4, "little") + lamports.to_bytes(8, "little")
        return self.call(SYSTEM, [source, destination], data, under=under)

    def gain(self, name: str, lamports: int) -> None:
        """Move SOL as a program does with its own accounts: without an instruction."""
        self.lamports[address(name)] = self.lamports.get(address(name), 0) + lamports

    def mint_to(self, under: Call, mint: str, account: str, amount_raw: int) -> Call:
        """Mint tokens."""
        token = self.tokens[address(account)]
        token.post_raw += amount_raw
        data = b"\x07" + amount_raw.to_bytes(8, "little")
        return self.call(token.program, [mint, account, "mint authority"], data, under=under)

    def burn(
        self, under: Call | None, mint: str, account: str, authority: str, amount_raw: int
    ) -> Call:
        """Burn tokens."""
        token = self.tokens[address(account)]
        token.post_raw -= amount_raw
        data = b"\x08" + amount_raw.to_bytes(8, "little")
        return self.call(token.program, [account, mint, authority], data, under=under)

    def cpi_event(self, under: Call, body: bytes) -> Call:
        """Emit an event by self-CPI; `body` begins with the event's tag."""
        return self.call(under.program, ["event authority"], CPI_EVENT_TAG + body, under=under)

    @staticmethod
    def log_event(under: Call, body: bytes) -> None:
        """Emit an event in the log; `body` begins with the event's tag."""
        under.logs.append("data: " + b64encode(body).decode())

    # -- result ---------------------------------------------------------------------------

    def info(
        self, *, heights: bool = True, logs: bool = True, failed: bool = False
    ) -> SubscribeUpdateTransactionInfo:
        """Return the transaction; without heights as nodes before 1.14.6 recorded it."""
        info = SubscribeUpdateTransactionInfo(index=self.index)
        info.signature = sha256(repr(self.calls).encode()).digest() * 2
        info.transaction.signatures.append(info.signature)
        for number, outer in enumerate(self.calls):
            info.transaction.message.instructions.add(
                program_id_index=self._key(outer.program),
                accounts=bytes(map(self._key, outer.accounts)),
                data=outer.data,
            )
            inner = [entry for call in outer.calls for entry in _flat(call, 2)]
            if inner:
                group = info.meta.inner_instructions.add(index=number)
                for call, height in inner:
                    entry = group.instructions.add(
                        program_id_index=self._key(call.program),
                        accounts=bytes(map(self._key, call.accounts)),
                        data=call.data,
                    )
                    if heights:
                        entry.stack_height = height
        if logs:
            for outer in self.calls:
                info.meta.log_messages.extend(_log(outer, 1))
        for name, token in self.tokens.items():
            if token.recorded:
                for balances, amount in (
                    (info.meta.pre_token_balances, token.pre_raw),
                    (info.meta.post_token_balances, token.post_raw),
                ):
                    balance = balances.add(
                        account_index=self._key(name),
                        mint=token.mint,
                        owner=token.owner,
                        program_id=token.program,
                    )
                    balance.ui_token_amount.amount = str(amount)
                    balance.ui_token_amount.decimals = self.decimals.get(token.mint, 6)
        message = info.transaction.message
        message.header.num_required_signatures = self.signers
        message.account_keys.extend(map(key, self.keys))
        info.meta.fee = 5_000 * self.signers
        info.meta.pre_balances.extend([10**12] * len(self.keys))
        info.meta.post_balances.extend(10**12 + self.lamports.get(key, 0) for key in self.keys)
        if failed:
            info.meta.err.err = b"\x08\x00\x00\x00"
        return info

    def _key(self, account: str) -> int:
        if account not in self.keys:
            self.keys.append(account)
        return self.keys.index(account)


def _flat(call: Call, height: int) -> list[tuple[Call, int]]:
    return [(call, height), *(entry for child in call.calls for entry in _flat(child, height + 1))]


def _log(call: Call, height: int) -> list[str]:
    return [
        f"Program {call.program} invoke [{height}]",
        *(line for child in call.calls for line in _log(child, height + 1)),
        *(f"Program {line}" for line in call.logs),
        f"Program {call.program} consumed 1000 of 200000 compute units",
        f"Program {call.program} success",
    ]
