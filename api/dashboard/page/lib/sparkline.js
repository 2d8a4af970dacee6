// A price as a line of a word's size; what it shows is said in words as well.

import { element, svg, unseen } from "./dom.js";
import { duration, percent, UNKNOWN } from "./format.js";
import { fit } from "./trail.js";

const WIDTH = 96;
const HEIGHT = 22;

/** Return the nodes of a trail: a line, and what it says; a dash while there is too little. */
export function sparkline(trail) {
  const { points, changePct } = trail;
  if (changePct === null) return [element("span", { title: "Too few prices were seen" }, UNKNOWN)];
  const look = changePct < 0 ? "falling" : "rising";
  const places = fit(points, WIDTH, HEIGHT, 2);
  const line = places.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");
  const span = duration(points.at(-1)[0] - points[0][0]);
  return [
    svg(
      "svg",
      {
        class: `sparkline ${look}`,
        viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
        width: WIDTH,
        height: HEIGHT,
        "aria-hidden": "true",
        focusable: "false",
      },
      svg("polyline", { points: line }),
    ),
    unseen(`${percent(changePct, { sign: true })} in ${span}`),
  ];
}
