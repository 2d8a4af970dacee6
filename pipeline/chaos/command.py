"""`soltape chaos`: kills roles of a whole pipeline, then shows that nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sys
import tempfile
import traceback
from dataclasses import asdict
from pathlib import Path

import click
import orjson

from infra.bench import machine
from infra.interrupt import end_as_by_ctrl_c
from infra.settings import load
from infra.telemetry import configure_logging
from pipeline.chaos.faults import DECK
from pipeline.chaos.fleet import Broker, RedisKind
from pipeline.chaos.report import Report
from pipeline.chaos.run import Run


@click.command()
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of all chance.")
@click.option(
    "--minutes",
    type=click.FloatRange(0.2, 24 * 60),
    default=2.0,
    show_default=True,
    help="How long roles are killed.",
)
@click.option(
    "--broker",
    type=click.Choice(["embedded", "apache"]),
    default="embedded",
    show_default=True,
    help="Which Kafka: our small one, or Apache Kafka (needs Java 17 and Maven).",
)
@click.option(
    "--redis",
    "redis_kind",
    type=click.Choice(["single", "cluster"]),
    default="single",
    show_default=True,
    help="One Valkey, or a cluster of three, of which one node is killed at a time.",
)
@click.option(
    "--rate",
    type=click.FloatRange(1, 5_000),
    default=150,
    show_default=True,
    help="Transactions a second of the chain.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 8),
    default=1,
    show_default=True,
    help="Processes that share the partitions of each group that keeps books.",
)
@click.option(
    "--outage",
    is_flag=True,
    help="First keep ingest down for longer than the chain remembers: gaps must name what is lost.",
)
@click.option(
    "--standby",
    is_flag=True,
    help="Run a second ingest; half of what hits one is a pause longer than a takeover. "
    "takeover_s says how long the other took to write.",
)
@click.option(
    "--takeover-limit",
    "takeover_limit_s",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="With --standby, on a calm machine: fail where a takeover took longer, or where none was "
    "timed.  [default: none]",
)
@click.option(
    "--full",
    is_flag=True,
    help="At the end let Redis be full for a while, then give it 5 % more; --no-rebuild.",
)
@click.option(
    "--log-lost",
    is_flag=True,
    help="At the end let the log lose what a stopped group needs next: a gap must name exactly "
    "that, and all that does not rest on it be right; --no-rebuild.",
)
@click.option(
    "--accounts/--no-accounts",
    default=True,
    show_default=True,
    help="With the lane of accounts, against a chain of two nodes; where the seed is even, in two "
    "streams.",
)
@click.option("--replay/--no-replay", default=True, help="Read the log again onto the stores.")
@click.option("--rebuild/--no-rebuild", default=True, help="Compute all again from empty stores.")
@click.option(
    "--kill",
    "only",
    multiple=True,
    type=click.Choice(sorted(DECK)),
    help="Kill only this role, at least once; may be repeated. redis-lost empties Redis and "
    "rebuilds it; clickhouse-lost empties ClickHouse some time after a backup and restores that; "
    "bad-value spoils a stored value, waits until its wallet or mint is in quarantine, and "
    "rebuilds; accounts-hole breaks all streams of accounts, or one of two, for longer than a node "
    "and RPC remember: coverage must be withdrawn, health name it, and all be covered again.",
)
@click.option("--keep", is_flag=True, help="Keep the folder, whatever comes out.")
def chaos(
    seed: int,
    minutes: float,
    broker: Broker,
    redis_kind: RedisKind,
    rate: float,
    workers: int,
    outage: bool,
    standby: bool,
    takeover_limit_s: float | None,
    full: bool,
    log_lost: bool,
    accounts: bool,
    replay: bool,
    rebuild: bool,
    only: tuple[str, ...],
    keep: bool,
) -> None:
    """Kill roles at random, then compare the stores with an independent computation.

    Runs everything in a folder of its own: a simulated chain with forks, duplicates and broken
    streams; broker, ClickHouse, Redis, ingest and each agent group as processes, which are killed
    with SIGKILL and started again. At the end all that the stores hold is compared with what
    follows from the market's own notes, every account byte for byte; and what the API answers of
    the positions of demo wallets with the ledger and the accounts of the chain, whose market rests
    by then; then the log is read onto the finished stores again, which must change nothing, and
    onto empty ones, which must give the same.

    Prints one JSON line. Status 1 if anything differs, or if a takeover was late; the folder is
    kept then.

    \b
      soltape chaos --seed 7 --minutes 15 --broker apache
    """
    if takeover_limit_s is not None and not standby:
        raise click.UsageError("--takeover-limit needs --standby")
    end_as_by_ctrl_c()
    configure_logging(load(), "chaos")
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # we kill the broker ourselves
    folder = Path(tempfile.mkdtemp(prefix="soltape-chaos-"))
    report = Report(seed, minutes, broker, rate, workers, redis_kind, folder=str(folder))
    # Stores that evicted to make room differ from stores that were rebuilt, and a log that lost
    # slots does not give them again.
    rebuild = rebuild and not (full or log_lost)
    run = Run(
        folder,
        report,
        outage=outage,
        standby=standby,
        takeover_limit_s=takeover_limit_s,
        full=full,
        log_lost=log_lost,
        accounts=accounts,
        replay=replay,
        rebuild=rebuild,
        only=only,
    )
    try:
        asyncio.run(run.all())
    except Exception as error:  # whatever it is: the line has what was found so far
        report.failure = f"{type(error).__name__}: {error}"
        (folder / "failure.txt").write_text(traceback.format_exc())
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)  # Ctrl-C
        raise
    if report.passed and not keep:
        shutil.rmtree(folder, ignore_errors=True)
        report.folder = ""
    line = {"chaos": "passed" if report.passed else "failed", **asdict(report)}
    sys.stdout.write(orjson.dumps({**line, "machine": machine()}).decode() + "\n")
    sys.exit(0 if report.passed else 1)
