/** What goes on, in one sentence; whether it acts; what it has cost. Pure. */
import {
  aboutSeconds, band, capital, counted, executorWords, kindWords, percent, phaseWords, spareCount,
  wantedWords,
} from "./words.js";

/** @typedef {import("./story.js").Frame} Frame */

/** @param {Frame} frame @returns {string} one plain sentence */
export function sentence(frame) {
  const { scene } = frame;
  if (!scene) return "Waiting for the first scene.";
  if (scene.loop.mode === "let go") {
    return `Let go: the queries run on as they are, on ${executorWords(scene)}.`;
  }
  return scene.change ? changeSentence(frame) : steadySentence(frame);
}

/**
 * What a person who does not look should be told: the sentence without the figures that change with
 * every batch.
 *
 * @param {Frame} frame @returns {string}
 */
export function announcement({ scene }) {
  if (!scene) return "Waiting for the first scene.";
  if (scene.loop.mode === "let go") return "elastream has let go.";
  if (scene.change) return `${changeHead(scene.change)}: ${phaseWords(scene.change.phase)}.`;
  return `Steady, ${executorWords(scene)}.`;
}

/** @param {Frame} frame @returns {{state: string, text: string}} */
export function modeBadge({ scene }) {
  if (!scene) return { state: "unknown", text: "not known yet" };
  const { mode } = scene.loop;
  if (mode === "let go") return { state: "let-go", text: "let go" };
  if (scene.loop.guards?.paused) return { state: "advises", text: "paused" };
  const left = cooldownLeft(scene);
  const cools = left > 0 ? `cools down ${Math.ceil(left)} s` : "";
  if (mode === "advises") {
    return { state: "advises", text: cools ? `advises only, ${cools}` : "advises only" };
  }
  if (cools) return { state: "cools", text: cools };
  return { state: "acts", text: "acts" };
}

/**
 * @param {Frame} frame
 * @returns {?{used: number, spares: number, full: number, saved: number, most: number}}
 *   in executor-seconds; null while nothing is known
 */
export function cost({ scene }) {
  const { attached_ms: attached, executor_s: used, spare_executor_s: spares = 0 } = scene?.loop ?? {};
  if (attached == null || used == null) return null;
  const { most } = scene.loop;
  const full = (most * (scene.atMs - attached)) / 1000;
  return full > 0 ? { used, spares, full, saved: 1 - used / full, most } : null;
}

/** @param {Frame} frame @returns {{moved: number, all: number}} partitions of the change */
export function movedTasks({ scene, story }) {
  const moved = scene.change.tasks_moved;
  let heading = 0;
  for (const task of scene.tasks.values()) heading += task.heading === null ? 0 : 1;
  return { moved, all: Math.max(story?.tasks ?? 0, moved + heading) };
}

/** @param {object} change @returns {string} as "Scaling out from 2 to 4" */
export function changeHead(change) {
  const words = kindWords(change.kind);
  if (change.before === change.executors) return words;
  return `${words} from ${change.before} to ${change.executors}`;
}

function changeSentence(frame) {
  const { change } = frame.scene;
  const parts = [phaseWords(change.phase)];
  if (change.phase === "growing") {
    const there = frame.scene.executors.size - spareCount(frame.scene.executors);
    parts[0] += `, ${there} of ${change.executors} there`;
  }
  const { moved, all } = movedTasks(frame);
  if (change.phase === "moving" && all) parts.push(`${moved} of ${counted(all, "partition")} there`);
  if (change.phase === "copying" && all) parts[0] += ` of ${counted(all, "partition")}`;
  if (change.left_s) parts.push(`${aboutSeconds(change.left_s)} left`);
  return `${changeHead(change)}: ${parts.join(", ")}.`;
}

function steadySentence({ scene, verdict, advice }) {
  const { utilisation, marks } = scene.loop;
  const executors = executorWords(scene);
  if (scene.loop.phase === "pausing") return `${capital(phaseWords("pausing"))}: ${executors}.`;
  if (utilisation == null) return `Steady: ${executors}; how busy they are is not known yet.`;
  const busy = `${executors}, ${percent(utilisation)} busy`;
  const told = `${busy}${place(utilisation, marks)}`;
  if (advice) return `Advises: ${advice.reason.split(":")[0]}. Now ${told}.`;
  if (verdict?.figures?.wanted === undefined) return `Steady: ${told}.`;
  const [why] = verdict.reason.split(";");
  return `Holding back a ${wantedWords(verdict)}: ${told}; ${why}.`;
}

function place(utilisation, marks) {
  if (!marks) return "";
  if (utilisation > marks.high) return `, above ${percent(marks.high)}`;
  if (utilisation < marks.low) return `, below ${percent(marks.low)}`;
  return `, within ${band(marks)}`;
}

function cooldownLeft({ loop, atMs, change }) {
  if (change || loop.cooldown_until_ms == null) return 0;
  return (loop.cooldown_until_ms - atMs) / 1000;
}
