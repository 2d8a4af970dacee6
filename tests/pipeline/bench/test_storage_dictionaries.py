"""What `soltape bench storage --dictionary` measures, and which accounts it takes."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from random import Random

import click
import pytest

from pipeline.bench.storage_dictionaries import of_dumps, of_kind
from schemas.solana.addresses import STAKE_PROGRAM, text
from tests.support.stake import stake_data


def stakes(count: int) -> list[bytes]:
    random = Random(5)
    return [
        stake_data(random.randbytes(32), stake=random.randrange(10**12), activated=50)
        for _ in range(count)
    ]


def test_a_dictionary_of_others_of_its_kind_makes_frames_smaller():
    saved = of_kind(stakes(200))
    assert saved is not None
    assert (saved["accounts"], saved["bytes"]) == (100, 200)
    assert saved["frame_bytes_dictionary"] < saved["frame_bytes"] < 200
    assert min(value for name, value in saved.items() if "_us" in name) > 0


def test_too_few_bytes_train_nothing():
    assert of_kind([b"x"] * 4) is None


def test_dumps_are_read_by_kind_and_what_is_none_is_named(tmp_path: Path):
    for number, data in enumerate(stakes(3)):
        account = {"owner": text(STAKE_PROGRAM), "data": [b64encode(data).decode(), "base64"]}
        (tmp_path / f"{number}.json").write_text(json.dumps({"pubkey": None, "account": account}))
    assert {kind: len(data) for kind, data in of_dumps(tmp_path).items()} == {"stake": 3}
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(click.ClickException, match=r"other\.json: no account as RPC dumps it"):
        of_dumps(tmp_path)
