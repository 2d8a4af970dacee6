"""What is true of the reading of every protocol, whatever bytes an account has."""

from __future__ import annotations

import random
from collections.abc import ItemsView, Iterator, Mapping
from time import perf_counter

import pytest

from schemas.protocols.contract import (
    Account,
    Asset,
    Held,
    Kind,
    Position,
    Protocol,
    Reading,
    Unreadable,
    World,
)
from schemas.protocols.registry import ALL

WALLET = bytes(range(1, 33))
STRANGER = bytes([0xEE]) * 32
ROUNDS = 8
LARGEST = 1 << 17
WORLD = World(450_000_000, 1_790_000_000, 1_050)
WORLDS = 60
SMALL = bytes(each if each < 4 else 0 for each in range(256))
FLAGS = bytes(each & 1 for each in range(256))
SLOWEST_S = 2.0  # of one reading, on a machine that is busy
READ = [each for each in ALL if each.read is not None]
FOUND_BY_ADDRESS = {"adrena"}  # what is at an address derived from a wallet is the wallet's
OF_WALLETS = [
    (protocol, kind)
    for protocol in READ
    for kind in protocol.kinds
    if kind.wallets and kind.group == "positions"
]


def named(value: object) -> str:
    return str(getattr(value, "name", value))


def filled(kind: Kind, chance: random.Random, size: int, names: bytes) -> bytes:
    """Return bytes of a kind whose wallets and mints are `names`, and which else mean little.

    Small ones and flags are enums that exist, as often as not.
    """
    some = chance.randbytes(size)
    fill = chance.choice(("random", "zero", "ones", "small", "flags"))
    if fill == "random":
        data = bytearray(some)
    elif fill == "small":
        data = bytearray(some.translate(SMALL))
    elif fill == "flags":
        data = bytearray(some.translate(FLAGS))
    else:
        data = bytearray((b"\xff" if fill == "ones" else b"\0") * size)
    for at in (*kind.wallets, *kind.mints):
        data[at : at + 32] = names
    data[kind.tag_at : kind.tag_at + len(kind.tag)] = kind.tag
    return bytes(data[:size])


def sizes(kind: Kind, chance: random.Random) -> Iterator[int]:
    if kind.size is not None:
        yield kind.size
        return
    least = kind.tag_at + len(kind.tag)
    yield from (least, chance.randrange(least, 1000 + least), 1000, 2000, 9000, 11_000)


def accounts(chance: random.Random, names: bytes, kinds: tuple[Kind, ...]) -> list[Account]:
    found = []
    for kind in kinds:
        for size in sizes(kind, chance):
            data = filled(kind, chance, size, names)
            address = chance.choice(kind.addresses) if kind.addresses else chance.randbytes(32)
            if kind.matches(address, kind.program, data):
                found.append(
                    Account(address, kind, chance.randrange(1 << 40), data, chance.randrange(900))
                )
    chance.shuffle(found)
    return found[: chance.randrange(1, 12)] if found else []


def held_of(protocol: Protocol, seed: int, names: bytes = WALLET) -> Held:
    chance = random.Random(f"{protocol.name} {seed}")
    own = accounts(chance, names, protocol.kinds)
    amount_raw = chance.choice((1, chance.randrange(1, 1 << 64)))  # of an NFT, of a share
    tokens = {names: amount_raw} if protocol.reads_tokens else {}
    return Held(WALLET, own, tokens)


def reference(protocol: Protocol, address: bytes, seed: int) -> Account | None:
    """Return what is at an address: an account of any of the protocol's kinds, or nothing."""
    chance = random.Random(f"{seed} {address.hex()}")
    fixed = [each for each in protocol.kinds if address in each.addresses]
    kinds = fixed or [each for each in protocol.kinds if not each.addresses]
    if not kinds or chance.random() < 0.2:
        return None
    kind = chance.choice(kinds)
    data = filled(kind, chance, chance.choice([*sizes(kind, chance)]), chance.randbytes(32))
    if not kind.matches(address, kind.program, data):
        return None
    return Account(address, kind, 5, data, 400)


def read(protocol: Protocol, held: Held, seed: int) -> list[Position] | str:
    """Return the positions of a reading, or why it is unreadable."""
    assert protocol.read is not None
    rounds = 0
    try:
        reading = protocol.read(held, WORLD)
        wanted = next(reading)
        while True:
            rounds += 1
            assert rounds <= ROUNDS, "more rounds than the driver allows"
            assert len(wanted) <= LARGEST
            assert all(len(each) == 32 for each in wanted), "no address"
            sent: Mapping[bytes, Account] = {
                each: found
                for each in wanted
                if (found := reference(protocol, each, seed)) is not None
            }
            wanted = reading.send(sent)
    except StopIteration as end:
        found = end.value
        assert isinstance(found, list)
        return found
    except Unreadable as error:
        return f"{error} {error.account!r}"


def read_all(protocol: Protocol, held: Held, seed: int) -> list[Position]:
    """Return the positions; accounts that are unreadable are left out, as the driver does."""
    for _ in range(len(held.accounts) + 1):
        answer = read(protocol, held, seed)
        if not isinstance(answer, str):
            return answer
        kept = [each for each in held.accounts if repr(each.address) not in answer]
        if len(kept) == len(held.accounts):
            return []
        held = Held(held.wallet, kept, held.tokens)
    raise AssertionError("unreadable without an account")


def amounts(position: Position) -> Iterator[Asset]:
    for asset in position.assets:
        assert len(asset.mint) == 32
        assert asset.amount_raw is None or asset.amount_raw >= 0, asset
        yield asset


@pytest.mark.parametrize("protocol", READ, ids=named)
def test_hostile_bytes_are_read_or_unreadable_and_the_same_each_time(protocol: Protocol) -> None:
    routes = {route.path for route in protocol.routes}
    for seed in range(WORLDS):
        held = held_of(protocol, seed)
        began = perf_counter()
        found = read_all(protocol, held, seed)
        assert perf_counter() - began < SLOWEST_S * (1 + len(held.accounts))
        assert repr(found) == repr(read_all(protocol, held_of(protocol, seed), seed))
        kept = [(each.account.address, each.route, each.id) for each in found]
        assert len(set(kept)) == len(kept), "a fact of the chain is in one position only"
        for position in found:
            assert position.route in routes
            assert all(len(address) == 32 for address in position.missing)
            assert all(raw > 0 for raw in position.stands_for.values())
            unknown = [each for each in amounts(position) if each.amount_raw is None]
            if unknown and not position.missing:
                named_at = (*position.unsupported_fields, *protocol.unsupported_fields)
                assert named_at, "an amount that is not known is named"


class Asked(dict[bytes, int]):
    """A wallet's tokens, which notice that somebody looks."""

    is_asked = False

    def __bool__(self) -> bool:
        self.is_asked = True
        return bool(len(self))

    def __contains__(self, mint: object) -> bool:
        self.is_asked = True
        return super().__contains__(mint)

    def __getitem__(self, mint: bytes) -> int:
        self.is_asked = True
        return super().__getitem__(mint)

    def __iter__(self) -> Iterator[bytes]:
        self.is_asked = True
        return super().__iter__()

    def get(self, mint: bytes, default: int | None = None) -> int | None:  # type: ignore[override]
        self.is_asked = True
        return super().get(mint, default)

    def items(self) -> ItemsView[bytes, int]:  # type: ignore[override]
        self.is_asked = True
        return super().items()


@pytest.mark.parametrize("protocol", READ, ids=named)
def test_only_who_says_so_looks_at_the_wallets_tokens(protocol: Protocol) -> None:
    tokens = Asked({WALLET: 1})
    for seed in range(WORLDS // 6):
        held = held_of(protocol, seed)
        read_all(protocol, Held(WALLET, held.accounts, tokens), seed)
    assert tokens.is_asked == protocol.reads_tokens


def sent_nothing(reading: Reading) -> tuple[list[bytes], list[Position]]:
    """Return what a reading asks for, and what it finds where none of that exists."""
    asked: list[bytes] = []
    try:
        asked += next(reading)
        while True:
            asked += reading.send({})
    except StopIteration as end:
        return asked, end.value


@pytest.mark.parametrize("protocol", READ, ids=named)
def test_only_who_says_so_asks_for_accounts_of_a_wallet_that_has_none(protocol: Protocol) -> None:
    assert protocol.read is not None
    asked, found = sent_nothing(protocol.read(Held(WALLET, []), WORLD))
    assert found == []
    assert bool(asked) == protocol.reads_derived


@pytest.mark.parametrize("protocol", READ, ids=named)
def test_accounts_of_another_wallet_give_no_position(protocol: Protocol) -> None:
    own = tuple(each for each in protocol.kinds if each.wallets or each.mints)
    for seed in range(WORLDS):
        chance = random.Random(f"stranger {protocol.name} {seed}")
        others = accounts(chance, STRANGER, own)
        found = read_all(protocol, Held(WALLET, others), seed)
        if protocol.name in FOUND_BY_ADDRESS:
            found = [each for each in found if each.account in others]
        assert found == []


@pytest.mark.parametrize(("protocol", "kind"), OF_WALLETS, ids=named)
def test_an_account_alone_ends_in_time(protocol: Protocol, kind: Kind) -> None:
    chance = random.Random(kind.name)
    for seed in range(4):
        for account in accounts(chance, WALLET, (kind,)):
            began = perf_counter()
            read(protocol, Held(WALLET, [account]), seed)
            assert perf_counter() - began < SLOWEST_S


@pytest.mark.parametrize(
    "name", ["meteora_damm_v2", "meteora_dlmm", "raydium_clmm", "raydium_cpmm", "whirlpools"]
)
def test_pools_of_token_2022_say_that_transfer_fees_are_not_taken_off(name: str) -> None:
    [protocol] = [each for each in ALL if each.name == name]
    assert any("transfer fees" in each for each in protocol.unsupported_fields)
