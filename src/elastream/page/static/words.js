/** Words: figures and moments as a person reads them. Pure. */

const NARROW = "\u202f";
const SIZES = ["B", "kB", "MB", "GB", "TB", "PB"];
/** Below this a time counts from the beginning of a simulated run, not from 1970. */
const LEAST_EPOCH_MS = 1e11;

const KIND_WORDS = {
  "scale-out": "Scaling out",
  "scale-in": "Scaling in",
  rebalance: "Rebalancing",
  move: "Moving partitions",
};

const PHASE_WORDS = {
  growing: "waiting for new executors",
  warming: "warming up the new executors",
  settling: "letting the queries settle",
  planning: "choosing which partitions move",
  copying: "copying state ahead",
  moving: "moving state",
  releasing: "giving executors back",
  pausing: "pausing a query for more partitions",
};

/** @param {?number} value @returns {string} three digits, in powers of 1000 */
export function bytes(value) {
  if (value == null) return "?";
  let unit = 0;
  while (value >= 999.5 && unit < SIZES.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${threeDigits(value)} ${SIZES[unit]}`;
}

/** @param {?number} value @returns {string} as 950, 12.3 k, 4.56 M */
export function short(value) {
  if (value == null) return "?";
  const units = ["", " k", " M", " G", " T"];
  let unit = 0;
  while (Math.abs(value) >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit ? threeDigits(value) : Math.round(value)}${units[unit]}`;
}

/** @param {number} value @returns {string} whole, its thousands apart */
export function whole(value) {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, NARROW);
}

/** @param {?number} share @returns {string} */
export function percent(share) {
  return share == null ? "?" : `${Math.round(100 * share)} %`;
}

/** @param {?number} seconds @returns {string} as 0.4 s, 12 s, 3 min 20 s, 2 h 5 min */
export function duration(seconds) {
  if (seconds == null) return "?";
  if (seconds < 9.95) return `${trimmed(seconds.toFixed(1))} s`;
  const all = Math.round(seconds);
  if (all < 60) return `${all} s`;
  if (all < 3600) return twoParts(Math.floor(all / 60), "min", all % 60, "s");
  return twoParts(Math.floor(all / 3600), "h", Math.floor((all % 3600) / 60), "min");
}

/** @param {number} seconds expected, so not told to the tenth @returns {string} */
export function aboutSeconds(seconds) {
  return `about ${duration(Math.max(1, Math.round(seconds)))}`;
}

/** @param {?number} ms @returns {string} */
export function millis(ms) {
  if (ms == null) return "?";
  return ms < 999.5 ? `${Math.round(ms)} ms` : duration(ms / 1000);
}

/**
 * What a change brought next to what its plan predicted, a pair of name and words for each figure:
 * a batch of each query, and the busiest executor. Nothing where it was not measured.
 *
 * @param {object} figures of a decision that a change is done
 * @returns {[string, string][]}
 */
export function brought(figures) {
  const { predicted_batch_ms: hoped = {}, measured_batch_ms: took = {} } = figures;
  const pairs = Object.entries(took)
    .filter(([query]) => hoped[query] !== undefined)
    .map(([query, ms]) => [`Batch of ${query}`, `${millis(ms)}, predicted ${millis(hoped[query])}`]);
  const { predicted_busiest: expected, measured_busiest: busiest } = figures;
  if (expected != null && busiest != null) {
    pairs.push(["Busiest executor", `${percent(busiest)}, predicted ${percent(expected)}`]);
  }
  return pairs;
}

/** @param {?number} ms since the epoch, or since the beginning of a simulated run */
export function clock(ms) {
  if (ms == null) return "";
  if (ms >= LEAST_EPOCH_MS) return new Date(ms).toLocaleTimeString("en-GB");
  const all = Math.floor(ms / 1000);
  const parts = [Math.floor(all / 60) % 60, all % 60].map((part) => String(part).padStart(2, "0"));
  return `${Math.floor(all / 3600)}:${parts.join(":")}`;
}

/** @param {number} count @param {string} noun @returns {string} */
export function counted(count, noun) {
  return `${whole(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** @param {{low: number, high: number}} marks @returns {string} as 60–80 % */
export function band(marks) {
  return `${Math.round(100 * marks.low)}–${percent(marks.high)}`;
}

/** @param {string} kind of a change @returns {string} */
export function kindWords(kind) {
  return KIND_WORDS[kind] ?? capital(String(kind));
}

/**
 * What a decision to hold held back, as "scale-out to 6"; told by its reason, for the executors
 * counted beside it may be spares.
 *
 * @param {{reason: string, figures: object}} decision
 * @returns {string}
 */
export function wantedWords({ reason, figures }) {
  const told = /\b(scale-out|scale-in|rebalance|move)( to \d+)? wanted/.exec(reason);
  if (!told) return counted(figures.wanted, "executor");
  return told[1] === "rebalance" ? told[1] : `${told[1]}${told[2] ?? ""}`;
}

/** @param {import("./scenes.js").Scene} scene @returns {string} as "3 executors and 1 spare" */
export function executorWords({ executors }) {
  const spares = spareCount(executors);
  const working = counted(executors.size - spares, "executor");
  return spares ? `${working} and ${counted(spares, "spare")}` : working;
}

/** @param {Map<string, {spare: boolean}>} executors @returns {number} */
export function spareCount(executors) {
  let spares = 0;
  for (const { spare } of executors.values()) spares += spare ? 1 : 0;
  return spares;
}

/** @param {string} phase @returns {string} */
export function phaseWords(phase) {
  return PHASE_WORDS[phase] ?? String(phase);
}

/** @param {string} text @returns {string} */
export function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function threeDigits(value) {
  if (value >= 99.95) return String(Math.round(value));
  return trimmed(value.toFixed(value >= 9.995 ? 1 : 2));
}

function trimmed(digits) {
  return digits.includes(".") ? digits.replace(/\.?0+$/, "") : digits;
}

function twoParts(great, greatUnit, small, smallUnit) {
  return small ? `${great} ${greatUnit} ${small} ${smallUnit}` : `${great} ${greatUnit}`;
}
