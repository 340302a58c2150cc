/**
 * Frames: a scene and what the decisions before it tell about it. Pure.
 *
 * @typedef {import("./scenes.js").Scene} Scene
 * @typedef {object} ChangeStory the change under way, beyond what its scene tells
 * @property {number} askedMs
 * @property {?number} tasks how many move in all, as planned last
 * @property {?number} bytes how much state moves in all, as planned last
 * @property {?number} leastBytes what no plan can go below
 * @property {?{query: string, ms: number, usualMs: ?number}} worst longest batch while state moved
 *
 * @typedef {object} Ended how the last change ended
 * @property {"done"|"abandon"} outcome
 * @property {?object} change as it was told last
 * @property {?ChangeStory} story
 * @property {object} decision
 *
 * @typedef {object} Frame
 * @property {?Scene} scene
 * @property {?ChangeStory} story
 * @property {?Ended} ended
 * @property {?object} verdict the last decision to hold
 * @property {?object} advice the last decision to advise, until all is well again
 */
import { copyScene, layOver } from "./scenes.js";

/** @returns {Frame} */
export function newFrame() {
  return { scene: null, story: null, ended: null, verdict: null, advice: null };
}

/** @param {Frame} frame @returns {Frame} a frame that later records do not change */
export function copyFrame(frame) {
  return { ...frame, scene: copyScene(frame.scene), story: frame.story && { ...frame.story } };
}

/** Take one record of the log into a frame. @param {Frame} frame @param {object} record */
export function advance(frame, record) {
  if (record.kind === "scene") takeScene(frame, record);
  else takeDecision(frame, record);
}

function takeScene(frame, line) {
  frame.scene = layOver(frame.scene, line);
  const { scene } = frame;
  if (!scene) return;
  if (!scene.change) {
    frame.story = null;
    return;
  }
  if (frame.story?.askedMs !== scene.change.asked_ms) {
    // What was wanted before is under way now.
    Object.assign(frame, { story: newStory(scene.change), verdict: null, advice: null });
  }
  if (scene.change.phase === "moving") noteBatches(frame.story, scene);
}

function newStory(change) {
  return { askedMs: change.asked_ms, tasks: null, bytes: null, leastBytes: null, worst: null };
}

function noteBatches(story, scene) {
  for (const { query, ms } of scene.batches) {
    if (story.worst && story.worst.ms >= ms) continue;
    story.worst = { query, ms, usualMs: scene.change.usual_ms?.[query] ?? null };
  }
}

function takeDecision(frame, decision) {
  switch (decision.kind) {
    case "hold":
      frame.verdict = decision;
      if (decision.figures?.wanted === undefined) frame.advice = null;
      break;
    case "advise":
      frame.advice = decision;
      break;
    case "plan":
      if (frame.story) notePlan(frame, decision.figures ?? {});
      break;
    case "done":
    case "abandon":
      frame.ended = {
        outcome: decision.kind,
        change: frame.scene?.change ?? null,
        story: frame.story && { ...frame.story },
        decision,
      };
      break;
  }
}

/** A plan made anew tells of what is left, so what has moved already comes on top. */
function notePlan({ story, scene }, figures) {
  const { tasks_moved: tasks = 0, state_bytes_moved: bytes = 0 } = scene.change ?? {};
  story.tasks = tasks + (figures.tasks_to_move ?? 0);
  story.bytes = bytes + (figures.state_bytes_to_move ?? 0);
  const least = figures.state_bytes_lower_bound;
  story.leastBytes = least === undefined ? null : bytes + least;
}
