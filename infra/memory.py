"""The memory of a process that works for long: little is collected, and it lies in huge pages.

A role works on many MiB of small objects, the API on 200. In pages of 4 KiB these are more than
the processor's cache of addresses (TLB) has room for, and in a virtual machine each miss walks two
tables. Linux gives huge pages to memory that asks for them before it is used, which Python's
allocator does not; `MADV_COLLAPSE` (Linux 6.1) moves memory that is in use.
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_MADV_COLLAPSE: Final = 25  # <asm-generic/mman-common.h>; Python's mmap has no name for it
_SYSTEM: Final = Path("/sys/kernel/mm/transparent_hugepage")
_PROCESS: Final = Path("/proc/self")
_SWITCHED_OFF: Final = "THP_enabled:\t0"  # by prctl(PR_SET_THP_DISABLE), here or in a parent
_ENTRY_BYTES: Final = 8  # of /proc/self/pagemap, one a page; the highest bit: it is in memory
_NOT_IN_MEMORY: Final = bytes(range(0x80))  # the highest byte of other entries
_LOOKS_EVERY_S: Final = 1.0
_MIB: Final = 1 << 20
_SMALL_BYTES: Final = 512  # the largest that the allocator keeps in its arenas, of a MiB each
_HEADER_BYTES: Final = sys.getsizeof(b"")
_IN_AN_ARENA: Final = 1_900  # of such objects there are some more in each

_keeping: list[bytes | None] = []


def reserve(mib: int) -> None:
    """Have Python's allocator take memory for small objects in one piece, before imports.

    It takes a MiB at a time, and the libraries of modules come to lie between: few of these pieces
    hold a whole chunk. The process keeps all of `mib`.
    """
    if HugePages.of_system() is None:
        return
    taken: list[bytes | None] = [None] * (mib * _MIB // _SMALL_BYTES)
    for at in range(len(taken)):
        taken[at] = bytes(_SMALL_BYTES - _HEADER_BYTES)
    _keeping[:] = taken[::_IN_AN_ARENA]  # an arena that is empty is given back


def settle(*thresholds: int) -> None:
    """Let this process, which has imported what it needs, begin its work.

    Collections leave out what exists now: a full one would take 50 ms to walk it. `thresholds` are
    those of `gc.set_threshold`. From now on memory is moved into huge pages as it grows, where the
    system has them and its administrator has not set `transparent_hugepage` to `never`.
    """
    gc.freeze()
    if thresholds:
        gc.set_threshold(*thresholds)
    pages = HugePages.of_system()
    if pages is not None:
        threading.Thread(target=_follow, args=(pages,), name="huge-pages", daemon=True).start()


class HugePages:
    """Moves memory of this process into pages of `chunk_bytes`."""

    def __init__(self, chunk_bytes: int, page_bytes: int) -> None:
        self.chunk_bytes = chunk_bytes
        self._page_bytes = page_bytes
        self._madvise = ctypes.CDLL(None).madvise
        self._madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)

    @classmethod
    def of_system(cls) -> HugePages | None:
        """Return what moves memory on this system; None where this process has no such pages."""
        try:
            if "[never]" in (_SYSTEM / "enabled").read_text():
                return None
            if _SWITCHED_OFF in (_PROCESS / "status").read_text().splitlines():
                return None
            pages = cls(int((_SYSTEM / "hpage_pmd_size").read_text()), resource.getpagesize())
            (_PROCESS / "pagemap").open("rb").close()  # a sandbox may not let it be read
        except (OSError, ValueError):
            return None
        # Of no bytes it succeeds if the kernel knows the advice.
        return pages if pages._advise(None, 0) else None

    def collapse(self) -> int:
        """Move every chunk that is half used or more; return how many lie in one page now.

        A chunk for which the system has no page stays as it is.
        """
        with (_PROCESS / "pagemap").open("rb", buffering=0) as pagemap:
            return sum(
                self._advise(address, self.chunk_bytes)
                for address in chunks((_PROCESS / "maps").read_text(), self.chunk_bytes)
                if self._is_dense(pagemap.fileno(), address)
            )

    def _is_dense(self, pagemap: int, address: int) -> bool:
        """Say whether half of a chunk is in memory; a thread's stack, mostly empty, is not."""
        pages = self.chunk_bytes // self._page_bytes
        entries = os.pread(
            pagemap, pages * _ENTRY_BYTES, address // self._page_bytes * _ENTRY_BYTES
        )
        present = entries[_ENTRY_BYTES - 1 :: _ENTRY_BYTES].translate(None, _NOT_IN_MEMORY)
        return 2 * len(present) >= pages

    def _advise(self, address: int | None, length: int) -> bool:
        return bool(self._madvise(address, length, _MADV_COLLAPSE) == 0)


def chunks(maps: str, chunk_bytes: int) -> Iterator[int]:
    """Yield the addresses of whole chunks of what a process has allocated, from `/proc/self/maps`.

    Allocated is memory that can be written, is not shared, and belongs to no file.
    """
    for line in maps.splitlines():
        span, rights, _, _, inode, *name = line.split(None, 5)
        if rights != "rw-p" or inode != "0" or name not in ([], ["[heap]"]):
            continue
        begin, end = (int(address, 16) for address in span.split("-"))
        first = -(-begin // chunk_bytes) * chunk_bytes
        yield from range(first, end - chunk_bytes + 1, chunk_bytes)


def _follow(pages: HugePages) -> None:
    """Move memory each time that a chunk of it is new: a pass takes some milliseconds."""
    moved = 0
    while True:
        with suppress(OSError):  # all of the process's files may be in use
            allocated = _allocated_bytes()
            if allocated >= moved + pages.chunk_bytes:
                pages.collapse()
                moved = allocated = _allocated_bytes()
            moved = min(moved, allocated)
        time.sleep(_LOOKS_EVERY_S)


def _allocated_bytes() -> int:
    """Return the bytes in memory that belong to no file."""
    _, resident, of_files, *_ = (_PROCESS / "statm").read_text().split()
    return (int(resident) - int(of_files)) * resource.getpagesize()
