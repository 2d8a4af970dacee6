// Bars of days, drawn as SVG in the colours of the style sheet, with a line over them if wanted.

import { scale } from "./days.js";
import { element, fill, svg } from "./dom.js";

const HEIGHT = 192; // px, as in the style sheet
const LEFT = 52;
const RIGHT = 8;
const TOP = 10;
const BOTTOM = 22;

/**
 * Make a chart. `tick(value)` writes a value of the axis. Returns `{element, show(label, bars), stop()}`:
 * `label` says it all to those who do not see it; bars are `{name, title, value, line?, plain?}`,
 * `name` below the bar, `title` when it is pointed at, `plain` neither a gain nor a loss.
 */
export function createBars({ tick }) {
  const drawing = svg("svg", { class: "bars", role: "img" });
  const whole = element("div", { class: "bars-place" }, drawing);
  let bars = [];
  const watcher = new ResizeObserver(draw);
  watcher.observe(whole);

  function draw() {
    const width = whole.clientWidth;
    if (width < 100 || bars.length === 0) return fill(drawing);
    drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const values = bars.flatMap(({ value, line }) => [value ?? 0, line ?? 0]);
    const { low, high, ticks } = scale(Math.min(...values), Math.max(...values));
    const step = (width - LEFT - RIGHT) / bars.length;
    const y = (value) => TOP + ((high - value) / (high - low)) * (HEIGHT - TOP - BOTTOM);
    const middle = (place) => LEFT + (place + 0.5) * step;
    const every = Math.ceil(bars.length / Math.max(1, Math.floor((width - LEFT) / 52)));
    const thick = Math.max(1, Math.min(36, step * 0.7));
    return fill(
      drawing,
      ticks.map((value) => [
        svg("line", { class: value === 0 ? "zero" : "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
        svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, tick(value)),
      ]),
      bars.map(({ value, plain }, place) => {
        if (!value) return null;
        const [top, bottom] = [y(Math.max(0, value)), y(Math.min(0, value))];
        const look = plain ? "plain" : value > 0 ? "up" : "down";
        const size = { x: middle(place) - thick / 2, y: top, width: thick, height: Math.max(1, bottom - top) };
        return svg("rect", { class: look, ...size });
      }),
      bars.map(({ name }, place) =>
        (bars.length - 1 - place) % every === 0
          ? svg("text", { x: middle(place), y: HEIGHT - 6, "text-anchor": "middle" }, name)
          : null,
      ),
      line(middle, y),
      bars.map(({ title }, place) =>
        svg(
          "rect",
          { class: "hit", x: LEFT + place * step, y: TOP, width: step, height: HEIGHT - TOP - BOTTOM },
          svg("title", {}, title),
        ),
      ),
    );
  }

  function line(middle, y) {
    if (bars[0].line === undefined) return null;
    const points = bars.map((bar, place) => [middle(place), y(bar.line)]);
    return [
      svg("polyline", { class: "line", points: points.map((point) => point.join(",")).join(" ") }),
      points.map(([cx, cy]) => svg("circle", { class: "dot", cx, cy, r: 3 })),
    ];
  }

  return {
    element: whole,
    show(label, wanted) {
      bars = wanted;
      drawing.setAttribute("aria-label", label);
      draw();
    },
    stop: () => watcher.disconnect(),
  };
}
