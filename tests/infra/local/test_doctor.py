"""What `soltape doctor` says about systems that are well, silent, strangers or away."""

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from aiohttp import web
from aiokafka.errors import TopicAuthorizationFailedError
from click.testing import CliRunner

from infra.cli import cli
from infra.kafka import topics
from infra.local import doctor
from infra.local.process import free_port
from infra.settings import Settings
from schemas.proto.geyser_pb2 import GetVersionResponse
from schemas.proto.geyser_pb2_grpc import GeyserServicer, add_GeyserServicer_to_server

pytestmark = pytest.mark.processes


@pytest.fixture(autouse=True)
def short_wait(monkeypatch):
    monkeypatch.setattr(doctor, "TIMEOUT_S", 2.0)


@pytest.mark.parametrize(
    ("line", "well", "message"),
    [
        ("GEYSER_ENDPONT=http://a:1", False, "GEYSER_ENDPOINT is one"),
        ("COMPOSE_PROJECT_NAME=a\nLOG_LEVEL=info\n#LOG_FORMAT=json", True, "sets 1 of"),
    ],
)
async def test_a_misspelt_setting_is_found(tmp_path, monkeypatch, line, well, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text(line)
    found = await finding("settings")
    assert (found.well, message in found.text) == (well, True)


async def finding(name, **settings):
    settings = Settings(_env_file=None, **settings)
    wanted = [check for check in doctor.checks(settings) if check.name == name]
    return (await doctor.examine(wanted))[0]


@asynccontextmanager
async def geyser(token=None, version='{"version":{"package":"yellowstone","version":"12.6.0"}}'):
    class Servicer(GeyserServicer):
        async def GetVersion(self, request, context):
            if token and dict(context.invocation_metadata()).get("x-token") != token:
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, "No valid auth token")
            return GetVersionResponse(version=version)

    server = grpc.aio.server()
    add_GeyserServicer_to_server(Servicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await server.stop(None)


@asynccontextmanager
async def rpc(answers):
    async def post(request):
        method = (await request.json())["method"]
        return web.json_response({"jsonrpc": "2.0", "id": 1, **answers[method]})

    app = web.Application()
    app.router.add_post("/{key}", post)
    async with serving(app) as address:
        yield f"{address}/k3y"


@asynccontextmanager
async def serving(app):
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def silent():
    async def hold(reader, writer):
        await reader.read()
        writer.close()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def test_geyser_reports_its_version():
    async with geyser(token="t0ken") as endpoint:
        found = await finding("geyser", geyser_endpoint=endpoint, geyser_x_token="t0ken")
    assert found.well
    assert "yellowstone 12.6.0" in found.text
    assert found.took_ms > 0


@pytest.mark.parametrize(("token", "said"), [(None, "is not set"), ("wr0ng", "is not accepted")])
async def test_geyser_that_wants_a_token_names_the_setting(token, said):
    async with geyser(token="t0ken") as endpoint:
        found = await finding("geyser", geyser_endpoint=endpoint, geyser_x_token=token)
    assert not found.well
    assert f"GEYSER_X_TOKEN {said}" in found.text
    assert "wr0ng" not in found.text


async def test_rpc_reports_its_version_and_never_its_key():
    answers = {"getVersion": {"result": {"solana-core": "3.0.0"}}, "getHealth": {"result": "ok"}}
    async with rpc(answers) as endpoint:
        found = await finding("rpc", rpc_endpoint=endpoint)
    assert found.well
    assert "solana-core 3.0.0" in found.text
    assert "k3y" not in found.text


@pytest.mark.parametrize("version", [None, "3.0.0", []])
async def test_rpc_that_answers_as_no_node_does_is_a_finding(version):
    async with rpc({"getVersion": {"result": version}, "getHealth": {"result": "ok"}}) as endpoint:
        found = await finding("rpc", rpc_endpoint=endpoint)
    assert not found.well
    assert "as no node does: check RPC_ENDPOINT" in found.text


async def test_rpc_that_is_behind_is_not_healthy():
    answers = {
        "getVersion": {"result": {"solana-core": "3.0.0"}},
        "getHealth": {"error": {"code": -32005, "message": "Node is behind by 42 slots"}},
    }
    async with rpc(answers) as endpoint:
        found = await finding("rpc", rpc_endpoint=endpoint)
    assert not found.well
    assert "behind by 42 slots" in found.text


async def test_rpc_that_hides_its_health_is_accepted():
    answers = {
        "getVersion": {"result": {"solana-core": "3.0.0"}},
        "getHealth": {"error": {"code": -32601, "message": "Method not found"}},
    }
    async with rpc(answers) as endpoint:
        assert (await finding("rpc", rpc_endpoint=endpoint)).well


async def test_rpc_that_is_a_web_page_is_no_rpc():
    async def page(_):
        return web.Response(text="<html>sign in</html>", content_type="text/html")

    app = web.Application()
    app.router.add_post("/", page)
    async with serving(app) as endpoint:
        found = await finding("rpc", rpc_endpoint=endpoint)
    assert not found.well
    assert "check RPC_ENDPOINT" in found.text


async def test_no_rpc_is_a_choice():
    found = await finding("rpc")
    assert found.well
    assert "RPC_ENDPOINT is not set" in found.text


@pytest.mark.parametrize(
    ("name", "setting", "address"),
    [
        ("kafka", "kafka_bootstrap", "127.0.0.1:{}"),
        ("clickhouse", "clickhouse_url", "http://127.0.0.1:{}"),
        ("redis", "redis_url", "redis://127.0.0.1:{}/0"),
        ("keys", "access_redis_url", "redis://127.0.0.1:{}/1"),
        ("geyser", "geyser_endpoint", "http://127.0.0.1:{}"),
        ("rpc", "rpc_endpoint", "http://127.0.0.1:{}"),
    ],
)
async def test_away_and_silent_systems_fail_in_time_and_name_their_setting(
    name, setting, address, monkeypatch
):
    monkeypatch.setattr(doctor, "TIMEOUT_S", 6.0)
    port = free_port()
    found = await finding(name, **{setting: address.format(port)})
    assert not found.well
    assert str(port) in found.text
    assert setting.upper() in found.text
    monkeypatch.setattr(doctor, "TIMEOUT_S", 1.5)
    async with silent() as port:
        found = await finding(name, **{setting: address.format(port)})
    assert not found.well


async def test_a_kafka_that_refuses_a_right_fails(monkeypatch):
    async def refused(settings):
        raise TopicAuthorizationFailedError("tape-settled-by-mint")

    monkeypatch.setattr(topics, "check", refused)
    found = await finding("kafka", kafka_bootstrap="127.0.0.1:9")
    assert not found.well
    assert found.text.startswith("127.0.0.1:9 refuses")
    assert found.text.endswith("TopicAuthorizationFailedError: tape-settled-by-mint")


async def test_a_metrics_port_held_by_a_stranger_fails_and_a_free_one_does_not():
    async with serving(web.Application()) as address:
        port = int(address.rpartition(":")[2])
        found = await finding("ingest metrics", metrics_port_ingest=port)
        assert not found.well
        assert f"port {port}" in found.text
        assert "METRICS_PORT_INGEST" in found.text
    assert (await finding("ingest metrics", metrics_port_ingest=free_port())).well


async def test_every_process_with_metrics_is_named_by_its_command():
    ports = [each for each in Settings.model_fields if each.startswith("metrics_port_")]
    for port in ports:
        role = port.removeprefix("metrics_port_")
        found = await finding(f"{role.replace('_', ' ')} metrics", **{port: free_port()})
        command = found.text.split("`soltape ")[1].split("`")[0]
        assert CliRunner().invoke(cli, [*command.split(), "--help"]).exit_code == 0


async def test_a_data_folder_that_cannot_be_made_names_its_setting(tmp_path):
    (tmp_path / "file").touch()
    found = await finding("data", soltape_data=tmp_path / "file" / "data")
    assert not found.well
    assert "SOLTAPE_DATA" in found.text
    assert (await finding("data", soltape_data=tmp_path / "data")).well


def test_the_command_prints_each_and_fails_if_one_does(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setattr(doctor, "TIMEOUT_S", 6.0)
    for setting, address in (
        ("KAFKA_BOOTSTRAP", "127.0.0.1:{}"),
        ("CLICKHOUSE_URL", "http://127.0.0.1:{}"),
        ("REDIS_URL", "redis://127.0.0.1:{}/0"),
        ("GEYSER_ENDPOINT", "http://127.0.0.1:{}"),
    ):
        monkeypatch.setenv(setting, address.format(free_port()))
    result = CliRunner().invoke(doctor.doctor)
    assert result.exit_code == 1
    assert "does not run in this folder" in result.output
    for name in ("kafka", "clickhouse", "redis", "geyser"):
        assert f"failed  {name} " in result.output
    assert "ok      data " in result.output
    assert Path(".soltape").is_dir()
