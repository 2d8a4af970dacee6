// What a token is and what it costs: name, price with its age, market, curve, where it comes from.

import { element, fill, foreign, link, outward, setText } from "../../lib/dom.js";
import { ago, amount, count, dateTime, exact, harmless, money, percent, price, short, slug } from "../../lib/format.js";
import { gapWords } from "../../lib/gaps.js";
import { gain } from "../../lib/table.js";
import { OF_KNOWN_VALUE } from "../../lib/volume_words.js";
import { createImage } from "./image.js";

const SOURCES = {
  settled: "as its market was left: not published for three days",
  reference: "SOL, as swaps are valued with it",
  par: "taken for one dollar: it has no price of its own",
  pool: "its pool's own rate: no market prices it",
};
const MINT_REASONS = {
  pending: "It was asked for and is not here yet",
  withdrawn: "It was known, and is asked for again",
  not_found: "There is no such account",
  key_limit: "This key has asked for too many new accounts within this minute",
  limit: "Too many new accounts were asked for within this minute",
  not_asked: "It could not be asked for",
  lane_stalled: "The accounts are behind the chain",
  not_ingested: "No accounts are taken in here",
  unreadable: "It cannot be read",
};
const METADATA_REASONS = {
  pending: "is being fetched",
  refused: "is at a place that is not asked",
  unreachable: "cannot be reached",
  timeout: "takes too long to come",
  http_error: "is not served where it should be",
  redirects: "is led from place to place",
  too_large: "is too large",
  bad_encoding: "cannot be unpacked",
  not_json: "is not in the form it should have",
  not_an_image: "is no picture",
  too_many_pixels: "has too many pixels",
  off: "is not fetched here",
};
const LINKS = { website: "Website", twitter: "X", telegram: "Telegram", discord: "Discord" };
const TICK_MS = 1_000;

/** Make the head and the facts of a token. `isLive()` says whether live prices come. */
export function createFacts({ api, mint, isLive }) {
  let token = null; // the API's answer
  let live = null; // the last live price

  const image = createImage({ api });
  const about = element("div", { class: "token-about" });
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
        { class: "row token-head" },
        image.element,
        element(
          "div",
          {},
          element("h1", {}, name, " ", symbol),
          element("p", { class: "address hint" }, mint),
          badges,
        ),
      ),
      element("div", { class: "priced" }, priceText, " ", change, element("p", { class: "row" }, age, stale)),
    ),
    about,
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
    // A change has the price of its answer: beside a newer one it is reckoned anew.
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
    const traded = token.price_source === "pool" ? SOURCES.pool : `last trade ${ago(timeMs)}${about}`;
    const words = timeMs === null ? "never traded" : traded;
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
    image.show(token.metadata?.image ?? null, harmless(token.name, 60) ?? short(mint));
    fill(about, summary());
    drawCurve();
    const { day } = token;
    fill(
      facts,
      fact("Price, SOL", solPlace),
      fact("Market cap", capPlace, "Supply times price"),
      fact("Liquidity", money(token.liquidity_usd), "In all pools where it is known, both sides"),
      fact("Supply", amount(token.supply), supplyTitle()),
      fact("Volume 24 h", money(day?.volume_usd), OF_KNOWN_VALUE),
      fact("Buys / sells 24 h", day ? `${count(day.buys)} / ${count(day.sells)}` : "–", volumesTitle(day)),
      fact("Traders 24 h", count(day?.traders)),
      fact("Holders", count(token.holder_count), "Owners with a balance, as far as they were seen"),
      fact("Creator", creator()),
      fact("Creator holds", percent(token.creator_pct), "In per cent of the supply"),
      fact("Created", token.created_ms ? `${ago(token.created_ms)}` : "–", dateTime(token.created_ms)),
      fact("Metadata", metadata()),
      ...authorities(),
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

  /** Who may mint, freeze or take: what the mint's account says, or why it is not known. */
  function authorities() {
    const account = token.mint_account;
    if (!account) return [fact("Mint account", "not known", MINT_REASONS[token.mint_account_reason] ?? "")];
    const some = [
      ["Permanent delegate", account.permanent_delegate, "May move or burn everybody's tokens"],
      ["Transfer hook", account.transfer_hook, "A program that every transfer calls"],
    ];
    return [
      fact("May mint", authority(account.mint_authority), "Mint authority; nobody: the supply is fixed"),
      fact("May freeze", authority(account.freeze_authority), "Freeze authority: may freeze accounts of the token"),
      ...some.filter(([, address]) => address).map(([word, address, title]) => fact(word, authority(address), title)),
      account.transfer_fee_bps !== null && fact("Transfer fee", percent(account.transfer_fee_bps / 100), "As last set"),
      account.extensions.length > 0 && fact("Extensions", account.extensions.map((each) => each.replaceAll("_", " ")).join(", ")),
    ].filter(Boolean);
  }

  /** What the token's maker says of it, elsewhere: words and links, or why there are none. */
  function summary() {
    const { metadata: said, metadata_reason: reason } = token;
    if (!said) {
      const words = METADATA_REASONS[reason];
      return words && element("p", { class: "hint", title: token.metadata_detail }, `What its maker says of it ${words}`);
    }
    const links = Object.entries(LINKS)
      .filter(([field]) => said[field])
      .map(([field, word]) => outward(said[field], word, { title: harmless(said[field], 300) }));
    const without = METADATA_REASONS[said.image_reason];
    return [
      said.description && element("p", { class: "hint" }, foreign(said.description, { longest: 500 })),
      links.length > 0 && element("p", { class: "row", "aria-label": "Links of its maker" }, links),
      without && element("p", { class: "hint", title: said.image_detail }, `Its image ${without}`),
    ];
  }

  function metadata() {
    const { uri } = token;
    if (!uri) return "–";
    if (!/^https?:\/\//i.test(uri)) return element("bdi", { title: uri.slice(0, 300) }, harmless(uri, 30));
    return outward(uri, "look at it", { title: harmless(uri, 300) });
  }

  function supplyTitle() {
    if (token.supply_source === "account") return `Of the mint's account, which last changed in slot ${count(token.supply_slot)}`;
    const sources = { creation: "As created: what was minted or burned since is not seen", rpc: "As an RPC node said" };
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
    stop() {
      clearInterval(ticking);
      image.stop();
    },
  };
}

function authority(address) {
  return address === null ? "nobody" : link(`#/wallet/${address}`, short(address), { class: "mono", title: address });
}

function volumesTitle(day) {
  return day ? `${money(day.buy_volume_usd)} bought, ${money(day.sell_volume_usd)} sold. ${OF_KNOWN_VALUE}` : "";
}

function fact(word, value, title = null) {
  return element("div", { title }, element("dt", {}, word), element("dd", {}, value));
}
