// What the browser keeps for this page; where it is not allowed to, nothing is kept.

/** Return a stored text, or null. */
export function recall(name, { forGood = true } = {}) {
  try {
    return place(forGood).getItem(`soltape.${name}`);
  } catch {
    return null;
  }
}

/** Store a text, until the tab is closed or for good; null removes it. */
export function keep(name, text, { forGood = true } = {}) {
  try {
    if (text === null) place(forGood).removeItem(`soltape.${name}`);
    else place(forGood).setItem(`soltape.${name}`, text);
  } catch {
    // Full, or not allowed.
  }
}

/** Have `changed` called with what another tab stores for good under a name, null: removed. */
export function follow(name, changed) {
  addEventListener("storage", ({ key, newValue }) => {
    if (key === `soltape.${name}`) changed(newValue);
  });
}

function place(forGood) {
  return forGood ? localStorage : sessionStorage;
}
