// A table that is updated in place: rows by key, cells that changed, order by a column.
//
// Rows that stay are the same elements, so that focus and selection stay. What the roles say again
// is what tables lose where the style sheet shows their rows as cards.

import { element, fill, setText, unseen } from "./dom.js";

/**
 * Columns: `{id, label, content(row)}` and, if wanted, `value(row)`, `version(row)`, `numeric`,
 * `title` of the head and `cellTitle(row)`. `content` gives a text, a node or an array of them; nodes that are equal to those that are there are not
 * put in (nor are their listeners). `value` gives a number or text to sort by, null where it is not
 * known: only columns that have it can be sorted by. `version(row)`: while it is the same, the cell
 * is left alone, and `content` is not asked.
 * Options: `caption` (hidden where `captionHidden`), `key(row)`, `order: {column, descending}`,
 * `onOrder(order)`, `notice(row)` a text across all columns in place of a row's cells,
 * `rowVersion(row)` rows whose version is the same are left alone, `decorate(element, row)` classes
 * of a row, `empty` a text, `cards` whether phones see rows as cards.
 * Returns `{element, update(rows), setEmpty(text), order}`.
 */
export function createTable({
  caption,
  captionHidden = false,
  columns,
  key,
  order = null,
  onOrder,
  notice = () => null,
  rowVersion,
  decorate,
  empty = "Nothing yet",
  cards = false,
}) {
  const kept = new Map(); // key -> {row, tr, version, cells: [{td, version}]}
  let all = [];
  let current = order;

  const heads = columns.map((column) => head(column));
  const body = element("tbody", { role: "rowgroup" });
  const table = element(
    "table",
    { role: "table", class: cards ? "data cards" : "data" },
    element("caption", { class: captionHidden ? "unseen" : null }, caption),
    element(
      "thead",
      { role: "rowgroup" },
      element("tr", { role: "row" }, heads.map(({ th }) => th)),
    ),
    body,
  );
  const nothing = element("p", { class: "empty" }, empty);
  const scroll = element(
    "div",
    { class: "scroll", role: "region", "aria-label": caption, tabindex: "0" },
    table,
  );
  const whole = element("div", { class: "table" }, scroll, nothing);
  showOrder();

  function head(column) {
    const attributes = {
      role: "columnheader",
      scope: "col",
      class: column.numeric ? "number" : null,
      title: column.title,
    };
    if (!column.value) return { column, th: element("th", attributes, column.label) };
    const arrow = element("span", { class: "arrow", "aria-hidden": "true" });
    const button = element(
      "button",
      { type: "button", class: "sort", on: { click: () => reorder(column) } },
      column.label,
      arrow,
    );
    return { column, arrow, th: element("th", attributes, button) };
  }

  function reorder(column) {
    const isSame = current?.column === column.id;
    // Numbers are looked at from the largest, texts from A.
    current = { column: column.id, descending: isSame ? !current.descending : !!column.numeric };
    showOrder();
    update(all);
    onOrder?.(current);
  }

  function showOrder() {
    for (const { column, arrow, th } of heads) {
      if (!arrow) continue;
      const direction = current?.descending ? "descending" : "ascending";
      const isCurrent = current?.column === column.id;
      th.setAttribute("aria-sort", isCurrent ? direction : "none");
      setText(arrow, isCurrent ? (current.descending ? "▼" : "▲") : "");
    }
  }

  function ordered(rows) {
    const column = columns.find(({ id }) => id === current?.column);
    if (!column?.value) return rows;
    const factor = current.descending ? -1 : 1;
    return rows
      .map((row) => [column.value(row), row])
      .sort(([a], [b]) => byValue(a, b, factor))
      .map(([, row]) => row);
  }

  function update(rows) {
    all = rows;
    const wanted = ordered(rows);
    const keys = new Set(wanted.map(key));
    for (const [name, { tr }] of kept) {
      if (keys.has(name)) continue;
      tr.remove();
      kept.delete(name);
    }
    const focused = document.activeElement;
    let next = body.firstElementChild;
    for (const row of wanted) {
      const { tr } = show(row);
      if (tr === next) next = next.nextElementSibling;
      else body.insertBefore(tr, next);
    }
    // An element that is moved loses the focus.
    if (focused !== document.activeElement && body.contains(focused)) {
      focused.focus({ preventScroll: true });
    }
    nothing.hidden = rows.length > 0;
    table.hidden = rows.length === 0;
  }

  function show(row) {
    const name = key(row);
    let shown = kept.get(name);
    if (!shown) {
      shown = { tr: element("tr", { role: "row" }), cells: null, version: undefined };
      kept.set(name, shown);
    } else if (rowVersion && shown.version === rowVersion(row)) return shown;
    shown.version = rowVersion?.(row);
    const text = notice(row);
    if (text !== null) showNotice(shown, text);
    else showCells(shown, row);
    decorate?.(shown.tr, row);
    return shown;
  }

  function showNotice(shown, text) {
    shown.tr.className = "notice";
    const attributes = { role: "cell", "aria-colspan": columns.length, colspan: columns.length };
    fill(shown.tr, element("td", attributes, text));
    shown.cells = null;
  }

  function showCells(shown, row) {
    if (shown.cells === null) {
      shown.cells = columns.map((column) => ({ td: cell(column), version: undefined }));
      fill(shown.tr, shown.cells.map(({ td }) => td));
    }
    for (const [place, column] of columns.entries()) {
      const { td } = shown.cells[place];
      const version = column.version?.(row);
      if (version !== undefined && Object.is(version, shown.cells[place].version)) continue;
      shown.cells[place].version = version;
      refill(td, column.content(row));
      if (column.cellTitle) td.title = column.cellTitle(row) ?? "";
    }
  }

  function cell(column) {
    const attributes = { role: "cell", class: column.numeric ? `number ${column.id}` : column.id };
    return element("td", { ...attributes, "data-label": column.label });
  }

  update([]);
  return {
    element: whole,
    update,
    /** Say why there is nothing: still loading, no match, an error. */
    setEmpty: (text) => setText(nothing, text),
    get order() {
      return current;
    },
  };
}

/** Put a content into a cell unless it is there: a link that has the focus keeps it. */
function refill(td, content) {
  if (typeof content === "string") return setText(td, content);
  if (td.firstChild === null) return fill(td, content);
  const made = element("td", {}, content);
  const isThere =
    made.childNodes.length === td.childNodes.length &&
    [...made.childNodes].every((node, place) => node.isEqualNode(td.childNodes[place]));
  if (!isThere) td.replaceChildren(...made.childNodes);
}

/** Less, equal or more; what is not known comes last in either order. */
function byValue(a, b, factor) {
  const [lacksA, lacksB] = [a ?? null, b ?? null].map((value) => value === null);
  if (lacksA || lacksB) return Number(lacksA) - Number(lacksB);
  if (typeof a === "string" || typeof b === "string") {
    return factor * String(a).localeCompare(String(b), "en", { sensitivity: "base" });
  }
  return factor * (a - b);
}

/** A gain or loss: colour, and the word for those who do not see it. */
export function gain(number, text) {
  if (typeof number !== "number" || number === 0) return text;
  const [look, word] = number > 0 ? ["gain", "gain "] : ["loss", "loss "];
  return element("span", { class: look }, unseen(word), text);
}
