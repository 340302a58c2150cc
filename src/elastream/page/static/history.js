/**
 * The log as far as it is kept, and how it was at any of its records. Pure.
 *
 * Records are numbered in the order they came. Every so often the whole frame is kept, so that any
 * moment is a few records away from one; the oldest records are dropped into a base frame.
 */
import { Series } from "./series.js";
import { advance, copyFrame, newFrame } from "./story.js";

const KEPT_RECORDS = 20_000;
const KEPT_CHARACTERS = 48e6;
const DROPPED_AT_ONCE = 1_000;
const FRAME_EVERY = 100;

const BEGINNINGS = new Set(["scale-out", "scale-in", "rebalance", "move"]);
const ENDS = new Set(["done", "abandon"]);
const QUIET = new Set(["hold", "wait"]);
/** Decisions that are kept beyond their records. */
const KEPT_OLDER = 500;

/** @typedef {{seq: number, atMs: number, record: object}} Told a decision and its number */
/** @typedef {{kind: string, fromMs: number, toMs: ?number}} Span a change, or a loss */

export class History {
  constructor({ records = KEPT_RECORDS, characters = KEPT_CHARACTERS, every = FRAME_EVERY } = {}) {
    this.limits = { records, characters };
    this.every = every;
    this.clear();
  }

  clear() {
    /** How many came, those dropped and those ignored included. */
    this.taken = 0;
    /** Number of the first record that is kept. */
    this.first = 0;
    this.characters = 0;
    /** @type {{record: object, atMs: ?number, size: number}[]} */
    this.kept = [];
    this.head = newFrame();
    /** @type {{seq: number, frame: object}[]} frames as they were *before* the record of `seq` */
    this.frames = [{ seq: 0, frame: newFrame() }];
    this.cursor = null;
    /** @type {Told[]} */
    this.decisions = [];
    /** @type {Span[]} */
    this.spans = [];
    this.series = new Series();
  }

  /** Number behind the last record. */
  get end() {
    return this.first + this.kept.length;
  }

  get startMs() {
    return this.kept[0]?.atMs ?? 0;
  }

  get endMs() {
    return this.kept.at(-1)?.atMs ?? 0;
  }

  /**
   * @param {object} record
   * @param {number} size of its line, in characters
   * @throws {TypeError} where it is no record; nothing is changed then
   */
  push(record, size = 0) {
    check(record);
    this.taken += 1;
    if (record.kind === "sample") return;
    advance(this.head, record);
    const seq = this.end;
    const atMs = this.#timeFor(record.at_ms ?? null);
    this.kept.push({ record, atMs, size });
    this.characters += size;
    if (record.kind === "scene") this.#noteFigures(atMs);
    else this.#noteDecision({ seq, atMs, record });
    if (this.end % this.every === 0) {
      this.frames.push({ seq: this.end, frame: copyFrame(this.head) });
    }
    this.#dropOldest();
  }

  /**
   * How it was after the record of number `seq`. The frame is good until the next call.
   *
   * @param {number} seq
   * @returns {import("./story.js").Frame}
   */
  frameAt(seq) {
    if (seq >= this.end - 1) return this.head;
    const key = this.frames[lastAtMost(this.frames, seq + 1, (each) => each.seq)];
    const near = this.cursor && this.cursor.next <= seq + 1 && this.cursor.next >= key.seq;
    if (!near) this.cursor = { next: key.seq, frame: copyFrame(key.frame) };
    const { cursor } = this;
    for (; cursor.next <= seq; cursor.next++) {
      advance(cursor.frame, this.kept[cursor.next - this.first].record);
    }
    return cursor.frame;
  }

  /** @param {number} atMs @returns {number} number of the last record until then */
  seqAt(atMs) {
    const at = lastAtMost(this.kept, atMs, (each) => each.atMs);
    return this.first + Math.max(at, 0);
  }

  /** @param {number} seq @returns {number} */
  timeOf(seq) {
    return this.kept[seq - this.first]?.atMs ?? this.endMs;
  }

  /** When the scene before or after the one at `seq` was. @param {number} seq @param {1|-1} way */
  stepFrom(seq, way) {
    const from = this.timeOf(seq);
    for (let at = seq - this.first; at >= 0 && at < this.kept.length; at += way) {
      const { record, atMs } = this.kept[at];
      if (record.kind === "scene" && (atMs - from) * way > 0) return atMs;
    }
    return way > 0 ? this.endMs : this.startMs;
  }

  /** Times never run back, so that they can be searched; before the first is known, all have it. */
  #timeFor(told) {
    const before = this.kept.at(-1)?.atMs ?? null;
    if (told === null || before === null) {
      if (told !== null) for (const each of [...this.kept, ...this.decisions]) each.atMs = told;
      return told ?? before;
    }
    return Math.max(told, before);
  }

  #noteFigures(atMs) {
    const { scene } = this.head;
    if (!scene) return;
    const queries = [...scene.queries.values()];
    this.series.add(atMs, {
      executors: scene.executors.size,
      utilisation: scene.loop.utilisation,
      arrivals: sumOfKnown(queries, "arrivals_per_s"),
      rows: sumOfKnown(queries, "rows_per_s"),
    });
    this.series.add(atMs, { backlog: sumOfKnown(queries, "backlog") }, "max");
    for (const { query, ms } of scene.batches) {
      this.series.add(atMs, { [`batch ${query}`]: ms }, "max");
    }
  }

  #noteDecision(told) {
    this.decisions.push(told);
    const { kind } = told.record;
    if (BEGINNINGS.has(kind)) this.spans.push({ kind, fromMs: told.atMs, toMs: null });
    if (kind === "lost") this.spans.push({ kind, fromMs: told.atMs, toMs: told.atMs });
    if (ENDS.has(kind)) {
      const open = this.spans.findLast((span) => span.toMs === null);
      if (open) open.toMs = told.atMs;
    }
  }

  /** Those of dropped records too, as far as they were more than to hold or to wait. */
  #decisionsSince(seq) {
    const from = this.decisions.findIndex((each) => each.seq >= seq);
    const older = from < 0 ? this.decisions : this.decisions.slice(0, from);
    const lasting = older.filter(({ record }) => !QUIET.has(record.kind)).slice(-KEPT_OLDER);
    return from < 0 ? lasting : [...lasting, ...this.decisions.slice(from)];
  }

  #dropOldest() {
    const { records, characters } = this.limits;
    if (this.kept.length <= records + DROPPED_AT_ONCE && this.characters <= characters) return;
    const count = Math.min(DROPPED_AT_ONCE, Math.floor(this.kept.length / 2));
    if (count === 0) return;
    const seq = this.first + count;
    const base = { seq, frame: copyFrame(this.frameAt(seq - 1)) };
    for (const { size } of this.kept.splice(0, count)) this.characters -= size;
    this.first = seq;
    this.cursor = null;
    this.frames = [base, ...this.frames.filter((each) => each.seq > seq)];
    this.decisions = this.#decisionsSince(seq);
    this.spans = this.spans.filter((span) => (span.toMs ?? Infinity) >= this.startMs);
  }
}

function check({ kind, at_ms: atMs, reason, figures }) {
  const told = kind === "scene" || kind === "sample" || (typeof reason === "string" && figures);
  if (!told || !(atMs === null || atMs >= 0)) throw new TypeError("not a record of a decision log");
}

/** @returns {number} index of the last entry whose key is at most `value`, -1 where there is none */
export function lastAtMost(entries, value, keyOf) {
  let low = 0;
  let high = entries.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (keyOf(entries[middle]) <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** @returns {?number} null where no entry knows the member */
export function sumOfKnown(entries, member) {
  const known = entries.map((each) => each[member]).filter((value) => value != null);
  return known.length ? known.reduce((sum, value) => sum + value, 0) : null;
}
