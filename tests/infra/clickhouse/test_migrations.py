"""The migration files themselves: numbered, repeatable, no two of one number."""

import pytest

from infra.clickhouse.migrations import Migration, MigrationError, known
from infra.clickhouse.statement import split


def test_the_files_are_numbered_and_every_statement_may_run_twice():
    migrations = known()
    numbers = [migration.number for migration in migrations]
    assert numbers == sorted(set(numbers))
    assert numbers[0] == 1
    assert all(migration.statements for migration in migrations)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO swaps SELECT * FROM other",
        "CREATE TABLE swaps (a UInt8) ENGINE = Memory",
        "CREATE OR REPLACE TABLE swaps (a UInt8) ENGINE = Memory",
        "ALTER TABLE swaps ADD COLUMN a UInt8",
        "ALTER TABLE swaps DELETE WHERE 1",
        "DROP TABLE swaps",
        "TRUNCATE TABLE swaps",
        "RENAME TABLE a TO b",
    ],
)
def test_a_statement_that_may_not_run_twice_is_refused(statement):
    with pytest.raises(MigrationError, match=r"0007_x\.sql: may not run twice"):
        _ = Migration(7, "x", f"DROP VIEW IF EXISTS v;\n{statement};").statements


@pytest.mark.parametrize(
    "statement",
    [
        "create_is_lower_case",
        "create table if not exists t (a UInt8)",
    ],
)
def test_keywords_are_in_capitals(statement):
    with pytest.raises(MigrationError):
        _ = Migration(7, "x", statement).statements


def test_statements_end_at_semicolons_that_are_neither_text_nor_comment():
    sql = b"""-- first; of all
CREATE VIEW a AS SELECT ';' AS `b;` /* ; */, 'it''s; so';

-- nothing here;
;
SELECT 2 -- the end;
"""
    assert [statement.split(b"\n")[0] for statement in split(sql)] == [
        b"CREATE VIEW a AS SELECT ';' AS `b;` /* ; */, 'it''s; so'",
        b"SELECT 2 -- the end;",
    ]


def test_a_text_names_the_ones_that_made_the_same_before_it():
    before = Migration(1, "a", "DROP VIEW IF EXISTS v")
    now = Migration(1, "a", f"-- earlier: {before.checksum}\nDROP VIEW IF EXISTS w")
    assert now.checksums == {now.checksum, before.checksum}
    assert before.checksums == {before.checksum}


def test_a_checksum_is_of_the_text():
    assert Migration(1, "a", "x").checksum != Migration(1, "a", "x ").checksum
    assert Migration(1, "a", "x").checksum == Migration(2, "b", "x").checksum
