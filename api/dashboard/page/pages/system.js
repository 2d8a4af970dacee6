// The tape as it runs: the gateway, lag, rates, gaps, what is understood of each venue.

import { element, fill } from "../lib/dom.js";
import { amount, count, dateTime, duration } from "../lib/format.js";
import { createPanel } from "../lib/panel.js";
import { createGateway } from "./system/gateway.js";
import { createHour } from "./system/hour.js";
import {
  createGaps,
  createLag,
  createRoom,
  createStores,
  createVerdict,
  createWatching,
} from "./system/pipeline.js";
import { createVenues } from "./system/venues.js";

export const title = "System";

const HEALTH_MS = 5_000; // costs nothing
const TAPE_MS = 15_000; // costs a credit

export function mount(root, { api, socket, announce }) {
  const gateway = createGateway({ socket, announce });
  const [verdict, stores, room] = [createVerdict(), createStores(), createRoom()];
  const [lag, watching, gaps] = [createLag(), createWatching(), createGaps()];
  const health = createPanel({
    title: "Health",
    load: (signal) => askHealth(api, signal),
    show: shown(
      [verdict, stores, room, lag, watching, gaps],
      verdict.element,
      element("div", { class: "columns" }, part("Stores", stores), part("Lag in slots", lag)),
      part("Room", room),
      part("Watching", watching),
      part("Gaps", gaps),
    ),
    periodMs: () => HEALTH_MS,
  });
  const [rates, hour, venues] = [createRates(), createHour(), createVenues()];
  const tape = createPanel({
    title: "The tape",
    load: (signal) => api.get("/api/system", { signal }),
    show: shown(
      [rates, hour, venues],
      rates.element,
      hour.element,
      part("Venues, the last hour", venues),
    ),
    periodMs: () => TAPE_MS,
  });
  fill(root, element("h1", {}, title), gateway.element, health.element, tape.element);

  return () => {
    for (const each of [gateway, health, tape]) each.stop();
  };
}

/** What a panel does with an answer: pass it to all parts; they are put into the page once. */
function shown(parts, ...children) {
  const whole = element("div", { class: "page" }, children);
  return (answer) => {
    for (const each of parts) each.show(answer);
    return whole.isConnected ? null : whole;
  };
}

function part(heading, { element: content }) {
  return element("div", {}, element("h3", {}, heading), content);
}

/** A rate to a tenth: more is noise. */
function rate(perSecond) {
  return amount(perSecond === undefined ? null : Math.round(perSecond * 10) / 10);
}

/** Health answers 503 where a store is away: that is what it has to say, not a failure to say it. */
async function askHealth(api, signal) {
  try {
    return await api.get("/api/health", { signal });
  } catch (error) {
    if (error.data?.dependencies) return error.data;
    throw error;
  }
}

function createRates() {
  const facts = ["swaps_per_s", "transactions_per_s", "slots_per_s"];
  const labels = ["Swaps a second", "Transactions a second", "Slots a second"];
  const places = facts.map((fact) => element("dd", { "data-fact": fact }));
  const slot = element("dd", { "data-fact": "as_of_slot" });
  const about = element("p", { class: "hint" });
  const whole = element(
    "div",
    {},
    element(
      "dl",
      { class: "facts" },
      labels.map((label, at) => element("div", {}, element("dt", {}, label), places[at])),
      element("div", {}, element("dt", {}, "Newest slot stored"), slot),
    ),
    about,
  );
  return {
    element: whole,
    show({ rates, as_of_slot: asOfSlot, as_of_ms: asOfMs }) {
      for (const [at, fact] of facts.entries()) fill(places[at], rate(rates?.[fact]));
      fill(slot, count(asOfSlot));
      const window = rates && `Rates of the last ${duration(rates.window_s * 1000)} of the tape`;
      fill(about, window ? `${window}, which reaches to ${dateTime(asOfMs)}` : "Too young for rates");
    },
  };
}
