"""Stake, token, mint and metadata accounts read as coders of other make read them.

Accounts of two sources: random ones, which the coders write, and recorded ones of the corpus. What
is in the corpus and has no protocol file is counted.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from schemas.protocols import registry
from schemas.solana.addresses import METAPLEX_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM, key
from schemas.solana.stake_accounts import read_stake
from schemas.solana.token_accounts import read_metaplex, read_mint, read_token_account
from tests.schemas.solana import peer

ACCOUNTS = Path(__file__).parents[4] / "shared" / "corpus" / "accounts"
RANDOM = range(150)

# Which coder reads a kind of account; what has none is read by its fixed layout (sysvars).
CODERS = {
    "stake": "stake",
    "stake_genesis": "stake",
    "mint": "mint",
    "token": "token",
    "mint_2022": "mint_2022",
    "mint_2022_extended": "mint_2022",
    "token_2022": "token_2022",
    "token_2022_extended": "token_2022",
    "metadata": "metadata",
}

pytestmark = pytest.mark.node


@pytest.fixture(scope="module")
def coders(request: pytest.FixtureRequest) -> peer.Coders:
    return peer.Coders(request)


def check(coder: str, data: bytes, theirs: dict[str, Any]) -> None:
    """Fail if we read an account in another way than its coder."""
    program = TOKEN_2022_PROGRAM if coder.endswith("_2022") else TOKEN_PROGRAM
    if coder == "stake":
        for fields in theirs["state"].get("fields", ())[1:2]:
            del fields["delegation"]["reserved"]
        assert peer.stake(read_stake(data)) == theirs
    elif coder == "metadata":
        read = read_metaplex(METAPLEX_PROGRAM, data)
        assert peer.metadata(read) == peer.metadata_of_peer(theirs)
    elif coder.startswith("mint"):
        read = read_mint(program, data)
        kinds, fields = peer.extensions_of_peer(theirs)
        theirs.pop("extensions", None)
        assert peer.mint(read) == theirs
        ours = peer.mint_extensions(read.extensions) if read.extensions else {}
        assert list(read.extensions.kinds if read.extensions else ()) == kinds
        assert ours == {name: each for name, each in fields.items() if name in ours}
        assert not (READ_OF_MINTS & fields.keys()) - ours.keys()
    else:
        read = read_token_account(program, data)
        kinds, fields = peer.extensions_of_peer(theirs)
        theirs.pop("extensions", None)
        assert peer.token(read, theirs["state"]) == theirs
        found = read.extensions
        assert list(found.kinds) == kinds
        assert found.withheld_raw == int(
            fields.get("TransferFeeAmount", {"withheldAmount": 0})["withheldAmount"]
        )
        assert found.is_owner_immutable == ("ImmutableOwner" in fields)
        assert found.is_non_transferable == ("NonTransferableAccount" in fields)
        assert found.has_confidential_balance == ("ConfidentialTransferAccount" in fields)
        memo, guard = fields.get("MemoTransfer", {}), fields.get("CpiGuard", {})
        assert found.requires_memo == memo.get("requireIncomingTransferMemos", False)
        assert found.is_cpi_guarded == guard.get("lockCpi", False)


READ_OF_MINTS = {
    *("TransferFeeConfig", "InterestBearingConfig", "ScaledUiAmountConfig", "TransferHook"),
    *("MetadataPointer", "TokenMetadata", "PausableConfig", "MintCloseAuthority"),
    *("PermanentDelegate", "DefaultAccountState", "NonTransferable"),
}


@pytest.mark.parametrize("coder", sorted(set(CODERS.values())))
def test_random_accounts(coders: peer.Coders, coder: str) -> None:
    for data, theirs in coders.random(coder, RANDOM):
        check(coder, data, theirs)


@pytest.mark.skipif(not ACCOUNTS.exists(), reason="the corpus of real accounts is not here")
def test_recorded_accounts(coders: peer.Coders) -> None:
    counts: Counter[str] = Counter()
    recorded: list[tuple[str, bytes]] = []
    for line in (ACCOUNTS / "INDEX.jsonl").read_text().splitlines():
        entry = json.loads(line)
        account = json.loads((ACCOUNTS / entry["file"]).read_text())["account"]
        data = base64.b64decode(account["data"][0])
        kind = registry.kind_of(bytes(32), key(entry["owner"]), data)
        if kind is None:
            counts["no protocol file"] += 1
            assert entry["owner"] not in PROGRAMS, entry["file"]
        else:
            counts[kind.name] += 1
            if kind.name in CODERS:  # a protocol's are judged in tests/schemas/protocols
                recorded.append((CODERS[kind.name], data))
            else:
                assert entry["owner"] not in PROGRAMS, entry["file"]
    for (coder, data), theirs in zip(recorded, coders.decode(recorded), strict=True):
        check(coder, data, theirs)
    print(dict(counts))
    assert sum(counts[name] for name in CODERS) == len(recorded)
    assert len(recorded) >= 30
    assert counts.keys() > {"token", "mint", "token_2022_extended", "mint_2022_extended"}


PROGRAMS = {
    "Stake11111111111111111111111111111111111111",
    "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
    "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb",
    "metaqbxxUerdq28cj1RbAWkYQm3ybzjb6a8bt518x1s",
}
