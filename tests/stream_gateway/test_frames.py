"""Frames as the server sends them, read back by a client of another make."""

import pytest
from websockets.frames import Close, Opcode
from websockets.protocol import CLIENT, Protocol

from stream_gateway.frames import close_frame, ping_frame, pong_frame, text_frame


def read(data):
    """Return the frames that a client of `websockets` sees."""
    client = Protocol(CLIENT, max_size=None)
    client.receive_data(data)
    assert client.parser_exc is None
    return client.events_received()


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65_535, 65_536, 1_000_000])
def test_text_of_any_length_comes_out_as_it_went_in(size):
    payload = b"x" * size
    [frame] = read(text_frame(payload))
    assert (frame.opcode, frame.data, frame.fin) == (Opcode.TEXT, payload, True)
    assert (frame.rsv1, frame.rsv2, frame.rsv3) == (False, False, False)


def test_frames_may_be_joined():
    payloads = [b"{}", "ÿ€𝄞".encode(), b"x" * 300]
    frames = read(b"".join(map(text_frame, payloads)))
    assert [frame.data for frame in frames] == payloads


def test_a_close_frame_tells_code_and_reason():
    [frame] = read(close_frame(4008, "too slow"))
    assert frame.opcode is Opcode.CLOSE
    assert Close.parse(frame.data) == Close(4008, "too slow")


@pytest.mark.parametrize("letter", ["x", "é", "€", "𝄞"])
def test_a_long_reason_is_cut_between_characters(letter):
    [frame] = read(close_frame(1011, letter * 200))
    told = Close.parse(frame.data)
    assert told.reason == letter * (123 // len(letter.encode()))


def test_pings_and_pongs():
    assert [(f.opcode, f.data) for f in read(ping_frame() + pong_frame(b"y" * 125))] == [
        (Opcode.PING, b""),
        (Opcode.PONG, b"y" * 125),
    ]
