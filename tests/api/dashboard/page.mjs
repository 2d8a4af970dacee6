// A document without a browser: as much of the DOM as parts of pages need to be made and read.
// Import it before the page's own modules are called.

class TextNode {
  constructor(text) {
    this.textContent = String(text);
  }

  isEqualNode(other) {
    return this.textContent === other.textContent;
  }
}

class ElementNode extends EventTarget {
  childNodes = [];
  attributes = new Map();
  classList = { toggle() {} };

  constructor(tag) {
    super();
    this.tag = tag;
  }

  append(...nodes) {
    for (const node of nodes) this.insertBefore(node, null);
  }

  replaceChildren(...nodes) {
    this.childNodes = [];
    this.append(...nodes);
  }

  insertBefore(node, next) {
    node.parent?.removeChild(node);
    node.parent = this;
    this.childNodes.splice(next === null ? Infinity : this.childNodes.indexOf(next), 0, node);
  }

  removeChild(node) {
    this.childNodes = this.childNodes.filter((each) => each !== node);
  }

  remove() {
    this.parent?.removeChild(this);
  }

  get nextElementSibling() {
    const { childNodes } = this.parent;
    return childNodes.slice(childNodes.indexOf(this) + 1).find((node) => node instanceof ElementNode) ?? null;
  }

  isEqualNode(other) {
    return this === other; // not looked at any closer
  }

  setAttribute(name, value) {
    this.attributes.set(name, value);
  }

  removeAttribute(name) {
    this.attributes.delete(name);
  }

  querySelector() {
    return null; // nothing has the focus
  }

  focus() {}

  get firstChild() {
    return this.childNodes[0] ?? null;
  }

  get firstElementChild() {
    return elements(this)[0] ?? null;
  }

  get textContent() {
    return this.childNodes.map((node) => node.textContent).join("");
  }

  set textContent(text) {
    this.childNodes = [new TextNode(text)];
  }
}

globalThis.document = Object.assign(new EventTarget(), {
  createElement: (tag) => new ElementNode(tag),
  createElementNS: (_, tag) => new ElementNode(tag),
  createTextNode: (text) => new TextNode(text),
});
globalThis.matchMedia = () => ({ matches: false });
globalThis.requestAnimationFrame = () => 0; // nothing is drawn
globalThis.cancelAnimationFrame = () => {};
globalThis.history = { replaceState() {} };
globalThis.location = new URL("http://soltape.test/");
globalThis.addEventListener = () => {};
globalThis.removeEventListener = () => {};
globalThis.ResizeObserver = class {
  observe() {}
  disconnect() {}
};

/** Make an element to put a page into. */
export function root() {
  return document.createElement("main");
}

/** The elements below another, in the document's order. */
export function elements(within) {
  const children = within.childNodes.filter((node) => node instanceof ElementNode);
  return children.flatMap((node) => [node, ...elements(node)]);
}

/** Have what was promised so far happen. */
export function happened() {
  return new Promise(setImmediate);
}

/** The facts of a part of a page: what each is called, and what is said of it. */
export function facts(within) {
  const [names, texts] = ["dt", "dd"].map((tag) =>
    elements(within).filter((node) => node.tag === tag).map((node) => node.textContent),
  );
  return Object.fromEntries(names.map((name, place) => [name, texts[place]]));
}
