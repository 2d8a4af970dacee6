// What a token is and what it costs: name, price with its age, market, curve, where it comes from.

import { element, fill, link, outward, setText } from "../../lib/dom.js";
import { ago, amount, count, dateTime, exact, harmless, money, percent, price, short, slug } from "../../lib/format.js";
import { gapWords } from "../../lib/gaps.js";
import { gain } from "../../lib/table.js";

const SOURCES = {
  settled: "as its market was left: not published for three days",
  reference: "SOL, as swaps are valued with it",
  par: "taken for one dollar: it has no price of its own",
};
const TICK_MS = 1_000;

/** Make the head and the facts of a token. `isLive()` tells whether live prices come. */
export function createFacts({ mint, isLive }) {
  let token = null; // the API's answer
  let live = null; // the last live price

  const name = element("bdi", {}, short(mint));
  const symbol = element("span", { class: "muted" });
  const badges = element("span", { class: "row" });
  const priceText = element("span", { class: "figure" });
  const change = element("span", {});
  const age = element("span", { class: "hint" });
  const stale = element(
    "span",
    { class: "badge warn", hidden: true, title: "Its last trade is an hour older than the chain's last block" },
    "old price",
  );
  const facts = element("dl", { class: "facts" });
  const notes = element("div", {});
  const curve = element("div", { class: "curve", hidden: true });
  const whole = element(
    "section",
    { class: "card facts-card", "aria-label": "Token" },
    element(
      "div",
      { class: "row apart" },
      element(
        "div",
        {},
        element("h1", {}, name, " ", symbol),
        element("p", { class: "address hint" }, mint),
        badges,
      ),
      element("div", { class: "priced" }, priceText, " ", change, element("p", { class: "row" }, age, stale)),
    ),
    curve,
    facts,
    notes,
  );
  const ticking = setInterval(tick, TICK_MS);

  /** The newest price that is known: `{usd, sol, timeMs}`. */
  function now() {
    if (live !== null && live.slot >= (token.price_slot ?? 0)) {
      return { usd: live.price_usd, sol: live.price_sol, timeMs: live.timestamp };
    }
    return { usd: token.price_usd, sol: token.price_sol, timeMs: token.price_time_ms };
  }

  function drawPrice() {
    const { usd, sol } = now();
    setText(priceText, usd === null ? "No price" : `$${price(usd)}`);
    priceText.title = usd === null ? "" : `${exact(usd)} dollars, ${exact(sol)} SOL`;
    // A change tells of the price of its answer: beside a newer one it is reckoned anew.
    fill(change, gain(changeNow(usd), changeNow(usd) === null ? "" : `${percent(changeNow(usd), { sign: true })} in 24 h`));
    setText(capPlace, money(token.supply === null || usd === null ? token.market_cap_usd : token.supply * usd));
    setText(solPlace, sol === null ? "–" : price(sol));
    tick();
  }

  function changeNow(usd) {
    const { change_24h_pct: pct, price_usd: then } = token;
    if (pct === null || !(then > 0) || usd === null) return pct;
    const before = then / (1 + pct / 100);
    return before > 0 ? (usd / before - 1) * 100 : pct;
  }

  function tick() {
    if (token === null) return;
    const { timeMs } = now();
    const source = SOURCES[token.price_source];
    const about = source && live === null ? ` (${source})` : "";
    const words = timeMs === null ? "never traded" : `last trade ${ago(timeMs)}${about}`;
    setText(age, isLive() ? `Live, ${words}` : words);
    age.title = dateTime(timeMs);
    stale.hidden = !(token.is_price_stale && (live === null || live.slot < (token.price_slot ?? 0)));
  }

  const capPlace = element("span", {});
  const solPlace = element("span", {});

  function draw() {
    setText(name, harmless(token.name, 60) ?? short(mint));
    setText(symbol, harmless(token.symbol, 20) ?? "");
    fill(badges, [
      token.platform && element("span", { class: "badge" }, slug(token.platform)),
      token.is_migrated && element("span", { class: "badge good" }, `left its curve for ${slug(token.migrated_dex)}`),
    ]);
    drawCurve();
    const { day } = token;
    fill(
      facts,
      fact("Price, SOL", solPlace),
      fact("Market cap", capPlace, "Supply times price"),
      fact("Liquidity", money(token.liquidity_usd), "In all pools where it is known, both sides"),
      fact("Supply", amount(token.supply), supplyTitle()),
      fact("Volume 24 h", money(day?.volume_usd)),
      fact("Buys / sells 24 h", day ? `${count(day.buys)} / ${count(day.sells)}` : "–", volumesTitle(day)),
      fact("Traders 24 h", count(day?.traders)),
      fact("Holders", count(token.holder_count), "Owners with a balance, as far as they were seen"),
      fact("Creator", creator()),
      fact("Creator holds", percent(token.creator_pct), "In per cent of the supply"),
      fact("Created", token.created_ms ? `${ago(token.created_ms)}` : "–", dateTime(token.created_ms)),
      fact("Metadata", metadata()),
    );
    fill(notes, gapWords(token.gaps).map((words) => element("p", { class: "hint" }, words)));
    drawPrice();
  }

  function drawCurve() {
    const done = token.bonding_curve_pct;
    curve.hidden = done === null || token.is_migrated;
    if (curve.hidden) return;
    const label = `Bonding curve ${percent(done)} done`;
    fill(
      curve,
      element("span", { id: "curve-label", class: "hint" }, label),
      element("progress", { max: "100", value: done, "aria-labelledby": "curve-label" }),
    );
  }

  function creator() {
    if (!token.creator) return "–";
    return link(`#/wallet/${token.creator}`, short(token.creator), { class: "mono", title: token.creator });
  }

  function metadata() {
    const { uri } = token;
    if (!uri) return "–";
    if (!/^https?:\/\//i.test(uri)) return element("bdi", { title: uri.slice(0, 300) }, harmless(uri, 30));
    return outward(uri, "look at it", { title: harmless(uri, 300) });
  }

  function supplyTitle() {
    const sources = { creation: "As created", rpc: "As the chain's node told" };
    return [sources[token.supply_source], dateTime(token.supply_time_ms)].filter(Boolean).join(", ");
  }

  return {
    element: whole,
    /** An answer of `/api/tokens/{mint}`. */
    show(answer) {
      token = answer;
      draw();
    },
    /** A live price. */
    price(event) {
      if (live !== null && event.slot < live.slot) return;
      live = event;
      if (token !== null) drawPrice();
    },
    get token() {
      return token;
    },
    stop: () => clearInterval(ticking),
  };
}

function volumesTitle(day) {
  return day ? `${money(day.buy_volume_usd)} bought, ${money(day.sell_volume_usd)} sold` : "";
}

function fact(word, value, title = null) {
  return element("div", { title }, element("dt", {}, word), element("dd", {}, value));
}
