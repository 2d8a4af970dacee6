"""What protocols share: what a reading asks for by a mint, and who answers."""

from __future__ import annotations

from schemas.protocols.contract import Account, Kind, is_issuer, issuer_among, issuer_of

PROGRAM, MINT, OTHER_MINT = (bytes([n]) * 32 for n in range(1, 4))
POOL = Kind("pool", PROGRAM, b"pool", mints=(4,))
VAULT = Kind("vault", PROGRAM, b"vlt.", mints=(4,))


def account(address: int, kind: Kind, mint: bytes) -> Account:
    return Account(bytes([address]) * 32, kind, 1, kind.tag + mint, 9)


def test_the_issuer_of_a_mint_is_the_one_account_of_the_kind_that_the_mint_represents() -> None:
    wanted = issuer_of(MINT, POOL)
    assert is_issuer(wanted)
    others = [account(4, VAULT, MINT), account(5, POOL, OTHER_MINT)]
    issuer = account(6, POOL, MINT)
    assert issuer_among([*others, issuer], wanted) == issuer
    assert issuer_among(others, wanted) is None
    twice = [issuer, account(7, POOL, MINT)]
    assert issuer_among(twice, wanted) is None, "two accounts say that the mint is theirs"


def test_an_address_is_no_issuer() -> None:
    assert not is_issuer(MINT)
