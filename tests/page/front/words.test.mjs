import assert from "node:assert/strict";
import { test } from "node:test";

import { groupsUpTo } from "../../../src/elastream/page/static/groups.js";
import { boxGrid, brickScale, queryColumns, slotCount, wall } from "../../../src/elastream/page/static/layout.js";
import { cost, modeBadge, sentence } from "../../../src/elastream/page/static/sentences.js";
import { aboutSeconds, brought, bytes, clock, duration, millis, percent, short, whole } from "../../../src/elastream/page/static/words.js";

function frame(loop = {}, rest = {}) {
  const known = { mode: "acts", most: 6, utilisation: 0.62, marks: { low: 0.6, target: 0.7, high: 0.8 } };
  const executors = new Map([["0", {}], ["1", {}], ["2", {}]]);
  const scene = { atMs: 10_000, loop: { ...known, ...loop }, executors, tasks: new Map(), change: null };
  return { scene: { ...scene, ...rest.scene }, story: rest.story ?? null, verdict: rest.verdict ?? null, ended: null };
}

const CHANGE = { kind: "scale-out", before: 2, executors: 4, phase: "moving", tasks_moved: 3, left_s: 12.3 };

test("figures read as a person writes them", () => {
  assert.equal(bytes(0), "0 B");
  assert.equal(bytes(1_016_708_267), "1.02 GB");
  assert.equal(bytes(75_924_711), "75.9 MB");
  assert.equal(bytes(999_999), "1 MB");
  assert.equal(bytes(null), "?");
  assert.equal(short(8320), "8.32 k");
  assert.equal(whole(1234567), "1\u202f234\u202f567");
  assert.equal(percent(0.624), "62 %");
  assert.equal(duration(0.44), "0.4 s");
  assert.equal(duration(200), "3 min 20 s");
  assert.equal(duration(7500), "2 h 5 min");
  assert.equal(millis(999.6), "1 s");
  assert.equal(aboutSeconds(0.2), "about 1 s");
  assert.equal(clock(94_000), "0:01:34");
});

test("what a change brought stands next to what was predicted", () => {
  const figures = {
    predicted_batch_ms: { a: 2000, gone: 10 }, measured_batch_ms: { a: 2100, unplanned: 7 },
    predicted_busiest: 0.6, measured_busiest: 0.64,
  };
  const rows = [["Batch of a", "2.1 s, predicted 2 s"], ["Busiest executor", "64 %, predicted 60 %"]];
  assert.deepEqual(brought(figures), rows);
  assert.deepEqual(brought({ predicted_busiest: 0.6 }), []);
  const record = { kind: "done", reason: "", figures };
  const told = [{ seq: 1, atMs: 1, record }, { seq: 2, atMs: 2, record: { kind: "hold", reason: "" } }];
  const [held, done] = groupsUpTo(told, 2, { all: true, most: 5 });
  assert.deepEqual(done.brought, rows);
  assert.deepEqual(held.brought, []);
});

test("one sentence tells what goes on", () => {
  assert.equal(sentence({ scene: null }), "Waiting for the first scene.");
  assert.equal(sentence(frame()), "Steady: 3 executors, 62 % busy, within 60–80 %.");
  assert.equal(sentence(frame({ marks: null })), "Steady: 3 executors, 62 % busy.");
  assert.match(sentence(frame({ utilisation: null })), /not known yet/);
  assert.match(sentence(frame({ mode: "let go" })), /^Let go/);
  const moving = frame({}, { scene: { change: CHANGE }, story: { tasks: 9 } });
  assert.equal(sentence(moving), "Scaling out from 2 to 4: moving state, 3 of 9 partitions there, about 12 s left.");
});

test("what is held back is said, with why", () => {
  const verdict = { kind: "hold", executors: 3, figures: { wanted: 5 }, reason: "cooling down, 4 s left; scale-out to 5 wanted" };
  assert.equal(
    sentence(frame({ utilisation: 0.9 }, { verdict })),
    "Holding back a scale-out to 5: 3 executors, 90 % busy, above 80 %; cooling down, 4 s left.",
  );
});

test("advice stands until all is well again", () => {
  const advice = { kind: "advise", reason: "would scale-out from 3 to 5 executors: utilisation 0.90" };
  const told = { ...frame({ mode: "advises", utilisation: 0.9 }), advice };
  assert.equal(sentence(told), "Advises: would scale-out from 3 to 5 executors. Now 3 executors, 90 % busy, above 80 %.");
});

test("the badge tells whether it acts", () => {
  assert.equal(modeBadge(frame()).text, "acts");
  assert.equal(modeBadge(frame({ mode: "advises" })).text, "advises only");
  assert.equal(modeBadge(frame({ cooldown_until_ms: 12_500 })).text, "cools down 3 s");
  assert.equal(modeBadge(frame({ cooldown_until_ms: 9_000 })).text, "acts");
  assert.equal(modeBadge(frame({ mode: "let go", cooldown_until_ms: 12_500 })).text, "let go");
});

test("cost is held against the full cluster", () => {
  const spent = cost(frame({ attached_ms: 0, executor_s: 30, spare_executor_s: 3 }));
  assert.deepEqual(spent, { used: 30, spares: 3, full: 60, saved: 0.5, most: 6 });
  assert.equal(cost(frame({ attached_ms: null })), null);
});

test("what says the same is folded together", () => {
  const hold = (seq, wanted) => ({ seq, atMs: seq, record: { kind: "hold", reason: wanted ? `r${seq}; scale-out to ${wanted} wanted` : `r${seq}`, executors: 3, query: "q", figures: wanted ? { wanted } : {} } });
  const told = [hold(0), hold(1), hold(2, 4), hold(3, 4), hold(4), { seq: 5, atMs: 5, record: { kind: "scale-out", reason: "out", figures: {} } }];
  const all = groupsUpTo(told, 5, { all: true, most: 9 });
  assert.deepEqual(all.map(({ kind, count, wanted }) => [kind, count, wanted]), [
    ["scale-out", 1, null], ["hold", 1, null], ["hold", 2, "scale-out to 4"], ["hold", 2, null],
  ]);
  assert.deepEqual(groupsUpTo(told, 9, { all: false, most: 9 }).map(({ weight }) => weight), ["news", "held"]);
  assert.deepEqual(groupsUpTo(told, 3, { all: true, most: 1 }).map(({ reason, key }) => [reason, key]), [["r3; scale-out to 4 wanted", 2]]);
});

test("bricks have the area of their state and stay in their column", () => {
  const column = { x: 10, y: 20, w: 100, h: 80 };
  const sizes = [5, 40, 13, 13, 90, 2, 60];
  const columns = new Map([["q", { x: 0, w: column.w }]]);
  const held = new Map([["0", new Map([["q", sizes.map((size) => ({ bytes: size }))]])]]);
  const scale = brickScale(held, columns, column.h);
  const bricks = wall(sizes.map((size, at) => ({ key: String(at), area: size * scale })), column);
  for (const [key, { x, y, w, h }] of bricks) {
    assert.ok(Math.abs(w * h - sizes[key] * scale) < 1e-6);
    assert.ok(x >= 10 - 1e-9 && x + w <= 110 + 1e-9 && y >= 20 - 1e-9 && y + h <= 100 + 1e-9);
  }
  assert.equal(bricks.size, sizes.length);
});

test("columns and boxes fit", () => {
  const columns = queryColumns(new Map([["a", 1000], ["b", 1], ["c", 0]]), 90);
  const { x, w } = [...columns.values()].at(-1);
  assert.ok(Math.abs(x + w - 90) < 1e-9);
  for (const count of [1, 2, 6, 47, 100]) {
    for (const width of [340, 900]) {
      const { boxes } = boxGrid(width, count);
      assert.equal(boxes.length, count);
      for (const box of boxes) assert.ok(box.x + box.w <= width + 1e-6);
    }
  }
  assert.equal(slotCount(3, 6), 6);
  assert.equal(slotCount(3, 300), 12);
  assert.equal(slotCount(7, 6), 7);
});
