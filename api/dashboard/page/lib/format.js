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
const MARKS_A_LETTER = 2; // combining marks; more of them climb over the neighbouring lines
// Control, format (bidi overrides, zero widths, tags), surrogates, private use, line separators.
const CONTROLS = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/u;
// Letters that cannot be seen: fillers, a blank of Braille, a grapheme joiner.
const BLANKS = /[\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufffc]/u;

/**
 * A text of a stranger (a token's name), made harmless: what controls, hides or turns other text
 * becomes a space, piled-up marks are taken off, and it is cut to `longest` characters.
 * Returns null where nothing readable is left. Show it in an element of its own (`bdi`).
 */
export function harmless(text, longest = 32) {
  if (typeof text !== "string") return null;
  let kept = "";
  let length = 0;
  let marks = 0;
  for (const letter of text.slice(0, LONGEST_READ)) {
    if (CONTROLS.test(letter) || BLANKS.test(letter) || /\s/u.test(letter)) {
      if (kept !== "" && !kept.endsWith(" ")) {
        kept += " ";
        length += 1;
      }
      marks = 0;
      continue;
    }
    if (/\p{M}/u.test(letter)) {
      marks += 1;
      if (kept === "" || marks > MARKS_A_LETTER) continue;
    } else {
      marks = 0;
      length += 1;
    }
    if (length > longest) return `${kept.trimEnd()}…`;
    kept += letter;
  }
  kept = kept.trimEnd();
  if (kept === "") return null;
  return text.length > LONGEST_READ ? `${kept}…` : kept;
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
