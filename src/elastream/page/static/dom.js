/** Small helpers around the document. Text of the log only ever becomes text. */

/** @param {string} id @returns {HTMLElement} */
export const byId = (id) => document.getElementById(id);

/**
 * @param {string} tag
 * @param {Record<string, string>} attributes
 * @param {...(Node|string)} children
 * @returns {HTMLElement}
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Set a text only where it differs, so that nothing is laid out or read out anew for nothing. */
export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

/**
 * Call `work` at most once every `ms`, the last time for sure.
 *
 * @param {number} ms
 * @param {() => void} work
 */
export function atMostEvery(ms, work) {
  let last = -Infinity;
  let waiting = null;
  const run = () => {
    waiting = null;
    last = performance.now();
    work();
  };
  return () => {
    if (waiting !== null) return;
    waiting = setTimeout(run, Math.max(0, last + ms - performance.now()));
  };
}

/**
 * Call `work` once with the next frame, however often it is asked for.
 *
 * @param {(now: number) => void} work
 */
export function onceAFrame(work) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame((now) => {
      asked = false;
      work(now);
    });
  };
}
