/**
 * Where things are drawn on the map. Pure.
 *
 * Every executor has a box of the same size. In it every query has a column, the same in all boxes,
 * and in its column every partition is a brick whose area is the size of its state. So a column
 * rises like a gauge, and boxes can be compared at a glance.
 *
 * @typedef {{x: number, y: number, w: number, h: number}} Rect
 */
import { taskParts } from "./scenes.js";

const GAP = 10;
const SMALL_GAP = 5;
/** Boxes narrower than this have room for a name and a figure only. */
const SMALL = 130;
const COLUMN_GAP = 3;
const LEAST_COLUMN_SHARE = 0.12;

/**
 * Boxes for `count` executors on a map of a given width.
 *
 * @param {number} width
 * @param {number} count
 * @returns {{boxes: Rect[], height: number, small: boolean}}
 */
export function boxGrid(width, count) {
  const wide = width > 600;
  const tallest = wide ? 250 : 190;
  const wanted = wide && count <= 40 ? 620 : 700;
  let best = null;
  for (let columns = 1; columns <= count; columns++) {
    const grid = gridOf(width, count, columns, tallest);
    if (columns > 1 && grid.w < 58) break;
    best = grid;
    const ratio = grid.w / grid.h;
    if (grid.height <= wanted && ratio <= 1.6) break;
  }
  const { columns, gap, w, h, height } = best;
  const boxes = Array.from({ length: count }, (_, at) => ({
    x: (at % columns) * (w + gap),
    y: Math.floor(at / columns) * (h + gap),
    w,
    h,
  }));
  return { boxes, height, small: w < SMALL };
}

function gridOf(width, count, columns, tallest) {
  const gap = width / columns < 140 ? SMALL_GAP : GAP;
  const w = (width - gap * (columns - 1)) / columns;
  const h = Math.max(72, Math.min(tallest, w * (w < SMALL ? 1.05 : 0.82)));
  const rows = Math.ceil(count / columns);
  return { columns, gap, w, h, height: rows * (h + gap) - gap };
}

/**
 * How many boxes to draw: with those not in use beside, unless they would be nearly all.
 *
 * @param {number} alive
 * @param {number} most
 */
export function slotCount(alive, most) {
  return Math.max(alive, Math.min(most || 0, Math.max(12, 4 * alive)));
}

/** What is inside a box. @param {Rect} box @param {boolean} small */
export function insideOf(box, small) {
  const pad = small ? 5 : 10;
  const head = small ? 24 : 42;
  const copies = small ? 9 : 18;
  const inner = { x: box.x + pad, w: box.w - 2 * pad };
  return {
    head: { ...inner, y: box.y + pad, h: head - pad },
    bricks: { ...inner, y: box.y + head + 2, h: box.h - head - copies - pad - 2 },
    copies: { ...inner, y: box.y + box.h - copies - pad / 2, h: copies },
  };
}

/**
 * Tasks by executor and query, in the order of operators and partitions.
 *
 * @param {import("./scenes.js").Scene} scene
 * @returns {Map<string, Map<string, {key: string, bytes: number}[]>>}
 */
export function gathered(scene) {
  const held = new Map([...scene.executors.keys()].map((name) => [name, new Map()]));
  for (const [key, task] of scene.tasks) {
    const queries = held.get(task.executor);
    if (!queries) continue;
    const { query } = partsOf(key);
    if (!queries.has(query)) queries.set(query, []);
    queries.get(query).push({ key, bytes: Math.max(task.bytes, 1) });
  }
  for (const queries of held.values()) {
    for (const tasks of queries.values()) tasks.sort((a, b) => inOrder(a.key, b.key));
  }
  return held;
}

/**
 * Columns of the queries in a width: as wide as their state is large, none too narrow to be seen.
 *
 * @param {Map<string, number>} sizes bytes by query
 * @param {number} width
 * @returns {Map<string, {x: number, w: number}>}
 */
export function queryColumns(sizes, width) {
  const all = [...sizes.values()].reduce((sum, size) => sum + size, 0) || 1;
  const shares = [...sizes.values()].map((size) => Math.max(size / all, LEAST_COLUMN_SHARE));
  const sum = shares.reduce((total, share) => total + share, 0);
  const room = width - COLUMN_GAP * (sizes.size - 1);
  const columns = new Map();
  let x = 0;
  [...sizes.keys()].forEach((query, at) => {
    const w = Math.max(2, (room * shares[at]) / sum);
    columns.set(query, { x, w });
    x += w + COLUMN_GAP;
  });
  return columns;
}

/**
 * Bricks in the order given, in rows from the ground up, as square as the order allows. The row on
 * top need not reach all across.
 *
 * @param {{key: string, area: number}[]} items
 * @param {Rect} column `y + h` is the ground
 * @returns {Map<string, Rect>}
 */
export function wall(items, column) {
  const bricks = new Map();
  let ground = column.y + column.h;
  for (let at = 0; at < items.length; ) {
    const row = [];
    let area = 0;
    let skew = Infinity;
    while (at < items.length) {
      const grown = area + items[at].area;
      const next = meanSkew([...row, items[at]], grown / column.w);
      if (next > skew) break;
      row.push(items[at]);
      area = grown;
      skew = next;
      at += 1;
    }
    const tight = area / column.w;
    const square = Math.sqrt(area / row.length);
    const h = at === items.length ? Math.max(tight, Math.min(square, ground - column.y)) : tight;
    ground -= h;
    layRow(bricks, row, { x: column.x, y: ground, h });
  }
  return bricks;
}

/** How far bricks of a row are from squares, on average; 1 for squares. */
function meanSkew(row, h) {
  let sum = 0;
  for (const { area } of row) {
    const w = area / h;
    sum += Math.max(w / h, h / w);
  }
  return sum / row.length;
}

function layRow(bricks, row, { x, y, h }) {
  for (const { key, area } of row) {
    const w = area / h;
    bricks.set(key, { x, y, w, h });
    x += w;
  }
}

/** Square pixels for a byte, so that the tallest column just fits. */
export function brickScale(held, columns, height) {
  let scale = Infinity;
  for (const queries of held.values()) {
    for (const [query, tasks] of queries) {
      const bytes = tasks.reduce((sum, task) => sum + task.bytes, 0);
      scale = Math.min(scale, (height * (columns.get(query)?.w ?? 1)) / bytes);
    }
  }
  return scale === Infinity ? 0 : scale;
}

const parts = new Map();

/** As `taskParts`, remembered. @param {string} key */
export function partsOf(key) {
  let known = parts.get(key);
  if (!known) {
    if (parts.size > 50_000) parts.clear();
    known = taskParts(key);
    parts.set(key, known);
  }
  return known;
}

function inOrder(a, b) {
  const one = partsOf(a);
  const other = partsOf(b);
  return one.operator - other.operator || one.partition - other.partition;
}
