/** The map of partitions on executors: what is where, drawn on a canvas, moves as they happen. */
import { byId, onceAFrame, setText } from "./dom.js";
import {
  boxGrid, brickScale, gathered, insideOf, partsOf, queryColumns, slotCount, wall,
} from "./layout.js";
import * as paint from "./paint.js";
import { loads, onTheme } from "./theme.js";
import { executorTip, taskTip } from "./tips.js";

const SETTLE_MS = 420;
const FLIGHT_MS = 950;
const STAGGER_MS = 350;
const GLOW_MS = 2_600;
const LEAST_LOAD = 0.001;
const USUAL_SHARE = 0.98;
const ROUND = [1, 1.5, 2, 3, 4, 6, 8, 10];

/**
 * @typedef {import("./layout.js").Rect} Rect
 * @typedef {object} Cell a brick, where it is drawn and where it is bound for
 * @property {string} key
 * @property {string} query
 * @property {import("./scenes.js").Task} task
 * @property {Rect} from
 * @property {Rect} to
 * @property {Rect} at
 * @property {number} beginMs
 * @property {number} spanMs
 * @property {boolean} flying from one executor to another
 * @property {number} shade index of its colour
 *
 * @typedef {object} Box an executor
 * @property {string} name
 * @property {import("./scenes.js").Executor} executor
 * @property {Rect} rect
 * @property {{head: Rect, bricks: Rect, copies: Rect}} inside
 * @property {string[]} keys of the tasks it holds, in order
 * @property {string[]} copies of whose state it holds a copy
 */

export class StateMap {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    /** @type {Map<string, Cell>} */
    this.cells = new Map();
    /** @type {Map<string, Box>} */
    this.boxes = new Map();
    /** @type {Map<string, number>} place of each executor, kept while it lives */
    this.slots = new Map();
    this.grid = { boxes: [], height: 0, small: false };
    this.scene = null;
    /** Whether columns bear the numbers of their queries, for want of room for names. */
    this.numbered = false;
    this.query = null;
    this.pointed = null;
    this.width = 0;
    this.frames = { count: 0, ms: 0, most: 0 };
    window.elastreamFrames = this.frames;
    this.redraw = onceAFrame((now) => this.#frame(now));
    new ResizeObserver(() => this.#resize()).observe(canvas.parentElement);
    onTheme(() => this.redraw());
    this.#listen();
  }

  /**
   * @param {import("./scenes.js").Scene} scene
   * @param {boolean} jumped in time, so that differences are no moves
   */
  show(scene, jumped = false) {
    this.scene = scene;
    this.#place(jumped);
    this.#tell();
    this.redraw();
  }

  /** Nothing is known any longer. */
  clear() {
    this.scene = null;
    this.cells.clear();
    this.boxes.clear();
    this.slots.clear();
    this.grid = { boxes: [], height: 0, small: false };
    this.#point(null);
    this.redraw();
  }

  /** Show one query and let the others step back. @param {?string} query */
  choose(query) {
    this.query = query;
    this.redraw();
  }

  // Placing

  #place(jumped) {
    if (!this.scene || !this.width) return;
    const { executors, loop } = this.scene;
    if (jumped) this.slots.clear();
    this.#assignSlots([...executors.keys()]);
    const highest = Math.max(-1, ...this.slots.values());
    const count = Math.max(slotCount(executors.size, loop.most), highest + 1);
    this.grid = boxGrid(this.width, count);
    this.#sizeCanvas();
    this.#placeBoxes();
    this.#placeBricks(jumped);
  }

  #assignSlots(names) {
    const alive = new Set(names);
    for (const name of this.slots.keys()) if (!alive.has(name)) this.slots.delete(name);
    const taken = new Set(this.slots.values());
    let free = 0;
    for (const name of names) {
      if (this.slots.has(name)) continue;
      while (taken.has(free)) free += 1;
      this.slots.set(name, free);
      taken.add(free);
    }
  }

  #placeBoxes() {
    this.boxes.clear();
    for (const [name, executor] of this.scene.executors) {
      const rect = this.grid.boxes[this.slots.get(name)];
      const inside = insideOf(rect, this.grid.small);
      this.boxes.set(name, { name, executor, rect, inside, keys: [], copies: [] });
    }
    for (const [key, { standby }] of this.scene.tasks) this.boxes.get(standby)?.copies.push(key);
  }

  #placeBricks(jumped) {
    const held = gathered(this.scene);
    const inner = this.boxes.values().next().value?.inside.bricks ?? { w: 1, h: 1 };
    this.columns = queryColumns(this.#querySizes(), inner.w);
    this.numbered = !this.grid.small && !paint.namesFit(this.context, this.columns);
    const scale = brickScale(held, this.columns, inner.h);
    this.#scaleLoads();
    const placed = new Set();
    for (const [name, queries] of held) {
      const box = this.boxes.get(name);
      for (const [query, { x, w }] of this.columns) {
        const items = (queries.get(query) ?? []).map(({ key, bytes }) => ({ key, area: bytes * scale }));
        const column = { x: box.inside.bricks.x + x, y: box.inside.bricks.y, w, h: inner.h };
        for (const [key, rect] of wall(items, column)) {
          this.#bind(key, query, rect, jumped, placed.size);
          box.keys.push(key);
          placed.add(key);
        }
      }
    }
    for (const key of this.cells.keys()) if (!placed.has(key)) this.cells.delete(key);
  }

  /** A few tasks far above all others must not make the others look alike. */
  #scaleLoads() {
    const works = [...this.scene.tasks.values()].map((task) => task.work).sort((a, b) => a - b);
    this.loadMost = roundUp(Math.max(LEAST_LOAD, works[Math.ceil(USUAL_SHARE * (works.length - 1))] ?? 0));
    this.loadBeyond = works.at(-1) > this.loadMost;
  }

  #querySizes() {
    const sizes = new Map([...this.scene.queries.keys()].map((query) => [query, 0]));
    for (const [key, task] of this.scene.tasks) {
      const { query } = partsOf(key);
      sizes.set(query, (sizes.get(query) ?? 0) + task.bytes);
    }
    return sizes;
  }

  /** Send a brick to where it belongs now. */
  #bind(key, query, to, jumped, order) {
    const task = this.scene.tasks.get(key);
    const shade = Math.round(clamp(task.work / this.loadMost) * (loads.fills.length - 1));
    const cell = this.cells.get(key);
    if (!cell) {
      const from = shrunk(to);
      this.cells.set(key, this.#bound({ key, query, from, at: from }, task, to, shade, SETTLE_MS, 0));
      return;
    }
    const flying = !jumped && cell.task.executor !== task.executor;
    if (!flying && sameRect(cell.to, to)) {
      cell.task = task;
      cell.shade = shade;
      return;
    }
    const wait = flying ? (order * 37) % STAGGER_MS : 0;
    const spanMs = flying ? FLIGHT_MS : cell.flying ? this.#leftOf(cell) : SETTLE_MS;
    const stillFlying = flying || (cell.flying && !jumped && this.#leftOf(cell) > -GLOW_MS);
    this.#bound(cell, task, to, shade, spanMs, wait);
    cell.flying = stillFlying;
  }

  #bound(cell, task, to, shade, spanMs, waitMs) {
    return Object.assign(cell, {
      task,
      shade,
      to,
      from: { ...cell.at },
      beginMs: performance.now() + waitMs,
      spanMs: this.still.matches ? 0 : Math.max(spanMs, 120),
      flying: false,
    });
  }

  #leftOf(cell) {
    return cell.beginMs + cell.spanMs - performance.now();
  }

  // Drawing

  #resize() {
    const width = Math.floor(this.canvas.parentElement.clientWidth);
    if (width === this.width) return;
    this.width = width;
    this.#place(true);
    this.redraw();
  }

  #sizeCanvas() {
    const ratio = window.devicePixelRatio || 1;
    const height = Math.ceil(this.grid.height) + 2;
    const [w, h] = [Math.round(this.width * ratio), Math.round(height * ratio)];
    if (this.canvas.width === w && this.canvas.height === h) return;
    this.canvas.width = w;
    this.canvas.height = h;
    this.canvas.style.height = `${height}px`;
    this.ratio = ratio;
  }

  #frame(now) {
    const begun = performance.now();
    const moving = this.#animate(now);
    const { context } = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    if (this.scene) {
      context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
      paint.picture(context, this);
    }
    const ms = performance.now() - begun;
    this.frames.count += 1;
    this.frames.ms += ms;
    this.frames.most = Math.max(this.frames.most, ms);
    if (moving) this.redraw();
  }

  /** Set every brick to where it is now. @returns {boolean} whether anything moves still */
  #animate(now) {
    let moving = false;
    for (const cell of this.cells.values()) {
      const share = cell.spanMs ? clamp((now - cell.beginMs) / cell.spanMs) : 1;
      cell.at = between(cell, eased(share));
      cell.glow = cell.flying ? clamp(1 - (now - cell.beginMs - cell.spanMs) / GLOW_MS) : 0;
      if (cell.flying && cell.glow === 0) cell.flying = false;
      cell.aloft = cell.flying && share < 1;
      moving ||= share < 1 || cell.glow > 0;
    }
    return moving;
  }

  // Telling

  #tell() {
    const more = this.loadBeyond ? " or more" : "";
    const known = this.loadMost > LEAST_LOAD;
    setText(byId("load-most"), known ? `0 to ${this.loadMost}${more} cores of work` : "work not measured yet");
    if (this.pointed) this.#point(this.pointed);
  }

  #listen() {
    const { canvas } = this;
    canvas.addEventListener("pointermove", (event) => this.#point(this.#thingAt(event)));
    canvas.addEventListener("pointerdown", (event) => this.#point(this.#thingAt(event)));
    canvas.addEventListener("pointerleave", () => this.#point(null));
    canvas.addEventListener("blur", () => this.#point(null));
    canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  #thingAt(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - left, event.clientY - top];
    for (const box of this.boxes.values()) {
      if (!within(box.rect, x, y)) continue;
      const key = box.keys.find((each) => within(this.cells.get(each).at, x, y));
      return key ? { key } : { executor: box.name };
    }
    return null;
  }

  /** @param {?{key?: string, executor?: string}} thing that the pointer or the keys are on */
  #point(thing) {
    const cell = thing?.key && this.cells.get(thing.key);
    const box = thing?.executor && this.boxes.get(thing.executor);
    this.pointed = cell || box ? thing : null;
    const tip = byId("tip");
    tip.hidden = !this.pointed;
    if (cell) showTip(tip, taskTip(thing.key, cell.task), cell.to, this.width);
    else if (box) showTip(tip, executorTip(this.scene, box), box.rect, this.width);
    this.redraw();
  }

  #key(event) {
    const next = this.#neighbour(event.key);
    if (next === undefined) return;
    event.preventDefault();
    this.#point(next);
    setText(byId("map-read"), next ? byId("tip").innerText.replace(/\n+/g, ", ") : "");
  }

  /** @returns {?{key?: string, executor?: string}|undefined} undefined for other keys */
  #neighbour(name) {
    if (name === "Escape") return null;
    const way = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[name];
    if (!way || !this.boxes.size) return undefined;
    const boxes = [...this.boxes.values()].sort((a, b) => this.slots.get(a.name) - this.slots.get(b.name));
    const keys = boxes.flatMap((box) => box.keys);
    const key = this.pointed?.key;
    if (name === "ArrowRight" || name === "ArrowLeft") {
      const at = key ? keys.indexOf(key) + way : 0;
      return keys.length ? { key: keys[(at + keys.length) % keys.length] } : undefined;
    }
    const mine = boxes.findIndex((box) => box.name === this.pointed?.executor || box.keys.includes(key));
    return { executor: boxes[(Math.max(mine, way > 0 ? -1 : 0) + way + boxes.length) % boxes.length].name };
  }
}

function showTip(tip, { title, rows }, rect, width) {
  const made = rows.map((text) => {
    const row = document.createElement("div");
    row.textContent = text;
    return row;
  });
  const head = document.createElement("strong");
  head.textContent = title;
  tip.replaceChildren(head, ...made);
  const room = Math.max(0, width - tip.offsetWidth);
  const x = Math.min(Math.max(0, rect.x + rect.w / 2 - tip.offsetWidth / 2), room);
  const above = rect.y - tip.offsetHeight - 8;
  const y = above > -60 ? above : rect.y + rect.h + 8;
  tip.style.transform = `translate(${Math.round(x)}px, ${Math.round(y)}px)`;
}

function within({ x, y, w, h }, px, py) {
  return px >= x && px < x + w && py >= y && py < y + h;
}

function between({ from, to, aloft }, share) {
  const lift = aloft ? Math.sin(Math.PI * share) * Math.min(36, Math.abs(to.x - from.x) / 6) : 0;
  return {
    x: from.x + (to.x - from.x) * share,
    y: from.y + (to.y - from.y) * share - lift,
    w: from.w + (to.w - from.w) * share,
    h: from.h + (to.h - from.h) * share,
  };
}

function sameRect(a, b) {
  return Math.abs(a.x - b.x) + Math.abs(a.y - b.y) + Math.abs(a.w - b.w) + Math.abs(a.h - b.h) < 0.5;
}

function shrunk({ x, y, w, h }) {
  return { x: x + w / 2, y: y + h / 2, w: 0, h: 0 };
}

function clamp(share) {
  return Math.min(1, Math.max(0, share));
}

function eased(share) {
  return share < 0.5 ? 4 * share ** 3 : 1 - (2 - 2 * share) ** 3 / 2;
}

/** The next round number, so that the scale of colours seldom changes. */
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  const step = ROUND.find((each) => each * power >= value * 0.999);
  return Number((step * power).toPrecision(2));
}
