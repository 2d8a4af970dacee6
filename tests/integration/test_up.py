"""`soltape up` as a user runs it: from an empty folder to the first swap, and back to nothing."""

import asyncio
import contextlib
import json
import os
import re
import signal
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import psutil
import pytest
from redis import Redis
from redis.exceptions import AuthenticationError

from api.pay.terms import PRICE_RAW
from infra.chain.demo_wallets import ADDRESSES, PAYER, SELLER, SHOWN, address
from infra.chain.market import Knobs, Market
from infra.chain.source import SlotTransactions
from infra.kafka import client as kafka_client
from infra.kafka.client import KafkaUnreachable
from infra.local import passwords
from infra.local.running import addresses
from infra.settings import Settings
from schemas.money import USDC
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from schemas.solana.addresses import text
from schemas.solana.rpc_json import transaction_to_json
from tests.support import documents
from tests.support.systems import bound
from tests.support.waiting import WITHIN_S, eventually

SOLTAPE = [sys.executable, "-m", "infra.cli"]
MEMORY_BYTES = 5 * 1024**3 // 2  # 1.7 GiB after a minute; a slow machine looks later
# Transactions a second where they do not matter: at the default of 300 the commands that a test
# runs wait for the CPU.
CALM = ("--rate", "20")
# A demo wallet trades perpetuals in slots 30, 119, 220 and 261: within a minute, and again.
BUSY = ("--rate", "50", "--seed", "115")

pytestmark = pytest.mark.slow


class Up:
    """A running `soltape up` and its processes."""

    def __init__(self, folder, environment, *options):
        self.folder = folder
        self.environment = environment
        self.out = folder / "up.out"
        with self.out.open("wb") as out:
            self.popen = subprocess.Popen(
                bound([*SOLTAPE, "up", *options]),
                cwd=folder,
                env=environment,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def said(self):
        return self.out.read_text()

    def run(self, *command, timeout=WITHIN_S):
        return subprocess.run(
            [*SOLTAPE, *command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def shell(self, command, until):
        """Run a line that was printed, as it is; return what it says up to a line with a text.

        A program that does what its libraries are about to drop fails.
        """
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        with subprocess.Popen(
            ["sh", "-c", command],
            cwd=self.folder,
            env=self.environment
            | {
                "PATH": path,
                "PYTHONUNBUFFERED": "1",
                "PYTHONWARNINGS": "error::DeprecationWarning",
            },
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as shell:
            said = ""
            while until not in said and (line := shell.stdout.readline()):
                said += line
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
        return said

    def until(self, condition):

        def found():
            value = condition()
            assert value or self.popen.poll() is None, self.said()
            return value

        return eventually(found, self.said)

    def first_swap(self):
        """Return the first swap that a subscriber sees; it may start before the topic is there."""
        # Before it has said where it is, a subscriber may find another one at the usual ports.
        self.until(lambda: addresses(self.folder / ".soltape"))
        tail = ("tail", "solana-dex-swaps", "--from", "beginning", "--limit", "1")
        return json.loads(self.until(lambda: self.run(*tail).stdout))

    def processes(self):
        me = psutil.Process(self.popen.pid)
        return [me, *me.children(recursive=True)]

    def stop(self):
        self.popen.send_signal(signal.SIGINT)
        self.popen.wait(WITHIN_S)


@contextlib.contextmanager
def starting(folder):
    """Give what starts `soltape up` in a folder; what runs at the end is stopped."""
    plain = {
        name: value
        for name, value in os.environ.items()
        if name.lower() not in Settings.model_fields
    }
    started = []

    def start(*options):
        started.append(Up(folder, plain | {"API_TIMEOUT_S": "120"}, *options))
        return started[-1]

    yield start
    for up in started:
        if up.popen.poll() is None:
            up.stop()


@pytest.fixture
def start(tmp_path):
    with starting(tmp_path) as start:
        yield start


@pytest.fixture(scope="module")
def lasting(tmp_path_factory):
    """Start in a folder of several tests: each kills something else of the same product."""
    with starting(tmp_path_factory.mktemp("lasting")) as start:
        yield start


@pytest.fixture(scope="module")
def calm(lasting):
    """What several tests kill parts of; the last one kills it."""
    up = lasting(*CALM)
    up.until(lambda: lines_with_swaps(up))
    return up


def lines_with_swaps(up):
    return re.findall(
        r"^slot [\d,]+ \| [\d,]+ tx/s \| [1-9][\d,]* swaps/s", up.said(), re.MULTILINE
    )


def refuses_strangers(data):
    """Without a password no user of the machine gets anything from the systems."""
    published = addresses(data)
    settings = Settings(_env_file=None, kafka_bootstrap=published["KAFKA_BOOTSTRAP"])
    with pytest.raises(KafkaUnreachable):
        asyncio.run(kafka_client.metadata(settings, timeout_s=3))
    _, _, address = published["REDIS_URL"].partition("@")
    with Redis.from_url(f"redis://{address}") as stranger, pytest.raises(AuthenticationError):
        stranger.ping()
    for user in ("default", "reader"):
        with pytest.raises(HTTPError, match="403"):
            urlopen(f"{published['CLICKHOUSE_URL']}/?user={user}&query=SELECT+1", timeout=240)


def shows_no_password(data, processes, up):
    """No password of the folder is in the list of processes, on the screen or in a log."""
    secrets = passwords.of(data).values()
    logs = [file.read_text(errors="replace") for file in (data / "logs").iterdir()]
    commands = [" ".join(process.cmdline()) for process in processes]
    assert not [text for text in (*commands, *logs, up.said()) for one in secrets if one in text]
    for name in (passwords.FILE, "addresses.json"):
        assert stat.S_IMODE((data / name).stat().st_mode) == 0o600


def first_request(up):
    """Return the command that is printed for a first request, and its address."""
    up.until(lambda: "The API serves at" in up.said())
    found = re.search(r"^  (sed \S+ \S+ \S+ \| curl -H @- '(\S+)')$", up.said(), re.MULTILINE)
    assert found, up.said()
    return found.groups()


def demo_wallets_have_what_is_printed_of_them(up, key):
    """Wallets are printed with what they do, and the API has positions of it."""
    printed = re.findall(r"^  A wallet that (.+): (http://\S+)/#/wallet/(\w+)$", up.said(), re.M)
    assert {wallet: habit for habit, _, wallet in printed} == SHOWN
    [url] = {at for _, at, _ in printed}

    def listed(name, path, field):
        request = Request(
            f"{url}/api/wallets/{text(ADDRESSES[name])}/{path}", headers={"x-api-key": key}
        )
        try:
            with urlopen(request, timeout=240) as answer:
                return json.load(answer)[field]
        except OSError:  # a store is slow
            return None

    for name, route in (("holder-0", "lp"), ("lender-1", "lending"), ("staker-0", "staking")):
        up.until(partial(listed, name, f"all-{route}", "positions"))
    for path, field in (("p08/funding", "payments"), ("p09/pnl", "changes")):
        up.until(lambda of=(path, field): any(listed(name, *of) for name in ADDRESSES))


def runs_what_readme_shows(up):
    """The request, frame, subscriber and MCP call of README are answered as they are there."""
    published = addresses(up.folder / ".soltape")
    at = {
        "127.0.0.1:8000": f"127.0.0.1:{published['API_PORT']}",
        "127.0.0.1:8001": f"127.0.0.1:{published['GATEWAY_PORT']}",
        "127.0.0.1:9092": published["KAFKA_BOOTSTRAP"],
    }
    shown = []
    for block in documents.blocks(documents.ROOT / "README.md"):
        text = re.sub("|".join(map(re.escape, at)), lambda found: at[found[0]], block.text)
        if block.language == "python":
            (up.folder / "shown.py").write_text(text)
            said = "'swap'" if "websockets" in text else " at "
            shown.append(up.shell("set -a; . .soltape/passwords; python shown.py", until=said))
            assert said in shown[-1], text
        elif "curl" in text:
            shown.append(up.shell(text, until="}"))
            assert "as_of_slot" in shown[-1], text
    assert len(shown) == 4
    for command in ("query hourly-volume", "keys link", "mcp config"):
        assert up.run(*command.split()).returncode == 0, command


def a_payment_shows(up, key):
    """`soltape pay` pays for a call, and the seller's holdings show it, as the page of it does."""
    api = f"http://127.0.0.1:{addresses(up.folder / '.soltape')['API_PORT']}"
    seller, payer = (text(address(name)) for name in (SELLER, PAYER))

    def held_raw(wallet):
        """Return what a wallet has in USDC, None until all its accounts were read."""
        request = Request(f"{api}/api/wallets/{wallet}/holdings", headers={"x-api-key": key})
        with contextlib.suppress(HTTPError), urlopen(request, timeout=240) as answer:
            found = json.load(answer)
            if found["coverage"]["is_complete"]:
                return sum(
                    int(each["amount_raw"]) for each in found["tokens"] if each["mint"] == USDC
                )
        return None

    had_raw = up.until(lambda: (found := held_raw(seller)) is not None and [found])[0]
    paid = up.run("pay", f"/api/wallets/{payer}/pnl/summary")
    assert paid.returncode == 0, paid.stderr
    assert json.loads(paid.stdout)["wallet"] == payer
    assert paid.stderr.startswith("paid: transaction ")
    up.until(lambda: held_raw(seller) == had_raw + PRICE_RAW)
    assert up.until(lambda: held_raw(payer))


def demo_key(up):
    return (up.folder / ".soltape" / "demo-key").read_text().strip()


def test_from_nothing_to_swaps_and_back_to_nothing(start, tmp_path):
    up = start(*BUSY)
    swap = up.first_swap()
    assert swap["kind"] == "swap"

    second = up.run("up")
    assert second.returncode == 1
    assert f"pid {up.popen.pid}" in second.stderr

    # It gives each system some seconds, which are not always enough on a busy machine.
    doctor = up.until(lambda: (found := up.run("doctor")).returncode == 0 and found)
    assert "failed" not in doctor.stdout

    up.until(lambda: len(lines_with_swaps(up)) >= 5)
    curl, address = first_request(up)
    processes = up.processes()
    assert len(processes) == 14
    refuses_strangers(tmp_path / ".soltape")
    shows_no_password(tmp_path / ".soltape", processes, up)
    # Pages that processes share count once.
    assert sum(process.memory_full_info().pss for process in processes) < MEMORY_BYTES

    key = demo_key(up)
    assert key not in up.said()
    assert "$(" not in up.said()  # which puts it into arguments, for every user to see

    def as_of_slot():
        with urlopen(Request(address, headers={"x-api-key": key}), timeout=240) as answer:
            assert answer.headers["content-type"] == "application/json"
            return json.load(answer)["as_of_slot"]

    up.until(lambda: as_of_slot() > 0)  # 0 until the books have a slot
    shown = up.shell(curl, until="as_of_slot")
    assert "tokens" in json.loads(shown)
    [listen] = re.findall(r"^  (python -c .* < \S+)$", up.said(), re.MULTILINE)
    assert '"subscribed"' in up.shell(listen, until="subscribed")
    runs_what_readme_shows(up)
    demo_wallets_have_what_is_printed_of_them(up, key)
    a_payment_shows(up, key)
    assert key not in (tmp_path / ".soltape" / "logs" / "api.log").read_text()
    [link] = re.findall(r"Watch it live at (\S+/\?token=\S+) ", up.said())
    with urlopen(link, timeout=240) as answer:  # without the cookie the page is what it leads to
        assert answer.url == f"{link.partition('/?')[0]}/"
    assert link.partition("=")[2] not in (tmp_path / ".soltape" / "logs" / "api.log").read_text()

    up.stop()
    assert up.popen.returncode == 0
    assert not [process for process in processes if process.is_running()]
    assert not (tmp_path / ".soltape" / "up.lock").exists()
    assert not (tmp_path / ".soltape" / "addresses.json").exists()
    assert "Traceback" not in up.said()
    # What the systems kept is on disk for the same eyes as their passwords.
    kept = [tmp_path / ".soltape", *(tmp_path / ".soltape").rglob("*")]
    assert not [file for file in kept if stat.S_IMODE(file.stat().st_mode) & 0o077]


def test_swaps_go_on_after_the_broker_was_killed(calm):
    up = calm
    broker = next(process for process in up.processes() if "kafka" in process.cmdline())
    broker.kill()
    up.until(lambda: "kafka ended with SIGKILL" in up.said())
    seen = len(lines_with_swaps(up))
    up.until(lambda: len(lines_with_swaps(up)) > seen + 3)
    assert up.first_swap()["kind"] == "swap"


def test_a_chain_that_ends_ends_the_tape_and_the_next_one_has_nothing_of_it(calm):
    up = calm
    key = up.run("keys", "create", "--name", "mine").stdout.strip()
    published = addresses(up.folder / ".soltape")
    clickhouse, password = (published[name] for name in ("CLICKHOUSE_URL", "CLICKHOUSE_PASSWORD"))

    def stored():
        """Return the first and last slot that has a swap, None while there is none."""
        sql = "SELECT count(), min(slot), max(slot) FROM soltape.swaps FORMAT TabSeparated"
        try:
            request = Request(
                f"{clickhouse}/?query={quote(sql)}", headers={"X-ClickHouse-Key": password}
            )
            with urlopen(request, timeout=240) as answer:
                count, first, last = map(int, answer.read().split())
        except OSError:  # it is starting
            return None
        return (first, last) if count else None

    _, last = up.until(stored)
    chain = next(process for process in up.processes() if "chain" in process.cmdline())
    chain.kill()
    up.until(lambda: "A new tape begins" in up.said())
    assert "The tape is over: chain ended with SIGKILL" in up.said(), up.said()
    # Slots are those of the time of day, so a slot up to `last` would be of the tape that ended.
    up.until(lambda: (found := stored()) and found[0] > last)

    def named():
        """Return the name of the key, None while the API starts again."""
        address = addresses(up.folder / ".soltape").get("API_PORT")
        request = Request(f"http://127.0.0.1:{address}/api/usage", headers={"x-api-key": key})
        try:
            with urlopen(request, timeout=240) as answer:
                return json.load(answer)["key"]["name"]
        except OSError:
            return None

    assert up.until(named) == "mine"
    assert stored()[0] > last
    assert "Traceback" not in up.said()


def test_nothing_outlives_a_supervisor_that_is_killed_and_the_folder_can_be_used_again(
    calm, lasting
):
    up = calm
    key = up.run("keys", "create", "--name", "kept").stdout.strip()
    processes = up.processes()
    up.popen.kill()
    up.popen.wait(60)
    _, alive = psutil.wait_procs(processes, timeout=240)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]
    again = lasting(*CALM)
    again.until(lambda: lines_with_swaps(again))
    # The tape began anew, the keys did not.
    _, trending = first_request(again)
    usage = trending.partition("/api/")[0] + "/api/usage"
    with urlopen(Request(usage, headers={"x-api-key": key}), timeout=240) as answer:
        assert json.load(answer)["key"]["name"] == "kept"
    again.stop()


def test_a_recording_that_ends_is_said_to_and_what_it_held_is_served_on(start, tmp_path):
    transactions = [
        SubscribeUpdateTransactionInfo.FromString(transaction.info)
        for event in Market(Knobs(seed=7, rate=50)).generate(40)
        if isinstance(event, SlotTransactions)
        for transaction in event.transactions
    ]
    recording = tmp_path / "transactions.jsonl"
    lines = [
        {"slot": 300 + number // 20, "blockTime": 7, **transaction_to_json(info)}
        for number, info in enumerate(transactions)
    ]
    recording.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    up = start("--chain", "recorded", str(recording), "--rate", "100")
    up.until(lambda: "The recording has ended. What it held is still served" in up.said())
    up.until(lambda: re.search(r"^slot [\d,]+ \| the recording has ended", up.said(), re.M))
    _, address = first_request(up)
    key = demo_key(up)

    def trending():
        with urlopen(Request(address, headers={"x-api-key": key}), timeout=240) as answer:
            return json.load(answer)["as_of_slot"]

    up.until(lambda: trending() > 0)
    assert "The tape is over" not in up.said()
    up.stop()


def test_stores_alone_serve_what_they_keep(start):
    up = start("--stores")
    up.until(lambda: "The stores serve" in up.said())
    assert up.run("keys", "create", "--name", "mine").returncode == 0
    rebuilt = up.run("rebuild")
    assert rebuilt.returncode == 0, rebuilt.stderr
    with Redis.from_url(addresses(up.folder / ".soltape")["REDIS_URL"]) as redis:
        redis.set("kept", 1)
    up.stop()
    again = start("--stores")
    again.until(lambda: "The stores serve" in again.said())
    assert "mine" in again.run("keys", "list").stdout
    with Redis.from_url(addresses(again.folder / ".soltape")["REDIS_URL"]) as redis:
        assert redis.get("kept") == b"1"
    again.stop()
    assert "stopped after" in again.said()
