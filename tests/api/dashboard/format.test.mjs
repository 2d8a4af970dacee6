import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import {
  ago,
  amount,
  bytes,
  count,
  dateTime,
  duration,
  exact,
  harmless,
  money,
  percent,
  price,
  roundMoney,
  short,
  slug,
  time,
} from "../../../api/dashboard/page/lib/format.js";

function table(name, format, rows) {
  test(name, () => {
    for (const [given, expected] of rows) assert.equal(format(given), expected, `of ${given}`);
  });
}

const NOTHING = [[null, "–"], [undefined, "–"], [NaN, "–"], [Infinity, "–"], ["12", "–"]];

table("bytes", bytes, [
  ...NOTHING,
  [0, "0 B"],
  [1023, "1023 B"],
  [1024, "1 KiB"],
  [1.5 * 2 ** 20, "1.5 MiB"],
  [97.25 * 2 ** 30, "97.3 GiB"],
  [512 * 2 ** 30, "512 GiB"],
  [3000 * 2 ** 40, "3000 TiB"],
]);

table("money of an axis", roundMoney, [
  [0, "$0"],
  [950, "$950"],
  [20_000, "$20K"],
  [-1_250_000, "−$1.25M"],
  [0.25, "$0.25"],
  [0.00012, "$0.0₃12"],
  [null, "–"],
]);

table("money", money, [
  ...NOTHING,
  [0, "$0.00"],
  [1234.5, "$1,234.50"],
  [-3.005, "−$3.01"],
  [12_345_678, "$12.35M"],
  [2e9, "$2.00B"],
  [0.5, "$0.5"],
  [0.01234, "$0.01234"],
  [0.00001234, "$0.0₄1234"],
  [-1e-12, "−$0.0₁₁1"],
]);

table("money that is a gain or a loss", (usd) => money(usd, { sign: true }), [
  [1, "+$1.00"],
  [-1, "−$1.00"],
  [0, "$0.00"],
]);

table("amount", amount, [
  ...NOTHING,
  [0, "0"],
  [1, "1"],
  [1.5, "1.5"],
  [123.456, "123.46"],
  [9_999.5, "9,999.5"],
  [12_345.6, "12,346"],
  [1_000_000, "1.00M"],
  [999_999_999_999, "1,000.00B"],
  [2.5e12, "2.50T"],
  [1.8446744073709552e19, "1.84e19"],
  [0.012345, "0.01235"],
  [0.000005, "0.0₅5"],
  [-2, "−2"],
]);

table("price", price, [
  ...NOTHING,
  [0, "0"],
  [1, "1.000"],
  [9.9999, "10.000"],
  [12.345, "12.35"],
  [187.25, "187.3"],
  [1234.5, "1,234.50"],
  [0.99999, "1"],
  [0.1, "0.1"],
  [0.0009, "0.0₃9"],
  [0.000012346, "0.0₄1235"],
]);

table("per cent", percent, [
  ...NOTHING,
  [0, "0%"],
  [12.5, "12.5%"],
  [-7.25, "−7.25%"],
  [0.001, "<0.01%"],
  [12_345.6, "12,346%"],
]);

table("count", count, [...NOTHING, [0, "0"], [12_345, "12,345"]]);

table("exact", exact, [
  [null, "–"],
  [1e-9, "0.000000001"],
  [1234.5, "1,234.5"],
]);

table("duration", duration, [
  [null, "–"],
  [0.25, "250 µs"],
  [12.4, "12 ms"],
  [3_400, "3.4 s"],
  [59_000, "59 s"],
  [300_000, "5 min"],
  [7_200_000, "2 h"],
  [3 * 86_400_000, "3 d"],
  [-50, "−50 ms"],
]);

test("how long ago", () => {
  assert.equal(ago(1_000_000, 1_000_400), "now");
  assert.equal(ago(1_000_400, 1_000_000), "now", "a clock that is ahead");
  assert.equal(ago(1_000_000, 1_004_600), "4 s ago");
  assert.equal(ago(1_000_000, 1_180_000), "3 min ago");
  assert.equal(ago(0), "–", "not known");
});

test("times are those of the place", () => {
  const at = new Date(2026, 10, 21, 7, 6, 5).getTime();
  assert.equal(time(at), "07:06:05");
  assert.equal(dateTime(at), "2026-11-21 07:06:05");
  assert.equal(time(0), "–");
  assert.equal(dateTime(1e300), "–");
});

test("addresses keep their ends", () => {
  assert.equal(short("So11111111111111111111111111111111111111112"), "So11…1112");
  assert.equal(short("short"), "short");
  assert.equal(short(""), "–");
  assert.equal(short(null), "–");
});

test("slugs are words", () => {
  assert.equal(slug("pump-swap"), "pump swap");
  assert.equal(slug(""), "–");
});

test("what turns, hides or breaks text is taken out of it", () => {
  assert.equal(harmless("\u202eELBATS\u202c USDC"), "ELBATS USDC");
  assert.equal(harmless("a\u0000b\u001bc\nd\r\te"), "a b c d e");
  assert.equal(harmless("\u2066x\u2069 \u200f\u061cy"), "x y");
  assert.equal(harmless("US\u200bD\u00adC"), "US D C", "hidden letters leave a gap, no lookalike");
  assert.equal(harmless("x\u{e0041}\u{e0042}"), "x");
  assert.equal(harmless("\ud800x\udc00"), "x");
});

test("what is blank is nothing", () => {
  for (const blank of ["", " \t\n", "\u3164\u3164", "\u2800", "\u200b\ufeff", "\u0301\u0301"]) {
    assert.equal(harmless(blank), null, JSON.stringify(blank));
  }
  for (const none of [null, undefined, 12, {}]) assert.equal(harmless(none), null);
});

test("marks do not pile up", () => {
  assert.equal(harmless(`Z${"\u0301".repeat(50)}algo`), "Z\u0301\u0301algo");
  assert.equal(harmless("Zoe\u0301"), "Zoe\u0301");
});

// The table that `api/metadata/documents.py` is held to as well.
const TEXTS = JSON.parse(readFileSync(new URL("../metadata/foreign_texts.json", import.meta.url)));

for (const [script, texts] of Object.entries(TEXTS.stay)) {
  test(`words stay as they are: ${script}`, () => {
    for (const text of texts) assert.equal(harmless(text, 64), text);
  });
}

for (const { text, plain, why } of TEXTS.become) {
  test(`of a foreign text: ${why}`, () => assert.equal(harmless(text, 64), plain));
}

test("joiners that join nothing leave a gap, no lookalike", () => {
  assert.equal(harmless("US\u200cDC"), "US DC");
  assert.equal(harmless("US\u200dD\u200d\u200dC"), "US D C");
  assert.equal(harmless("A \u200dB"), "A B");
  assert.equal(harmless("\u200dB"), "B");
});

test("long names are cut, by letters rather than halves of them", () => {
  assert.equal(harmless("x".repeat(33)), `${"x".repeat(32)}…`);
  assert.equal(harmless("x".repeat(32)), "x".repeat(32));
  assert.equal(harmless("🐸".repeat(40), 3), "🐸🐸🐸…");
  assert.equal(harmless("a\u0301".repeat(5_000), 4), `${"a\u0301".repeat(4)}…`);
  assert.equal(harmless("\u200b".repeat(5_000) + "x"), null, "what is far behind is not looked for");
});

test("names of other scripts stay as they are", () => {
  for (const name of ["比特币", "Солана", "שלום", "🚀 Moon", "<b>&amp;"]) {
    assert.equal(harmless(name), name);
  }
});
