/** Cards beside the map: the change, the cost, what is not known. */
import { element, setText } from "./dom.js";
import { realtimeLanes } from "./realtime.js";
import { changeHead, cost, movedTasks } from "./sentences.js";
import {
  aboutSeconds, brought, bytes, capital, counted, duration, kindWords, millis, percent, phaseWords,
  whole,
} from "./words.js";

/** Phases in order, and what a step is called. */
const STEPS = [
  ["growing", "new executors"],
  ["warming", "warm up"],
  ["settling", "settle"],
  ["planning", "plan"],
  ["copying", "copy ahead"],
  ["moving", "move"],
  ["releasing", "give back"],
];
const GROWS = new Set(["growing", "warming", "settling"]);

/**
 * @param {HTMLElement} heading
 * @param {HTMLElement} body
 * @param {import("./story.js").Frame} frame
 */
export function showChange(heading, body, frame) {
  const { scene, ended, advice } = frame;
  const section = body.closest("section");
  if (scene?.change) {
    section.dataset.state = "under-way";
    setText(heading, "Change under way");
    body.replaceChildren(...underWay(frame));
  } else if (advice) {
    section.dataset.state = "advice";
    setText(heading, "Advice");
    body.replaceChildren(element("p", { class: "lead" }, capital(advice.reason)));
  } else if (ended) {
    section.dataset.state = ended.outcome;
    setText(heading, "Last change");
    body.replaceChildren(...afterwards(ended));
  } else {
    section.dataset.state = "none";
    setText(heading, "Change");
    body.replaceChildren(element("p", { class: "none" }, "None yet."));
  }
}

/** @param {HTMLElement} body @param {import("./story.js").Frame} frame */
export function showCost(body, frame) {
  const spent = cost(frame);
  if (!spent) {
    body.replaceChildren(element("p", { class: "none" }, "Not known yet."));
    return;
  }
  const { used, spares, full, saved, most } = spent;
  const share = saved >= 0 ? `${percent(saved)} less` : `${percent(-saved)} more`;
  const parts = [
    lead(share, ` than ${counted(most, "executor")} all the time`),
    gauge("used", executorTime(used), used / Math.max(full, used)),
    gauge(`${most} all the time`, executorTime(full), full / Math.max(full, used), null, "plain"),
  ];
  if (spares > 0) {
    parts.push(note(`${executorTime(spares)} of it for spares kept ready (${percent(spares / used)})`));
  }
  body.replaceChildren(...parts);
}

/** @param {HTMLElement} section @param {?import("./scenes.js").Scene} scene */
export function showUnknown(section, scene) {
  showList(section, scene?.loop.unknown ?? []);
}

/** @param {HTMLElement} section @param {?import("./scenes.js").Scene} scene */
export function showGuards(section, scene) {
  const step = scene?.loop.largest_step;
  const most = step == null ? [] : [`one change adds or gives back at most ${counted(step, "executor")}`];
  const warnings = (scene?.loop.warnings ?? []).map((why) => `warning: ${why}`);
  showList(section, [...warnings, ...Object.values(scene?.loop.guards ?? {}), ...most]);
}

/** @param {HTMLElement} section @param {?import("./scenes.js").Scene} scene */
export function showRealtime(section, scene) {
  const lanes = realtimeLanes(scene);
  section.hidden = lanes.length === 0;
  section.querySelector("div").replaceChildren(...lanes.flatMap((lane) => [
    lead(lane.name),
    gauge(lane.batch, lane.boundary, lane.share, null, "plain"),
    facts(lane.facts),
  ]));
}

function showList(section, told) {
  section.hidden = told.length === 0;
  const list = section.querySelector("ul");
  const same = list.children.length === told.length
    && told.every((text, at) => list.children[at].textContent === capital(text));
  if (!same) list.replaceChildren(...told.map((text) => element("li", {}, capital(text))));
}

function underWay(frame) {
  const { scene, story } = frame;
  const { change } = scene;
  const parts = [
    lead(changeHead(change)),
    note(capital(change.reason)),
    steps(change),
  ];
  const { moved, all } = movedTasks(frame);
  const there = all ? `${moved} of ${all}` : "not planned yet";
  parts.push(gauge("partitions there", there, all ? moved / all : 0));
  parts.push(bytesGauge(change.state_bytes_moved, story?.bytes, story?.leastBytes));
  parts.push(facts([
    ["Worst batch", worstWords(story?.worst)],
    ["Time left", change.left_s == null ? "not known: the first of its kind" : timeLeft(change.left_s)],
    ["Under way for", change.asked_ms == null ? "?" : duration((scene.atMs - change.asked_ms) / 1000)],
    ...(change.replans ? [["Planned anew", counted(change.replans, "time")]] : []),
  ]));
  return parts;
}

function afterwards({ outcome, change, story, decision }) {
  const { figures } = decision;
  const after = figures.executors_after ?? change?.executors;
  const before = figures.executors_before ?? change?.before;
  const verb = outcome === "done" ? "done" : "abandoned";
  const kind = change ? kindWords(change.kind) : "The change";
  const took = figures.seconds === undefined ? "" : ` in ${duration(figures.seconds)}`;
  const parts = [lead(`${kind}, ${before} → ${after}: ${verb}`, took)];
  if (outcome === "abandon") parts.push(note(capital(decision.reason)));
  if (figures.executors_wanted !== undefined && figures.executors_wanted !== after) {
    parts.push(note(`${counted(figures.executors_wanted, "executor")} were wanted`));
  }
  const moved = figures.state_bytes_moved ?? 0;
  parts.push(bytesGauge(moved, Math.max(moved, story?.bytes ?? 0), story?.leastBytes));
  parts.push(facts([
    ["Partitions moved", String(figures.tasks_moved ?? "?")],
    ["Worst batch", against(figures.worst_batch_ms, figures.median_batch_ms_before)],
    ...brought(figures),
    ...(figures.state_bytes_ahead ? [["Copied ahead", bytes(figures.state_bytes_ahead)]] : []),
    ...(figures.bytes_from_executors ? [["From executors", bytes(figures.bytes_from_executors)]] : []),
    ...(figures.bytes_from_storage ? [["From storage", bytes(figures.bytes_from_storage)]] : []),
  ]));
  return parts;
}

function steps({ kind, phase }) {
  const shown = STEPS.filter(([name]) => name === phase || belongs(name, kind));
  if (!STEPS.some(([name]) => name === phase)) shown.push([phase, phaseWords(phase)]);
  const present = shown.findIndex(([name]) => name === phase);
  const list = element("ol", { class: "steps", "aria-label": "Phases" });
  shown.forEach(([, label], at) => {
    const state = at < present ? "over" : at === present ? "now" : "ahead";
    const item = element("li", { "data-state": state }, label);
    if (at === present) item.setAttribute("aria-current", "step");
    list.append(item);
  });
  return list;
}

/** Whether changes of a kind go through a phase as a rule. */
function belongs(phase, kind) {
  if (GROWS.has(phase)) return kind === "scale-out";
  return phase !== "releasing" || kind === "scale-in";
}

/** State moved, beside the least that any plan could move. */
function bytesGauge(moved, planned, least) {
  const full = Math.max(moved, planned ?? 0, least ?? 0);
  const words = planned > moved ? `${bytes(moved)} of ${bytes(planned)}` : bytes(moved);
  const mark = full && least != null ? least / full : null;
  const row = gauge("state moved", words, full ? moved / full : 0, mark);
  row.append(element("p", { class: "under" }, leastWords(planned ?? moved, least)));
  return row;
}

function leastWords(planned, least) {
  if (least == null) return "The least possible is not known yet.";
  if (planned <= least * 1.0005) return `The least possible: no plan moves less than ${bytes(least)}.`;
  return `The least possible is ${bytes(least)}.`;
}

function worstWords(worst) {
  if (!worst) return "none yet while state moves";
  return `${against(worst.ms, worst.usualMs)} (${worst.query})`;
}

function against(ms, usual) {
  return usual == null ? millis(ms) : `${millis(ms)}, usually ${millis(usual)}`;
}

function timeLeft(seconds) {
  return seconds > 0 ? aboutSeconds(seconds) : "longer than last time";
}

function executorTime(seconds) {
  return seconds < 36_000 ? `${whole(seconds)} executor-seconds` : `${whole(seconds / 3600)} executor-hours`;
}

function gauge(label, words, share, mark = null, look = "") {
  const fill = element("div", { class: "fill" });
  fill.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
  const track = element("div", { class: `meter ${look}`, "aria-hidden": "true" }, fill);
  if (mark !== null) {
    const line = element("div", { class: "mark" });
    line.style.left = `${100 * mark}%`;
    track.append(line);
  }
  const names = [capital(label), words].map((part) => element("span", {}, part));
  return element("div", { class: "gauge" }, element("div", { class: "label" }, ...names), track);
}

function facts(pairs) {
  const list = element("dl", { class: "facts" });
  for (const [name, value] of pairs) {
    list.append(element("div", {}, element("dt", {}, name), element("dd", {}, value)));
  }
  return list;
}

function lead(strong, rest = "") {
  return element("p", { class: "lead" }, element("strong", {}, strong), rest);
}

function note(text) {
  return element("p", { class: "note" }, text);
}
