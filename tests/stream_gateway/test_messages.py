"""What clients may say: accepted as values, refused with a code, never taken for another thing."""

import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.plans import BUSINESS, ENTERPRISE, FREE, PRO
from schemas.vocabulary import Slugs
from stream_gateway import messages
from stream_gateway.messages import Ping, Refused, Subscribe, Unsubscribe, parse
from stream_gateway.subscriptions import Filter
from tests.support.exploring import SLOW, examples

SLUGS = Slugs(("pump-fun", "pump-swap", "raydium-cpmm"), ("pump-fun", "bonk", "moonit"))
WSOL = "So11111111111111111111111111111111111111112"
USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
ID = "1732170000000-0-7"


def said(*, endpoint="main", plan=BUSINESS, slugs=SLUGS, **fields):
    return parse(json.dumps(fields).encode(), endpoint, plan, slugs)


def refusal(*, raw=None, endpoint="main", plan=BUSINESS, slugs=SLUGS, **fields):
    with pytest.raises(Refused) as caught:
        parse(raw if raw is not None else json.dumps(fields).encode(), endpoint, plan, slugs)
    return caught.value


def addresses(count):
    """Different addresses: wrapped SOL's, but for the last characters."""
    letters = "123456789ABCDEFGHJKLMNPQRSTUVWXYZ"
    return [f"{WSOL[:-2]}{a}{b}" for a in letters for b in letters][:count]


class TestAccepted:
    @pytest.mark.parametrize(
        ("fields", "expected"),
        [
            ({"channel": "swaps"}, Filter("swaps")),
            ({"channel": "swaps", "dex": "pump-swap"}, Filter("swaps", frozenset({"pump-swap"}))),
            (
                {"channel": "swaps", "dex": ["pump-swap", "pump-fun", "pump-fun"]},
                Filter("swaps", frozenset({"pump-swap", "pump-fun"})),
            ),
            ({"channel": "swaps", "token": WSOL}, Filter("swaps", tokens=frozenset({WSOL}))),
            (
                {"channel": "swaps", "wallets": [WSOL, USDC], "token": USDC, "dex": "pump-fun"},
                Filter(
                    "swaps",
                    frozenset({"pump-fun"}),
                    frozenset({USDC}),
                    frozenset({WSOL, USDC}),
                ),
            ),
            ({"channel": "creations"}, Filter("creations")),
            (
                {"channel": "creations", "platforms": ["bonk", "moonit"]},
                Filter("creations", platforms=frozenset({"bonk", "moonit"})),
            ),
            ({"channel": "prices"}, Filter("prices")),
            ({"channel": "prices", "mints": [USDC]}, Filter("prices", mints=frozenset({USDC}))),
            ({"channel": "status"}, Filter("status")),
            (
                {"channel": "positions", "wallets": [WSOL]},
                Filter("positions", wallets=frozenset({WSOL})),
            ),
            (
                {"channel": "positions", "wallets": [WSOL], "health_below": 1},
                Filter("positions", wallets=frozenset({WSOL}), health_below=1.0),
            ),
            ({"channel": "swaps", "dex": None, "since": None}, Filter("swaps")),
        ],
    )
    def test_subscribe(self, fields, expected):
        assert said(action="subscribe", **fields) == Subscribe(expected, None, False, None)

    def test_subscribe_with_everything_beside_the_filter(self):
        message = said(
            action="subscribe", channel="prices", mints=[USDC], snapshot=True, request_id="a" * 64
        )
        assert message == Subscribe(Filter("prices", mints=frozenset({USDC})), None, True, "a" * 64)
        assert said(action="subscribe", channel="status", since=ID).since == ID

    @pytest.mark.parametrize("channel", messages.MAIN_CHANNELS)
    def test_unsubscribe(self, channel):
        assert said(action="unsubscribe", channel=channel) == Unsubscribe(channel, None)

    def test_ping(self):
        assert said(action="ping", request_id="") == Ping("")

    @pytest.mark.parametrize("channel", [None, "trending-pairs"])
    def test_trending(self, channel):
        def trending(**fields):
            return said(endpoint="trending", channel=channel, **fields)

        assert trending(action="subscribe", dex="*").filter == Filter("trending-pairs")
        assert trending(action="subscribe", dex=["bonk"]).filter == Filter(
            "trending-pairs", frozenset({"bonk"})
        )
        assert trending(action="unsubscribe") == Unsubscribe("trending-pairs", None)

    def test_a_slug_that_is_made_like_one_passes_while_the_vocabulary_is_not_known(self):
        message = said(action="subscribe", channel="swaps", dex="new-venue-2", slugs=None)
        assert message.filter.dexes == {"new-venue-2"}

    def test_a_hundred_wallets_and_a_hundred_mints(self):
        message = said(action="subscribe", channel="swaps", wallets=addresses(100), plan=ENTERPRISE)
        assert message.filter.wallets == set(addresses(100))
        message = said(action="subscribe", channel="prices", mints=addresses(100), plan=FREE)
        assert message.filter.mints == set(addresses(100))


class TestRefused:
    @pytest.mark.parametrize(
        ("raw", "code"),
        [
            (b"", "bad_json"),
            (b"{", "bad_json"),
            (b'{"action": "ping",}', "bad_json"),
            (b"NaN", "bad_json"),
            (b'"\\ud800"', "bad_json"),
            (b"[" * 100_000, "bad_json"),
            (b"[]", "not_an_object"),
            (b"null", "not_an_object"),
            (b'"ping"', "not_an_object"),
            (b"1e400", "bad_json"),
            (b"1e40", "not_an_object"),
        ],
    )
    def test_what_is_no_object(self, raw, code):
        assert refusal(raw=raw).code == code

    @pytest.mark.parametrize("action", [None, "", "SUBSCRIBE", "pong", 1, [], {"a": [[[]]]}, True])
    def test_actions(self, action):
        refused = refusal(action=action)
        assert (refused.code, refused.accepted) == (
            "unknown_action",
            ("subscribe", "unsubscribe", "ping"),
        )

    @pytest.mark.parametrize("channel", [None, "", "swap", "Swaps", 7, ["swaps"], "trending-pairs"])
    @pytest.mark.parametrize("action", ["subscribe", "unsubscribe"])
    def test_channels(self, action, channel):
        refused = refusal(action=action, channel=channel)
        assert refused.code == "unknown_channel"
        assert refused.accepted == ("swaps", "creations", "prices", "status", "positions")

    def test_channels_of_the_trending_connection(self):
        refused = refusal(endpoint="trending", action="subscribe", channel="swaps")
        assert (refused.code, refused.accepted) == ("unknown_channel", ("trending-pairs",))

    @pytest.mark.parametrize(
        ("fields", "accepted"),
        [
            (
                {"action": "subscribe", "channel": "swaps", "wallet": [WSOL]},
                ("action", "channel", "request_id", "dex", "token", "wallets", "since"),
            ),
            (
                {"action": "subscribe", "channel": "creations", "dex": "pump-fun"},
                ("action", "channel", "request_id", "platforms", "since"),
            ),
            (
                {"action": "subscribe", "channel": "prices", "token": WSOL},
                ("action", "channel", "request_id", "mints", "since", "snapshot"),
            ),
            (
                {"action": "subscribe", "channel": "status", "slot": 1},
                ("action", "channel", "request_id", "since"),
            ),
            (
                {"action": "unsubscribe", "channel": "swaps", "dex": "pump-fun"},
                ("action", "channel", "request_id"),
            ),
            ({"action": "ping", "channel": "swaps"}, ("action", "request_id")),
        ],
    )
    def test_fields_that_are_not_known(self, fields, accepted):
        refused = refusal(**fields)
        assert (refused.code, refused.accepted) == ("unknown_field", accepted)

    @pytest.mark.parametrize(
        ("fields", "code"),
        [
            ({"channel": "swaps", "dex": []}, "wrong_type"),
            ({"channel": "swaps", "dex": 1}, "wrong_type"),
            ({"channel": "swaps", "dex": ["pump-fun", None]}, "wrong_type"),
            ({"channel": "swaps", "dex": "pumpfun"}, "unknown_dex"),
            ({"channel": "swaps", "dex": "*"}, "unknown_dex"),
            ({"channel": "swaps", "dex": ["pump-fun", "Pump-Fun"]}, "unknown_dex"),
            ({"channel": "swaps", "token": [WSOL]}, "wrong_type"),
            ({"channel": "swaps", "token": ""}, "invalid_address"),
            ({"channel": "swaps", "token": WSOL[:-1]}, "invalid_address"),
            ({"channel": "swaps", "token": WSOL.replace("o", "0")}, "invalid_address"),
            ({"channel": "swaps", "token": "1" * 44}, "invalid_address"),
            ({"channel": "swaps", "token": "z" * 44}, "invalid_address"),
            ({"channel": "swaps", "token": "é" * 40}, "invalid_address"),
            ({"channel": "swaps", "wallets": WSOL}, "wrong_type"),
            ({"channel": "swaps", "wallets": []}, "wrong_type"),
            ({"channel": "swaps", "wallets": [WSOL, "x"]}, "invalid_address"),
            ({"channel": "swaps", "wallets": addresses(101)}, "too_many_wallets"),
            ({"channel": "creations", "platforms": "bonk"}, "wrong_type"),
            ({"channel": "creations", "platforms": ["pump-swap"]}, "unknown_platform"),
            ({"channel": "creations", "platforms": ["bonk"] * 101}, "wrong_type"),
            ({"channel": "prices", "mints": []}, "wrong_type"),
            ({"channel": "prices", "mints": addresses(101)}, "too_many_mints"),
            ({"channel": "prices", "snapshot": True}, "snapshot_needs_mints"),
            ({"channel": "prices", "mints": [WSOL], "snapshot": 1}, "wrong_type"),
            (
                {"channel": "prices", "mints": [WSOL], "snapshot": True, "since": ID},
                "bad_since",
            ),
            ({"channel": "swaps", "since": 1732170000000}, "wrong_type"),
            ({"channel": "swaps", "since": ""}, "bad_since"),
            ({"channel": "swaps", "since": "1732170000000-0"}, "bad_since"),
            ({"channel": "swaps", "since": "-1-0-0"}, "bad_since"),
            ({"channel": "swaps", "since": "1-0-" + "9" * 20}, "bad_since"),
            ({"channel": "swaps", "since": "9" * 60_000 + "-0-0"}, "bad_since"),
            ({"channel": "positions"}, "wrong_type"),
            ({"channel": "positions", "wallets": []}, "wrong_type"),
            ({"channel": "positions", "wallets": addresses(101)}, "too_many_wallets"),
            *(
                ({"channel": "positions", "wallets": [WSOL], "health_below": below}, "wrong_type")
                for below in (0, -1, 100.1, 1e300, "1.1", True, [1.1])
            ),
            ({"channel": "positions", "wallets": [WSOL], "snapshot": True}, "unknown_field"),
            ({"channel": "swaps", "request_id": "a" * 65}, "wrong_type"),
            ({"channel": "swaps", "request_id": 7}, "wrong_type"),
        ],
    )
    def test_values(self, fields, code):
        assert refusal(action="subscribe", **fields).code == code

    def test_an_unknown_slug_is_answered_with_the_known_ones(self):
        refused = refusal(action="subscribe", channel="swaps", dex="uniswap")
        assert list(refused.accepted) == sorted(SLUGS.dexes)
        refused = refusal(action="subscribe", channel="creations", platforms=["uniswap"])
        assert list(refused.accepted) == sorted(SLUGS.platforms)

    @pytest.mark.parametrize("dex", [None, "bonk", [], ["uniswap"], ["*"], 1])
    def test_trending_wants_a_star_or_platforms(self, dex):
        refused = refusal(endpoint="trending", action="subscribe", dex=dex)
        expected = "unknown_platform" if dex in (["uniswap"], ["*"]) else "wrong_type"
        assert refused.code == expected

    @pytest.mark.parametrize("plan", [FREE, PRO])
    def test_filters_by_wallet_are_for_business_and_above(self, plan):
        for channel in ("swaps", "positions"):
            refused = refusal(action="subscribe", channel=channel, wallets=[WSOL], plan=plan)
            assert refused.code == "not_in_plan"
            assert plan.name in refused.message

    def test_a_refusal_names_channel_and_request(self):
        refused = refusal(action="subscribe", channel="swaps", dex="x", request_id="mine")
        assert (refused.channel, refused.request_id) == ("swaps", "mine")

    def test_what_is_repeated_of_a_value_is_short(self):
        refused = refusal(action="subscribe", channel="x" * 60_000)
        assert len(refused.message) < 200


def parsed(raw, endpoint, plan, slugs):
    """What is said, or why it is refused."""
    try:
        return parse(raw, endpoint, plan, slugs)
    except Refused as refused:
        return refused


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=70),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)
NAMES = ("action", "channel", "request_id", "dex", "token", "wallets", "platforms", "mints",
         "since", "snapshot", "health_below")  # fmt: skip
VALUES = st.sampled_from(
    ["subscribe", "unsubscribe", "ping", "swaps", "prices", "creations", "status", "*",
     "positions", 1.1, "pump-fun", [WSOL], WSOL, ["bonk"], ID, True]
)  # fmt: skip


@given(
    st.dictionaries(
        st.sampled_from(NAMES) | st.text(string.ascii_lowercase, max_size=6), VALUES | JSON
    ),
    st.sampled_from(["main", "trending"]),
    st.sampled_from([FREE, BUSINESS]),
    st.sampled_from([SLUGS, None]),
)
@examples(500, SLOW)
def test_whatever_is_said_is_a_value_or_refused(fields, endpoint, plan, slugs):
    raw = json.dumps(fields, allow_nan=True).encode("utf-8", "surrogatepass")
    message = parsed(raw, endpoint, plan, slugs)
    if isinstance(message, Refused):
        answer = json.loads(payload(messages.error(message)))
        assert (answer["type"], answer["code"]) == ("error", message.code)
        return
    known = {"action", "channel", "request_id"} | set(NAMES)
    assert {name for name, value in fields.items() if value is not None} <= known
    if isinstance(message, Subscribe):
        answer = json.loads(payload(messages.subscribed(message, replaces=False)))
        assert answer["filter"] == message.filter.as_fields()


@given(st.binary(max_size=200))
@examples(300)
def test_bytes_at_random_are_refused(raw):
    message = parsed(raw, "main", FREE, SLUGS)
    assert isinstance(message, Refused)
    assert message.code in {"bad_json", "not_an_object", "unknown_action"}


def payload(frame):
    """The JSON of a frame."""
    size = frame[1]
    return frame[2:] if size < 126 else frame[4:] if size == 126 else frame[10:]


class TestAnswers:
    def test_answers(self):
        message = said(
            action="subscribe", channel="swaps", dex="pump-fun", since=ID, request_id="r"
        )
        assert json.loads(payload(messages.subscribed(message, replaces=True))) == {
            "type": "subscribed",
            "channel": "swaps",
            "filter": {"dex": ["pump-fun"]},
            "replaces": True,
            "since": ID,
            "request_id": "r",
        }
        assert json.loads(payload(messages.unsubscribed(Unsubscribe("swaps", None)))) == {
            "type": "unsubscribed",
            "channel": "swaps",
        }
        assert json.loads(payload(messages.gap("swaps", "trimmed", ID, None, "gone"))) == {
            "type": "gap",
            "channel": "swaps",
            "reason": "trimmed",
            "after": ID,
            "before": None,
            "message": "gone",
        }
        assert json.loads(payload(messages.lagging(7, "budget"))) == {
            "type": "lagging",
            "channel": None,
            "dropped": 7,
            "reason": "budget",
        }
        assert json.loads(payload(messages.notice("source_away", "gone"))) == {
            "type": "notice",
            "code": "source_away",
            "message": "gone",
        }

    def test_an_empty_request_id_is_echoed(self):
        assert json.loads(payload(messages.pong(Ping(""))))["request_id"] == ""

    def test_an_error_says_what_is_accepted(self):
        refused = refusal(action="nope", request_id="r")
        assert json.loads(payload(messages.error(refused))) == {
            "type": "error",
            "code": "unknown_action",
            "message": "`action` must be one of 'subscribe', 'unsubscribe', 'ping', got 'nope'",
            "accepted": ["subscribe", "unsubscribe", "ping"],
            "request_id": "r",
        }
