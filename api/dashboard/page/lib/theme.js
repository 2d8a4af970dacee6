// The colours of the style sheet for what is drawn by scripts, followed as the theme changes.

/**
 * Call `paint(read)` now and whenever the theme changes; `read("--gain")` gives a value of the
 * style sheet. Returns what stops it.
 */
export function onTheme(paint) {
  const root = document.documentElement;
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  const repaint = () => {
    const style = getComputedStyle(root);
    paint((name) => style.getPropertyValue(name).trim());
  };
  const watcher = new MutationObserver(repaint);
  watcher.observe(root, { attributeFilter: ["data-theme"] });
  scheme.addEventListener("change", repaint);
  repaint();
  return () => {
    watcher.disconnect();
    scheme.removeEventListener("change", repaint);
  };
}
