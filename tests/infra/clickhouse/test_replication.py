"""Migrations as replicated tables: what is rewritten, and that an engine with a Keeper takes it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

# private `_RECORDS`: the table of migrations, which no migration creates.
from infra.clickhouse.migrations import _RECORDS, known
from infra.clickhouse.replication import NotReplicable, replicated
from tests.support import systems
from tests.support.systems import bound

WITH_KEEPER = Path(systems.__file__).parent / "clickhouse" / "with_keeper.py"
READ_ONLY = (242, 236)  # TABLE_IS_READ_ONLY; ABORTED, of a mutation
AT_RUN_TIME = [
    "ALTER TABLE swaps MODIFY TTL written_at + toIntervalDay(90)",
    "ALTER TABLE book_checkpoints DELETE WHERE partition = 1 SETTINGS mutations_sync = 2",
]
PLACE = "'/clickhouse/tables/{shard}/{database}/{table}', '{replica}'"
STATEMENTS = [
    _RECORDS,
    *(statement for migration in known() for statement in migration.statements),
]


@pytest.mark.parametrize(
    ("engine", "made"),
    [
        ("ENGINE = MergeTree", f"ENGINE = ReplicatedMergeTree({PLACE})"),
        ("ENGINE=MergeTree()", f"ENGINE=ReplicatedMergeTree({PLACE})"),
        ("ENGINE MergeTree ( )", f"ENGINE ReplicatedMergeTree ({PLACE} )"),
        (
            "engine = ReplacingMergeTree(slot, is_deleted)",
            f"engine = ReplicatedReplacingMergeTree({PLACE}, slot, is_deleted)",
        ),
        (
            "ENGINE = SummingMergeTree((a, b))",
            f"ENGINE = ReplicatedSummingMergeTree({PLACE}, (a, b))",
        ),
    ],
)
def test_the_engine_of_a_table_and_nothing_else_is_changed(engine, made):
    statement = (
        "CREATE TABLE IF NOT EXISTS t -- ENGINE = MergeTree\n"
        "(engine String COMMENT 'ENGINE = MergeTree', `ENGINE` UInt8, n UInt8 DEFAULT (1)) {}\n"
        "ORDER BY engine SETTINGS index_granularity = 2048 COMMENT 'ENGINE = MergeTree()'"
    )
    assert replicated(statement.format(engine)) == statement.format(made)


@pytest.mark.parametrize(
    ("statement", "made"),
    [
        (
            "CREATE OR REPLACE VIEW v AS SELECT 1",
            "CREATE OR REPLACE VIEW v ON CLUSTER c AS SELECT 1",
        ),
        ("DROP VIEW IF EXISTS `v`", "DROP VIEW IF EXISTS `v` ON CLUSTER c"),
        (
            "CREATE DATABASE IF NOT EXISTS soltape",
            "CREATE DATABASE IF NOT EXISTS soltape ON CLUSTER c",
        ),
        (
            "CREATE TABLE IF NOT EXISTS t (a UInt8) ENGINE = MergeTree ORDER BY a",
            "CREATE TABLE IF NOT EXISTS t ON CLUSTER c (a UInt8) ENGINE = "
            f"ReplicatedMergeTree({PLACE}) ORDER BY a",
        ),
        ("ALTER TABLE t MODIFY COMMENT 'x'", "ALTER TABLE t MODIFY COMMENT 'x'"),
    ],
)
def test_what_is_made_or_dropped_is_so_on_a_cluster(statement, made):
    assert replicated(statement, "c") == made


@pytest.mark.parametrize(
    "engine", ["ENGINE = Memory", "ENGINE = ReplicatedMergeTree('/a', 'b')", "AS SELECT 1"]
)
def test_a_table_of_one_server_alone_is_refused(engine):
    with pytest.raises(NotReplicable):
        replicated(f"CREATE TABLE IF NOT EXISTS t (a UInt8) {engine}")


@pytest.mark.slow
@pytest.mark.processes
def test_an_engine_with_a_keeper_takes_every_statement(tmp_path):
    ours = [replicated(statement) for statement in STATEMENTS]
    tables = [each for each in ours if each.split()[:2] == ["CREATE", "TABLE"]]
    assert len(tables) > 15
    engines = (
        "SELECT engine, zookeeper_path, replica_name FROM system.tables t "
        "JOIN system.replicas r ON r.table = t.name WHERE t.database = 'soltape'"
    )
    asked = [
        "CREATE DATABASE soltape",
        "USE soltape",
        *tables,
        *AT_RUN_TIME,
        *(f"EXPLAIN AST {each}" for each in ours),
        *(f"EXPLAIN AST {replicated(statement, 'c')}" for statement in STATEMENTS),
        engines,
    ]
    done = subprocess.run(
        bound([sys.executable, str(WITH_KEEPER), str(tmp_path)]),
        input="\n".join(map(json.dumps, asked)),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    found = dict(zip(asked, answers, strict=True))
    for statement, (code, text) in found.items():
        # The engine has understood it and refuses it for the table's state alone.
        wanted = READ_ONLY if statement in AT_RUN_TIME else (0,)
        assert code in wanted, (statement, text)
    made = [line.split("\t") for line in found[engines][1].splitlines()]
    assert len(made) == len(tables)
    assert all(engine.startswith("Replicated") for engine, _, _ in made)
    assert all(path.startswith("/clickhouse/tables/01/soltape/") for _, path, _ in made)
