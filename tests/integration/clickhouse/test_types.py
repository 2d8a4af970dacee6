"""Every column type we store, written and read by clickhouse-connect's own clients."""

from datetime import UTC, date, datetime
from decimal import Decimal

import clickhouse_connect
import pytest

UINTS = [("UInt8", 8), ("UInt16", 16), ("UInt32", 32), ("UInt64", 64), ("UInt128", 128)]
INTS = [("Int8", 8), ("Int64", 64), ("Int128", 128), ("Int256", 256)]
MOMENT = datetime(2026, 3, 29, 1, 59, 59, 123000, tzinfo=UTC)

COLUMNS = {
    **{name: [0, 1, 2**bits - 1] for name, bits in [*UINTS, ("UInt256", 256)]},
    **{name: [-(2 ** (bits - 1)), 0, 2 ** (bits - 1) - 1] for name, bits in INTS},
    "Float64": [0.0, -1.5e-300, 1.7976931348623157e308],
    "Decimal(38, 18)": [Decimal(0), Decimal("-12345678901234567890.123456789012345678")],
    "Decimal(76, 18)": [Decimal("9" * 58 + "." + "9" * 18), Decimal("-0.000000000000000001")],
    "String": ["", "So11111111111111111111111111111111111111112", "π 🐕 \n\t\\'\0"],
    "FixedString(4)": [b"abcd", b"\x00\xff\x00\x01"],
    "LowCardinality(String)": ["pump-fun", "", "pump-fun", "raydium-clmm"],
    "LowCardinality(Nullable(String))": ["a", None],
    "Nullable(String)": [None, "", "x"],
    "Nullable(UInt64)": [None, 0, 2**64 - 1],
    "Nullable(Decimal(38, 18))": [None, Decimal("1.5")],
    "Nullable(Float64)": [None, 0.25],
    "Bool": [True, False],
    "DateTime64(3, 'UTC')": [MOMENT, datetime(1970, 1, 1, tzinfo=UTC)],
    "DateTime('UTC')": [MOMENT.replace(microsecond=0)],
    "Date": [date(1970, 1, 1), date(2149, 6, 6)],
    "Array(String)": [[], ["a", ""], ["b"]],
    "Array(Array(UInt64))": [[], [[]], [[1, 2], [2**64 - 1]]],
    "Array(Tuple(String, UInt64))": [[("a", 1)], []],
    "Map(String, UInt64)": [{}, {"a": 1, "b": 2**64 - 1}],
    "Map(LowCardinality(String), Decimal(38, 18))": [{"SOL": Decimal("0.1")}],
    "Tuple(String, UInt64, Nullable(Float64))": [("a", 1, None), ("", 0, 0.5)],
    "Tuple(mint String, amount_raw UInt128)": [{"mint": "a", "amount_raw": 2**100}],
    "UUID": ["01234567-89ab-cdef-0123-456789abcdef"],
}


def fresh_table(client, column_type):
    client.command(
        f"CREATE OR REPLACE TABLE types (n UInt8, value {column_type}) "
        "ENGINE = MergeTree ORDER BY n SETTINGS allow_nullable_key = 1"
    )


def same(column_type, values):
    return [str(v) for v in values] if column_type == "UUID" else list(values)


@pytest.mark.parametrize("column_type", COLUMNS)
def test_what_is_written_is_read_back(client, column_type):
    values = COLUMNS[column_type]
    fresh_table(client, column_type)
    client.insert("types", list(enumerate(values)), column_names=["n", "value"])
    read = client.query("SELECT value FROM types ORDER BY n").result_columns[0]
    assert same(column_type, read) == values


@pytest.mark.parametrize("compress", ["lz4", "zstd", "gzip", False])
async def test_all_types_at_once_by_the_async_client(embedded, client, compress):
    client.command(
        "CREATE OR REPLACE TABLE wide (n UInt8, "
        + ", ".join(f"c{i} {column_type}" for i, column_type in enumerate(COLUMNS))
        + ") ENGINE = MergeTree ORDER BY n"
    )
    values = [column[0] for column in COLUMNS.values()]
    async with await clickhouse_connect.get_async_client(
        **embedded.address, compress=compress, tz_mode="aware"
    ) as writer:
        summary = await writer.insert("wide", [[0, *values], [1, *values]])
        assert summary.written_rows == 2
        result = await writer.query("SELECT * EXCEPT n FROM wide ORDER BY n")
    for row in result.result_rows:
        read = [str(v) if t == "UUID" else v for t, v in zip(COLUMNS, row, strict=True)]
        assert read == values


@pytest.mark.parametrize(
    ("column_type", "value"),
    [
        ("UInt8", 255),
        ("UInt128", 2**127),
        ("Int256", -(2**255)),
        ("Decimal(38, 18)", Decimal("0.000000000000000001")),
        ("String", "it's {a:UInt8} \\ \t\n 🐕 \\N"),
        ("Nullable(String)", None),
        ("DateTime64(3, 'UTC')", MOMENT),
        ("Date", date(2026, 1, 2)),
        ("Array(String)", ["a'b", "c\\d", ""]),
        ("Array(UInt64)", []),
        ("Bool", True),
    ],
)
def test_a_parameter_arrives_as_it_is(client, column_type, value):
    # Moments go as DateTime64 when the name says so (clickhouse-connect).
    name = "value_64" if "DateTime64" in column_type else "value"
    result = client.query(f"SELECT {{{name}:{column_type}}}", parameters={name: value})
    assert result.result_rows == [(value,)]


def test_a_parameter_too_long_for_an_address_goes_as_a_form(client):
    wallets = [f"wallet{i}" * 5 for i in range(2000)]
    result = client.query("SELECT length({w:Array(String)}), 1", parameters={"w": wallets})
    assert result.result_rows == [(2000, 1)]
