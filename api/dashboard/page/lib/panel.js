// A part of a page that is filled from the API: loading, in words what went wrong, the content.

import { isAbort } from "./api.js";
import { element, fill } from "./dom.js";
import { refresh } from "./refresh.js";

/**
 * Make a card with a heading. `load(signal)` gets data, `show(data)` returns or updates nodes and
 * is called with every answer; `periodMs()` between two, null for once. A failure before the first
 * answer takes the content's place, a later one above it. Both can be tried again.
 * Returns `{element, body, head, reload(), stop()}`; it begins at once.
 */
export function createPanel({ title, load, show, periodMs = null, hint = null, flush = false, tall = false }) {
  const problem = element("div", { hidden: true });
  const body = element("div", {}, element("p", { class: "empty" }, "Loading …"));
  const head = element("header", { class: "row apart" }, element("h2", {}, title));
  const whole = element(
    "section",
    { class: ["card", flush && "flush", tall && "tall"].filter(Boolean).join(" "), "aria-label": title },
    head,
    hint && element("p", { class: "hint inset" }, hint),
    problem,
    body,
  );
  const leaving = new AbortController();
  let asked = null;
  let hasContent = false;

  async function once() {
    asked?.abort(); // something else is wanted by now
    asked = new AbortController();
    const signal = AbortSignal.any([leaving.signal, asked.signal]);
    try {
      const data = await load(signal);
      if (signal.aborted) return;
      problem.hidden = true;
      const made = show(data);
      if (made) fill(body, made);
      hasContent = true;
    } catch (error) {
      if (isAbort(error) || signal.aborted) return;
      showFailure(error);
      throw error;
    }
  }

  function showFailure(error) {
    if (!hasContent) fill(body);
    problem.hidden = false;
    fill(problem, failureWords(error, { isStale: hasContent, again: () => asking.now() }));
  }

  const asking = periodMs === null ? single(once) : refresh(once, periodMs);
  return {
    element: whole,
    body,
    head,
    reload: () => asking.now(),
    stop() {
      leaving.abort();
      asking.stop();
    },
  };
}

function single(once) {
  const now = () => once().catch(() => {}); // shown already
  now();
  return { now, stop() {} };
}

/** Return what went wrong and a button to try again; `isStale`: what is shown is from before. */
export function failureWords(error, { isStale = false, again = null } = {}) {
  const about = isStale ? "This could not be brought up to date. " : "";
  const words = error.status === undefined ? "Something went wrong in this page." : error.message;
  if (error.status === undefined) console.error(error);
  return element(
    "div",
    { class: isStale ? "warning row" : "problem row", role: "alert" },
    element("span", {}, about + words),
    again && element("button", { type: "button", on: { click: again } }, "Try again"),
  );
}

/** Return the card that replaces a page whose address is no `what`'s; `fault` says why. */
export function noAddress(what, fault) {
  return element(
    "section",
    { class: "card narrow", role: "alert" },
    element("h1", {}, `This is no address of a ${what}`),
    element("p", {}, fault),
  );
}
