// The shell: which page is shown, with which key, over which connection.

import { createApi, Failure } from "./lib/api.js";
import { watchChain } from "./lib/chain.js";
import { element, fill, link, setText } from "./lib/dom.js";
import { duration } from "./lib/format.js";
import { Keys, showKeyForm } from "./lib/keys.js";
import { Connection } from "./lib/socket.js";
import { keep, recall } from "./lib/storage.js";
import { ticketed } from "./lib/ticketed_socket.js";

// Path, what the menu says, module. A page with a parameter has it as the rest of its path.
const PAGES = [
  { name: "live", label: "Live", load: () => import("./pages/live.js") },
  { name: "trending", label: "Trending", load: () => import("./pages/trending.js") },
  { name: "token", label: "Token", parameter: "mint", load: () => import("./pages/token.js") },
  { name: "wallet", label: "Wallet", parameter: "address", load: () => import("./pages/wallet.js") },
  { name: "system", label: "System", load: () => import("./pages/system.js") },
  { name: "account", label: "Account", isAccount: true, load: () => import("./pages/account.js") },
];
const THEMES = ["auto", "light", "dark"];
const SPEAK_AFTER_MS = 500;

const byId = (id) => document.getElementById(id);
const main = byId("main");

/** `#/token/<mint>?range=1h` is `{page, params: {mint}, query}`; null for an unknown page. */
function route() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [name, ...rest] = path.split("/").map(decoded);
  const page = PAGES.find((each) => each.name === (name || "live"));
  if (!page || rest.length > (page.parameter ? 1 : 0)) return null;
  const params = page.parameter ? { [page.parameter]: rest[0] || null } : {};
  return { page, params, query: new URLSearchParams(query) };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// Things to say to those who listen: of what comes within half a second, the last.

let toSay = null;
function announce(text) {
  const isWaiting = toSay !== null;
  toSay = text;
  if (isWaiting) return;
  setTimeout(() => {
    byId("spoken").textContent = toSay;
    toSay = null;
  }, SPEAK_AFTER_MS);
}

// Theme.

function showTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  setText(byId("theme-button"), `Theme: ${theme}`);
}

function startTheme() {
  let theme = THEMES.includes(recall("theme")) ? recall("theme") : "auto";
  showTheme(theme);
  byId("theme-button").addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    keep("theme", theme === "auto" ? null : theme);
    showTheme(theme);
    dispatchEvent(new CustomEvent("soltape-theme"));
  });
}

// Settings, key, connections.

async function readSettings() {
  for (;;) {
    try {
      return await createApi({ key: () => null }).get("dashboard.json");
    } catch (failure) {
      const again = element("button", { type: "button", class: "main" }, "Try again");
      fill(main, element("p", { class: "problem", role: "alert" }, failure.message), again);
      await new Promise((resolve) => again.addEventListener("click", resolve, { once: true }));
    }
  }
}

function gatewayAddress(settings, path) {
  const here = new URL("/", location.href);
  here.protocol = here.protocol === "https:" ? "wss:" : "ws:";
  return new URL(path, settings.websocket_url ?? here).href;
}

/** Why the gateway may have refused us, in words: the API says of the key what browsers do not. */
async function diagnose(api) {
  try {
    const { plan } = await api.get("/api/usage");
    return {
      words: `The gateway cannot be reached or is starting, or all connections of the plan ${plan} are in use`,
      isFinal: false,
    };
  } catch (failure) {
    const isFinal = failure instanceof Failure && failure.isAboutKey;
    const words = isFinal ? failure.message : "Neither the gateway nor the API can be reached";
    return { words, isFinal };
  }
}

function showConnection(connections) {
  const place = byId("connection");
  const showState = () => {
    // Whichever a page uses; the others are idle.
    const status = connections.map((each) => each.status).find(({ state }) => state !== "idle");
    const { state = "idle", words = "", rttMs = null } = status ?? {};
    place.dataset.state = state;
    const said = {
      idle: "Not connected",
      connecting: "Connecting …",
      open: rttMs === null ? "Live" : `Live · ${duration(rttMs)}`,
      waiting: "Connection lost",
      refused: "Refused",
    }[state];
    setText(byId("connection-words"), said);
    place.title = state === "open" ? "Connected; round trip to the gateway" : words;
  };
  for (const connection of connections) {
    let before = "idle";
    connection.onState(({ state, words }) => {
      showState();
      if (state === before) return;
      if (state === "waiting" || state === "refused") announce(`Connection lost: ${words}`);
      if (state === "open" && before !== "idle") announce("Connected");
      before = state;
    });
  }
}

// Pages.

class Shell {
  constructor(settings) {
    this.keys = new Keys(settings);
    this.api = createApi({
      key: () => this.keys.current,
      onKeyRefused: (failure) => this.askForKey(this.keys.refused(failure)),
    });
    const ticket = async () => (await this.api.post("/websocket-ticket", {})).ticket;
    const connection = (path, other) =>
      new Connection({
        url: () => {
          other().rest(); // some plans have one connection
          return this.keys.letIn ? gatewayAddress(settings, path) : null;
        },
        diagnose: () => diagnose(this.api),
        WebSocketClass: ticketed(ticket),
      });
    this.socket = connection("/ws", () => this.trending);
    this.trending = connection("/ws/trending-pairs", () => this.socket);
    this.settings = settings;
    this.unmount = null;
    this.shown = 0; // pages so far: one that loads slowly may have been left again
    showConnection([this.socket, this.trending]);
    this.connections((each) =>
      each.onState(({ state }) => {
        // Was it the key? Then the API refuses it as well, and another is asked for.
        if (state === "refused" && this.keys.letIn) this.api.get("/api/usage").catch(() => {});
      }),
    );
  }

  start() {
    addEventListener("hashchange", () => this.show());
    this.keys.follow(() => location.reload());
    addEventListener("online", () => this.connections((each) => each.reconnect()));
    byId("key-button").addEventListener("click", () => this.askForKey());
    byId("skip").addEventListener("click", (event) => {
      event.preventDefault(); // the address says which page it is
      main.focus();
    });
    byId("find").addEventListener("submit", (event) => {
      event.preventDefault();
      const address = byId("find-address").value.trim();
      const kind = event.submitter?.value ?? "token";
      if (address) this.navigate(`#/${kind}/${encodeURIComponent(address)}`);
    });
    this.show({ isFirst: true });
  }

  connections(call) {
    for (const each of [this.socket, this.trending]) call(each);
  }

  navigate(path) {
    if (location.hash === path) this.show();
    else location.hash = path;
  }

  leave() {
    this.shown += 1;
    const unmount = this.unmount;
    this.unmount = null;
    try {
      unmount?.();
    } catch (error) {
      console.error(error);
    }
  }

  async show({ isFirst = false } = {}) {
    this.leave();
    this.showKey();
    const found = route();
    this.menu(found?.page);
    if (!found || (found.page.isAccount && this.settings.account === null)) {
      return this.problem("There is no such page", link("#/live", "Go to Live"));
    }
    if (!this.keys.letIn && !found.page.isAccount) return this.askForKey();
    const number = this.shown;
    fill(main, element("p", { class: "empty" }, "Loading …"));
    let page;
    try {
      page = await found.page.load();
    } catch (error) {
      console.error(error);
      if (number === this.shown) this.problem("This page could not be loaded", this.againButton());
      return;
    }
    if (number !== this.shown) return;
    document.title = `${page.title} – Soltape`;
    const root = element("div", { class: `page ${found.page.name}` });
    fill(main, root);
    try {
      this.unmount = page.mount(root, this.context(found));
    } catch (error) {
      console.error(error);
      return this.problem("This page could not be shown", this.againButton());
    }
    if (isFirst) return;
    scrollTo(0, 0);
    const heading = root.querySelector("h1");
    heading?.setAttribute("tabindex", "-1");
    (heading ?? main).focus({ preventScroll: true });
  }

  context({ params, query }) {
    return {
      api: this.api,
      socket: this.socket,
      trending: this.trending,
      settings: this.settings,
      params,
      query,
      navigate: (path) => this.navigate(path),
      announce,
      useKey: (key, madeBy) => {
        this.keys.use(key, { remember: false, madeBy });
        this.showKey();
      },
      accountIs: (id) => {
        this.keys.accountIs(id);
        this.showKey();
      },
      sessionEnded: () => {
        this.keys.sessionEnded();
        this.showKey();
      },
      signedOut: () => {
        this.keys.signedOut();
        location.reload(); // whatever this page has of the session goes with it
      },
    };
  }

  menu(current) {
    const entry = ({ name, label }) =>
      element(
        "li",
        {},
        link(`#/${name}`, label, { "aria-current": name === current?.name ? "page" : null }),
      );
    fill(byId("pages"), PAGES.filter(({ isAccount }) => !isAccount || this.settings.account !== null).map(entry));
  }

  showKey() {
    setText(byId("key-button"), `Key: ${this.keys.shown}`);
  }

  askForKey(reason = "") {
    this.leave();
    this.connections((each) => each.close());
    this.showKey();
    document.title = "API key – Soltape";
    const root = element("div", { class: "page" });
    fill(main, root);
    showKeyForm(root, {
      keys: this.keys,
      reason,
      check: (key) => this.api.get("/api/usage", { withKey: key }),
      done: () => this.show(),
    });
  }

  problem(words, ...more) {
    document.title = `${words} – Soltape`;
    fill(main, element("h1", { tabindex: "-1" }, words), element("p", {}, more));
    main.querySelector("h1").focus();
  }

  againButton() {
    const again = { click: () => location.reload() };
    return element("button", { type: "button", class: "main", on: again }, "Load it again");
  }
}

startTheme();
watchChain(byId("chain"));
new Shell(await readSettings()).start();
