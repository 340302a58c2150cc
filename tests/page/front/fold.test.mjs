// Run with: node --test tests/page/front/*.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";

import { History } from "../../../src/elastream/page/static/history.js";
import { copyScene, layOver, taskParts } from "../../../src/elastream/page/static/scenes.js";
import { Series } from "../../../src/elastream/page/static/series.js";

const LOOP = { mode: "acts", phase: "steady", least: 1, most: 4, tau: 0.2, marks: null, utilisation: 0.5 };

function wholeLine(atMs, tasks) {
  return {
    kind: "scene", at_ms: atMs, whole: true, loop: LOOP, change: null, tasks,
    executors: { 0: { host: "h", cores: 1, busy: 0.5 }, 1: { host: "h", cores: 1, busy: null } },
    queries: { q: { tasks: 2, backlog: 3, arrivals_per_s: 1, rows_per_s: null } },
  };
}

function run(count) {
  const records = [wholeLine(0, { "q/0/0": ["0", 0.1, 10], "q/0/1": ["1", 0.2, 20] })];
  for (let at = 1; at < count; at++) {
    records.push({ kind: "scene", at_ms: 10 * at, tasks: { "q/0/0": [String(at % 2), at / 1000, at] } });
  }
  return records;
}

test("nothing is shown before a whole line", () => {
  assert.equal(layOver(null, { at_ms: 1, loop: {} }), null);
});

test("entries are merged, tasks replaced, null takes away", () => {
  const scene = layOver(null, wholeLine(0, { "q/0/0": ["0", 0.1, 10, "1", "1"], "q/0/1": ["1", 0, 1] }));
  layOver(scene, {
    at_ms: 5, loop: { phase: "moving" }, executors: { 0: { busy: 0.9 }, 1: null },
    tasks: { "q/0/0": ["1", 0.3, 11], "q/0/1": null },
  });
  assert.deepEqual(scene.executors.get("0"), { host: "h", cores: 1, busy: 0.9 });
  assert.equal(scene.executors.has("1"), false);
  assert.deepEqual([...scene.tasks], [
    ["q/0/0", { executor: "1", work: 0.3, bytes: 11, standby: null, heading: null }],
  ]);
  assert.equal(scene.loop.phase, "moving");
  assert.equal(scene.loop.most, 4);
});

test("a copy stays as it was", () => {
  const scene = layOver(null, wholeLine(0, { "q/0/0": ["0", 0.1, 10] }));
  const copy = copyScene(scene);
  layOver(scene, { at_ms: 9, tasks: { "q/0/0": ["1", 0.1, 10] }, executors: { 0: { busy: 1 } } });
  assert.equal(copy.tasks.get("q/0/0").executor, "0");
  assert.equal(copy.executors.get("0").busy, 0.5);
  assert.equal(copy.atMs, 0);
});

test("a query's name may hold slashes", () => {
  assert.deepEqual(taskParts("a/b/0/12"), { query: "a/b", operator: "0", partition: "12" });
});

test("every moment is as it was, whichever way one comes to it", () => {
  const history = new History({ every: 7 });
  for (const record of run(100)) history.push(record);
  for (const seq of [99, 3, 4, 50, 49, 48, 6, 7, 8, 0, 98]) {
    const task = history.frameAt(seq).scene.tasks.get("q/0/0");
    assert.equal(task.bytes, seq === 0 ? 10 : seq, `at ${seq}`);
  }
  assert.equal(history.seqAt(55), 5);
  assert.equal(history.stepFrom(5, -1), 40);
  assert.equal(history.stepFrom(5, 1), 60);
});

test("the oldest records go, what they told stays", () => {
  const history = new History({ records: 500, every: 50 });
  for (const record of run(4000)) history.push(record, 10);
  assert.ok(history.kept.length <= 1500);
  assert.equal(history.taken, 4000);
  assert.equal(history.end, 4000);
  assert.equal(history.frameAt(history.first).scene.tasks.get("q/0/1").bytes, 20);
  assert.equal(history.frameAt(3000).scene.tasks.get("q/0/0").bytes, 3000);
  assert.equal(history.characters, 10 * history.kept.length);
});

test("a log that is large for its lines is cut as well", () => {
  const history = new History({ characters: 10_000, every: 50 });
  for (const record of run(400)) history.push(record, 1000);
  assert.ok(history.characters <= 10_000);
  assert.equal(history.frameAt(399).scene.tasks.get("q/0/0").bytes, 399);
});

test("what came before the first known time has that time", () => {
  const history = new History();
  history.push({ kind: "attach", at_ms: null, reason: "", figures: {} });
  assert.throws(() => history.push({ kind: "hold", at_ms: 1 }), TypeError);
  history.push(wholeLine(5000, {}));
  history.push({ kind: "hold", at_ms: 4000, reason: "", figures: {} });
  assert.deepEqual(history.kept.map((each) => each.atMs), [5000, 5000, 5000]);
  assert.equal(history.decisions[0].atMs, 5000);
});

test("a change is told with its plan, its worst batch and its end", () => {
  const history = new History();
  const change = { kind: "scale-out", asked_ms: 100, phase: "planning", tasks_moved: 0, state_bytes_moved: 0, usual_ms: { q: 7 } };
  const figures = { tasks_to_move: 2, state_bytes_to_move: 30, state_bytes_lower_bound: 25 };
  history.push(wholeLine(0, {}));
  history.push({ kind: "hold", at_ms: 90, reason: "", figures: { wanted: 3 } });
  history.push({ kind: "scale-out", at_ms: 100, reason: "", figures: {} });
  history.push({ kind: "scene", at_ms: 100, change });
  history.push({ kind: "plan", at_ms: 110, reason: "", figures });
  history.push({ kind: "scene", at_ms: 120, change: { ...change, phase: "moving" }, batches: [["q", 1, 120, 90, 1], ["q", 2, 121, 40, 1]] });
  const { story, verdict } = history.head;
  assert.equal(verdict, null);
  assert.deepEqual([story.tasks, story.bytes, story.leastBytes], [2, 30, 25]);
  assert.deepEqual(story.worst, { query: "q", ms: 90, usualMs: 7 });
  history.push({ kind: "done", at_ms: 130, reason: "", figures: {} });
  history.push({ kind: "scene", at_ms: 130, change: null });
  assert.equal(history.head.story, null);
  assert.equal(history.head.ended.story.leastBytes, 25);
  assert.deepEqual(history.spans, [{ kind: "scale-out", fromMs: 100, toMs: 130 }]);
});

test("a series never outgrows its limit, and keeps what stands out", () => {
  const series = new Series(100);
  for (let at = 0; at < 10_000; at++) {
    series.add(at * 10, { level: at });
    series.add(at * 10, { peak: at === 5000 ? 99 : 1 }, "max");
  }
  assert.ok(series.times.length <= 100);
  assert.equal(Math.max(...series.column("peak")), 99);
  assert.equal(series.column("level").at(-1), 9999);
  assert.equal(series.column("nothing").length, series.times.length);
});
