// The candles of a token: choice of interval and currency, history, live updates, and as a table.

import { failureWords } from "../../lib/panel.js";
import { CandleBook, INTERVALS_MS, summary } from "../../lib/candles.js";
import { createCandleChart } from "../../lib/chart.js";
import { element, fill, setText } from "../../lib/dom.js";
import { amount, count, money, percent, price } from "../../lib/format.js";
import { isAbort } from "../../lib/api.js";
import { refresh } from "../../lib/refresh.js";
import { keep, recall } from "../../lib/storage.js";
import { createTable, gain } from "../../lib/table.js";
import { OF_KNOWN_VALUE } from "../../lib/volume_words.js";
import { CandleHistory } from "./history.js";

const DRAW_EVERY_MS = 250;
const LIVE_MS = 30_000; // between two answers of the API, while live events fill in what is newer
const ALONE_MS = 10_000; // and while there are none
const MOST_OLDER = 4; // pages asked for in a row without a hand on the chart
const TABLE_ROWS = 100;
const SECOND = 1_000;
const INTERVAL_WORDS = {
  "1s": "1 second",
  "1m": "1 minute",
  "5m": "5 minutes",
  "15m": "15 minutes",
  "1h": "1 hour",
  "4h": "4 hours",
  "1d": "1 day",
};

/** Make the candle card of a token. `isLive()` says whether live events come. */
export function createCandles({ api, mint, announce, isLive }) {
  let interval = recall("candles.interval") ?? "1m";
  if (!(interval in INTERVALS_MS)) interval = "1m";
  let currency = recall("candles.currency") === "sol" ? "sol" : "usd";
  let isTable = false;
  let book;
  let history;
  let asking; // of this interval
  let leaving; // aborts what is asked of this interval
  let drawn = null; // timer of the next drawing
  let dirtyMs = Infinity; // draw candles from here on; 0: all
  let olderPages = 0;
  let isAskingOlder = false;
  let pointedMs = null; // start of the candle that is pointed at

  const intervalButtons = choice("Interval", Object.keys(INTERVALS_MS), INTERVAL_WORDS, (chosen) => {
    interval = chosen;
    keep("candles.interval", chosen);
    begin();
  });
  const currencies = { usd: "US dollars", sol: "SOL" };
  const currencyButtons = choice("Prices in", ["usd", "sol"], currencies, (chosen) => {
    currency = chosen;
    keep("candles.currency", chosen);
    showChoice();
    draw(0);
  });
  const tableButton = element(
    "button",
    { type: "button", "aria-pressed": "false", on: { click: toggleTable } },
    "As a table",
  );
  const legend = element("p", { class: "legend mono", title: `Volume: ${OF_KNOWN_VALUE.toLowerCase()}` });
  const caption = element("p", { class: "hint" });
  const problem = element("div", { hidden: true });
  const empty = element("p", { class: "empty" }, "Loading …");
  const ending = element("p", { class: "hint" });
  const chart = createCandleChart({
    label: "Candles and volume",
    onOlder: () => older(),
    onPoint: point,
  });
  const olderButton = element(
    "button",
    { type: "button", on: { click: () => older({ byHand: true }) } },
    "Older candles",
  );
  const table = candleTable(() => currency);
  const tablePlace = element("div", { hidden: true }, table.element);
  const chartPlace = element("div", { hidden: true }, legend, chart.element);
  const whole = element(
    "section",
    { class: "card candles", "aria-label": "Candles" },
    element(
      "header",
      { class: "row apart" },
      element("h2", {}, "Candles"),
      element("div", { class: "row" }, intervalButtons.element, currencyButtons.element, tableButton),
    ),
    problem,
    empty,
    chartPlace,
    tablePlace,
    element("div", { class: "row apart" }, caption, olderButton),
    ending,
  );
  for (const event of ["pointerdown", "wheel", "keydown"]) {
    chart.element.addEventListener(event, () => (olderPages = 0), { passive: true });
  }

  function begin() {
    end();
    leaving = new AbortController();
    const { signal } = leaving;
    const lengthMs = INTERVALS_MS[interval];
    book = new CandleBook(lengthMs);
    history = new CandleHistory({ api, mint, interval, lengthMs, book });
    olderPages = 0;
    chart.setSeconds(lengthMs < INTERVALS_MS["1m"]);
    showChoice();
    chartPlace.hidden = true;
    empty.hidden = false;
    setText(empty, "Loading …");
    setText(caption, "");
    setText(ending, "");
    olderButton.hidden = true;
    tablePlace.hidden = true;
    let hasBegun = false;
    const once = async () => {
      try {
        if (!hasBegun) {
          await history.begin(signal);
          hasBegun = true;
          draw(0);
          chart.reset();
        } else {
          const fromMs = await history.newer(signal);
          if (fromMs === null) return void begin();
          draw(fromMs);
        }
        problem.hidden = true;
      } catch (error) {
        if (isAbort(error) || signal.aborted) return;
        problem.hidden = false;
        fill(problem, failureWords(error, { isStale: hasBegun, again: () => asking.now() }));
        if (!hasBegun) empty.hidden = true;
        throw error;
      }
    };
    asking = refresh(once, () => (isLive() ? LIVE_MS : ALONE_MS));
  }

  function end() {
    leaving?.abort();
    asking?.stop();
    clearTimeout(drawn);
    drawn = null;
    dirtyMs = Infinity;
    isAskingOlder = false;
  }

  async function older({ byHand = false } = {}) {
    if (byHand) olderPages = 0;
    if (isAskingOlder || history.ending !== null || book.size === 0) return;
    if (olderPages >= MOST_OLDER) return;
    isAskingOlder = true;
    olderPages += 1;
    const { signal } = leaving;
    try {
      const before = book.size;
      await history.older(signal);
      if (signal.aborted) return;
      draw(0);
      if (byHand) announce(history.ending ?? `${count(book.size - before)} older candles`);
    } catch (error) {
      if (isAbort(error) || signal.aborted) return;
      olderPages = MOST_OLDER; // scrolling on does not repeat the request
      problem.hidden = false;
      const again = () => older({ byHand: true });
      fill(problem, failureWords(error, { isStale: true, again }));
    } finally {
      if (!signal.aborted) isAskingOlder = false;
    }
  }

  /** Draw the candles that begin at `fromMs` or later, now. */
  function draw(fromMs) {
    clearTimeout(drawn);
    drawn = null;
    dirtyMs = Infinity;
    const rows = book.rows();
    const changed = rows.filter((row) => row.start_ms >= fromMs);
    if (fromMs === 0 || !chart.update(changed, rows.length)) chart.show(rows, currency);
    const isEmpty = rows.length === 0;
    empty.hidden = !isEmpty;
    setText(empty, "No trades were seen: there are no candles yet.");
    chartPlace.hidden = isEmpty || isTable;
    tablePlace.hidden = isEmpty || !isTable;
    olderButton.hidden = isEmpty || history.ending !== null;
    setText(ending, isEmpty ? "" : (history.ending ?? ""));
    setText(caption, isEmpty ? "" : summaryWords(rows));
    showLegend(rows.find((row) => row.start_ms === pointedMs) ?? rows.at(-1));
    if (isTable) table.update(rows.slice(-TABLE_ROWS).reverse());
  }

  function drawSoon(fromMs) {
    dirtyMs = Math.min(dirtyMs, fromMs);
    drawn ??= setTimeout(() => draw(dirtyMs), DRAW_EVERY_MS);
  }

  function summaryWords(rows) {
    const all = summary(rows, currency);
    const volume = currency === "usd" ? money : (value) => `${amount(value)} SOL`;
    const ends = [rows[0], rows.at(-1)].map((row) => utc(row.start_ms)).join(" to ");
    const span = `Candles of ${INTERVAL_WORDS[interval]}: ${count(rows.length)}, ${ends} UTC`;
    if (all === null) return `${span}. No price was known.`;
    return (
      `${span}. From ${priced(all.first)} to ${priced(all.last)}` +
      ` (${percent(all.changePct, { sign: true })}), lowest ${priced(all.lowest)},` +
      ` highest ${priced(all.highest)}${all.volume === null ? "" : `, volume ${volume(all.volume)}`}.`
    );
  }

  function priced(value) {
    return currency === "usd" ? `$${price(value)}` : `${price(value)} SOL`;
  }

  function point(row, isByKey) {
    pointedMs = row?.start_ms ?? null;
    showLegend(row ?? book.rows(book.newestMs ?? 0).at(-1));
    if (row !== null && isByKey) announce(legend.textContent);
  }

  function showLegend(row) {
    if (!row) return;
    const [open, high, low, close] = ["open", "high", "low", "close"].map((name) =>
      price(row[`${name}_${currency}`]),
    );
    const value = row[`volume_${currency}`];
    const volume = currency === "usd" ? money(value) : `${amount(value)} SOL`;
    setText(
      legend,
      `${utc(row.start_ms)} UTC  open ${open}  high ${high}  low ${low}  close ${close}` +
        `  volume ${volume}  buys ${count(row.buys)}  sells ${count(row.sells)}`,
    );
  }

  function utc(timeMs) {
    const text = new Date(timeMs).toISOString().replace("T", " ");
    if (INTERVALS_MS[interval] >= INTERVALS_MS["1d"]) return text.slice(0, 10);
    return text.slice(0, INTERVALS_MS[interval] < 60 * SECOND ? 19 : 16);
  }

  function candleTable(inCurrency) {
    const numbers = ["open", "high", "low", "close"].map((name) => ({
      id: name,
      label: name[0].toUpperCase() + name.slice(1),
      numeric: true,
      content: (row) => price(row[`${name}_${inCurrency()}`]),
    }));
    const change = (row) => {
      const open = row[`open_${inCurrency()}`];
      const close = row[`close_${inCurrency()}`];
      return open > 0 && close !== null ? ((close - open) / open) * 100 : null;
    };
    return createTable({
      caption: `The last ${TABLE_ROWS} candles, the newest first; times are UTC`,
      key: (row) => row.start_ms,
      cards: true,
      columns: [
        { id: "start", label: "Begins", content: (row) => utc(row.start_ms) },
        ...numbers,
        {
          id: "change",
          label: "Change",
          numeric: true,
          content: (row) => gain(change(row), percent(change(row), { sign: true })),
        },
        {
          id: "volume",
          label: "Volume",
          numeric: true,
          title: OF_KNOWN_VALUE,
          content: (row) =>
            inCurrency() === "usd" ? money(row.volume_usd) : `${amount(row.volume_sol)} SOL`,
        },
        { id: "buys", label: "Buys", numeric: true, content: (row) => count(row.buys) },
        { id: "sells", label: "Sells", numeric: true, content: (row) => count(row.sells) },
      ],
    });
  }

  function toggleTable() {
    isTable = !isTable;
    tableButton.setAttribute("aria-pressed", String(isTable));
    draw(0);
  }

  function showChoice() {
    intervalButtons.choose(interval);
    currencyButtons.choose(currency);
  }

  begin();
  return {
    element: whole,
    /** A live price of the token. */
    price(event) {
      const start = book.price(event);
      if (start !== null) drawSoon(start);
    },
    /** A live swap of the token. */
    swap(event) {
      const start = book.swap(event);
      if (start !== null) drawSoon(start);
    },
    /** A slot died: what was heard of it is taken back. */
    orphan(slot) {
      if (book.orphan(slot)) drawSoon(0);
    },
    /** Events may be missing, or none come any more: the API knows. */
    catchUp: () => asking.now(),
    stop() {
      end();
      chart.destroy();
    },
  };
}

/** Buttons of which one is pressed: `{element, choose(value)}`. */
function choice(label, values, words, onChoose) {
  const buttons = values.map((value) =>
    element(
      "button",
      { type: "button", "aria-pressed": "false", title: words[value], on: { click: () => onChoose(value) } },
      value in INTERVALS_MS ? value : value.toUpperCase(),
    ),
  );
  return {
    element: element("div", { class: "choices", role: "group", "aria-label": label }, buttons),
    choose(chosen) {
      for (const [place, value] of values.entries()) {
        buttons[place].setAttribute("aria-pressed", String(value === chosen));
      }
    },
  };
}
