// What a page of a stranger tries against the ports of this machine; reports what it could read.

const WAIT_MS = 3_000; // several ports are tried at once

const within = (promise) =>
  Promise.race([promise, new Promise((done) => setTimeout(() => done("silence"), WAIT_MS))]);

async function read(address, options = {}) {
  try {
    const answer = await fetch(address, options);
    return answer.type === "opaque" ? "opaque" : `read ${answer.status}: ${(await answer.text()).slice(0, 200)}`;
  } catch (error) {
    return String(error);
  }
}

function socket(address) {
  return new Promise((done) => {
    const opened = new WebSocket(address);
    opened.onopen = () => done("read: a WebSocket is open");
    opened.onerror = () => done("refused");
  });
}

function events(address) {
  return new Promise((done) => {
    const source = new EventSource(address, { withCredentials: true });
    source.onopen = () => done("read: events come");
    source.onerror = () => done("refused");
  });
}

function loaded(tag, address) {
  return new Promise((done) => {
    const element = document.createElement(tag);
    element.onload = () => done("loaded");
    element.onerror = () => done("refused");
    element[tag === "link" ? "href" : "src"] = address;
    if (tag === "link") element.rel = "stylesheet";
    document.body.append(element);
  });
}

async function framed(address) {
  const frame = document.createElement("iframe");
  const there = new Promise((done) => (frame.onload = done));
  frame.src = address;
  document.body.append(frame);
  await within(there);
  try {
    const page = frame.contentWindow.document;
    if (page.URL === "about:blank") return "nothing yet"; // what every frame is before it is loaded
    return `read: ${page.body.innerText.slice(0, 200)}`;
  } catch {
    return "another origin";
  }
}

function submitted(address, name, value) {
  const frame = document.createElement("iframe");
  frame.name = `f${Math.random()}`;
  const form = document.createElement("form");
  Object.assign(form, { method: "POST", action: address, target: frame.name, enctype: "text/plain" });
  const field = document.createElement("input");
  Object.assign(field, { name, value });
  form.append(field);
  document.body.append(frame, form);
  form.submit();
}

// Of the payment facilitator and the identity provider: what is read there, and what does something.
const READ_FROM = ["/supported", "/.well-known/openid-configuration", "/jwks", "/authorize"];
const SENT_TO = ["/verify", "/settle", "/token", "/authorize"];

/** Try everything at addresses `[host, port, texts]`; returns what `attack` does, by address. */
function attackAll(targets) {
  return Promise.all(targets.map(([host, port, texts]) => attack(host, port, texts)));
}

/** Try everything at one port of a host; returns `[[what, outcome], ...]`. */
async function attack(host, port, texts) {
  const here = `http://${host}:${port}`;
  const tried = [];
  const note = async (what, promise) => tried.push([what, await within(promise)]);
  const paths = ["/", "/api/health", "/metrics", "/ready", "/dashboard.json", "/ping", ...READ_FROM];
  await Promise.all([
    ...paths.map((path) => note(`GET ${path}`, read(here + path))),
    ...paths.map((path) => note(`GET ${path} with cookies`, read(here + path, { credentials: "include" }))),
    note("ticket", read(`${here}/websocket-ticket`, { method: "POST", credentials: "include" })),
    note("headers", read(`${here}/api/usage`, { headers: { "x-api-key": "soltape_x" } })),
    ...texts.map((text) => note("post", read(`${here}/`, { method: "POST", body: text, mode: "no-cors" }))),
    ...texts.map((text) => note("post, read", read(`${here}/`, { method: "POST", body: text }))),
    ...SENT_TO.map((path) => note(`POST ${path}`, read(here + path, { method: "POST", body: "{}" }))),
    ...SENT_TO.map((path) => note(`POST ${path}, JSON`, read(here + path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: "{}",
    }))),
    ...texts.map((text) =>
      note("query", read(`${here}/?query=${encodeURIComponent(text)}`, { mode: "no-cors" })),
    ),
    ...texts.map((text) => note("image", loaded("img", `${here}/?query=${encodeURIComponent(text)}`))),
    note("socket", socket(`ws://${host}:${port}/ws`)),
    note("trending socket", socket(`ws://${host}:${port}/ws/trending-pairs`)),
    note("events", events(`${here}/`)),
    note("frame", framed(`${here}/`)),
    note("rpc", read(here, {
      method: "POST",
      mode: "no-cors",
      headers: { "content-type": "text/plain" },
      body: '{"jsonrpc":"2.0","id":1,"method":"getSlot"}',
    })),
  ]);
  for (const text of texts) {
    navigator.sendBeacon(`${here}/`, text);
    submitted(`${here}/`, text, "");
  }
  return tried;
}
