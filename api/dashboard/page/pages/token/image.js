// A token's image: asked for with the key or the session, as all else, and drawn on a canvas. So no
// file of a stranger is a document of this page, and it does not move.

import { isAbort } from "../../lib/api.js";
import { element } from "../../lib/dom.js";

const SIDE = 96; // pixels of the canvas

/** Make the place of a token's image; `show(image, name)` takes `metadata.image` of the API. */
export function createImage({ api }) {
  const leaving = new AbortController();
  const whole = element("canvas", { class: "token-image", width: SIDE, height: SIDE, role: "img", hidden: true });
  let shown = null; // what the image is known by, once it is asked for

  async function draw(image) {
    try {
      const bytes = await api.blob(image.path, { signal: leaving.signal });
      const scale = Math.min(SIDE / image.width, SIDE / image.height);
      const width = Math.max(1, Math.round(image.width * scale));
      const height = Math.max(1, Math.round(image.height * scale));
      const bitmap = await createImageBitmap(bytes, { resizeWidth: width, resizeHeight: height, resizeQuality: "high" });
      const pen = whole.getContext("2d");
      pen.clearRect(0, 0, SIDE, SIDE);
      pen.drawImage(bitmap, (SIDE - width) / 2, (SIDE - height) / 2);
      bitmap.close();
      whole.hidden = false;
    } catch (error) {
      if (isAbort(error)) return;
      whole.hidden = true; // it has left the cache, or its bytes are no picture after all
      if (error.status === 0 || error.status >= 429) shown = null; // asked for again with the next answer
    }
  }

  return {
    element: whole,
    show(image, name) {
      whole.setAttribute("aria-label", `Image of ${name}`);
      const known = image === null ? null : JSON.stringify(image);
      if (known === shown) return;
      shown = known;
      if (image === null) whole.hidden = true;
      else draw(image);
    },
    stop: () => leaving.abort(),
  };
}
