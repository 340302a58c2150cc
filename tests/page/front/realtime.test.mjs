// Run with: node --test tests/page/front/*.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";

import { realtimeLanes } from "../../../src/elastream/page/static/realtime.js";

const EXECUTORS = new Map([["0", { slots: 10 }], ["1", { slots: 10 }]]);

function lanes(query, others = []) {
  const queries = new Map([["counts", { slots: 6, trigger_ms: 5000, batch: 7, ...query }], ...others]);
  return realtimeLanes({ atMs: 100_000, executors: EXECUTORS, queries });
}

test("a query in micro-batches has no lane", () => {
  assert.deepEqual(lanes({ slots: 0 }), []);
  assert.deepEqual(realtimeLanes(null), []);
});

test("a lane shows how far the batch is, the last gap, latency and slots", () => {
  assert.deepEqual(lanes({ ends_at_ms: 104_000, gap_ms: 912.4, latency_ms: 8.2 }), [{
    name: "counts",
    batch: "batch 8",
    share: 1 - 4000 / 5000,
    boundary: "boundary in about 4 s",
    facts: [
      ["Latency", "8 ms"],
      ["Last boundary", "a gap of 912 ms"],
      ["Slots", "needs 6 slots, 14 are free"],
    ],
  }]);
});

test("what was not seen is named", () => {
  const [lane] = lanes({ batch: null, ends_at_ms: null });
  assert.deepEqual([lane.batch, lane.boundary], ["first batch", "at a boundary"]);
  assert.deepEqual(lane.facts.slice(0, 2).map(([, words]) => words), ["not measured", "none seen"]);
});

test("a batch whose sources have stopped is at its boundary", () => {
  const [lane] = lanes({ ends_at_ms: 99_000 });
  assert.deepEqual([lane.share, lane.boundary], [1, "at a boundary"]);
});

test("slots that all such queries together lack are missing", () => {
  const [lane] = lanes({}, [["more", { slots: 16 }]]);
  assert.deepEqual(lane.facts[2], ["Slots", "needs 6 slots, 2 are missing"]);
});
