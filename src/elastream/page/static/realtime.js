/** Queries in Real-time Mode: how soon they answer, their next boundary, their slots. Pure. */
import { aboutSeconds, counted, millis, whole } from "./words.js";

/**
 * @param {?import("./scenes.js").Scene} scene
 * @returns {{name: string, batch: string, share: number, boundary: string, facts: string[][]}[]}
 *   one for each query in Real-time Mode
 */
export function realtimeLanes(scene) {
  if (!scene) return [];
  const queries = [...scene.queries].filter(([, { slots }]) => slots);
  const needed = queries.reduce((sum, [, { slots }]) => sum + slots, 0);
  let all = 0;
  for (const { slots } of scene.executors.values()) all += slots;
  return queries.map(([name, query]) => ({
    name,
    batch: query.batch == null ? "first batch" : `batch ${whole(query.batch + 1)}`,
    ...boundary(query, scene.atMs),
    facts: [
      ["Latency", query.latency_ms == null ? "not measured" : millis(query.latency_ms)],
      ["Last boundary", query.gap_ms == null ? "none seen" : `a gap of ${millis(query.gap_ms)}`],
      ["Slots", slotWords(query.slots, all - needed)],
    ],
  }));
}

function boundary({ ends_at_ms: endsAtMs, trigger_ms: triggerMs }, atMs) {
  if (endsAtMs == null || endsAtMs <= atMs) return { share: 1, boundary: "at a boundary" };
  const leftMs = endsAtMs - atMs;
  const share = triggerMs ? 1 - Math.min(1, leftMs / triggerMs) : 0;
  return { share, boundary: `boundary in ${aboutSeconds(leftMs / 1000)}` };
}

function slotWords(slots, free) {
  const needs = `needs ${counted(slots, "slot")}`;
  return free < 0 ? `${needs}, ${whole(-free)} are missing` : `${needs}, ${whole(free)} are free`;
}
