/** The time line: where in the run we look, and how we get elsewhere. */
import { byId, setText } from "./dom.js";
import { onTheme, theme } from "./theme.js";
import { clock, duration } from "./words.js";

const THUMB = 16;
/** Moments this close are the same when going from change to change. */
const NEAR_MS = 50;
const LONGEST_FRAME_MS = 250;

export class TimeLine {
  /**
   * @param {import("./history.js").History} history
   * @param {(jumped: boolean) => void} moved called when another moment is to be shown
   */
  constructor(history, moved) {
    this.history = history;
    this.moved = moved;
    this.atMs = null;
    this.playing = false;
    this.finished = false;
    this.range = byId("scrubber");
    this.#listen();
    this.size = { width: 0, height: 0 };
    this.drawn = "";
    onTheme(() => this.#drawTicks(true));
    new ResizeObserver(([{ contentRect: { width, height } }]) => {
      this.size = { width, height };
      this.#drawTicks(true);
    }).observe(byId("ticks"));
  }

  /** Whether the newest is shown, whatever comes. */
  get live() {
    return this.atMs === null;
  }

  /** The moment shown. */
  get ms() {
    return this.atMs ?? this.history.endMs;
  }

  /** Number of the last record that counts. */
  get seq() {
    return this.live ? this.history.end - 1 : this.history.seqAt(this.atMs);
  }

  /** @param {number} ms */
  seek(ms) {
    const { startMs, endMs } = this.history;
    this.atMs = Math.min(Math.max(ms, startMs), endMs);
    if (this.finished && this.atMs >= endMs) this.atMs = null;
    this.moved(true);
  }

  toLive() {
    this.playing = false;
    this.atMs = null;
    this.moved(true);
  }

  /** @param {boolean} playing */
  play(playing) {
    if (playing && this.live) this.atMs = this.finished ? this.history.startMs : null;
    this.playing = playing && !this.live;
    if (!playing && this.live && !this.finished) this.atMs = this.history.endMs;
    if (this.playing) requestAnimationFrame((now) => this.#step(now, now));
    this.moved(false);
  }

  /** Show it all: where we are, of what, and what one can do. */
  show(words) {
    const { startMs, endMs } = this.history;
    this.range.min = String(startMs);
    this.range.max = String(endMs);
    this.range.value = String(this.ms);
    this.range.setAttribute("aria-valuetext", `${clock(this.ms)}. ${words}`);
    setText(byId("moment-now"), clock(this.ms));
    setText(byId("run-length"), ` of ${duration((endMs - startMs) / 1000)}`);
    const runs = this.playing || (this.live && !this.finished);
    byId("play").dataset.playing = String(runs);
    byId("play").setAttribute("aria-label", runs ? "Pause" : "Play");
    byId("to-live").hidden = this.live;
    setText(byId("to-live"), this.finished ? "To the end" : "Back to live");
    this.#drawTicks();
  }

  #step(before, now) {
    if (!this.playing || this.live) return;
    const speed = Number(byId("speed").value);
    this.atMs += speed * Math.min(now - before, LONGEST_FRAME_MS);
    if (this.atMs >= this.history.endMs) {
      this.atMs = null;
      this.playing = false;
    }
    this.moved(false);
    requestAnimationFrame((next) => this.#step(now, next));
  }

  #listen() {
    const on = (id, work) => byId(id).addEventListener("click", work);
    on("play", () => this.play(!(this.playing || (this.live && !this.finished))));
    on("to-live", () => this.toLive());
    on("change-before", () => this.#toChange(-1));
    on("change-after", () => this.#toChange(1));
    this.range.addEventListener("input", () => this.seek(Number(this.range.value)));
    this.range.addEventListener("keydown", (event) => this.#key(event));
  }

  #key(event) {
    const turns = {
      ArrowLeft: () => this.seek(this.history.stepFrom(this.seq, -1)),
      ArrowRight: () => this.seek(this.history.stepFrom(this.seq, 1)),
      ArrowDown: () => this.#toChange(-1),
      ArrowUp: () => this.#toChange(1),
      PageDown: () => this.#toChange(-1),
      PageUp: () => this.#toChange(1),
      Home: () => this.seek(this.history.startMs),
      End: () => this.toLive(),
      " ": () => byId("play").click(),
    };
    if (!turns[event.key] || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    turns[event.key]();
  }

  #toChange(way) {
    const times = this.history.spans.map((span) => span.fromMs);
    if (way > 0) {
      const next = times.find((ms) => ms > this.ms + NEAR_MS);
      if (next === undefined) this.toLive();
      else this.seek(next);
    } else {
      this.seek(times.findLast((ms) => ms < this.ms - NEAR_MS) ?? this.history.startMs);
    }
  }

  /** @param {boolean} anew also where the changes are as they were */
  #drawTicks(anew = false) {
    const { width, height } = this.size;
    const { startMs, endMs, spans } = this.history;
    const state = [startMs, endMs, spans.length, spans.at(-1)?.toMs].join(" ");
    if (!width || (state === this.drawn && !anew)) return;
    this.drawn = state;
    const canvas = byId("ticks");
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const scale = (width - THUMB) / Math.max(1, endMs - startMs);
    const place = (ms) => THUMB / 2 + (Math.min(Math.max(ms, startMs), endMs) - startMs) * scale;
    for (const { kind, fromMs, toMs } of spans) {
      drawSpan(context, kind, place(fromMs), place(toMs ?? endMs), height);
    }
  }
}

/** A change as a stretch with its sign at the front: up, down, or to the side; a loss as a cross. */
function drawSpan(context, kind, from, to, height) {
  const middle = height / 2;
  context.fillStyle = kind === "lost" ? theme.warn : theme.orange;
  context.strokeStyle = theme.warn;
  if (kind === "lost") {
    context.lineWidth = 2;
    context.beginPath();
    context.moveTo(from - 3.5, 1.5);
    context.lineTo(from + 3.5, 8.5);
    context.moveTo(from + 3.5, 1.5);
    context.lineTo(from - 3.5, 8.5);
    context.stroke();
    return;
  }
  context.globalAlpha = 0.55;
  context.fillRect(from, middle - 3, Math.max(2, to - from), 6);
  context.globalAlpha = 1;
  const points = { "scale-out": [[-4, 9], [4, 9], [0, 2]], "scale-in": [[-4, 2], [4, 2], [0, 9]] }[kind]
    ?? [[-4, 5.5], [0, 1.5], [4, 5.5], [0, 9.5]];
  context.beginPath();
  for (const [x, y] of points) context.lineTo(from + x, y);
  context.fill();
}
