import assert from "node:assert/strict";
import test from "node:test";

import { addressFault } from "../../../api/dashboard/page/lib/address.js";

test("addresses of 32 bytes are taken, however many letters they have", () => {
  for (const address of [
    "So11111111111111111111111111111111111111112",
    "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v",
    "a9d97XcGYVgVeZVnKgQizcTUPmwCpWpi8b2zz3DJ6T7",
    "11111111111111111111111111111111",
    "JEKNVnkbo3jma5nREBBJCDoXFVeKkD56V3xKrvRmWxFG", // 32 bytes of 255
  ]) {
    assert.equal(addressFault(address), null, address);
  }
});

test("what is no address gets a reason", () => {
  for (const [text, words] of [
    ["abc", /this has 3/],
    ["", /this has 0/],
    ["So1111111111111111111111111111111111111111O2", /“O” is in no address/],
    ["<img src=x onerror=alert(1)>AAAAAAAAAAAAAAAA", /letters and digits only/],
    ["So11111111111111111111111111111111111111", /this is of 30/],
    ["JEKNVnkbo3jma5nREBBJCDoXFVeKkD56V3xKrvRmWxFH", /this is of 33/],
    ["1111111111111111111111111111111111", /this is of 34/],
  ]) {
    assert.match(addressFault(text), words, text);
  }
});
