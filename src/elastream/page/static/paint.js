/** How the map looks: boxes, bars, bricks, copies and what is about to move. */
import { partsOf } from "./layout.js";
import { loads, theme } from "./theme.js";
import { busyLimit } from "./tips.js";
import { percent } from "./words.js";

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
const LABEL_SIZE = 10.5;
const MANY_ARROWS = 48;

/**
 * @param {CanvasRenderingContext2D} context
 * @param {import("./map.js").StateMap} map
 */
export function picture(context, map) {
  freeSlots(context, map);
  const scale = barScale(map);
  for (const box of map.boxes.values()) executorBox(context, map, box, scale);
  restingBricks(context, map);
  for (const box of map.boxes.values()) copyMarks(context, map, box);
  headings(context, map);
  movers(context, map);
  pointedThing(context, map);
}

/** Boxes that could be in use and are not. */
function freeSlots(context, { grid, slots }) {
  const taken = new Set(slots.values());
  context.setLineDash([3, 4]);
  context.lineWidth = 1;
  context.strokeStyle = theme.line;
  context.fillStyle = theme.soft;
  grid.boxes.forEach((rect, at) => {
    if (taken.has(at)) return;
    context.beginPath();
    context.roundRect(rect.x + 0.5, rect.y + 0.5, rect.w - 1, rect.h - 1, 8);
    context.stroke();
    if (grid.small) return;
    text(context, "not in use", rect.x + rect.w / 2, rect.y + rect.h / 2, 12, "center", theme.faint);
  });
  context.setLineDash([]);
}

/** What the bars of all executors measure against. */
function barScale({ scene }) {
  const { marks } = scene.loop;
  const limit = busyLimit(scene);
  const busiest = Math.max(0, ...[...scene.executors.values()].map((each) => each.busy ?? 0));
  const end = Math.ceil(Math.max(1, busiest, limit ?? 0) * 4) / 4;
  return { marks, limit, end };
}

function executorBox(context, map, box, scale) {
  const { rect, inside, executor } = box;
  const { small } = map.grid;
  context.fillStyle = theme.sunken;
  context.beginPath();
  context.roundRect(rect.x, rect.y, rect.w, rect.h, small ? 5 : 8);
  context.fill();
  const { head } = inside;
  const size = small ? 10 : 12.5;
  const over = scale.marks && executor.busy !== null && executor.busy > scale.marks.high;
  boxHead(context, box, { size, small, over });
  const place = { x: head.x, y: head.y + size + (small ? 2 : 6), w: head.w, h: small ? 4 : 9 };
  bar(context, place, executor, { ...scale, over });
  if (!small) queryLabels(context, map, box);
}

/** Its name, what it is, and how busy. */
function boxHead(context, { inside: { head }, executor, name }, { size, small, over }) {
  const y = head.y + size / 2;
  const state = executor.spare ? "spare" : executor.warm ? "" : "warming up";
  const busy = executor.busy === null ? "?" : percent(executor.busy);
  const shown = small && state ? state.slice(0, 5) : busy;
  text(context, shown, head.x + head.w, y, size, "right", over ? theme.warn : theme.ink, over ? 700 : 500);
  const room = head.w - context.measureText(shown).width - 6;
  const label = fitted(context, small ? name : `executor ${name}`, room, size, 600);
  text(context, label, head.x, y, size, "left", theme.ink, 600);
  if (small) return;
  const from = context.measureText(label).width + 8;
  const what = fitted(context, state || executor.host, room - from);
  text(context, what, head.x + from, y, 11.5, "left", theme.soft);
}

/** Utilisation, with the band that the goal keeps and the limit that a plan keeps. */
function bar(context, { x, y, w, h }, { busy }, { marks, limit, end, over }) {
  const at = (share) => x + (w * Math.min(share, end)) / end;
  context.fillStyle = theme.line;
  context.fillRect(x, y, w, h);
  if (marks) {
    context.fillStyle = theme.good;
    context.globalAlpha = 0.38;
    context.fillRect(at(marks.low), y - 1, at(marks.high) - at(marks.low), h + 2);
    context.globalAlpha = 1;
  }
  context.fillStyle = over ? theme.warn : theme.blue;
  context.fillRect(x, y + (h > 5 ? 2.5 : 1), at(busy ?? 0) - x, h - (h > 5 ? 5 : 2));
  if (limit === null) return;
  context.fillStyle = theme.ink;
  context.fillRect(at(limit) - 0.75, y - 2, 1.5, h + 4);
}

/** Whether every column is wide enough for the name of its query. */
export function namesFit(context, columns) {
  context.font = `400 ${LABEL_SIZE}px ${FONT}`;
  return [...columns].every(([name, { w }]) => context.measureText(name).width <= w);
}

/** Below each column the name of its query, or its number where there is no room. */
function queryLabels(context, { columns, query, numbered }, { inside }) {
  const { bricks, copies } = inside;
  let number = 0;
  for (const [name, { x, w }] of columns) {
    number += 1;
    const ink = query && query !== name ? theme.faint : theme.soft;
    const label = numbered ? String(number) : name;
    text(context, label, bricks.x + x, copies.y + copies.h - 2, LABEL_SIZE, "left", ink);
    context.fillStyle = theme.line;
    context.fillRect(bricks.x + x, bricks.y + bricks.h + 1, w, 1);
  }
}

/** Bricks that are where they belong, by colour so that there is one fill for each. */
function restingBricks(context, map) {
  const shades = new Map();
  for (const cell of map.cells.values()) {
    if (cell.aloft) continue;
    const dim = map.query !== null && cell.query !== map.query;
    const shade = dim ? -1 - cell.shade : cell.shade;
    if (!shades.has(shade)) shades.set(shade, []);
    shades.get(shade).push(cell);
  }
  for (const [shade, cells] of shades) {
    context.globalAlpha = shade < 0 ? 0.2 : 1;
    context.fillStyle = loads.fills[shade < 0 ? -1 - shade : shade];
    context.beginPath();
    for (const { at } of cells) brickPath(context, at, map.grid.small);
    context.fill();
    if (!map.grid.small) numbers(context, cells, shade < 0 ? -1 - shade : shade);
  }
  context.globalAlpha = 1;
}

function brickPath(context, { x, y, w, h }, small) {
  const gap = small ? 0.5 : 1;
  const [wide, high] = [Math.max(w - gap, 0.4), Math.max(h - gap, 0.4)];
  if (small || wide < 5 || high < 5) context.rect(x, y, wide, high);
  else context.roundRect(x, y, wide, high, 2.5);
}

function numbers(context, cells, shade) {
  for (const { key, at } of cells) {
    if (at.w < 24 || at.h < 16) continue;
    const ink = loads.inks[shade];
    text(context, partsOf(key).partition, at.x + at.w / 2 - 0.5, at.y + at.h / 2, 10, "center", ink);
  }
}

/** Hollow marks on the executor that holds the copies. */
function copyMarks(context, { grid, cells, query }, { inside, copies }) {
  if (!copies.length) return;
  const { pitch, size, x, y } = copyPlace(inside, copies.length, grid.small);
  context.strokeStyle = theme.soft;
  context.lineWidth = 1;
  context.beginPath();
  copies.forEach((key, at) => {
    if (query && cells.get(key)?.query !== query) return;
    context.rect(x + at * pitch + 0.5, y + 0.5, size, size);
  });
  context.stroke();
}

/** One row, narrower the more there are. */
function copyPlace({ copies: room }, count, small) {
  const pitch = Math.min(small ? 6 : 8, room.w / count);
  const size = Math.max(1, Math.min(small ? 4 : 5, pitch - 2));
  return { pitch, size, x: room.x, y: room.y + (small ? 3 : -1) };
}

/** What is about to move: an outline, an arrow to where it is headed, how many an executor gets. */
function headings(context, map) {
  const headed = [...map.cells.values()].filter((cell) => cell.task.heading !== null && !cell.aloft);
  if (!headed.length) return;
  context.strokeStyle = theme.orange;
  context.setLineDash([3, 2]);
  context.lineWidth = map.grid.small ? 1.25 : 2;
  context.beginPath();
  for (const { at } of headed) context.rect(at.x + 1, at.y + 1, Math.max(at.w - 3, 1), Math.max(at.h - 3, 1));
  context.stroke();
  context.setLineDash([]);
  context.lineWidth = 1.25;
  context.fillStyle = theme.orange;
  context.globalAlpha = 0.75;
  for (const cell of arrowed(map, headed)) arrow(context, cell, map.boxes.get(cell.task.heading));
  context.globalAlpha = 1;
  comers(context, map, headed);
}

/** Of many arrows only those that have to do with what is pointed at. */
function arrowed({ pointed }, headed) {
  if (headed.length <= MANY_ARROWS) return headed;
  const { key, executor } = pointed ?? {};
  return headed.filter((cell) => cell.key === key
    || (executor && (cell.task.executor === executor || cell.task.heading === executor)));
}

function comers(context, { boxes, grid }, headed) {
  const counts = new Map();
  for (const { task } of headed) counts.set(task.heading, (counts.get(task.heading) ?? 0) + 1);
  for (const [name, count] of counts) {
    const box = boxes.get(name);
    if (!box) continue;
    const { bricks } = box.inside;
    const words = grid.small ? `+${count}` : `+${count} to come`;
    const size = grid.small ? 10 : 12;
    text(context, words, bricks.x + bricks.w, bricks.y + size / 2 + 1, size, "right", theme.warn, 650);
  }
}

function arrow(context, { at, key }, box) {
  if (!box) return;
  const { bricks } = box.inside;
  const from = { x: at.x + at.w / 2, y: at.y + at.h / 2 };
  const share = 0.25 + 0.5 * ((Number(partsOf(key).partition) * 0.618) % 1);
  const to = { x: bricks.x + bricks.w * share, y: bricks.y + bricks.h * 0.3 };
  const lift = Math.min(40, Math.abs(to.x - from.x) / 5);
  const bend = { x: (from.x + to.x) / 2, y: Math.min(from.y, to.y) - lift };
  context.beginPath();
  context.moveTo(from.x, from.y);
  context.quadraticCurveTo(bend.x, bend.y, to.x, to.y);
  context.stroke();
  const angle = Math.atan2(to.y - bend.y, to.x - bend.x);
  context.beginPath();
  for (const turn of [0, 2.6, -2.6]) {
    context.lineTo(to.x + 5 * Math.cos(angle + turn), to.y + 5 * Math.sin(angle + turn));
  }
  context.fill();
}

/** Bricks on their way, and those that have just come. */
function movers(context, map) {
  for (const { at, shade, aloft, glow } of map.cells.values()) {
    if (!aloft && !glow) continue;
    if (aloft) {
      context.fillStyle = loads.fills[shade];
      context.beginPath();
      brickPath(context, at, map.grid.small);
      context.fill();
    }
    context.globalAlpha = aloft ? 1 : glow;
    context.strokeStyle = theme.orange;
    context.lineWidth = map.grid.small ? 1 : 2;
    context.strokeRect(at.x + 0.5, at.y + 0.5, Math.max(at.w - 2, 1), Math.max(at.h - 2, 1));
    context.globalAlpha = 1;
  }
}

function pointedThing(context, map) {
  const cell = map.pointed?.key && map.cells.get(map.pointed.key);
  const box = map.pointed?.executor && map.boxes.get(map.pointed.executor);
  context.strokeStyle = theme.ink;
  context.lineWidth = 2;
  if (box) {
    context.beginPath();
    context.roundRect(box.rect.x + 1, box.rect.y + 1, box.rect.w - 2, box.rect.h - 2, 7);
    context.stroke();
  }
  if (!cell) return;
  context.strokeRect(cell.at.x, cell.at.y, cell.at.w - 1, cell.at.h - 1);
  const holder = map.boxes.get(cell.task.standby);
  if (!holder) return;
  const index = holder.copies.indexOf(cell.key);
  const { pitch, size, x, y } = copyPlace(holder.inside, holder.copies.length, map.grid.small);
  context.fillStyle = theme.ink;
  context.fillRect(x + index * pitch - 1, y - 1, size + 3, size + 3);
}

function text(context, words, x, y, size, align, ink, weight = 400) {
  context.font = `${weight} ${size}px ${FONT}`;
  context.textAlign = align;
  context.textBaseline = "middle";
  context.fillStyle = ink;
  context.fillText(words, x, y);
}

/** The words, cut where there is no room for all. */
function fitted(context, words, room, size = 11.5, weight = 400) {
  context.font = `${weight} ${size}px ${FONT}`;
  if (context.measureText(words).width <= room) return words;
  for (let length = words.length - 1; length > 0; length--) {
    const cut = `${words.slice(0, length)}…`;
    if (context.measureText(cut).width <= room) return cut;
  }
  return "";
}
