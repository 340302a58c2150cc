/** Charts over the time of the run: one axis of time, one cursor, one line where we are. */
/* global uPlot */
import { element, setText } from "./dom.js";
import { lastAtMost } from "./history.js";
import { lines, onTheme, theme } from "./theme.js";
import { band, clock, millis, percent, short } from "./words.js";

const HEIGHT = 92;
const AXIS_HEIGHT = 24;
const MOST_QUERIES = 6;
const LOG_SPLITS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6];
const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400]
  .map((seconds) => 1000 * seconds);

/**
 * @typedef {object} Line
 * @property {string} name of its column
 * @property {string} label
 * @property {() => string} colour
 * @property {number[]} [dash]
 *
 * @typedef {object} Kind of chart
 * @property {string} title
 * @property {(scene: object) => Line[]} lines
 * @property {(value: ?number) => string} words
 * @property {(scene: object) => ?{low: number, high: number, at?: number}} [zone] shaded behind
 * @property {(scene: object) => {value: number, colour: string}[]} [marks]
 * @property {(scene: object) => string} [beside] what else the head tells
 * @property {number} [least] the axis reaches up to this at least
 * @property {boolean} [log]
 * @property {boolean} [steps]
 */

/** @type {Kind[]} */
const KINDS = [
  {
    title: "Executors",
    lines: () => [{ name: "executors", label: "", colour: () => theme.blue }],
    words: (value) => (value == null ? "?" : String(Math.round(value))),
    zone: ({ loop }) => ({ low: loop.least, high: loop.most }),
    beside: ({ loop }) => `${loop.least} to ${loop.most} allowed`,
    steps: true,
  },
  {
    title: "Utilisation",
    lines: () => [{ name: "utilisation", label: "", colour: () => theme.blue }],
    words: percent,
    zone: ({ loop }) => loop.marks && { ...loop.marks, at: loop.marks.target },
    beside: ({ loop }) => (loop.marks ? `kept within ${band(loop.marks)}` : ""),
    least: 1,
  },
  {
    title: "Rows a second",
    lines: () => [
      { name: "arrivals", label: "in", colour: () => theme.blue },
      { name: "rows", label: "out", colour: () => theme.orange, dash: [5, 3] },
    ],
    words: short,
  },
  {
    title: "Backlog",
    lines: () => [{ name: "backlog", label: "", colour: () => theme.blue }],
    words: (value) => (value == null ? "?" : `${short(value)} rows`),
  },
  {
    title: "Batch time",
    lines: ({ queries }) => [...queries.keys()].slice(0, MOST_QUERIES).map((query, at) => ({
      name: `batch ${query}`, label: query, colour: () => lines[at % lines.length],
    })),
    words: millis,
    marks: ({ queries }) => [...queries.values()].slice(0, MOST_QUERIES)
      .map(({ trigger_ms: value }, at) => ({ value, colour: lines[at % lines.length] }))
      .filter(({ value }) => value > 0),
    beside: ({ queries }) => besideBatches(queries),
    log: true,
  },
];

export class Charts {
  /** @param {HTMLElement} parent @param {(atMs: number) => void} seek */
  constructor(parent, seek) {
    this.charts = KINDS.map((kind, at) => new Chart(parent, kind, this, at === KINDS.length - 1));
    this.seek = seek;
    this.hoverMs = null;
    /** How much of the time is shown; null for all. */
    this.spanMs = null;
    new ResizeObserver(() => this.charts.forEach((chart) => chart.resize())).observe(parent);
    onTheme(() => this.charts.forEach((chart) => chart.plot?.redraw(false)));
  }

  /**
   * @param {import("./history.js").History} history
   * @param {?import("./scenes.js").Scene} scene
   * @param {number} atMs the moment shown
   */
  show(history, scene, atMs) {
    if (!scene) return;
    this.atMs = atMs;
    this.scene = scene;
    this.series = history.series;
    for (const chart of this.charts) chart.show();
  }

  /** @param {?number} ms that the pointer is on */
  hover(ms) {
    if (ms === this.hoverMs) return;
    this.hoverMs = ms;
    for (const chart of this.charts) chart.head();
  }
}

class Chart {
  constructor(parent, kind, owner, last) {
    this.kind = kind;
    this.owner = owner;
    this.last = last;
    this.values = element("span", { class: "values" });
    this.aside = element("span", { class: "aside" });
    this.stage = element("div", { class: "plot", role: "img" });
    const head = element("figcaption", {}, element("b", {}, kind.title), this.values, this.aside);
    this.figure = element("figure", { class: "chart" }, head, this.stage);
    parent.append(this.figure);
  }

  show() {
    const { scene, series } = this.owner;
    const wanted = this.kind.lines(scene);
    const names = wanted.map((line) => line.name).join("\n");
    if (names !== this.names) this.#build(wanted, names);
    const data = [series.times, ...wanted.map((line) => series.column(line.name))];
    this.plot.setData(data);
    this.head();
  }

  /** Tell the figures of the moment pointed at, or of the one shown. */
  head() {
    const { scene, series, atMs, hoverMs } = this.owner;
    if (!scene) return;
    const at = lastAtMost(series.times, hoverMs ?? atMs, (time) => time);
    const told = this.lines.map((line) => {
      const value = lastKnown(series.column(line.name), at);
      return { line, words: this.kind.words(value) };
    });
    this.values.replaceChildren(...told.map(({ line, words }) => valueOf(line, words)));
    setText(this.aside, hoverMs === null ? this.kind.beside?.(scene) ?? "" : `at ${clock(hoverMs)}`);
    const label = told.map(({ line, words }) => `${line.label} ${words}`.trim()).join(", ");
    this.stage.setAttribute("aria-label", `${this.kind.title}: ${label}`);
  }

  resize() {
    const width = this.stage.clientWidth;
    if (this.plot && width && width !== this.plot.width) this.plot.setSize({ width, height: this.#height() });
  }

  #height() {
    return HEIGHT + (this.last ? AXIS_HEIGHT : 0);
  }

  #build(wanted, names) {
    this.plot?.destroy();
    this.names = names;
    this.lines = wanted;
    const { kind } = this;
    const options = {
      width: this.stage.clientWidth || 300,
      height: this.#height(),
      padding: [6, 28, this.last ? 0 : 4, 0],
      legend: { show: false },
      cursor: { sync: { key: "elastream" }, drag: { x: false, y: false }, y: false, points: { size: 6 } },
      scales: {
        x: { time: false, range: (_, low, high) => timeRange(low, high, this.owner) },
        y: this.#yScale(),
      },
      axes: [this.#timeAxis(), this.#yAxis()],
      series: [{}, ...wanted.map((line) => lineOptions(line, kind))],
      hooks: {
        drawClear: [(plot) => this.#behind(plot)],
        draw: [(plot) => this.#before(plot)],
        setCursor: [(plot) => this.owner.hover(pointedMs(plot))],
      },
    };
    this.plot = new uPlot(options, [[], ...wanted.map(() => [])], this.stage);
    this.plot.over.addEventListener("click", () => {
      const ms = pointedMs(this.plot);
      if (ms !== null) this.owner.seek(ms);
    });
  }

  #yScale() {
    const { kind } = this;
    if (kind.log) return { distr: 3, range: (_, low, high) => this.#logRange(low, high) };
    return {
      range: (_, low, high) => {
        const zone = kind.zone?.(this.owner.scene);
        return [0, Math.max(high ?? 0, kind.least ?? 0, zone?.high ?? 0, 1e-3) * 1.12];
      },
    };
  }

  #logRange(low, high) {
    const triggers = this.kind.marks(this.owner.scene).map(({ value }) => value);
    const least = Math.min(low ?? Infinity, ...triggers);
    const most = Math.max(high ?? 0, ...triggers);
    return most > 0 ? [Math.max(1, least / 1.5), most * 1.5] : [1, 1000];
  }

  #timeAxis() {
    return {
      show: true,
      size: this.last ? AXIS_HEIGHT : 0,
      stroke: () => theme.soft,
      grid: { stroke: () => theme.line, width: 1 },
      ticks: { show: false },
      font: "11px system-ui, sans-serif",
      incrs: TIME_STEPS,
      space: 90,
      values: (_, splits) => splits.map((ms) => (this.last ? clock(ms) : "")),
    };
  }

  #yAxis() {
    const { kind } = this;
    const axis = {
      size: 52,
      stroke: () => theme.soft,
      grid: { stroke: () => theme.line, width: 1 },
      ticks: { show: false },
      font: "11px system-ui, sans-serif",
      space: 20,
      values: (_, splits) => splits.map((value) => kind.words(value).replace(" rows", "")),
    };
    if (kind.log) {
      axis.splits = (plot) => logSplits(plot.scales.y.min, plot.scales.y.max);
      axis.filter = (_, splits) => splits;
    }
    if (kind.steps) axis.incrs = [1, 2, 5, 10, 20, 50, 100, 200, 500];
    return axis;
  }

  /** What may be, behind what is. */
  #behind(plot) {
    const { scene } = this.owner;
    const zone = scene && this.kind.zone?.(scene);
    const { ctx, bbox } = plot;
    ctx.save();
    if (zone) {
      const top = plot.valToPos(zone.high, "y", true);
      const ground = plot.valToPos(zone.low, "y", true);
      ctx.globalAlpha = 0.16;
      ctx.fillStyle = theme.good;
      ctx.fillRect(bbox.left, top, bbox.width, ground - top);
      ctx.globalAlpha = 0.9;
      if (zone.at) level(plot, zone.at, theme.good);
    }
    for (const { value, colour } of (scene && this.kind.marks?.(scene)) || []) level(plot, value, colour);
    ctx.restore();
  }

  /** Where we are; what comes after it pales. */
  #before(plot) {
    const { ctx, bbox } = plot;
    const x = Math.round(plot.valToPos(this.owner.atMs, "x", true));
    const right = bbox.left + bbox.width;
    if (!(x >= bbox.left && x < right - 2)) return;
    ctx.save();
    ctx.fillStyle = theme.panel;
    ctx.globalAlpha = 0.62;
    ctx.fillRect(x, bbox.top, right - x, bbox.height);
    ctx.globalAlpha = 1;
    ctx.fillStyle = theme.ink;
    ctx.fillRect(x, bbox.top, uPlot.pxRatio * 1.5, bbox.height);
    ctx.restore();
  }
}

/** @returns {?number} the moment under the cursor */
function pointedMs(plot) {
  return plot.cursor.left >= 0 ? plot.posToVal(plot.cursor.left, "x") : null;
}

function lineOptions({ colour, dash }, kind) {
  return {
    stroke: colour,
    width: 1.75,
    dash,
    spanGaps: true,
    points: { show: false },
    paths: kind.steps ? uPlot.paths.stepped({ align: 1 }) : undefined,
  };
}

function valueOf({ label, colour, dash }, words) {
  if (!label) return element("span", {}, words);
  const swatch = element("i", { class: dash ? "dashed" : "" });
  swatch.style.color = colour();
  return element("span", {}, swatch, `${label} ${words}`);
}

function level({ ctx, bbox, valToPos }, value, colour) {
  const y = valToPos(value, "y", true);
  ctx.strokeStyle = colour;
  ctx.lineWidth = uPlot.pxRatio;
  ctx.setLineDash([2 * uPlot.pxRatio, 4 * uPlot.pxRatio]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.setLineDash([]);
}

function besideBatches(queries) {
  const triggers = new Set([...queries.values()].map((query) => query.trigger_ms).filter((ms) => ms > 0));
  const told = [];
  if (triggers.size) told.push(`dotted: a batch every ${[...triggers].slice(0, 4).map(millis).join(", ")}`);
  if (queries.size > MOST_QUERIES) told.push(`${queries.size - MOST_QUERIES} more queries are not drawn`);
  return told.join("; ");
}

/** All of it, or as much as is asked for around the moment shown. */
function timeRange(low, high, { spanMs, atMs }) {
  if (low == null) return [0, 1000];
  if (high - low < 1000) return [low, low + 1000];
  if (!spanMs || high - low <= spanMs) return [low, high];
  const end = Math.min(high, Math.max(low + spanMs, atMs + spanMs / 3));
  return [end - spanMs, end];
}

function logSplits(least, most) {
  const inside = LOG_SPLITS.filter((value) => value >= least && value <= most);
  const every = Math.ceil(inside.length / 4);
  return inside.filter((_, at) => at % every === 0);
}

function lastKnown(values, at) {
  for (; at >= 0; at--) if (values[at] != null) return values[at];
  return null;
}
