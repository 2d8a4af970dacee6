// The last hour in minutes: bars for the eye, a table for everybody.

import { element, fill, svg } from "../../lib/dom.js";
import { count, time } from "../../lib/format.js";
import { createTable } from "../../lib/table.js";

const MINUTES = 60;
const MINUTE_MS = 60_000;
const BAR = 10;
const HEIGHT = 60;

/** Make the part of a page; `show(answer)` takes what `/api/system` says. */
export function createHour() {
  const caption = element("figcaption", { class: "hint" });
  const picture = element("div", { class: "minutes" });
  const table = createTable({
    caption: "The last hour by the minute, the newest first",
    captionHidden: true,
    columns: [
      { id: "start", label: "From", content: ({ start_ms: startMs }) => time(startMs) },
      ...["swaps", "transactions", "slots", "unknown", "malformed"].map((name) => ({
        id: name,
        label: name[0].toUpperCase() + name.slice(1),
        numeric: true,
        content: (minute) => count(minute[name]),
      })),
    ],
    key: ({ start_ms: startMs }) => startMs,
  });
  const whole = element(
    "figure",
    { class: "hour" },
    picture,
    caption,
    element("details", {}, element("summary", {}, "As a table"), table.element),
  );

  return {
    element: whole,
    show({ minutes, as_of_ms: asOfMs }) {
      table.update([...minutes].reverse());
      const most = Math.max(1, ...minutes.map(({ swaps }) => swaps));
      fill(
        picture,
        svg(
          "svg",
          {
            viewBox: `0 0 ${MINUTES * BAR} ${HEIGHT}`,
            preserveAspectRatio: "none",
            "aria-hidden": "true",
            focusable: "false",
          },
          minutes.map((minute) => bar(minute, asOfMs, most)),
        ),
      );
      const busiest = minutes.length ? `most in a minute: ${count(most)}` : "nothing yet";
      fill(caption, `Swaps by the minute, the last hour; ${busiest}`);
    },
  };
}

function bar({ start_ms: startMs, swaps }, asOfMs, most) {
  const before = Math.round((asOfMs - startMs) / MINUTE_MS); // 1: the minute that ends now
  const height = (swaps / most) * (HEIGHT - 2);
  return svg("rect", {
    x: (MINUTES - before) * BAR + 1,
    y: (HEIGHT - height).toFixed(2),
    width: BAR - 2,
    height: height.toFixed(2),
  });
}
