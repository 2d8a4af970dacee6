"""What tokens that are shares of stake stand for, against the SDKs of their programs."""

from __future__ import annotations

import base64
import json
import subprocess
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.chain.market.runtime.stake_pool import StakePool
from schemas.protocols import marinade, stake_pool
from schemas.protocols.contract import Account, PoolShare, Unreadable
from schemas.protocols.registry import KINDS, SHARE_PROGRAMS, kind_of, pool_share
from schemas.solana.addresses import key, text
from tests.support import npm
from tests.support.exploring import examples
from tests.support.judging import judged

CORPUS = Path(__file__).parents[4] / "shared" / "corpus" / "accounts"
SDKS = Path(__file__).parent / "pool_sdks"
MANAGER, MINT, POOL = (bytes([n]) * 32 for n in (1, 2, 3))
ANY_POOL = StakePool(MANAGER, MINT, 5, 4).data()
ANY_STATE = marinade.STATE.tag + MINT + bytes(2616 - 40)
LAMPORTS = 10**15
U64 = st.integers(0, 2**64 - 1)


def account(kind: Any, data: bytes) -> Account:
    return Account(POOL, kind, 1, data, 9)


def ours(kind: str, data: bytes) -> PoolShare:
    program = stake_pool.KINDS[0].program if kind == "stake_pool" else marinade.STATE.program
    found = kind_of(POOL, program, data)
    assert found is not None
    share = pool_share(account(found, data), data[162:194] if kind == "stake_pool" else data[8:40])
    assert share is not None
    return share


@pytest.fixture(scope="module")
def sdks(request: pytest.FixtureRequest) -> Path:
    return npm.installed(request, "pool-sdks", SDKS, "@marinade.finance/marinade-ts-sdk")


def asked(folder: Path, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    done = subprocess.run(
        ["node", "pools.cjs"],
        cwd=folder,
        input="".join(json.dumps(each) + "\n" for each in questions),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def check(kind: str, data: bytes, theirs: dict[str, Any]) -> None:
    share = ours(kind, data)
    assert text(share.mint) == theirs["mint"]
    assert (share.lamports, share.supply_raw) == (
        int(theirs["lamports"]),
        int(theirs["supply_raw"]),
    )
    assert share.epoch == theirs["epoch"]
    if "msol" in theirs and share.supply_raw:
        assert LAMPORTS * share.supply_raw // share.lamports == int(theirs["msol"])


@pytest.mark.node
@pytest.mark.parametrize(("kind", "some"), [("stake_pool", ANY_POOL), ("marinade", ANY_STATE)])
def test_random_pools_are_read_as_their_sdk_reads_them(sdks: Path, kind: str, some: bytes) -> None:
    template = base64.b64encode(some).decode()
    questions = [{"random": kind, "data": template, "seed": seed} for seed in range(200)]
    answers = asked(sdks, questions)
    assert len({each["lamports"] for each in answers}) > 190
    for theirs in answers:
        check(kind, base64.b64decode(theirs["data"]), theirs)
    judged(worlds=len(answers))


@pytest.mark.node
@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus of real accounts is not here")
def test_recorded_pools_are_read_as_their_sdk_reads_them(sdks: Path) -> None:
    recorded = []
    for folder, kind in (("spl-stake-pool", "stake_pool"), ("marinade", "marinade")):
        for file in sorted((CORPUS / folder).glob("*.json")):
            found = json.loads(file.read_text())["account"]
            assert key(found["owner"]) in SHARE_PROGRAMS, file.name
            recorded.append((kind, found["data"][0]))
    assert len(recorded) == 4
    answers = asked(sdks, [{"decode": kind, "data": data} for kind, data in recorded])
    for (kind, data), theirs in zip(recorded, answers, strict=True):
        check(kind, base64.b64decode(data), theirs)
        rate = ours(kind, base64.b64decode(data)).worth(1)
        assert rate is not None
        assert Fraction(1) <= rate < Fraction(3, 2), "staking earns"
        if "price_x32" in theirs:  # what the program itself computed last
            assert int(rate * 2**32) == int(theirs["price_x32"])
    judged(accounts=len(recorded))


@given(U64, U64, U64, U64)
@examples(300)
def test_worth_is_exact_and_never_more_than_the_pool(
    lamports: int, supply_raw: int, first: int, second: int
) -> None:
    share = PoolShare(MINT, lamports, supply_raw, 0)
    both = share.worth(first + second)
    if not lamports or not supply_raw:
        assert both is None
        return
    of_first, of_second = share.worth(first), share.worth(second)
    assert of_first is not None
    assert of_second is not None
    assert of_first + of_second == both
    assert share.worth(supply_raw) == lamports
    assert int(of_first) + int(of_second) <= int(both or 0)


@given(U64, U64, st.integers(0, 1000))
@examples(100)
def test_the_simulated_chains_pool_is_read(lamports: int, supply_raw: int, epoch: int) -> None:
    data = StakePool(MANAGER, MINT, lamports, supply_raw, epoch).data()
    assert ours("stake_pool", data) == PoolShare(MINT, lamports, supply_raw, epoch)
    for kind in stake_pool.KINDS:
        assert kind_of(POOL, kind.program, data) is kind
        assert kind.found_by(data) == [MINT]


def test_the_tag_of_marinade_s_state_is_the_hash_of_its_name() -> None:
    assert marinade.STATE.tag == sha256(b"account:State").digest()[:8]


def test_what_is_no_pool_of_a_mint() -> None:
    [kind] = KINDS[marinade.STATE.program]
    assert pool_share(account(kind, ANY_STATE), b"x" * 32) is None
    assert pool_share(account(kind, ANY_STATE[:500]), MINT) is None
    with pytest.raises(Unreadable, match="500 bytes"):
        marinade.share(account(kind, ANY_STATE[:500]))
    with pytest.raises(Unreadable, match="200 bytes"):
        stake_pool.share(account(stake_pool.KINDS[0], ANY_POOL[:200]))
    assert kind_of(POOL, stake_pool.KINDS[0].program, b"\2" + ANY_POOL[1:]) is None
    token = KINDS[key("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA")][0]
    assert pool_share(account(token, ANY_POOL), MINT) is None
