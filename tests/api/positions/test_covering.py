"""What is said of the programs of a protocol that are not covered: bounded, once a protocol."""

from __future__ import annotations

import pytest

from api.positions.answers import PositionError
from api.positions.covering import MOST_NAMED, covered_since, not_covered, once, programs_of
from schemas.account_reading import Coverage
from schemas.protocols.contract import Kind, Protocol
from schemas.solana.addresses import text

PROGRAMS = [bytes([n]) * 32 for n in range(1, 21)]


def protocol(*programs: bytes) -> Protocol:
    kinds = [Kind("Deposit", each, b"deposits", wallets=(8,)) for each in programs]
    kinds.append(Kind("Market", bytes(32), b"a market"))  # nobody's: no position rests on all
    return Protocol("realms", tuple(kinds))


def coverage(*missing: bytes, reason: str = "") -> dict[bytes, Coverage]:
    return {
        each: Coverage(None, reason) if each in missing else Coverage(7, "") for each in PROGRAMS
    }


def test_one_program_is_named_with_its_reason() -> None:
    [error] = not_covered("p01", protocol(*PROGRAMS[:1]), coverage(*PROGRAMS, reason="a hole"))
    assert error == {
        "protocol": "p01",
        "account": text(PROGRAMS[0]),
        "code": "not_covered",
        "detail": "a hole",
        "programs": {"missing": 1, "of": 1, "addresses": [text(PROGRAMS[0])]},
    }


@pytest.mark.parametrize("missing", [2, MOST_NAMED, 20])
def test_many_programs_are_one_error_with_a_few_of_them(missing: int) -> None:
    [error] = not_covered("p32", protocol(*PROGRAMS), coverage(*PROGRAMS[:missing]))
    assert (error["protocol"], error["account"]) == ("p32", None)
    assert error["detail"] == f"not all accounts of {missing} of its 20 programs are known yet"
    assert error["programs"] == {
        "missing": missing,
        "of": 20,
        "addresses": [text(each) for each in PROGRAMS[:MOST_NAMED][:missing]],
    }
    assert covered_since(coverage(*PROGRAMS[:missing]), [protocol(*PROGRAMS)]) is None


def test_programs_that_are_lost_alike_have_one_reason() -> None:
    found = coverage(*PROGRAMS[:3], reason="slots were lost")
    [error] = not_covered("p32", protocol(*PROGRAMS), found)
    assert error["detail"] == "slots were lost"
    [error] = not_covered("p32", protocol(*PROGRAMS), found | {PROGRAMS[0]: Coverage(None)})
    assert error["detail"] == "not all accounts of 3 of its 20 programs are known yet"


def test_where_all_are_covered_nothing_is_said() -> None:
    made = protocol(*PROGRAMS)
    assert [*not_covered("p32", made, coverage())] == []
    assert covered_since(coverage(), [made]) == 7
    assert programs_of([made, made]) == tuple(PROGRAMS)


def test_what_protocols_lack_alike_is_said_once_and_their_programs_by_each() -> None:
    def error(protocol: str | None, account: str, programs: bool = False) -> PositionError:
        return {
            "protocol": protocol,
            "account": account,
            "code": "not_covered",
            "detail": "not known",
            "programs": {"missing": 1, "of": 2, "addresses": [account]} if programs else None,
        }

    given = [
        error("p01", "wallet"),
        error("p01", "program", programs=True),
        error("p02", "wallet"),
        error("p02", "program", programs=True),
        error("p02", "other"),
        error("p02", "other"),
    ]
    assert once(given) == [error(None, "wallet"), given[1], given[3], given[4]]
