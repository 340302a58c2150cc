/** Colours for what is drawn on a canvas, taken from the style sheet. */

const NAMES = "ink soft faint line panel sunken accent good warn blue orange".split(" ");
const STEPS = 24;

/** @type {Record<string, string>} */
export const theme = {};
/** Colours of load from none to most, and the ink that is readable on each. */
export const loads = { fills: [], inks: [] };
/** Colours of lines that tell queries apart; their names do so as well. */
export const lines = [];

const listeners = [];

/** @param {() => void} listener called when the colours have changed */
export function onTheme(listener) {
  listeners.push(listener);
}

function read() {
  const style = getComputedStyle(document.documentElement);
  const value = (name) => style.getPropertyValue(`--${name}`).trim();
  for (const name of NAMES) theme[name] = value(name);
  const stops = value("loads").split(/\s+/).map(rgb);
  loads.fills = Array.from({ length: STEPS }, (_, at) => mix(stops, at / (STEPS - 1)));
  loads.inks = loads.fills.map((fill) => (luminance(fill) > 0.32 ? "#0b1a2b" : "#f4f8fc"));
  loads.fills = loads.fills.map((fill) => `rgb(${fill.map(Math.round).join(" ")})`);
  lines.splice(0, lines.length, ...value("lines").split(/\s+/));
}

function rgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

function mix(stops, share) {
  const place = share * (stops.length - 1);
  const at = Math.min(Math.floor(place), stops.length - 2);
  return stops[at].map((low, part) => low + (stops[at + 1][part] - low) * (place - at));
}

function luminance(colour) {
  const [r, g, b] = colour.map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

read();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  read();
  for (const listener of listeners) listener();
});
