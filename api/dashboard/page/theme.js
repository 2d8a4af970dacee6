// Before anything is drawn, so that a dark page does not begin with a white flash.
(() => {
  let theme = null;
  try {
    theme = localStorage.getItem("soltape.theme");
  } catch {
    // Storage is not allowed: the system's theme it is.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
