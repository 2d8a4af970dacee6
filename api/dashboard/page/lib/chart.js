// Candles and volumes on a canvas, in the colours of the page, for pointer, touch and keys.
//
// Charts are drawn by TradingView Lightweight Charts, whose notice asks to be named with a link.

import {
  CandlestickSeries,
  CrosshairMode,
  HistogramSeries,
  createChart,
} from "../vendor/lightweight-charts.js";
import { priceBase } from "./candles.js";
import { element, outward } from "./dom.js";
import { amount, price, roundMoney } from "./format.js";
import { onTheme } from "./theme.js";

const NEAR_THE_END = 30; // candles left of the view: time to ask for older ones
const FIRST_CANDLES = 120; // in view
const FEWEST_CANDLES = 50; // there is room for
const KEYS_HINT =
  "Arrow keys go from candle to candle, Home and End to the first and the last, plus and minus zoom.";

/**
 * Make a chart. `label` says what it shows; `onOlder()` is called when the view comes near the
 * oldest candle, `onPoint(row, isByKey)` with the row that is pointed at, null for none.
 * Returns `{element, show(rows, currency), update(rows, size), reset(), setSeconds(on), destroy()}`.
 */
export function createCandleChart({ label, onOlder, onPoint }) {
  const host = element("div", { class: "chart-host" });
  const stage = element(
    "div",
    { class: "chart-stage", role: "group", "aria-label": `${label}. ${KEYS_HINT}`, tabindex: "0" },
    host,
  );
  const attribution = element(
    "p",
    { class: "hint attribution" },
    "Charts: ",
    outward("https://www.tradingview.com/", "TradingView Lightweight Charts™"),
    ", © 2025 TradingView, Inc. (",
    outward("vendor/lightweight-charts.NOTICE.txt", "notice"),
    ")",
  );

  const chart = createChart(host, {
    autoSize: true,
    // The library's own sign comes with a style element, which the page's policy forbids.
    layout: { attributionLogo: false, panes: { enableResize: false } },
    crosshair: { mode: CrosshairMode.Normal },
    rightPriceScale: { minimumWidth: 72 },
    timeScale: { timeVisible: true, secondsVisible: false, rightOffset: 4, minBarSpacing: 1 },
    handleScroll: { vertTouchDrag: false }, // or a phone cannot scroll past the chart
    localization: { locale: "en-US", dateFormat: "yyyy-MM-dd" },
  });
  const candles = chart.addSeries(CandlestickSeries, { priceLineVisible: true });
  const volumes = chart.addSeries(
    HistogramSeries,
    { priceLineVisible: false, lastValueVisible: false },
    1,
  );
  chart.panes()[1].setStretchFactor(0.25);
  volumes.priceScale().applyOptions({ scaleMargins: { top: 0.25, bottom: 0 } });

  let rows = []; // oldest first
  let currency = "usd";
  let colours = {};
  let pointed = null; // place of the row that keys have gone to
  let isResetDue = false; // as soon as the chart has a size
  const stopTheme = onTheme(paint);

  function paint(read) {
    colours = {
      up: read("--gain"),
      down: read("--loss"),
      ground: read("--raised"),
      upVolume: translucent(read("--gain")),
      downVolume: translucent(read("--loss")),
    };
    const [text, line] = [read("--muted"), read("--line")];
    chart.applyOptions({
      layout: {
        background: { color: colours.ground },
        textColor: text,
        fontFamily: read("--font"),
        panes: { separatorColor: line, separatorHoverColor: line },
      },
      grid: { vertLines: { color: line }, horzLines: { color: line } },
      crosshair: {
        vertLine: { color: text, labelBackgroundColor: text },
        horzLine: { color: text, labelBackgroundColor: text },
      },
      rightPriceScale: { borderColor: line },
      timeScale: { borderColor: line },
    });
    // Rising candles are hollow: they differ from falling ones without colours too.
    candles.applyOptions({
      upColor: colours.ground,
      borderUpColor: colours.up,
      wickUpColor: colours.up,
      downColor: colours.down,
      borderDownColor: colours.down,
      wickDownColor: colours.down,
    });
    if (rows.length > 0) volumes.setData(rows.map(volumeOf));
    showDirection();
  }

  /** The label of the last price: hollow candles would leave it without a ground. */
  function showDirection() {
    const { [`open_${currency}`]: open, [`close_${currency}`]: close } = rows.at(-1) ?? {};
    candles.applyOptions({ priceLineColor: close < open ? colours.down : colours.up });
  }

  function candleOf(row) {
    const time = row.start_ms / 1000;
    const [open, close] = [row[`open_${currency}`], row[`close_${currency}`]];
    if (close === null) return { time };
    return { time, open, high: row[`high_${currency}`], low: row[`low_${currency}`], close };
  }

  function volumeOf(row) {
    if (row[`volume_${currency}`] === null) return { time: row.start_ms / 1000 };
    const isUp = (row[`close_${currency}`] ?? 0) >= (row[`open_${currency}`] ?? 0);
    const color = isUp ? colours.upVolume : colours.downVolume;
    return { time: row.start_ms / 1000, value: row[`volume_${currency}`], color };
  }

  /** Show these and no others; what is looked at stays in view. */
  function show(wanted, inCurrency) {
    const isOther = inCurrency !== currency || rows.length === 0;
    const pointedMs = rows[pointed]?.start_ms;
    rows = wanted;
    currency = inCurrency;
    pointed = pointedMs === undefined ? null : rows.findIndex((row) => row.start_ms === pointedMs);
    if (pointed === -1) pointed = null;
    if (isOther) format();
    candles.setData(rows.map(candleOf));
    volumes.setData(rows.map(volumeOf));
    showDirection();
  }

  function format() {
    const last = rows.findLast((row) => row[`close_${currency}`] !== null);
    const base = priceBase(last?.[`close_${currency}`] ?? 0);
    // What lies below a step is what is left of the zero of a scale.
    const formatter = (value) => price(Math.abs(value) * base < 0.5 ? 0 : value);
    candles.applyOptions({ priceFormat: { type: "custom", base, formatter } });
    const format = currency === "usd" ? roundMoney : amount;
    volumes.applyOptions({ priceFormat: { type: "custom", minMove: 0.0001, formatter: format } });
  }

  /**
   * Show candles that changed or are new. Returns whether the chart shows `size` candles then: if
   * not, it was empty, or some were taken away or came in between: show all of them.
   */
  function update(changed, size) {
    if (rows.length === 0) return false; // the first candle sets the format of prices
    for (const row of changed) {
      let place = rows.length;
      while (place > 0 && rows[place - 1].start_ms >= row.start_ms) place -= 1;
      const isThere = rows[place]?.start_ms === row.start_ms;
      if (!isThere && place < rows.length) return false;
      const isPast = place < rows.length - 1;
      rows[place] = row;
      candles.update(candleOf(row), isPast);
      volumes.update(volumeOf(row), isPast);
    }
    showDirection();
    return rows.length === size;
  }

  /** Look at the newest candles. */
  function reset() {
    isResetDue = chart.timeScale().width() === 0;
    if (isResetDue) return;
    const width = Math.min(FIRST_CANDLES, Math.max(FEWEST_CANDLES, rows.length));
    chart.timeScale().setVisibleLogicalRange({ from: rows.length - width, to: rows.length + 3 });
  }

  chart.timeScale().subscribeSizeChange(() => {
    if (isResetDue) reset();
  });

  chart.timeScale().subscribeVisibleLogicalRangeChange((range) => {
    if (range !== null && rows.length > 0 && range.from < NEAR_THE_END) onOlder();
  });

  chart.subscribeCrosshairMove(({ time, sourceEvent }) => {
    if (sourceEvent === undefined) return; // keys: reported where they are handled
    pointed = time === undefined ? null : rows.findIndex((row) => row.start_ms === time * 1000);
    onPoint(pointed === null ? null : (rows[pointed] ?? null), false);
  });

  stage.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || rows.length === 0) return;
    const last = rows.length - 1;
    const place = pointed ?? last + 1;
    const step = event.shiftKey ? 10 : 1;
    const move = {
      ArrowLeft: () => pointAt(place - step),
      ArrowRight: () => pointAt(pointed === null ? last : place + step),
      Home: () => pointAt(0),
      End: () => pointAt(last),
      "+": () => zoom(0.7),
      "=": () => zoom(0.7),
      "-": () => zoom(1.4),
      Escape: unpoint,
    }[event.key];
    if (!move) return;
    event.preventDefault();
    move();
  });
  stage.addEventListener("blur", unpoint);

  function pointAt(wanted) {
    pointed = Math.min(rows.length - 1, Math.max(0, wanted));
    const row = rows[pointed];
    const scale = chart.timeScale();
    const { from, to } = scale.getVisibleLogicalRange();
    if (pointed < from + 1 || pointed > to - 1) {
      const width = to - from;
      const start = pointed < from + 1 ? pointed - 2 : pointed - width + 3;
      scale.setVisibleLogicalRange({ from: start, to: start + width });
    }
    const height = row[`close_${currency}`] ?? 0;
    chart.setCrosshairPosition(height, row.start_ms / 1000, candles);
    onPoint(row, true);
  }

  function unpoint() {
    pointed = null;
    chart.clearCrosshairPosition();
    onPoint(null, false);
  }

  function zoom(factor) {
    const scale = chart.timeScale();
    const { from, to } = scale.getVisibleLogicalRange();
    const width = Math.min(2_000, Math.max(10, (to - from) * factor));
    scale.setVisibleLogicalRange({ from: to - width, to });
  }

  return {
    element: element("div", { class: "chart" }, stage, attribution),
    show,
    update,
    reset,
    setSeconds: (on) => chart.timeScale().applyOptions({ secondsVisible: on }),
    destroy() {
      stopTheme();
      chart.remove();
    },
  };
}

/** A colour "#rrggbb" with half of its strength. */
function translucent(colour) {
  return /^#[0-9a-f]{6}$/i.test(colour) ? `${colour}80` : colour;
}
