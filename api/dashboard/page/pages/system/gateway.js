// The gateway as this page sees it: the connection, and the chain's slots as they come live.

import { element, setText } from "../../lib/dom.js";
import { count, duration } from "../../lib/format.js";

const DRAW_MS = 500;
const WORDS = {
  idle: "not connected",
  connecting: "connecting",
  open: "connected",
  waiting: "lost, trying again",
  refused: "refused",
};
const FACTS = [
  ["state", "Connection"],
  ["rtt", "Round trip"],
  ["delay", "Newest slot published after"],
  ["processed", "Newest slot processed"],
  ["confirmed", "Newest slot confirmed"],
  ["distance", "Slots from processed to confirmed"],
  ["orphaned", "Orphaned since this page began"],
];

/** Return `{element, stop()}`; it subscribes to the channel `status`. */
export function createGateway({ socket, announce }) {
  const places = new Map(FACTS.map(([id]) => [id, element("dd", { "data-fact": id }, "–")]));
  const trouble = element("p", { class: "warning inset", role: "status", hidden: true });
  const slots = { processed: null, confirmed: null };
  let orphaned = 0;
  let delayMs = null;
  let timer = null;
  let isOpen = false;
  let hasFailed = false; // the subscription: it is asked for again

  const whole = element(
    "section",
    { class: "card", "aria-label": "Gateway" },
    element("h2", {}, "Gateway"),
    trouble,
    element(
      "dl",
      { class: "facts" },
      FACTS.map(([id, label]) => element("div", {}, element("dt", {}, label), places.get(id))),
    ),
  );

  const endState = socket.onState(({ state, words, rttMs }) => {
    put("state", WORDS[state] ?? state);
    put("rtt", duration(state === "open" ? rttMs : null));
    if (isOpen && state !== "open") forget();
    isOpen = state === "open";
    if (state === "waiting" || state === "refused") say(words);
    else if (state === "open") say("");
  });
  const endNotice = socket.onNotice(({ code, message }) => {
    // What is back again is no trouble any more.
    say(/_back$/.test(code ?? "") ? "" : message);
    announce(message);
  });
  const subscription = socket.subscribe("status", {}, {
    onEvent({ slot, status }, id) {
      if (status === "orphaned") orphaned += 1;
      else if (status in slots) slots[status] = Math.max(slots[status] ?? 0, slot);
      if (status === "processed") delayMs = since(id);
      timer ??= setTimeout(draw, DRAW_MS);
    },
    onGap({ reason, message }) {
      if (reason === "epoch") forget(); // the slots of the new stream may be smaller
      if (message) say(message);
    },
    onState({ state, error }) {
      hasFailed ||= error !== null;
      if (error !== null) say(error.message);
      else if (hasFailed && state === "live") {
        hasFailed = false;
        say("");
      }
    },
  });

  /** What was the newest is not known to be it any more. */
  function forget() {
    slots.processed = slots.confirmed = delayMs = null;
    draw();
  }

  function draw() {
    clearTimeout(timer);
    timer = null;
    const { processed, confirmed } = slots;
    put("processed", count(processed));
    put("confirmed", count(confirmed));
    const both = processed !== null && confirmed !== null;
    put("distance", count(both ? Math.max(0, processed - confirmed) : null));
    put("delay", duration(delayMs));
    put("orphaned", count(orphaned));
  }

  /** How long ago an event was put into its stream, by the gateway's clock as it is known here. */
  function since(id) {
    const { rttMs, clockOffsetMs } = socket.status;
    if (rttMs === null || clockOffsetMs === null || id === null) return null;
    return Math.max(0, Date.now() + clockOffsetMs - Number(id.split("-")[0]));
  }

  function put(fact, text) {
    setText(places.get(fact), text);
  }

  function say(message) {
    trouble.hidden = message === "";
    setText(trouble, message);
  }

  return {
    element: whole,
    stop() {
      subscription.stop();
      endState();
      endNotice();
      clearTimeout(timer);
    },
  };
}
