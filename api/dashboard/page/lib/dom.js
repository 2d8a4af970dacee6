// Elements. Text reaches the page as text nodes only: names of tokens are hostile input.

import { harmless } from "./format.js";

const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "selected", "open", "required"]);
const SVG = "http://www.w3.org/2000/svg";

/**
 * Make an element. Attributes: `class`, `data-...`, `aria-...`, `on: {click: listener}`, properties
 * such as `value` and `checked`, or any other attribute; null, undefined and false are left out.
 * Children: nodes, texts, numbers, arrays of them; null, undefined and false are left out.
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  set(made, attributes);
  made.append(...nodes(children));
  return made;
}

/** Make an element of SVG; otherwise as `element`. */
export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  set(made, attributes);
  made.append(...nodes(children));
  return made;
}

/** Replace what is in an element. */
export function fill(parent, ...children) {
  parent.replaceChildren(...nodes(children));
  return parent;
}

/** Set a text where it has changed: unchanged ones cost no layout and are not read out again. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** A link of this page: `#/token/<mint>`. */
export function link(path, text, attributes = {}) {
  return element("a", { href: path, ...attributes }, text);
}

/** A link that leaves this page, without a referrer. */
export function outward(url, text, attributes = {}) {
  return element(
    "a",
    { href: url, target: "_blank", rel: "noopener noreferrer nofollow", ...attributes },
    text,
  );
}

/** A text that only screen readers read. */
export function unseen(text) {
  return element("span", { class: "unseen" }, text);
}

/** A stranger's text, made harmless and kept to itself; `otherwise` where nothing is left of it. */
export function foreign(text, { longest = 32, otherwise = "–", ...attributes } = {}) {
  return element("bdi", attributes, harmless(text, longest) ?? otherwise);
}

/** Whether an address may be linked to: of this page, or of the web; never `javascript:`. */
export function isSafeAddress(address) {
  try {
    const { protocol } = new URL(address, "https://this.page/");
    return protocol === "https:" || protocol === "http:";
  } catch {
    return false;
  }
}

function set(made, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) made.addEventListener(event, listener);
    } else if (name === "href" || name === "src") {
      if (isSafeAddress(value)) made.setAttribute(name, value);
    } else if (PROPERTIES.has(name)) {
      made[name] = value;
    } else if (name.startsWith("on") || name === "style" || name === "srcdoc") {
      throw new Error(`${name} cannot be set so: listeners go into \`on\`, looks into style.css`);
    } else {
      made.setAttribute(name, value === true ? "" : value);
    }
  }
}

function nodes(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (typeof child === "object" ? child : document.createTextNode(String(child))));
}
