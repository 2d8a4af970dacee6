"""The demo key: made once, found again, replaced when it was revoked."""

import asyncio
import stat

import pytest

from api.access import register
from api.access.charge import Charges, Grant
from api.access.demo import DemoKeyUnusable, ensure
from api.access.keys import new, parse
from infra.local import private_file


async def test_it_is_made_once_and_works(redis, tmp_path):
    file = tmp_path / "data" / "demo-key"
    text = await ensure(redis, file)
    assert file.read_text() == text + "\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in file.parent.iterdir()] == ["demo-key"]
    granted = await Charges(redis).request(parse(text), 1)
    assert granted.plan.name == "business"
    assert await ensure(redis, file) == text
    [record] = await register.read_all(redis)
    assert (record.name, record.display) == ("demo", f"soltape_...{text[-4:]}")


async def test_a_redis_that_has_lost_it_gets_it_again(redis, tmp_path):
    text = await ensure(redis, tmp_path / "key")
    await redis.ask([("FLUSHDB",)])
    assert await ensure(redis, tmp_path / "key") == text
    assert isinstance(await Charges(redis).request(parse(text), 1), Grant)


async def test_one_that_was_revoked_gives_way(redis, tmp_path):
    file = tmp_path / "key"
    first = await ensure(redis, file)
    await register.revoke(redis, parse(first), 1)
    second = await ensure(redis, file)
    assert second != first
    assert file.read_text() == second + "\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert isinstance(await Charges(redis).request(parse(second), 1), Grant)
    assert not isinstance(await Charges(redis).request(parse(first), 1), Grant)


async def test_several_at_once_have_one_key(redis, tmp_path):
    texts = await asyncio.gather(*(ensure(redis, tmp_path / "key") for _ in range(5)))
    assert len(set(texts)) == 1
    assert len(await register.read_all(redis)) == 1


async def test_another_that_was_first_is_heeded(redis, tmp_path, monkeypatch):
    theirs = new()
    file = tmp_path / "key"
    link = private_file.os.link

    def late(source, target):
        file.write_text(theirs)
        link(source, target)

    monkeypatch.setattr(private_file.os, "link", late)
    assert await ensure(redis, file) == theirs
    assert [each.name for each in tmp_path.iterdir()] == ["key"]


@pytest.mark.parametrize("content", ["", "my notes", "soltape_" + "x" * 39, "x" * 100_000])
async def test_a_file_of_somebody_is_not_written_over(redis, tmp_path, content):
    file = tmp_path / "notes.txt"
    file.write_text(content)
    with pytest.raises(DemoKeyUnusable, match="holds something else than a key"):
        await ensure(redis, file)
    assert file.read_text() == content


async def test_no_more_of_a_file_is_read_than_a_key_and_the_end_of_its_line(redis, tmp_path):
    file = tmp_path / "key"
    text = new()
    file.write_text(f"{text}\r\n")
    assert await ensure(redis, file) == text
    file.write_text(f"\n\n\n{text}\n")
    with pytest.raises(DemoKeyUnusable, match="holds something else than a key"):
        await ensure(redis, file)


async def test_a_folder_that_cannot_be_written_is_said(redis, tmp_path):
    (tmp_path / "demo").mkdir()
    with pytest.raises(DemoKeyUnusable, match=r"demo: Is a directory"):
        await ensure(redis, tmp_path / "demo")
    (tmp_path / "file").touch()
    with pytest.raises(DemoKeyUnusable, match="Not a directory"):
        await ensure(redis, tmp_path / "file" / "key")
