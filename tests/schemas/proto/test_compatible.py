"""What subscribers have compiled keeps reading the tape: `tape.proto` may grow, never change.

`published_tape.proto` is the schema as it was last published. buf compares the two by its rules of
the file: nothing is removed, renumbered, retyped or renamed. What the schema gains goes into the
published one as well (`cp schemas/proto/tape.proto tests/schemas/proto/published_tape.proto`), once
this test has seen that it is compatible.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PUBLISHED = (HERE / "published_tape.proto").read_text()
NOW = (HERE.parents[2] / "schemas" / "proto" / "tape.proto").read_text()
BUF = shutil.which("buf", path=str(Path(sys.executable).parent)) or shutil.which("buf")
FIELD = "  string dex = 6;\n"


def breaking(folder: Path, schema: str) -> str:
    """Return what buf has against a schema, compared with the published one."""
    assert BUF, "buf is not installed: it comes with soltape[dev]"
    for name, text in (("now", schema), ("published", PUBLISHED)):
        (folder / name).mkdir()
        (folder / name / "tape.proto").write_text(text)
    done = subprocess.run(
        [BUF, "breaking", "now", "--against", "published"],
        cwd=folder,
        env={**os.environ, "BUF_CACHE_DIR": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode in (0, 100), done.stderr
    assert bool(done.stdout) == bool(done.returncode)
    return done.stdout


def test_subscribers_can_read_what_is_sent_now(tmp_path):
    assert breaking(tmp_path, NOW) == ""


def test_all_of_it_is_published():
    assert PUBLISHED == NOW, "compatible? then copy it: see this module's head"


BREAKING = (
    ("  uint64 slot = 2;\n", "", 'Previously present field "2" with name "slot" on message "Swap"'),
    ("  string dex = 6;\n", "  string dex = 44;\n", 'field "6" with name "dex" on message "Swap"'),
    ("  string pool = 8;\n", "  bytes pool = 8;\n", 'Field "8" with name "pool" on message "Swap"'),
    ("  string mint = 11;\n", "  string coin = 11;\n", 'Field "11" with name "coin" on message'),
    ("  Side side = 13;\n", "  repeated Side side = 13;\n", 'Field "13" with name "side"'),
    ("  SELL = 2;", "  SELL = 3;", 'Previously present enum value "2" on enum "Side"'),
    ("message Movement {", "message Moved {", 'Previously present message "Movement"'),
)


def test_what_would_break_them_is_refused(tmp_path):
    schema = PUBLISHED
    for before, after, _ in BREAKING:
        assert before in schema
        schema = schema.replace(before, after, 1)
    schema = schema.replace("repeated Movement ", "repeated Moved ")
    said = breaking(tmp_path, schema)
    assert [expected for *_, expected in BREAKING if expected not in said] == [], said


def test_a_new_field_is_allowed(tmp_path):
    grown = PUBLISHED.replace(FIELD, f"{FIELD}  string memo = 99;\n", 1)
    assert grown != PUBLISHED
    assert breaking(tmp_path, grown) == ""
