"""Memory of roles lies in huge pages where the system has them."""

from __future__ import annotations

import ctypes
import mmap
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.memory import HugePages, chunks
from tests.support import huge_pages

MIB = 1 << 20
CHUNK = 2 * MIB
MOVED_WITHIN_S = 60


@pytest.fixture
def allowed() -> Iterator[None]:
    """Let this test have huge pages, which others do without."""
    huge_pages.allow(True)
    yield
    huge_pages.allow(False)


@pytest.fixture
def pages(allowed: None) -> HugePages:
    found = HugePages.of_system()
    if found is None:
        pytest.skip("this system has no huge pages, or its administrator has them off")
    return found


@contextmanager
def mapped(length: int) -> Iterator[tuple[mmap.mmap, int]]:
    """Map memory of this process, and say where it is."""
    memory = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    view = ctypes.c_char.from_buffer(memory)
    try:
        yield memory, ctypes.addressof(view)
    finally:
        del view
        memory.close()


def huge_bytes(address: int, length: int) -> int:
    """Return the bytes in huge pages of the mapping that has an address, from the kernel."""
    found, within = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        word, *rest = line.split()
        if "-" in word:
            begin, end = (int(each, 16) for each in word.split("-"))
            within = begin < address + length and address < end
        elif word == "AnonHugePages:" and within:
            found += int(rest[0]) * 1024
    return found


def pages_in_memory(address: int, length: int) -> int:
    """Return how many pages of a span are in memory, from the kernel."""
    with Path("/proc/self/pagemap").open("rb") as pagemap:
        pagemap.seek(address // mmap.PAGESIZE * 8)
        entries = memoryview(pagemap.read(length // mmap.PAGESIZE * 8)).cast("Q")
    return sum(entry >> 63 for entry in entries)


def _run(program: str) -> None:
    """Run a program in a process of its own, whose memory nobody else changes."""
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * MOVED_WITHIN_S,
    )
    assert ended.returncode == 0, ended.stderr


def test_memory_in_use_is_moved_and_keeps_what_it_holds(pages: HugePages) -> None:
    length = 8 * pages.chunk_bytes
    with mapped(length) as (memory, address):
        written = bytes(range(256)) * (length // 256)
        memory[:] = written
        before = huge_bytes(address, length)
        moved = pages.collapse()
        after = huge_bytes(address, length)
        assert memory[:] == written
        assert moved >= 7  # one at an edge is no whole chunk
        assert after >= before
        assert after >= 7 * pages.chunk_bytes


def test_memory_that_is_hardly_used_stays_small(pages: HugePages) -> None:
    length = 8 * pages.chunk_bytes
    with mapped(length) as (memory, address):
        for at in range(0, length, pages.chunk_bytes):
            memory[at] = 1
        pages.collapse()
        assert pages_in_memory(address, length) == 8


@pytest.mark.usefixtures("pages")
def test_what_a_process_allocates_later_is_moved_too() -> None:
    program = f"""
        import gc, time
        from pathlib import Path
        from infra import memory

        def huge():
            lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
            return next(int(each.split()[1]) for each in lines if each.startswith("AnonHuge"))

        memory.settle(7, 8, 9)
        assert gc.get_threshold() == (7, 8, 9)
        assert gc.get_freeze_count() > 0
        until = time.monotonic() + {MOVED_WITHIN_S}
        for kept in [], []:
            before = huge()
            kept += [str(each) for each in range(1_000_000)]
            while huge() < before + 16 * 1024:
                assert time.monotonic() < until, (before, huge())
                time.sleep(0.05)
    """
    _run(program)


@pytest.mark.usefixtures("pages")
def test_what_is_reserved_is_one_piece_that_objects_are_made_in() -> None:
    program = """
        from pathlib import Path
        from infra import memory

        def mapped():
            for line in Path("/proc/self/maps").read_text().splitlines():
                span, rights, _, _, inode, *name = line.split(None, 5)
                begin, end = (int(each, 16) for each in span.split("-"))
                if rights == "rw-p" and inode == "0" and not name:
                    yield end - begin

        before = sum(mapped())
        memory.reserve(96)
        reserved = sum(mapped()) - before
        assert 96 << 20 <= reserved < 104 << 20, reserved
        assert max(mapped()) > 0.9 * reserved, (max(mapped()), reserved)
        made = [str(each) for each in range(1_000_000)]  # 55 MB of small objects
        assert sum(mapped()) - before < reserved + (16 << 20)  # the list itself is a large one
    """
    _run(program)


@pytest.mark.usefixtures("pages")
def test_a_process_for_which_they_are_switched_off_leaves_its_memory_alone() -> None:
    huge_pages.allow(False)
    assert HugePages.of_system() is None


@given(
    st.lists(
        st.tuples(
            st.integers(1, 5 * CHUNK // mmap.PAGESIZE),
            st.sampled_from(
                [
                    ("rw-p", "0", "", True),
                    ("rw-p", "0", "[heap]", True),
                    ("rw-p", "0", "[stack]", False),
                    ("rw-s", "0", "", False),
                    ("r-xp", "77", "/usr/lib/a library.so (deleted)", False),
                    ("rw-p", "77", "/usr/lib/a library.so", False),
                    ("---p", "0", "", False),
                ]
            ),
        )
    ),
    st.integers(0, 10_000),
)
def test_chunks_are_all_that_lie_within_what_is_allocated(
    mappings: list[tuple[int, tuple[str, str, str, bool]]], first_page: int
) -> None:
    lines, allocated = [], []
    at = first_page * mmap.PAGESIZE
    for pages, (rights, inode, name, is_allocated) in mappings:
        end = at + pages * mmap.PAGESIZE
        lines.append(f"{at:x}-{end:x} {rights} 00000000 00:00 {inode} {name}")
        if is_allocated:
            allocated.append((at, end))
        at = end
    expected = [
        chunk
        for begin, end in allocated
        for chunk in range(0, at, CHUNK)
        if begin <= chunk and chunk + CHUNK <= end
    ]
    assert [*chunks("\n".join(lines), CHUNK)] == expected
