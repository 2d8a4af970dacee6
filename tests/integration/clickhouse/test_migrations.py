"""Migrations on the embedded server: once, from many places, and refused where they must be."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from infra.clickhouse.client import ClickHouseError, connect
from infra.clickhouse.migrations import Migration, MigrationError, known, migrate, pending
from infra.settings import Settings
from schemas.rows import TABLES

# Two wallets with a gain and a loss in a token, over two days.
GAINS = (
    """INSERT INTO positions (mint, wallet, day, slot, bought_raw_low, sold_raw_low,
        bought_lamports_low, bought_usd_micros_low, sold_lamports_low, sold_usd_micros_low,
        matched_proceeds_lamports_low, matched_proceeds_usd_micros_low,
        matched_cost_lamports_low, matched_cost_usd_micros_low, buys, sells, wins, losses,
        first_trade_slot, first_trade_time, last_trade_time)
    VALUES
        ('m', 'a', '2026-07-01', 5, 90, 30, 900, 9000, 400, 4000, 400, 4000, 300, 3000, 2, 1, 1, 0,
         5, 1782900000, 1782900100),
        ('m', 'a', '2026-07-02', 9, 90, 60, 900, 9000, 500, 5000, 500, 5000, 600, 6000, 2, 2, 1, 1,
         5, 1782900000, 1782990000),
        ('m', 'b', '2026-07-02', 8, 10, 10, 100, 1000, 700, 7000, 700, 7000, 100, 1000, 1, 1, 1, 0,
         7, 1782980000, 1782990000)""",
    """INSERT INTO wallet_days (wallet, day, slot, bought_lamports_low,
        bought_usd_micros_low, sold_lamports_low, sold_usd_micros_low,
        matched_proceeds_lamports_low, matched_proceeds_usd_micros_low,
        matched_cost_lamports_low, matched_cost_usd_micros_low, buys, sells, wins, losses)
    VALUES
        ('a', '2026-07-01', 5, 900, 9000, 400, 4000, 400, 4000, 300, 3000, 2, 1, 1, 0),
        ('a', '2026-07-02', 9, 0, 0, 100, 1000, 100, 1000, 300, 3000, 0, 1, 0, 1),
        ('b', '2026-07-02', 8, 100, 1000, 700, 7000, 700, 7000, 100, 1000, 1, 1, 1, 0)""",
    """INSERT INTO lot_matches (wallet, mint, signature, slot, tx_index, block_time, kind,
        lot_number, quantity_raw, cost_lamports, cost_usd_micros, proceeds_lamports,
        proceeds_usd_micros)
    VALUES
        ('a', 'm', 's1', 5, 1, 1782900100, 'sale', 0, 30, 300, 3000, 400, 4000),
        ('a', 'm', 's2', 9, 1, 1782990000, 'sale', 0, 30, 300, 3000, 100, 1000),
        ('b', 'm', 's3', 8, 1, 1782990000, 'transfer', 0, 5, 50, 500, NULL, NULL)""",
)


@pytest.fixture
def settings(embedded, request):
    """Settings with a database of the test's own."""
    name = "".join(c if c.isalnum() else "_" for c in request.node.name)[:60]
    settings = Settings(_env_file=None, clickhouse_url=embedded.url, clickhouse_database=name)
    yield settings
    with connect(settings, "default") as client:
        client.command(f"DROP DATABASE IF EXISTS {name}")


def command(settings, *arguments):
    env = os.environ | {
        "CLICKHOUSE_URL": settings.clickhouse_url,
        "CLICKHOUSE_DATABASE": settings.clickhouse_database,
    }
    return subprocess.run(
        [sys.executable, "-m", "infra.cli", "clickhouse", "migrate", *arguments],
        capture_output=True, text=True, timeout=240, env=env, check=False,
    )  # fmt: skip


def records(settings):
    with connect(settings) as client:
        rows = client.query("SELECT number, name, checksum FROM schema_migrations FINAL")
        return sorted(rows.result_rows)


def one(number, name, sql):
    return Migration(number, name, sql)


def test_all_are_applied_once_and_recorded(settings):
    assert pending(settings) == known()
    assert migrate(settings) == known()
    assert migrate(settings) == []
    assert pending(settings) == []
    assert records(settings) == [(m.number, m.name, m.checksum) for m in known()]


def test_several_processes_at_once(settings):
    with ThreadPoolExecutor() as pool:
        done = list(pool.map(lambda _: command(settings), range(3)))
    assert [(d.returncode, d.stderr) for d in done] == [(0, "")] * 3
    assert records(settings) == [(m.number, m.name, m.checksum) for m in known()]
    assert "up to date" in command(settings).stdout


def test_the_check_changes_nothing_and_answers_by_its_status(settings):
    before = command(settings, "--check")
    assert before.returncode == 1
    assert "to be applied: 0001_tape" in before.stderr
    with connect(settings, "default") as client:
        assert client.command(f"EXISTS DATABASE {settings.clickhouse_database}") == 0
    assert "applied 0001_tape" in command(settings).stdout
    after = command(settings, "--check")
    assert (after.returncode, "up to date" in after.stdout) == (0, True)


def test_a_server_that_is_not_there_is_named(settings):
    refused = command(settings.model_copy(update={"clickhouse_url": "http://127.0.0.1:9"}))
    assert refused.returncode == 1
    assert "nothing serves ClickHouse at http://127.0.0.1:9" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_tables_are_what_writers_expect(settings):
    migrate(settings)
    with connect(settings) as client:
        for table in TABLES.values():
            described = client.query(f"DESCRIBE TABLE {table.name}").result_rows
            plain = {name: type_ for name, type_, kind, *_ in described if not kind}
            assert list(plain.items()) == list(table.columns.items()), table.name


def test_every_table_view_and_column_is_commented(settings):
    """But views with parameters: the server keeps neither their columns nor their comment."""
    migrate(settings)
    with connect(settings) as client:
        missing = client.query(
            "SELECT table, name FROM system.columns "
            "WHERE database = currentDatabase() AND comment = '' "
            "AND table NOT IN (SELECT name FROM system.tables WHERE engine = 'View' "
            "AND database = currentDatabase() AND match(as_select, '\\\\{[a-z]+:')) "
            "UNION ALL SELECT name, '' FROM system.tables "
            "WHERE database = currentDatabase() AND comment = '' "
            "AND NOT (engine = 'View' AND match(as_select, '\\\\{[a-z]+:'))"
        )
        assert missing.result_rows == []


def test_sort_keys_hold_the_partition_keys(settings):
    """Else FINAL reads every partition, from ClickHouse 26.3 on."""
    migrate(settings)
    with connect(settings) as client:
        tables = client.query(
            "SELECT name, partition_key, sorting_key FROM system.tables "
            "WHERE database = currentDatabase() AND partition_key != ''"
        ).result_rows
    for name, partition_key, sorting_key in tables:
        words = partition_key.replace("(", " ").replace(")", " ").replace(",", " ").split()
        assert any(word in sorting_key.split(", ") for word in words), name


def test_what_was_stopped_half_way_is_done_to_the_end(settings):
    view = "CREATE VIEW IF NOT EXISTS {} AS SELECT 1 AS n"
    broken = [one(1, "a", f"{view.format('v')};\n{view.format('w')} FROM no_such_table;")]
    with pytest.raises(MigrationError, match=r"0001_a is refused: .*no_such_table"):
        migrate(settings, broken)
    mended = [one(1, "a", f"{view.format('v')};\n{view.format('w')};")]
    assert migrate(settings, mended) == mended
    with connect(settings) as client:
        assert client.command("SELECT sum(n) FROM (SELECT n FROM v UNION ALL SELECT n FROM w)") == 2


def test_a_file_that_was_changed_is_refused_before_anything_is_done(settings):
    migrate(settings, [one(1, "a", "DROP VIEW IF EXISTS v")])
    changed = [one(1, "a", "DROP VIEW IF EXISTS w"), one(2, "b", "DROP VIEW IF EXISTS x")]
    for work in (migrate, pending):
        with pytest.raises(MigrationError, match=r"0001_a\.sql is not the 0001_a\.sql that was"):
            work(settings, changed)
    assert len(records(settings)) == 1


def test_a_file_that_names_the_text_it_had_is_accepted_and_not_applied_again(settings):
    before = one(1, "a", "DROP VIEW IF EXISTS v")
    migrate(settings, [before])
    now = one(1, "a", f"-- earlier: {before.checksum}\nCREATE VIEW IF NOT EXISTS v AS SELECT 1")
    assert migrate(settings, [now]) == pending(settings, [now]) == []
    with connect(settings) as client:
        assert client.command("EXISTS VIEW v") == 0


def test_a_database_of_a_newer_version_is_refused(settings):
    ours = one(1, "a", "DROP VIEW IF EXISTS v")
    migrate(settings, [ours, one(12, "later", "DROP VIEW IF EXISTS w")])
    for work in (migrate, pending):
        with pytest.raises(MigrationError, match="has 0012_later, which this version"):
            work(settings, [ours])


def test_a_server_that_is_too_old_is_refused(settings, monkeypatch):
    monkeypatch.setattr("infra.clickhouse.migrations.LEAST_SERVER", (99, 1))
    for work in (migrate, pending):
        with pytest.raises(MigrationError, match=r"is \d+\.\d+.*: 99\.1 or newer is needed"):
            work(settings)


def test_the_time_swaps_are_kept_follows_the_setting(settings):
    def ttl():
        with connect(settings) as client:
            engine = client.command("SELECT engine_full FROM system.tables WHERE name = 'swaps' "
                                    "AND database = currentDatabase()")  # fmt: skip
        return engine.partition(" TTL ")[2].partition(" SETTINGS ")[0]

    kept = "written_at + toIntervalDay({})"
    for days, wanted in ((90, kept.format(90)), (0, ""), (7, kept.format(7))):
        migrate(settings.model_copy(update={"clickhouse_swaps_days": days}))
        assert ttl() == wanted


def test_a_swap_is_one_row_however_often_it_is_written(settings):
    migrate(settings)
    row = (
        "INSERT INTO swaps (signature, slot, tx_index, event_index, block_time, mint, wallet,"
        " amount_raw, wallet_amount_diff_raw) VALUES ('s', 7, 1, {}, 1700000000, 'm', 'w', 10, -3)"
    )
    with connect(settings) as client:
        for event_index in (1, 1, 2):
            client.command(row.format(event_index), settings={"insert_deduplicate": 0})
        assert client.command("SELECT count() FROM swaps FINAL") == 2
        assert client.command("SELECT sum(wallet_amount_raw) FROM swaps FINAL") == 14
        client.command("OPTIMIZE TABLE swaps FINAL")
        assert client.command("SELECT count() FROM swaps") == 2


def test_gains_read_the_same_after_the_columns_are_renamed(settings):
    """Rows that were written before 0033 keep their figures under `realized` and `rank`."""
    before = [m for m in known() if m.number < 33]
    views = ("wallet_positions", "position_days", "wallet_daily", "leaderboard")
    tables = ("lot_matches", "positions", "wallet_days")
    aliases = "{0}_lamports, {0}_usd_micros"
    migrate(settings, before)
    with connect(settings) as client:
        for statement in GAINS:
            client.command(statement)
        shown = {view: client.query(f"SELECT * FROM {view} ORDER BY ALL") for view in views}
        gains = {table: gain_rows(client, table, aliases.format("realised")) for table in tables}
    assert all(len(each.result_rows) > 1 for each in shown.values())
    assert all(any(row != (0, 0) for row in rows) for rows in gains.values())
    assert migrate(settings) == [m for m in known() if m.number >= 33]
    with connect(settings) as client:
        for view, old in shown.items():
            now = client.query(f"SELECT * FROM {view} ORDER BY ALL")
            names = [name.replace("realised", "realized") for name in old.column_names]
            names = ["rank" if name == "place" else name for name in names]
            assert list(now.column_names) == names, view
            assert now.result_rows == old.result_rows, view
        for table, rows in gains.items():
            assert gain_rows(client, table, aliases.format("realized")) == rows, table
        left = client.query(
            "SELECT table, name, comment FROM system.columns WHERE database = currentDatabase() "
            "AND concat(name, comment) ILIKE '%realis%' UNION ALL "
            "SELECT name, '', comment FROM system.tables WHERE database = currentDatabase() "
            "AND comment ILIKE '%realis%'"
        )
        assert left.result_rows == []


def test_the_volumes_of_candles_name_the_trades_that_they_leave_out(settings):
    migrate(settings)
    with connect(settings) as client:
        comments = client.query(
            "SELECT name, comment FROM system.columns WHERE database = currentDatabase() "
            "AND table = 'candles' AND name LIKE 'volume%'"
        ).result_rows
    assert len(comments) == 2
    assert all("trades of unknown value are left out" in comment for _, comment in comments)


def gain_rows(client, table, columns):
    return client.query(f"SELECT {columns} FROM {table} FINAL ORDER BY ALL").result_rows


def test_swaps_written_before_are_found_by_their_quote(settings):
    """The projection of 0034 is made of rows that were there before it."""
    migrate(settings, [m for m in known() if m.number < 34])
    with connect(settings) as client:
        client.command(
            "INSERT INTO swaps (signature, slot, block_time, mint, quote_mint)"
            " SELECT toString(number), number, 1700000000 + number, toString(number % 500),"
            " if(number = 40000, 'rare', 'common') FROM numbers(50000)"
        )
    migrate(settings)
    with connect(settings) as client:
        found = client.query(
            "SELECT slot FROM swaps WHERE quote_mint = 'rare' AND block_time > 1700000000"
        )
        assert found.result_rows == [(40_000,)]
        assert int(found.summary["read_rows"]) < 10_000


def test_a_database_without_a_name_of_ours_is_left_alone(settings):
    migrate(settings)
    with connect(settings, "default") as client, pytest.raises(ClickHouseError):
        client.command("SELECT count() FROM swaps")


def test_tables_of_one_server_are_not_taken_for_replicated_ones(settings):
    migrate(settings)
    with pytest.raises(MigrationError, match=r"not replicated \(.*book_ch.* AS REPLICATED"):
        migrate(settings.model_copy(update={"clickhouse_replicated": True}))


def test_a_server_without_keeper_is_asked_for_replicated_tables_and_refuses(settings):
    wanted = settings.model_copy(update={"clickhouse_replicated": True})
    with pytest.raises(ClickHouseError, match="ReplicatedReplacingMergeTree"):
        migrate(wanted)
    assert pending(settings) == known()  # nothing was made without replicas instead
