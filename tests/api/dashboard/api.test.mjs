import assert from "node:assert/strict";
import test from "node:test";

import { createServer } from "node:http";

import { createApi, Failure, isAbort } from "../../../api/dashboard/page/lib/api.js";

/** Ask a server of this machine that gives the answers passed in; `requests` holds what it was asked. */
async function asking(answer, ask, options = {}) {
  const requests = [];
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    requests.push({ ...request, url: request.url, method: request.method, headers: request.headers, body });
    answer(response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const base = `http://127.0.0.1:${server.address().port}`;
  const refused = [];
  const api = createApi({
    key: () => "soltape_k",
    onKeyRefused: ({ code }) => refused.push(code),
    fetcher: (path, init) => fetch(base + path, init),
    ...options,
  });
  try {
    return { result: await ask(api).catch((error) => error), requests, refused };
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

function problem(status, code, headers = {}) {
  return (response) => {
    response.writeHead(status, { "content-type": "application/problem+json", ...headers });
    response.end(JSON.stringify({ code, title: "Title", detail: "do this" }));
  };
}

test("a get sends the key and the query, lists repeated, what is null left out", async () => {
  const { result, requests } = await asking(
    (response) => response.end('{"a":1}'),
    (api) => api.get("/api/x", { query: { limit: 3, platform: ["a", "b c"], cursor: null } }),
  );
  assert.deepEqual(result, { a: 1 });
  assert.equal(requests[0].url, "/api/x?limit=3&platform=a&platform=b+c");
  assert.equal(requests[0].headers["x-api-key"], "soltape_k");
});

test("bytes come as they are, and what goes wrong with them in words", async () => {
  const image = new Uint8Array([0x89, 0x50, 0xff, 0x00]);
  const { result, requests } = await asking(
    (response) => response.end(image),
    (api) => api.blob("/api/tokens/x/image"),
  );
  assert.deepEqual(new Uint8Array(await result.arrayBuffer()), image);
  assert.equal(requests[0].headers["x-api-key"], "soltape_k");
  const { result: failure } = await asking(problem(404, "no_image"), (api) => api.blob("/x"));
  assert.ok(failure instanceof Failure);
  assert.equal(failure.code, "no_image");
});

test("the session of the browser goes along where no key is sent", async () => {
  const sent = [];
  for (const key of ["soltape_k", null]) {
    await asking((response) => response.end("{}"), (api) => api.get("/x"), {
      key: () => key,
      fetcher: async (path, { credentials, headers }) => {
        sent.push([credentials, "x-api-key" in headers]);
        return new Response("{}");
      },
    });
  }
  assert.deepEqual(sent, [["omit", true], ["same-origin", false]]);
});

test("a post sends JSON", async () => {
  const { requests } = await asking((response) => response.end("{}"), (api) => api.post("/b", { mints: ["M"] }));
  assert.equal(requests[0].method, "POST");
  assert.equal(requests[0].headers["content-type"], "application/json");
  assert.deepEqual(JSON.parse(requests[0].body), { mints: ["M"] });
});

test("a problem is a failure in words", async () => {
  const { result, refused } = await asking(problem(429, "rate_exceeded", { "retry-after": "7" }), (api) => api.get("/x"));
  assert.ok(result instanceof Failure);
  const { status, code, detail, message, retryAfterMs, isAboutKey } = result;
  assert.deepEqual(
    { status, code, detail, message, retryAfterMs, isAboutKey },
    {
      status: 429,
      code: "rate_exceeded",
      detail: "do this",
      message: "Title: do this",
      retryAfterMs: 7_000,
      isAboutKey: false,
    },
  );
  assert.deepEqual(refused, []);
});

test("a refused key is reported, unless it was only tried", async () => {
  const used = await asking(problem(401, "key_unknown"), (api) => api.get("/x"));
  assert.deepEqual(used.refused, ["key_unknown"]);
  const tried = await asking(problem(401, "key_unknown"), (api) => api.get("/x", { withKey: "soltape_new" }));
  assert.deepEqual(tried.refused, []);
  assert.equal(tried.requests[0].headers["x-api-key"], "soltape_new");
});

test("an answer that is not the API's is a failure, too", async () => {
  const page = await asking((response) => response.end("<html>"), (api) => api.get("/x"));
  assert.equal(page.result.code, "not_the_api");
  const proxy = await asking((response) => response.writeHead(502).end("Bad gateway"), (api) => api.get("/x"));
  assert.deepEqual([proxy.result.status, proxy.result.code], [502, "not_the_api"]);
});

test("nobody there", async () => {
  const { result } = await asking((response) => response.destroy(), (api) => api.get("/x"));
  assert.deepEqual([result.status, result.code], [0, "unreachable"]);
});

test("a page that has moved on hears of no failure", async () => {
  const leaving = new AbortController();
  const { result } = await asking(
    () => leaving.abort(),
    (api) => api.get("/x", { signal: leaving.signal }),
  );
  assert.ok(isAbort(result));
});
