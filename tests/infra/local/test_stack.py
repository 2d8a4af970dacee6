"""What `soltape up` decides to start, and where."""

import os
import socket
import subprocess
import sys
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError

from infra.local import folder_lock, stack, tape
from infra.local.process import NotReady, PortInUse, free_port
from infra.local.stack import Wishes, plan
from infra.settings import Settings, SettingsError, load_own
from tests.support.systems import bound, saved
from tests.support.waiting import eventually_async, without_error_async

pytestmark = pytest.mark.processes


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def taken():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def names(planned):
    return [part.process.name for part in planned.parts]


def after(planned, name):
    return next(part.after for part in planned.parts if part.process.name == name)


def test_everything_is_started_here_by_default():
    planned = plan(load_own(), Wishes())
    assert names(planned) == [
        *("kafka", "clickhouse", "redis", "chain"),
        *("ingest", "ingest_accounts", "agents", "books", "watch", "facilitator", "gateway", "api"),
        "identity",
    ]
    assert after(planned, "facilitator") == ("chain",)
    assert after(planned, "watch") == ("clickhouse", "redis")
    assert after(planned, "ingest_accounts") == ("kafka", "redis", "chain")
    assert after(planned, "api") == ("clickhouse", "redis")
    assert after(planned, "gateway") == ("redis",)
    assert planned.settings.api_url == "http://127.0.0.1:" + planned.environment()["API_PORT"]
    assert after(planned, "ingest") == ("kafka", "chain")
    assert planned.elsewhere == {}
    environment = planned.environment()
    assert environment["KAFKA_BOOTSTRAP"].startswith("127.0.0.1:")
    assert environment["RPC_ENDPOINT"].startswith("http://127.0.0.1:")
    assert planned.published() == environment


def test_the_chain_s_own_server_alone_may_be_fetched_from(monkeypatch):
    environment = plan(load_own(), Wishes()).environment()
    assert environment["METADATA_TRUSTED_ORIGIN"] == environment["RPC_ENDPOINT"]
    recorded = plan(load_own(), Wishes(chain="recorded", recording=Path("x"))).environment()
    assert "METADATA_TRUSTED_ORIGIN" not in recorded
    monkeypatch.setenv("METADATA_TRUSTED_ORIGIN", "http://10.0.0.1:8080")
    environment = plan(load_own(), Wishes()).environment()
    assert environment["METADATA_TRUSTED_ORIGIN"] == "http://10.0.0.1:8080"
    monkeypatch.delenv("METADATA_TRUSTED_ORIGIN")
    monkeypatch.setenv("GEYSER_ENDPOINT", "https://geyser.example.com")
    assert "METADATA_TRUSTED_ORIGIN" not in plan(load_own(), Wishes()).environment()


PLANNER = """
import re, sys
from infra.settings import load_own
from infra.local.stack import Wishes, plan
environment = plan(load_own(), Wishes()).environment()
port = re.compile(r"(?:^|:)([0-9]{4,5})(?:/|$)")
print(*{found for value in environment.values() for found in port.findall(value)})
sys.stdout.flush()
sys.stdin.read()
"""


def test_two_that_start_at_once_have_no_port_in_common():
    command = [sys.executable, "-c", PLANNER]
    planners = [
        subprocess.Popen(bound(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        one, other = (set(planner.stdout.readline().split()) for planner in planners)
        assert len(one) == len(other) > 8
        assert not one & other
    finally:
        for planner in planners:
            planner.communicate(timeout=120)


def test_what_the_user_has_set_is_used_and_shown_without_credentials(monkeypatch):
    monkeypatch.setenv("KAFKA_BOOTSTRAP", "kafka-1:9092,kafka-2:9092")
    monkeypatch.setenv("CLICKHOUSE_URL", "https://clickhouse.example.com:8443")
    monkeypatch.setenv("REDIS_URL", "rediss://me:s3cret@redis.example.com:6380/1")
    monkeypatch.setenv("GEYSER_ENDPOINT", "https://yellowstone.example.com")
    monkeypatch.setenv("RPC_ENDPOINT", "https://rpc.example.com/s3cret")
    planned = plan(load_own(), Wishes())
    assert names(planned) == ["ingest", "agents", "books", "gateway", "api"]
    assert after(planned, "ingest") == ()
    assert planned.elsewhere == {
        "kafka": "kafka-1:9092,kafka-2:9092",
        "clickhouse": "https://clickhouse.example.com:8443",
        "redis": "rediss://redis.example.com:6380",
        "chain": "https://yellowstone.example.com",
    }
    assert "s3cret" not in str(planned.published())
    assert planned.published()["KAFKA_BOOTSTRAP"] == "kafka-1:9092,kafka-2:9092"
    assert planned.environment()["REDIS_URL"] == "rediss://me:s3cret@redis.example.com:6380/1"


def test_a_default_port_that_is_taken_is_replaced_with_a_note(monkeypatch, taken):
    monkeypatch.setattr(stack, "CLICKHOUSE_PORT", taken)
    planned = plan(load_own(), Wishes())
    address = planned.environment()["CLICKHOUSE_URL"]
    assert not address.endswith(f":{taken}")
    assert any(
        f"port {taken} is in use" in note and "CLICKHOUSE_URL" in note for note in planned.notes
    )


def test_a_port_that_the_user_set_and_that_is_taken_is_an_error(monkeypatch, taken):
    monkeypatch.setenv("METRICS_PORT_INGEST", str(taken))
    with pytest.raises(PortInUse, match=rf"port {taken} .*METRICS_PORT_INGEST"):
        plan(load_own(), Wishes())


def test_a_broker_asked_for_listens_where_the_setting_says(monkeypatch):
    port = free_port()
    monkeypatch.setenv("KAFKA_BOOTSTRAP", f"127.0.0.1:{port}")
    planned = plan(load_own(), Wishes(broker="embedded"))
    assert "kafka" in names(planned)
    assert planned.environment()["KAFKA_BOOTSTRAP"] == f"127.0.0.1:{port}"


def test_stores_alone_are_started_with_what_they_keep(monkeypatch, tmp_path):
    monkeypatch.setenv("SOLTAPE_DATA", str(tmp_path))
    kept = tmp_path / "kafka" / "segment"
    kept.parent.mkdir()
    kept.touch()
    planned = plan(load_own(), Wishes(stores_only=True))
    assert names(planned) == ["kafka", "clickhouse", "redis"]
    assert kept.exists()
    plan(load_own(), Wishes())
    assert not kept.exists()


def test_trades_alone_need_no_lane_of_accounts():
    whole, trades = (plan(load_own(), Wishes(accounts=each)) for each in (True, False))
    assert {*names(whole)} - {*names(trades)} == {"ingest_accounts", "watch"}


def test_a_chain_asked_for_replaces_an_endpoint_elsewhere_and_says_so(monkeypatch):
    monkeypatch.setenv("GEYSER_ENDPOINT", "https://yellowstone.example.com")
    planned = plan(load_own(), Wishes(chain="simulated"))
    assert "chain" in names(planned)
    assert "yellowstone" not in planned.environment()["GEYSER_ENDPOINT"]
    assert "chain is started here: GEYSER_ENDPOINT is not used" in planned.notes


def test_secured_kafka_cannot_be_embedded(monkeypatch):
    monkeypatch.setenv("KAFKA_SECURITY", "sasl_ssl")
    with pytest.raises(SettingsError, match="KAFKA_SECURITY='sasl_ssl'"):
        plan(load_own(), Wishes())


def kept_by_stores():
    files = [load_own().soltape_data / system / "kept" for system in ("kafka", "clickhouse")]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("of the last start")
    return files


def test_a_local_chain_begins_a_new_tape_and_another_one_continues_its_own(monkeypatch):
    kept = kept_by_stores()
    plan(load_own(), Wishes())
    assert not any(file.exists() for file in kept)
    kept = kept_by_stores()
    plan(load_own(), Wishes(stores_only=True))
    assert all(file.exists() for file in kept)
    (load_own().soltape_data / tape.FILE).unlink()  # as of a version that noted none
    monkeypatch.setenv("GEYSER_ENDPOINT", "https://yellowstone.example:443")
    for _ in range(2):
        plan(load_own(), Wishes())
        assert all(file.exists() for file in kept)


def test_a_local_chain_does_not_empty_the_tape_of_another_one(monkeypatch):
    monkeypatch.setenv("GEYSER_ENDPOINT", "https://me:s3cret@yellowstone.example")
    plan(load_own(), Wishes())
    kept = kept_by_stores()
    monkeypatch.delenv("GEYSER_ENDPOINT")
    keeps = r"SOLTAPE_DATA='.soltape': it keeps the tape of https://yellowstone.example, which"
    for _ in range(2):
        with pytest.raises(SettingsError, match=keeps):
            plan(load_own(), Wishes())
    assert all(file.exists() for file in kept)
    (load_own().soltape_data / tape.FILE).unlink()
    plan(load_own(), Wishes())
    assert not any(file.exists() for file in kept)


@pytest.mark.parametrize("in_use", ["kafka", "clickhouse", "port"])
def test_a_start_that_is_refused_empties_no_tape_and_the_next_one_continues_it(monkeypatch, in_use):
    kept = kept_by_stores()  # by a version that noted nothing
    with ExitStack() as stack:
        if in_use == "port":
            taken = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            monkeypatch.setenv("KAFKA_BOOTSTRAP", f"127.0.0.1:{taken.getsockname()[1]}")
        else:
            stack.enter_context(folder_lock.hold(load_own().soltape_data / in_use / "lock"))
        with pytest.raises((PortInUse, folder_lock.FolderInUse)):
            plan(load_own(), Wishes(broker="embedded"))
    monkeypatch.delenv("KAFKA_BOOTSTRAP", raising=False)
    monkeypatch.setenv("GEYSER_ENDPOINT", "https://yellowstone.example")
    plan(load_own(), Wishes())
    assert all(file.exists() for file in kept)


def test_where_no_store_is_ours_a_local_chain_empties_nothing(monkeypatch):
    monkeypatch.setenv("GEYSER_ENDPOINT", "https://yellowstone.example")
    plan(load_own(), Wishes())
    monkeypatch.delenv("GEYSER_ENDPOINT")
    monkeypatch.setenv("KAFKA_BOOTSTRAP", "kafka.example:9092")
    monkeypatch.setenv("CLICKHOUSE_URL", "https://clickhouse.example")
    monkeypatch.setenv("REDIS_URL", "redis://redis.example")
    assert "chain" in names(plan(load_own(), Wishes()))


def seed(planned):
    command = next(part.process for part in planned.parts if part.process.name == "chain").command
    return command[command.index("--seed") + 1]


def test_the_next_tape_begins_empty_with_another_market_at_the_same_addresses():
    planned = plan(load_own(), Wishes())
    before, addresses = seed(planned), planned.environment()
    kept = [planned.settings.soltape_data / name / "kept" for name in ("kafka", "clickhouse")]
    for file in kept:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("of the tape that ended")
    planned.begin_anew()
    assert not any(file.exists() for file in kept)
    assert seed(planned) != before
    assert planned.environment() == addresses
    assert [part.process.name for part in planned.parts if part.ends_tape] == ["chain"]


def test_a_seed_that_the_user_gave_stays():
    planned = plan(load_own(), Wishes(seed=7))
    assert seed(planned) == "7"
    planned.begin_anew()
    assert seed(planned) == "7"


def test_a_chain_elsewhere_ends_no_tape(monkeypatch):
    monkeypatch.setenv("GEYSER_ENDPOINT", "https://yellowstone.example:443")
    assert not any(part.ends_tape for part in plan(load_own(), Wishes()).parts)


def test_a_local_chain_says_that_systems_of_the_user_are_not_emptied(monkeypatch):
    monkeypatch.setenv("REDIS_URL", "redis://redis.example.com")
    planned = plan(load_own(), Wishes())
    assert planned.keeps_tape_elsewhere == ("redis",)
    assert any(note.startswith("redis: yours, not emptied here.") for note in planned.notes)
    monkeypatch.setenv("GEYSER_ENDPOINT", "https://yellowstone.example:443")
    # Kafka and ClickHouse kept a local chain's tape, and are emptied.
    assert any("not emptied" in note for note in plan(load_own(), Wishes()).notes)
    assert not any("not emptied" in note for note in plan(load_own(), Wishes()).notes)


def test_keys_are_in_the_second_database_of_our_redis_and_in_none_of_the_users(monkeypatch):
    planned = plan(load_own(), Wishes())
    tape, keys = planned.settings.redis_url, planned.settings.access_redis_url
    assert keys == tape.removesuffix("/0") + "/1"
    assert planned.published()["ACCESS_REDIS_URL"] == keys
    monkeypatch.setenv("REDIS_URL", "redis://me:s3cret@redis.example.com:6380/1")
    planned = plan(load_own(), Wishes())
    assert planned.settings.access_redis_url is None
    assert "ACCESS_REDIS_URL" not in planned.environment()


def test_keys_of_the_user_are_where_the_setting_says(monkeypatch):
    monkeypatch.setenv("ACCESS_REDIS_URL", "rediss://me:s3cret@keys.example.com:6380/3")
    planned = plan(load_own(), Wishes())
    assert "redis" in names(planned)
    assert planned.elsewhere == {"keys": "rediss://keys.example.com:6380"}
    assert planned.environment()["ACCESS_REDIS_URL"].endswith("/3")
    assert "s3cret" not in str(planned.published())


@asynccontextmanager
async def running(planned):
    """Run the planned Redis; give its tape and its keys once it serves."""
    server = next(part.process for part in planned.parts if part.process.name == "redis")
    popen = subprocess.Popen(  # noqa: ASYNC220 - an instant
        bound(server.command), stdout=subprocess.DEVNULL
    )
    urls = (planned.settings.redis_url, planned.settings.access_redis_url)
    try:
        await without_error_async(server.ready, NotReady)
        tape, keys = (Redis.from_url(url) for url in urls)
        async with tape, keys:
            yield tape, keys
    finally:
        popen.kill()
        popen.wait()


async def test_a_chain_elsewhere_empties_the_tape_of_a_local_one_once(monkeypatch):
    async with running(plan(load_own(), Wishes())) as (redis, keys):
        await redis.set("position", 1)
        await keys.set("key", 1)
        await saved(redis)
    kept = kept_by_stores()
    monkeypatch.setenv("GEYSER_ENDPOINT", "https://yellowstone.example")
    plan(load_own(), Wishes())  # ends before its Redis serves: the next one empties that as well
    assert not any(file.exists() for file in kept)
    planned = plan(load_own(), Wishes())
    assert any("a local chain and are emptied" in note for note in planned.notes)
    async with running(planned) as (redis, keys):
        assert (await redis.dbsize(), await keys.get("key")) == (0, b"1")
        await redis.set("position", 2)
        await saved(redis)
    async with running(plan(load_own(), Wishes())) as (redis, _):
        assert await redis.get("position") == b"2"


async def test_a_local_chain_empties_the_tape_once_and_never_the_keys():
    planned = plan(load_own(), Wishes())
    async with running(planned) as (tape, keys):
        await keys.set("key", 1)
        await tape.set("position", "x" * 100_000)
        await saved(keys)
        await saved(tape)
    async with running(planned) as (tape, keys):  # it ended, and was started again
        assert (await tape.exists("position"), await keys.get("key")) == (1, b"1")
        await tape.set("position", "y" * 100_000)
        await saved(tape)
    planned.begin_anew()  # its chain ended
    async with running(planned) as (tape, keys):
        assert (await tape.dbsize(), await keys.get("key")) == (0, b"1")
        await tape.set("position", "z" * 100_000)
        await saved(tape)
    async with running(plan(load_own(), Wishes())) as (tape, keys):  # `soltape up` again
        assert (await tape.dbsize(), await keys.get("key")) == (0, b"1")

        async def is_small():
            return (await tape.info("persistence"))["aof_current_size"] <= 10_000

        await eventually_async(is_small)
        assert await keys.get("key") == b"1"


async def test_a_chain_elsewhere_keeps_its_tape(monkeypatch):
    monkeypatch.setenv("GEYSER_ENDPOINT", "https://yellowstone.example:443")
    planned = plan(load_own(), Wishes())
    server = next(part.process for part in planned.parts if part.process.name == "redis")
    popen = subprocess.Popen(  # noqa: ASYNC220 - an instant
        bound(server.command), stdout=subprocess.DEVNULL
    )
    try:
        async with Redis.from_url(planned.settings.redis_url) as tape:
            await eventually_async(lambda: is_up(tape))
            await tape.set("position", 1)
            await server.ready()
            assert await tape.get("position") == b"1"
    finally:
        popen.kill()
        popen.wait()


async def is_up(redis):
    try:
        return await redis.ping()
    except RedisError:
        return False


@pytest.mark.parametrize("system", ["kafka", "clickhouse"])
def test_a_folder_that_a_process_works_in_is_not_emptied(system):
    data = load_own().soltape_data
    with (
        folder_lock.hold(data / system / "lock"),
        pytest.raises(folder_lock.FolderInUse, match=f"process {os.getpid()}"),
    ):
        plan(load_own(), Wishes())


def test_the_api_takes_another_port_and_is_reached_on_this_machine(monkeypatch, taken):
    monkeypatch.setattr(Settings.model_fields["api_port"], "default", taken)
    monkeypatch.setenv("API_HOST", "0.0.0.0")
    planned = plan(load_own(), Wishes())
    assert f":{taken}" not in planned.settings.api_url
    assert planned.settings.api_url.startswith("http://127.0.0.1:")
    assert any(f"port {taken} is in use: api takes" in note for note in planned.notes)
    monkeypatch.setenv("API_HOST", "::1")
    monkeypatch.setenv("API_PORT", str(free_port()))
    assert plan(load_own(), Wishes()).settings.api_url == f"http://[::1]:{os.environ['API_PORT']}"


def test_the_page_gets_the_gateways_address_unless_the_user_sets_it(monkeypatch, taken):
    monkeypatch.setattr(Settings.model_fields["gateway_port"], "default", taken)
    monkeypatch.setenv("GATEWAY_HOST", "0.0.0.0")
    planned = plan(load_own(), Wishes())
    environment = planned.environment()
    assert environment["GATEWAY_PORT"] != str(taken)
    assert environment["GATEWAY_URL"] == f"ws://127.0.0.1:{environment['GATEWAY_PORT']}"
    assert any(f"port {taken} is in use: gateway takes" in note for note in planned.notes)
    monkeypatch.setenv("GATEWAY_URL", "wss://tape.example.com")
    environment = plan(load_own(), Wishes()).environment()
    assert environment["GATEWAY_URL"] == "wss://tape.example.com"


@pytest.mark.parametrize("setting", ["REDIS_URL", "ACCESS_REDIS_URL"])
def test_a_demo_key_is_made_among_keys_that_are_kept_here_and_in_no_others(monkeypatch, setting):
    def command(planned):
        return next(part.process.command for part in planned.parts if part.process.name == "api")

    planned = plan(load_own(), Wishes())
    assert planned.demo_key == load_own().soltape_data / "demo-key"
    assert command(planned)[-2:] == ["--demo-key", str(planned.demo_key)]
    monkeypatch.setenv(setting, "redis://redis.example.com:6379/1")
    planned = plan(load_own(), Wishes())
    assert planned.demo_key is None
    assert "--demo-key" not in command(planned)


def test_users_sign_in_with_a_provider_here_unless_the_user_has_one(monkeypatch):
    planned = plan(load_own(), Wishes())
    environment = planned.environment()
    assert environment["SIGNIN_ISSUER"].startswith("http://127.0.0.1:")
    assert environment["SIGNIN_BASE_URL"] == f"http://127.0.0.1:{environment['API_PORT']}"
    monkeypatch.setenv("SIGNIN_ISSUER", "https://issuer.example.com")
    planned = plan(load_own(), Wishes())
    assert "identity" not in names(planned)
    assert planned.environment()["SIGNIN_ISSUER"] == "https://issuer.example.com"


@pytest.mark.parametrize(
    ("name", "value"),
    [("API_DASHBOARD", "false"), ("ACCESS_REDIS_URL", "redis://keys.example.com:6379/0")],
)
def test_there_is_no_provider_without_a_page_or_beside_keys_of_the_users(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    planned = plan(load_own(), Wishes())
    assert "identity" not in names(planned)
    assert "SIGNIN_ISSUER" not in planned.environment()
