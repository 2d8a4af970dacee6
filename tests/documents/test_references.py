"""What documents refer to exists: files, folders, links and anchors; and README is short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipeline.agents.live.vocabulary import SLUGS
from pipeline.decoders.unlisted import DEX as UNLISTED
from tests.support import documents
from tests.support.documents import DOCUMENTS, ROOMS, ROOT

THEIRS = {
    *("transactions.jsonl", "keys.jsonl", "swaps.py", "package.json", "tests/"),
    *("/backups/", "dashboard.json"),
}
"""Files of the reader's."""
MOST_LINES = 150


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= MOST_LINES


@pytest.mark.parametrize("room", ROOMS)
def test_each_room_has_a_sign_at_its_door_and_readme_leads_there(room: str) -> None:
    assert (ROOT / room / "README.md").is_file()
    assert f"({room}/README.md)" in (ROOT / "README.md").read_text()


def test_every_document_is_reached_from_readme() -> None:
    served = {ROOT / "api/docs/guide.md", *(ROOT / "api/mcp/local/documents").iterdir()}
    reached, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        document = waiting.pop()
        if document not in reached and document.suffix == ".md":
            reached.add(document)
            waiting += [_target(document, link) for link in documents.links(document)]
    assert {*DOCUMENTS} - served <= reached


@pytest.mark.parametrize("document", DOCUMENTS, ids=documents.name)
def test_links_resolve(document: Path) -> None:
    for link in documents.links(document):
        if re.match(r"https?:", link):
            continue
        target = _target(document, link)
        assert target.exists(), link
        anchor = link.partition("#")[2]
        assert not anchor or anchor in documents.anchors(target), link


def _target(document: Path, link: str) -> Path:
    path = link.partition("#")[0]
    return (document.parent / path).resolve() if path else document


@pytest.mark.parametrize("document", DOCUMENTS, ids=documents.name)
def test_files_that_are_named_exist(document: Path) -> None:
    missing = [
        path
        for path in documents.paths(document)
        if path not in THEIRS
        and not path.startswith(".soltape/")
        and not any([*folder.glob(path)] for folder in (document.parent, ROOT))
    ]
    assert not missing


def test_numbers_of_venues_and_platforms() -> None:
    venues = len({*SLUGS.dexes} - {UNLISTED})
    said = f"{venues} venues and {len(SLUGS.platforms)} launch platforms"
    assert said in " ".join((ROOT / "README.md").read_text().split())


def test_screenshot_is_small_and_not_shipped() -> None:
    """It is beside the dashboard's room, not among the files that the API serves."""
    picture = ROOT / "api/dashboard/screenshot.png"
    assert picture.stat().st_size <= 150_000
    assert not [*(ROOT / "api/dashboard/page").rglob("screenshot*")]
