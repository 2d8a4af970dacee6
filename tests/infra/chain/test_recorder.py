"""Where `soltape record` takes up a stream that broke."""

import grpc
import pytest

from infra.chain import recorder
from infra.chain.recorder import Recorder, RecordingFailed, recording_request
from infra.chain.recording import RecordingWriter
from schemas.proto.geyser_pb2 import SLOT_FIRST_SHRED_RECEIVED, SubscribeUpdate
from schemas.proto.geyser_pb2_grpc import GeyserServicer, add_GeyserServicer_to_server


def block(slot):
    update = SubscribeUpdate()
    update.block_meta.slot = slot
    return update


def transaction(slot):
    update = SubscribeUpdate()
    update.transaction.slot = slot
    return update


def first_shred(slot):
    update = SubscribeUpdate()
    update.slot.slot = slot
    update.slot.status = SLOT_FIRST_SHRED_RECEIVED
    return update


async def asked_after(tmp_path, updates):
    """Return what is asked for after a stream that gave these updates and broke."""
    asked = []

    class Servicer(GeyserServicer):
        async def Subscribe(self, requests, context):
            asked.append((await anext(aiter(requests))).from_slot)
            if len(asked) > 1:
                await context.abort(grpc.StatusCode.PERMISSION_DENIED, "enough")
            for update in updates:
                yield update

    server = grpc.aio.server()
    add_GeyserServicer_to_server(Servicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        with RecordingWriter(tmp_path / "tape.zst") as writer:
            request = recording_request((), votes=False, failed=False)
            with pytest.raises(RecordingFailed):
                await Recorder(f"http://127.0.0.1:{port}", None, request, writer).run()
    finally:
        await server.stop(None)
    return asked


@pytest.mark.parametrize(
    ("updates", "resumed"),
    [
        # Shreds of 12 were there before 11 was executed: the rest of 11 is still to come.
        ([block(10), transaction(11), first_shred(12), transaction(11)], 10),
        ([transaction(11), first_shred(12)], 11),
        ([block(10), transaction(11), block(11), block(9)], 11),
    ],
)
async def test_a_stream_that_broke_goes_on_with_its_last_whole_slot(
    tmp_path, monkeypatch, updates, resumed
):
    # private `_BACKOFF_S`: the pause before a stream is taken up is no setting.
    monkeypatch.setattr(recorder, "_BACKOFF_S", (0.01, 0.1))
    assert await asked_after(tmp_path, updates) == [0, resumed]
