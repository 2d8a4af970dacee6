// What health says, as tables: stores, how far the agents are, gaps.

import { element, fill } from "../../lib/dom.js";
import { ago, bytes, count, dateTime, duration, percent } from "../../lib/format.js";
import { createTable } from "../../lib/table.js";

const KEEPS = {
  pnl: "books of wallets",
  market: "markets of tokens",
  store: "rows of ClickHouse",
  accounts: "accounts of the chain",
};
const LOOKS = { ok: "good", degraded: "warn", unavailable: "bad" };

/** A word in the colour of what it means. */
export function badge(status) {
  return element("span", { class: `badge ${LOOKS[status] ?? ""}` }, status);
}

/** Whether all is well, and if not, why. */
export function createVerdict() {
  const whole = element("div", { class: "verdict" });
  return {
    element: whole,
    show({ status, reasons, versions }) {
      fill(
        whole,
        element("p", {}, badge(status), ` Soltape ${versions.soltape}`),
        reasons.length > 0 &&
          element("ul", { class: "warning" }, reasons.map((reason) => element("li", {}, reason))),
      );
    },
  };
}

/** Redis, ClickHouse, the Redis of the keys. */
export function createStores() {
  const table = createTable({
    caption: "Stores that answers need",
    captionHidden: true,
    columns: [
      { id: "name", label: "Store", content: ({ name }) => name },
      { id: "status", label: "Status", content: ({ status }) => [badge(status)] },
      { id: "latency", label: "Answers in", numeric: true, content: (row) => duration(row.latency_ms) },
      { id: "version", label: "Version", content: ({ version, detail }) => version ?? detail ?? "–" },
    ],
    key: ({ name }) => name,
  });
  return {
    element: table.element,
    show: ({ dependencies }) =>
      table.update(Object.entries(dependencies).map(([name, store]) => ({ name, ...store }))),
  };
}

/** How full the stores and the broker are. */
export function createRoom() {
  const table = createTable({
    caption: "How full the stores are",
    captionHidden: true,
    columns: [
      { id: "name", label: "Store", content: ({ name }) => name },
      { id: "status", label: "Room", content: ({ room }) => (room ? [badge(room.status)] : "–") },
      { id: "used", label: "Used", content: ({ used, room }) => (room ? used(room) : "no answer") },
    ],
    key: ({ name }) => name,
  });
  return {
    element: table.element,
    show: ({ capacity }) =>
      table.update(
        Object.entries(USED).map(([name, used]) => ({ name, used, room: capacity[name] })),
      ),
  };
}

const USED = {
  redis: memory,
  keys: memory,
  clickhouse: (room) =>
    `${bytes(room.bytes)}, at most ${count(room.parts)} parts in a partition; ${disk(room)}`,
  broker: (room) => `${bytes(room.log_bytes)}; ${disk(room)}`,
};

function memory({ used_bytes: used, max_bytes: most, used_pct: share, policy }) {
  const of = most === null ? "no limit" : `${percent(share)} of ${bytes(most)}`;
  return `${bytes(used)}, ${of}, ${policy}`;
}

function disk({ disk_free_bytes: free, disk_free_pct: share }) {
  return free === null ? "its disk is not known" : `${bytes(free)} of the disk free, ${percent(share)}`;
}

/** How far each group of agents is behind the chain. */
export function createLag() {
  const head = element("p", { class: "hint inset" });
  const table = createTable({
    caption: "How far the agents have come",
    captionHidden: true,
    columns: [
      { id: "group", label: "Agents", content: ({ name }) => name },
      { id: "keeps", label: "Keep", content: ({ name }) => KEEPS[name] ?? "–" },
      { id: "slot", label: "Settled slot", numeric: true, content: ({ slot }) => count(slot) },
      { id: "lag", label: "Slots behind", numeric: true, content: (row) => count(row.lag_slots) },
    ],
    key: ({ name }) => name,
    empty: "Redis does not answer, which knows how far they are",
  });
  return {
    element: element("div", {}, head, table.element),
    show({ pipeline }) {
      const { head_slot: slot, head_age_ms: ageMs, groups = {} } = pipeline ?? {};
      fill(head, slot ? `The chain's head is slot ${count(slot)}, published ${duration(ageMs)} ago` : "");
      table.update(Object.entries(groups).map(([name, group]) => ({ name, ...group })));
    },
  };
}

const WATCHED = {
  wallets: { label: "Tracked wallets", content: ({ wallets }) => count(wallets) },
  left_out: { label: "Tracked and left out", content: ({ left_out: left }) => count(left) },
  overdue: {
    label: "Next one is late by",
    content: ({ overdue_ms: late }) => (late === 0 ? "on time" : duration(late)),
  },
  waiting: {
    label: "Snapshots that wait for ClickHouse",
    content: (row) => count(row.snapshots_waiting),
  },
  books: {
    label: "Keeps the books of payments",
    content: (row) => (row.keeps_books ? "yes" : "no"),
  },
};

/** Whether `soltape watch` reads the tracked wallets, and how late it is. */
export function createWatching() {
  const summary = element("p", { class: "inset" });
  const places = Object.keys(WATCHED).map((fact) => element("dd", { "data-fact": fact }));
  const facts = element(
    "dl",
    { class: "facts" },
    Object.values(WATCHED).map(({ label }, at) =>
      element("div", {}, element("dt", {}, label), places[at]),
    ),
  );
  return {
    element: element("div", {}, summary, facts),
    show({ watch }) {
      fill(summary, watchingInWords(watch));
      const known = watch !== null && watch.since_ms !== null;
      facts.hidden = !known;
      for (const [at, { content }] of Object.values(WATCHED).entries()) {
        fill(places[at], known ? content(watch) : "");
      }
    },
  };
}

function watchingInWords(watch) {
  if (watch === null) return "Redis does not answer, which knows whether a process watches";
  const { is_active: active, since_ms: since, report_age_ms: age } = watch;
  if (active && since === null) return "A process has just begun to watch tracked wallets";
  if (active) return `Alerts and hourly net worth of tracked wallets, since ${dateTime(since)}`;
  const nobody = "No process watches tracked wallets: no alerts, no hourly net worth";
  return age === null ? nobody : `${nobody}. The last one reported ${duration(age)} ago`;
}

/** Slots that could not be had. */
export function createGaps() {
  const summary = element("p", { class: "inset" });
  const table = createTable({
    caption: "Gaps of the last day, the newest first",
    captionHidden: true,
    columns: [
      { id: "first", label: "From slot", numeric: true, content: (gap) => count(gap.first_slot) },
      { id: "last", label: "To slot", numeric: true, content: (gap) => count(gap.last_slot) },
      { id: "reason", label: "Why", content: ({ reason }) => reason },
      {
        id: "detected",
        label: "Found",
        content: (gap) => ago(gap.detected_ms),
        cellTitle: (gap) => dateTime(gap.detected_ms),
      },
    ],
    key: (gap) => `${gap.first_slot}-${gap.last_slot} ${gap.lost_by}`,
    empty: "",
  });
  return {
    element: element("div", {}, summary, table.element),
    show({ gaps }) {
      fill(summary, words(gaps));
      table.update(gaps?.latest ?? []);
      table.element.hidden = !gaps?.count;
    },
  };
}

function words(gaps) {
  if (gaps === null) return "ClickHouse does not answer, which keeps them";
  if (gaps.count === 0) return "None within the last day: every slot of the chain is here";
  const [slots, times] = [count(gaps.slots), count(gaps.count)];
  return `${slots} slots are missing, in ${times} ${gaps.count === 1 ? "gap" : "gaps"}`;
}
