// The form of the filters: venues, a token, wallets.

import { element, fill, setText, unseen } from "../../lib/dom.js";
import { short, slug } from "../../lib/format.js";

// Offered from the start; others as they are seen, or as the gateway names them.
const VENUES = [
  "pump-fun",
  "pump-swap",
  "raydium-amm-v4",
  "raydium-cpmm",
  "raydium-clmm",
  "raydium-launchlab",
  "orca-whirlpool",
  "meteora-dlmm",
  "meteora-damm-v2",
];
const MOST_WALLETS = 100;
const ADDRESS = /^[1-9A-HJ-NP-Za-km-z]{32,44}$/;

/** The filter of a query of the page's address, as the gateway takes it. */
export function filterOf(query) {
  const filter = {};
  const dex = words(query.get("dex") ?? "");
  const wallets = words(query.get("wallets") ?? "");
  if (dex.length) filter.dex = dex;
  if (query.get("token")) filter.token = query.get("token");
  if (wallets.length) filter.wallets = wallets;
  return filter;
}

/** The query of a filter: "?dex=pump-swap", or "". */
export function queryOf(filter) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(filter)) query.set(name, [value].flat().join(","));
  const text = query.toString();
  return text && `?${text}`;
}

/** A filter in words, of its own or as the gateway confirms it. */
export function describe({ dex, token, wallets }) {
  const parts = [
    list(dex).length && `on ${list(dex).map(slug).join(" or ")}`,
    list(token).length && `of token ${list(token).map((mint) => short(mint)).join(" or ")}`,
    list(wallets).length === 1 && `by wallet ${short(list(wallets)[0])}`,
    list(wallets).length > 1 && `by ${list(wallets).length} wallets`,
  ].filter(Boolean);
  return parts.length ? `Swaps ${parts.join(", ")}` : "All swaps";
}

/**
 * Make the form. `onApply(filter)` hears of a filter that may be asked for. Returns `{element,
 * seen(dex), setProblem(error), setInForce(filter)}`.
 */
export function createFilters({ filter, onApply }) {
  let venues = [...new Set([...VENUES, ...(filter.dex ?? [])])];
  let chosen = new Set(filter.dex ?? []);

  const venueChoice = element("div", { class: "choices" });
  const venueWords = element("span");
  const venueSummary = element("summary", {}, unseen("DEX: "), venueWords);
  const venueBox = element("details", { class: "venues" }, venueSummary,
    element("fieldset", {}, element("legend", { class: "unseen" }, "DEX"), venueChoice));
  const venueField = element("div", { class: "field" },
    element("span", { class: "label", "aria-hidden": "true" }, "DEX"), venueBox);
  const token = field("token", "Token", element("input", {
    type: "text", value: filter.token ?? "", placeholder: "Mint address", spellcheck: "false",
    autocapitalize: "off", autocomplete: "off", maxlength: "64",
  }));
  const wallets = field("wallets", "Wallets", element("textarea", {
    rows: "1", value: (filter.wallets ?? []).join("\n"), spellcheck: "false", autocapitalize: "off",
    autocomplete: "off", placeholder: "Addresses, up to 100 (plans Business and above)",
  }));
  const problem = element("p", { class: "problem", role: "alert", hidden: true });
  const inForce = element("span", { class: "hint" });
  const form = element(
    "form",
    { class: "filters", "aria-label": "Filters", novalidate: true, on: { submit: apply } },
    venueField,
    token.whole,
    wallets.whole,
    element("div", { class: "row" },
      element("button", { type: "submit", class: "main" }, "Apply"),
      element("button", { type: "button", on: { click: clear } }, "Clear")),
    problem,
  );
  venueBox.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !venueBox.open) return;
    venueBox.open = false;
    venueSummary.focus();
  });
  venueBox.addEventListener("focusout", ({ relatedTarget }) => {
    if (relatedTarget !== null && !venueBox.contains(relatedTarget)) venueBox.open = false;
  });
  drawVenues();

  function drawVenues() {
    fill(venueChoice, venues.map((name) => {
      const box = element("input", {
        type: "checkbox",
        checked: chosen.has(name),
        on: { change: () => choose(name, box.checked) },
      });
      return element("label", { class: "choice" }, box, name);
    }));
    summarise();
  }

  function choose(name, isChosen) {
    if (isChosen) chosen.add(name);
    else chosen.delete(name);
    summarise();
  }

  function summarise() {
    const names = [...chosen];
    setText(venueWords, names.length > 2 ? `${names.length} chosen` : names.join(", ") || "All");
  }

  function apply(event) {
    event.preventDefault();
    setProblem(null);
    const wanted = {};
    if (chosen.size) wanted.dex = [...chosen];
    const mint = token.input.value.trim();
    if (mint && !ADDRESS.test(mint)) {
      return refuse(token, "The token must be a mint address: 32 to 44 letters and digits of base58");
    }
    if (mint) wanted.token = mint;
    const addresses = words(wallets.input.value);
    const wrong = addresses.find((each) => !ADDRESS.test(each));
    if (wrong !== undefined) return refuse(wallets, `This is no address of a wallet: ${short(wrong, 10)}`);
    if (addresses.length > MOST_WALLETS) {
      return refuse(wallets, `${addresses.length} wallets are too many: ${MOST_WALLETS} at most`);
    }
    if (addresses.length) wanted.wallets = addresses;
    venueBox.open = false;
    onApply(wanted);
  }

  function clear() {
    chosen = new Set();
    token.input.value = "";
    wallets.input.value = "";
    setProblem(null);
    drawVenues();
    onApply({});
  }

  function refuse(where, text) {
    where.input.setAttribute("aria-invalid", "true");
    where.input.focus();
    say(text);
  }

  function say(text) {
    problem.hidden = false;
    problem.textContent = text;
  }

  /**
   * Show an error of the gateway, or none; what it accepts of venues is offered from then on. Where the
   * same filter `isRetried`, it is not at fault.
   */
  function setProblem(error, { isRetried = false } = {}) {
    for (const { input } of [token, wallets]) input.removeAttribute("aria-invalid");
    problem.hidden = true;
    if (error === null) return;
    if (isRetried) return say(`Swaps do not come now: ${error.message}. They are asked for again.`);
    if (error.code === "unknown_dex" && Array.isArray(error.accepted)) {
      venues = error.accepted.map(String);
      chosen = new Set([...chosen].filter((name) => venues.includes(name)));
      drawVenues();
    }
    if (["not_in_plan", "too_many_wallets"].includes(error.code)) {
      wallets.input.setAttribute("aria-invalid", "true");
    }
    say(`The gateway refused this filter: ${error.message}`);
  }

  return {
    element: form,
    inForce,
    seen(name) {
      if (venues.includes(name) || venues.length > 100) return;
      venues.push(name);
      if (!venueBox.contains(document.activeElement)) drawVenues();
    },
    setProblem,
    setInForce: (wanted) => setText(inForce, wanted === null ? "" : describe(wanted)),
  };
}

function field(name, label, input) {
  const id = `filter-${name}`;
  input.id = id;
  input.name = name;
  return { input, whole: element("div", { class: "field" }, element("label", { for: id }, label), input) };
}

function words(text) {
  return [...new Set(text.split(/[\s,;]+/).filter(Boolean))];
}

function list(value) {
  return value === undefined || value === null ? [] : [value].flat();
}
