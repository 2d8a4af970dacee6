"""The verdict on a run: what the stores hold, compared with the market's own notes."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Final

import orjson

from infra.bench import progress
from pipeline.chaos import again, losses, stores, truth
from pipeline.chaos.asked import AskedAccounts
from pipeline.chaos.compare import Oracle, compare
from pipeline.chaos.differences import Differences
from pipeline.chaos.fleet import ACCOUNTS, API, Fleet
from pipeline.chaos.live import missing_live
from pipeline.chaos.losses import Hole
from pipeline.chaos.positions import ANSWER, KINDS, DemoPositions
from pipeline.chaos.report import Report
from pipeline.chaos.values import MONEY
from pipeline.chaos.watch import FINAL_SLOTS, SETTLED_GROUPS, Watch, torn_slots

CHANGES_KEPT: Final = 20
NAMED_THOUGH_HAD: Final = ("rolled back", "not known to be final")  # reasons of gaps


class Verdict:
    """Compares the stores of a run that has ended; writes what it finds to the report."""

    def __init__(self, fleet: Fleet, watch: Watch, report: Report) -> None:
        self._fleet = fleet
        self._watch = watch
        self._report = report
        self._settings = fleet.plan.settings

    async def compare(
        self,
        asked: AskedAccounts,
        positions: DemoPositions,
        last: int,
        *,
        lost_slots: bool,
        hole: Hole | None = None,
    ) -> None:
        """Compare all stores up to a slot; with `lost_slots`, gaps must say which were lost.

        Of a group a gap must name the `hole` that it has, and nothing else.
        """
        report = self._report
        progress(f"comparing up to slot {last}")
        settings = self._settings
        stored = await stores.read(settings)
        numbers = {row["slot"] for row in stored.rows["slots"]}
        of_all = [row for row in stored.rows["gaps"] if not row["lost_by"]]
        gaps = [(row["first_slot"], row["last_slot"]) for row in of_all]
        whole = await asyncio.to_thread(truth.read, self._fleet.plan.truth)
        chain = [slot for slot in whole if min(numbers) <= slot.slot <= last]
        lost = [
            (row["first_slot"], row["last_slot"])
            for row in of_all
            if not row["reason"].startswith(NAMED_THOUGH_HAD)
        ]
        # Whether `slots` has it or not: its row comes from one of the partitions.
        torn = await torn_slots(settings, {n for first, end in lost for n in range(first, end + 1)})
        wanted = truth.without(chain, gaps, numbers - torn)
        rolled_back = [slot for slot in wanted if slot.rolled_back]
        # The chain ended before it could report the last ones.
        final = [slot for slot in rolled_back if slot.slot <= last - FINAL_SLOTS]
        named = [
            (row["first_slot"], row["last_slot"], row["wallets"])
            for row in of_all
            if row["reason"].startswith(NAMED_THOUGH_HAD)
        ]
        oracle = await asyncio.to_thread(Oracle, wanted)
        unknowable = {*torn}.union(*(truth.named_in(each) for each in chain if each.slot in torn))
        if hole is not None:
            unknowable |= hole.rests_on(whole)
        found = Differences(unknowable=frozenset(unknowable - {*MONEY}))
        losses.compare(hole, stored.rows["gaps"], found)
        await asyncio.to_thread(compare, oracle, stored, found)
        await missing_live(settings, wanted, found)
        report.not_stored = await asked.compare(self._watch, whole, found)
        await positions.compare(found)
        report.positions = sum(found.compared[kind] for kind in KINDS)
        found.compared["rolled-back slot"] += len(final)
        for slot in truth.unnamed(final, named):
            found.add("rolled-back slot", slot, "a gap with its wallets", "none")
        report.slots = len(wanted)
        report.torn_slots, report.excused = len(torn), found.excused
        report.gap_slots = sum(not slot.rolled_back for slot in chain) - sum(
            not slot.rolled_back for slot in wanted
        )
        report.rolled_back_slots = len(rolled_back)
        if lost_slots and not report.gap_slots:
            found.add("gap", "outage", "slots lost", "none: the outage was too short")
        report.swaps = sum(len(tx.swaps) for slot in wanted for tx in slot.transactions)
        report.differences = found.total
        report.differences_by_kind = dict(found.counts)
        report.compared = dict(found.compared)
        self._write(found)

    async def read_again(self, last: int, *, replay: bool, rebuild: bool) -> None:
        """Read the log onto the finished stores, and onto empty ones; both must change nothing."""
        report, settings, fleet, watch = self._report, self._settings, self._fleet, self._watch
        before = await stores.fingerprint(settings)
        await fleet.end(API, *fleet.plan.ingests, *fleet.plan.workers, *ACCOUNTS)
        if replay:
            progress("reading the log onto the finished stores")
            await again.rewind(settings, watch)
            await fleet.start(*SETTLED_GROUPS)
            await again.skipped(settings, watch)
            await fleet.end(*SETTLED_GROUPS)
            report.replay_changed = self._changed(
                "replay", before, await stores.fingerprint(settings)
            )
        if rebuild:
            progress("computing everything again from empty stores")
            await again.empty(settings)
            await again.rewind(settings, watch)
            await fleet.start(*SETTLED_GROUPS)
            await watch.all_applied(last)
            await fleet.end(*SETTLED_GROUPS)
            after = await stores.fingerprint(settings)
            report.rebuild_changed = self._changed("rebuild", before, after)

    def _write(self, found: Differences) -> None:
        differing = sum(found.counts[kind] for kind in (ANSWER, *KINDS))
        progress(f"  {self._report.positions} positions of demo wallets: {differing} differences")
        for kind, count in found.counts.items():
            progress(f"  {kind}: {count} differences")
        for example in found.examples[:10]:
            progress(f"  {example}")
        examples = [asdict(example) for example in found.examples]
        (self._settings.soltape_data / "differences.json").write_bytes(
            orjson.dumps(examples, option=orjson.OPT_INDENT_2)
        )

    def _changed(self, what: str, before: dict[str, bytes], after: dict[str, bytes]) -> int:
        names = [n for n in before.keys() | after.keys() if before.get(n) != after.get(n)]
        shown = {
            name: [
                None if each is None else each.hex() for each in (before.get(name), after.get(name))
            ]
            for name in sorted(names)[:CHANGES_KEPT]
        }
        for name in shown:
            progress(f"  {what} changed {name}")
        (self._settings.soltape_data / f"{what}.json").write_bytes(
            orjson.dumps(shown, option=orjson.OPT_INDENT_2)
        )
        return len(names)
