// Numbers, times, addresses and foreign texts, as people read them. No DOM: tested with Node.

import { DAY_MS, HOUR_MS } from "./times.js";

export const UNKNOWN = "–";
const MINUS = "−";
const SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉";
const UNITS = [
  [1e12, "T"],
  [1e9, "B"],
  [1e6, "M"],
];

const BYTES = ["B", "KiB", "MiB", "GiB", "TiB"];

const grouped = [0, 1, 2, 3, 4].map(
  (places) =>
    new Intl.NumberFormat("en-US", { minimumFractionDigits: places, maximumFractionDigits: places }),
);

const abridged = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 });

/** Dollars: "$1,234.50", "$12.30M", "$0.0123", "$0.0₅1234"; `sign` puts + before gains. */
export function money(usd, { sign = false } = {}) {
  return signed(usd, sign, (size) => `$${size === 0 || size >= 1 ? compact(size, 2) : small(size)}`);
}

/** Dollars of an axis, three digits that count: "$950", "$20K", "$1.25M". */
export function roundMoney(usd) {
  return signed(usd, false, (size) => `$${size === 0 || size >= 0.01 ? abridged.format(size) : small(size)}`);
}

/** A quantity of a token or of SOL: "12.35M", "12,345", "1,234.5", "0.01235". */
export function amount(quantity, { sign = false } = {}) {
  return signed(quantity, sign, (size) => {
    if (size >= 10_000) return compact(size, 0);
    return size === 0 || size >= 1 ? trimmed(grouped[size >= 100 ? 2 : 4].format(size)) : small(size);
  });
}

/** A price, four digits that count: "1,234.56", "0.0₅1234": five zeros after the point. */
export function price(number) {
  return signed(number, false, (size) => {
    if (size >= 1000) return compact(size, 2);
    if (size >= 1) return grouped[4 - String(Math.trunc(size)).length].format(size);
    return size === 0 ? "0" : small(size);
  });
}

/** Per cent of a number that is in per cent already: "12.5%"; `sign` puts + before gains. */
export function percent(number, { sign = false } = {}) {
  return signed(number, sign, (size) => {
    const places = size >= 1000 ? 0 : size >= 10 || size === 0 ? 1 : 2;
    return size > 0 && size < 0.01 ? "<0.01%" : `${trimmed(grouped[places].format(size))}%`;
  });
}

/** A whole number: "12,345". */
export function count(number) {
  return signed(number, false, (size) => grouped[0].format(size));
}

/** Bytes, three digits that count: "512 B", "1.5 MiB", "97.2 GiB". */
export function bytes(number) {
  if (!isNumber(number)) return UNKNOWN;
  let [size, at] = [Math.abs(number), 0];
  for (; size >= 1024 && at < BYTES.length - 1; at += 1) size /= 1024;
  return `${at === 0 || size >= 100 ? Math.round(size) : trimmed(size.toFixed(size >= 10 ? 1 : 2))} ${BYTES[at]}`;
}

/** The full decimal of a number, for a title beside a shortened one; never "1e-9". */
export function exact(number) {
  if (!isNumber(number)) return UNKNOWN;
  return new Intl.NumberFormat("en-US", { maximumSignificantDigits: 17, maximumFractionDigits: 20 })
    .format(number);
}

/** A length of time: "840 µs", "12 ms", "3.4 s", "5 min", "2 h", "3 d". */
export function duration(ms) {
  if (!isNumber(ms)) return UNKNOWN;
  const size = Math.abs(ms);
  const sign = ms < 0 ? MINUS : "";
  if (size < 1) return `${sign}${Math.round(size * 1000)} µs`;
  if (size < 1000) return `${sign}${Math.round(size)} ms`;
  if (size < 60_000) return `${sign}${(size / 1000).toFixed(size < 10_000 ? 1 : 0)} s`;
  if (size < HOUR_MS) return `${sign}${Math.floor(size / 60_000)} min`;
  if (size < DAY_MS * 2) return `${sign}${Math.floor(size / HOUR_MS)} h`;
  return `${sign}${Math.floor(size / DAY_MS)} d`;
}

/** How long ago a time is: "now", "12 s ago", "5 min ago". */
export function ago(timeMs, nowMs = Date.now()) {
  if (!isTime(timeMs)) return UNKNOWN;
  const since = nowMs - timeMs;
  return since < 1000 ? "now" : `${duration(since).replace(/\.\d/, "")} ago`;
}

/** Clock time, here: "13:06:12". */
export function time(timeMs) {
  if (!isTime(timeMs)) return UNKNOWN;
  const at = new Date(timeMs);
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
}

/** Date, here: "2026-11-21". */
export function day(timeMs) {
  if (!isTime(timeMs)) return UNKNOWN;
  const at = new Date(timeMs);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}

/** Both: "2026-11-21 13:06:12". */
export function dateTime(timeMs) {
  return isTime(timeMs) ? `${day(timeMs)} ${time(timeMs)}` : UNKNOWN;
}

/** An address or a signature, its ends: "So11…1112". */
export function short(address, ends = 4) {
  if (typeof address !== "string" || address === "") return UNKNOWN;
  const known = harmless(address, 100) ?? UNKNOWN;
  return known.length <= 2 * ends + 1 ? known : `${known.slice(0, ends)}…${known.slice(-ends)}`;
}

/** A slug in words: "pump-swap" is "pump swap". */
export function slug(text) {
  return harmless(text, 40)?.replaceAll("-", " ") ?? UNKNOWN;
}

const LONGEST_READ = 1000; // UTF-16 units: a name may be of any length
const PRINTABLE = /^[!-~]+$/;
// What follows is in `api/metadata/documents.py`, too, with the reasons; a table of examples
// (`tests/api/metadata/foreign_texts.json`) holds both to the same.
// Control, format (bidi overrides, zero widths, tags), surrogates, private use, unassigned, separators.
const CONTROLS = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/u;
// Letters that cannot be seen: fillers, blanks of Braille and of hieroglyphs, a grapheme joiner.
const BLANKS = /[\s\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufffc\u{13441}\u{13442}\u{16fe4}\u{1d159}]/u;
// Variation selectors, and marks that cannot be seen: they leave no gap.
const HIDDEN = /[\u180b-\u180d\u180f\u2d7f\ufe00-\ufe0f\u{1107f}\u{13440}\u{1bc9d}\u{e0100}-\u{e01ef}]/u;
const EMOJI_STYLE = "\ufe0f";
const JOINER = "\u200d";
const NON_JOINER = "\u200c";
const SYMBOLS = new RegExp(
  "[\\xa9\\xae\\u203c\\u2049\\u2122\\u2139\\u2190-\\u21ff\\u2300-\\u23ff\\u24c2\\u25a0-\\u27bf" +
    "\\u2934\\u2935\\u2b00-\\u2bff\\u3030\\u303d\\u3297\\u3299\\u{1f000}-\\u{1faff}]",
  "u",
);
const ARABIC = /[\u0620-\u063f\u0641-\u064a\u066e-\u06d3\u06d5\u0750-\u077f]/u;
const JOINS_NO_OTHER = new RegExp(
  "[\\u0621-\\u0625\\u0627\\u0629\\u062f-\\u0632\\u0648\\u0671-\\u0677\\u0688-\\u0699\\u06c0\\u06c3-\\u06cb" +
    "\\u06cd\\u06cf\\u06d2\\u06d3\\u06d5]",
  "u",
);
const MARKS_A_LETTER = 5; // combining marks: scripts need up to five
const PILED = 2; // of those above a letter, and of those around it, as of Latin: more climb over the lines

/**
 * A text of a stranger (a token's name), made harmless: what controls, hides or turns other text
 * becomes a space, piled-up marks are taken off, and it is cut to `longest` characters.
 * Returns null where nothing readable is left. Show it in an element of its own (`bdi`).
 */
export function harmless(text, longest = 32) {
  if (typeof text !== "string") return null;
  if (text.length <= longest && PRINTABLE.test(text)) return text;
  let kept = "";
  let length = 0;
  let [last, base, joiner] = ["space", "", ""];
  let marks = { all: 0, above: 0, around: 0 };
  for (const letter of text.slice(0, LONGEST_READ)) {
    let kind = kindOf(letter);
    if (kind === "hidden" || (kind === "style" && last !== "symbol")) continue;
    if (kind === "joiner" && last !== "virama") {
      joiner = last === "joiner" ? "" : letter;
      continue;
    }
    if (isMark(kind)) {
      if (last === "space" || marks.all >= MARKS_A_LETTER || marks[kind] >= PILED) continue;
      marks.all += 1;
      if (kind in marks) marks[kind] += 1;
    } else if (kind !== "style" && kind !== "joiner") {
      marks = { all: 0, above: 0, around: 0 };
    }
    if (joiner !== "") {
      if (acts(joiner, { last, base, kind, letter })) kept += joiner;
      else if (kind === "letter" && last !== "space" && !(ARABIC.test(base) && ARABIC.test(letter))) {
        kept += " "; // as where anything hidden was: no lookalike of a name without it
        length += 1;
      }
    }
    joiner = "";
    if (kind === "space" && last === "space") continue;
    if (kind === "letter" || kind === "symbol" || kind === "space") {
      base = letter;
      length += 1;
    }
    if (length > longest) return `${kept.trimEnd()}…`;
    kept += kind === "space" ? " " : letter;
    last = kind;
  }
  kept = kept.trimEnd();
  if (kept === "") return null;
  return text.length > LONGEST_READ ? `${kept}…` : kept;
}

/** Whether a joiner between what is kept last and the next letter changes what is seen. */
function acts(joiner, { last, base, kind, letter }) {
  if (joiner === JOINER) {
    if (kind === "virama") return last === "letter"; // as in Bengali and Kannada
    return kind === "symbol" && (last === "symbol" || last === "style");
  }
  return kind === "letter" && ARABIC.test(base) && !JOINS_NO_OTHER.test(base) && ARABIC.test(letter);
}

function kindOf(letter) {
  if (letter >= "!" && letter <= "~") return "letter";
  if (letter === JOINER || letter === NON_JOINER) return "joiner";
  if (letter === EMOJI_STYLE) return "style";
  if (HIDDEN.test(letter)) return "hidden";
  if (BLANKS.test(letter) || CONTROLS.test(letter)) return "space";
  if (/\p{M}/u.test(letter)) return kindOfMark(letter);
  return SYMBOLS.test(letter) ? "symbol" : "letter";
}

function isMark(kind) {
  return kind === "mark" || kind === "virama" || kind === "above" || kind === "around";
}

/**
 * A mark, by its canonical combining class. Browsers know the classes and do not say them: in normal
 * form a mark comes after those of a lower class. 9 is that of viramas, 202 to 240 are those of
 * marks that pile up, 221 to 230 of those above the letter.
 */
function kindOfMark(letter) {
  const mark = letter.normalize("NFD"); // some are others in normal form
  const isAfter = (other) => (mark + other).normalize("NFD").startsWith(other) && mark !== other;
  const isBefore = (other) => (other + mark).normalize("NFD").endsWith(other) && mark !== other;
  if (isAfter("\u0301")) return "around"; // above 230
  if (isAfter("\u0316") || mark === "\u0301") return "above"; // above 220
  if (isAfter("\u0f74") || mark === "\u0316") return "around"; // above 132
  return isAfter("\u3099") && isBefore("\u05b0") ? "virama" : "mark"; // between 8 and 10
}

function signed(number, sign, format) {
  if (!isNumber(number)) return UNKNOWN;
  const text = format(Math.abs(number));
  if (number < 0) return MINUS + text;
  return sign && number > 0 ? `+${text}` : text;
}

function compact(size, places) {
  if (size >= 1e15) return size.toExponential(2).replace("e+", "e");
  for (const [unit, letter] of UNITS) {
    if (size >= unit) return `${grouped[2].format(size / unit)}${letter}`;
  }
  return grouped[places].format(size);
}

/** Below one: four digits that count; three and more zeros after the point as a small number. */
function small(size) {
  const [digits, exponent] = size.toExponential(3).split("e");
  const zeros = -Number(exponent) - 1;
  if (zeros < 0) return "1";
  const counting = digits.replace(".", "").replace(/0+$/, "");
  if (zeros < 3) return `0.${"0".repeat(zeros)}${counting}`;
  return `0.0${[...String(zeros)].map((digit) => SUBSCRIPTS[digit]).join("")}${counting}`;
}

function trimmed(text) {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

function isTime(value) {
  return isNumber(value) && value > 0 && value < 8.64e15;
}

function two(number) {
  return String(number).padStart(2, "0");
}
