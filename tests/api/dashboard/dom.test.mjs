import assert from "node:assert/strict";
import test from "node:test";

import { isSafeAddress } from "../../../api/dashboard/page/lib/dom.js";

test("links lead within the page or to the web, and run nothing", () => {
  for (const address of ["#/token/M", "/docs", "style.css", "https://example.com/x", "HTTP://a.b"]) {
    assert.equal(isSafeAddress(address), true, address);
  }
  for (const address of [
    "javascript:alert(1)",
    " JaVaScRiPt:alert(1)",
    "java\nscript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "vbscript:x",
    "blob:https://a.b/c",
    "ipfs://Qm",
    "https://",
    "http://[",
  ]) {
    assert.equal(isSafeAddress(address), false, address);
  }
});
