"""What `--from` accepts."""

import time

import click
import pytest
from click.testing import CliRunner

from infra.kafka.tail import Start, StartType, TopicType, tail
from schemas.topics import SETTLED_BY_MINT, Topic


def start(text: str) -> Start:
    return StartType().convert(text, None, None)


def test_points():
    assert start("now") == Start()
    assert start("beginning") == Start(is_beginning=True)
    assert start("0") == Start(offset=0)
    assert start("1500") == Start(offset=1500)
    assert start("2026-01-31T12:00:00Z") == Start(time_ms=1769860800000)
    assert start("2026-01-31T13:00:00+01:00") == Start(time_ms=1769860800000)
    assert start("2026-01-31T12:00:00") == start("2026-01-31T12:00:00Z"), "UTC unless said"


@pytest.mark.parametrize(("text", "ago_ms"), [("30s", 30_000), ("5m", 300_000), ("2h", 7_200_000)])
def test_ago(text, ago_ms):
    before_ms = int(time.time() * 1000)
    started_ms = start(text).time_ms
    assert before_ms <= started_ms + ago_ms <= time.time() * 1000 + 1


@pytest.mark.parametrize("text", ["-5", "5 minutes", "2026-13-01", ""])
def test_what_is_no_point(text):
    with pytest.raises(click.BadParameter, match="is none of: now"):
        start(text)


def test_settled_lanes_have_the_names_that_the_broker_knows():
    def topic(name: str) -> Topic:
        return TopicType().convert(name, None, None)

    raised = topic("tape-settled-by-mint-16")
    assert (raised.name, raised.partitions) == ("tape-settled-by-mint-16", 16)
    assert topic("tape-settled-by-mint") is SETTLED_BY_MINT, "of whatever count there is"
    with pytest.raises(click.BadParameter, match="no topic"):
        topic("solana-dex-swaps-16")


def test_help_lists_the_topics():
    said = CliRunner().invoke(tail, ["--help"]).output
    assert "solana-dex-swaps" in said
    assert "tape-settled-by-mint" in said
