/** The page: takes records in, and shows how it is at the moment chosen. */
import { showChange, showCost, showGuards, showRealtime, showUnknown } from "./cards.js";
import { Charts } from "./charts.js";
import { atMostEvery, byId, element, onceAFrame, setText } from "./dom.js";
import { Feed } from "./feed.js";
import { History, sumOfKnown } from "./history.js";
import { StateMap } from "./map.js";
import { fillTable, summary } from "./maptable.js";
import { announcement, cost, modeBadge, sentence } from "./sentences.js";
import { offerSteering } from "./steer.js";
import { listen } from "./stream.js";
import { loads, onTheme } from "./theme.js";
import { TimeLine } from "./timeline.js";
import { band, bytes, clock, counted, percent, short, spareCount } from "./words.js";

const SLOW_MS = 250;
const TABLE_MS = 1_000;
/** Standing further apart than this, two scenes are not one after the other. */
const JUMP_MS = 120_000;

const history = new History();
const map = new StateMap(byId("map"));
const feed = new Feed(byId("feed"), () => showSlow(), (ms) => timeline.seek(ms));
const timeline = new TimeLine(history, (jumped) => {
  jump ||= jumped;
  show();
});
const charts = new Charts(byId("charts"), (ms) => timeline.seek(ms));

let jump = true;
let shownMs = null;
let shownSeq = null;
let about = { live: true, begins_later: false };
let torn = 0;
let connection = "connecting";
let over = "";
let chosenQuery = null;

const show = onceAFrame(() => {
  const seq = timeline.seq;
  const frame = history.frameAt(seq);
  showHead(frame);
  if (jump || seq !== shownSeq) showMap(frame);
  shownSeq = seq;
  timeline.show(sentence(frame));
  showSlow();
});

const showSlow = atMostEvery(SLOW_MS, () => {
  const seq = timeline.seq;
  const frame = history.frameAt(seq);
  feed.show(history, seq);
  charts.show(history, frame.scene ?? history.head.scene, timeline.ms);
  showChange(byId("change-heading"), byId("change-body"), frame);
  showCost(byId("cost-body"), frame);
  showRealtime(byId("realtime"), frame.scene);
  showUnknown(byId("unknown"), frame.scene);
  showGuards(byId("guards"), frame.scene);
  showQueries(frame.scene);
  showTable();
});

const showTable = atMostEvery(TABLE_MS, () => {
  const frame = history.frameAt(timeline.seq);
  setText(byId("announce"), announcement(frame));
  if (!frame.scene) return;
  fillTable(byId("map-table"), frame.scene);
  setText(byId("map-summary"), summary(frame.scene));
});

function showHead(frame) {
  const { scene } = frame;
  setText(byId("sentence"), sentence(frame));
  badge("mode", modeBadge(frame));
  badge("connection", connectionBadge());
  showNotice();
  document.documentElement.dataset.records = String(history.taken);
  const loop = scene?.loop ?? {};
  const queries = [...(scene?.queries.values() ?? [])];
  const spent = cost(frame);
  figure("executors", scene ? String(scene.executors.size) : "?");
  const spares = scene ? spareCount(scene.executors) : 0;
  figure("bounds", scene ? `of ${loop.most}${spares ? `, ${counted(spares, "spare")}` : ""}` : "");
  figure("busy", percent(loop.utilisation));
  figure("band", loop.marks ? `keep ${band(loop.marks)}` : "");
  figure("in", short(sumOfKnown(queries, "arrivals_per_s")));
  figure("backlog", short(sumOfKnown(queries, "backlog")));
  figure("state", bytes(sumOfKnown(queries, "state_bytes")));
  figure("partitions", scene ? counted(scene.tasks.size, "partition") : "");
  figure("saved", spent ? percent(spent.saved) : "?");
}

function showMap({ scene }) {
  if (!scene) {
    map.clear();
    return;
  }
  const far = shownMs === null || scene.atMs < shownMs || scene.atMs - shownMs > JUMP_MS;
  map.show(scene, jump || far);
  jump = false;
  shownMs = scene.atMs;
}

function showNotice() {
  const told = [];
  if (about.begins_later || history.first > 0) {
    told.push(`The beginning is no longer in memory: this begins at ${clock(history.startMs)}.`);
  }
  if (torn) told.push(`Passed over ${counted(torn, "line")} that could not be read.`);
  if (timeline.finished && over) told.push(`It is over: ${over}.`);
  byId("notice").hidden = told.length === 0;
  setText(byId("notice"), told.join(" "));
}

function connectionBadge() {
  const lost = connection === "reconnecting" && !timeline.finished;
  if (!timeline.live && !lost) return { state: "past", text: `as it was at ${clock(timeline.ms)}` };
  if (timeline.finished) {
    return { state: "finished", text: connection === "live" ? "finished" : "finished, not connected" };
  }
  return { state: connection, text: connection };
}

/** A button for each query: press it to see where its partitions are. */
function showQueries(scene) {
  const chips = byId("queries");
  const names = [...(scene?.queries.keys() ?? [])];
  if (chips.children.length !== names.length) {
    chips.replaceChildren(...names.map(() => element("button", { type: "button", "aria-pressed": "false" })));
    [...chips.children].forEach((chip) => chip.addEventListener("click", () => choose(chip.dataset.query)));
  }
  names.forEach((name, at) => {
    const chip = chips.children[at];
    const { tasks, idle } = scene.queries.get(name);
    chip.dataset.query = name;
    chip.setAttribute("aria-pressed", String(name === chosenQuery));
    chip.title = name;
    const number = map.numbered ? `${at + 1} · ` : "";
    setText(chip, `${number}${name}: ${counted(tasks, "partition")}${idle ? ", idle" : ""}`);
  });
}

function choose(query) {
  chosenQuery = query === chosenQuery ? null : query;
  map.choose(chosenQuery);
  showSlow();
}

function badge(id, { state, text }) {
  byId(id).dataset.state = state;
  setText(byId(id), text);
}

function figure(name, text) {
  setText(byId(`figure-${name}`), text);
}

function drawLoadScale() {
  const canvas = byId("load-scale");
  const context = canvas.getContext("2d");
  const width = canvas.width / loads.fills.length;
  loads.fills.forEach((fill, at) => {
    context.fillStyle = fill;
    context.fillRect(Math.floor(at * width), 0, Math.ceil(width), canvas.height);
  });
}

function take(line) {
  try {
    history.push(JSON.parse(line), line.length);
  } catch {
    torn += 1;
  }
}

byId("span").addEventListener("change", () => {
  charts.spanMs = 1000 * Number(byId("span").value) || null;
  showSlow();
});
drawLoadScale();
onTheme(drawLoadScale);
listen("events", {
  about(told) {
    about = told;
    offerSteering(told.takes_commands === true);
    setText(byId("title"), told.title ?? "");
    document.title = told.title ? `${told.title} · elastream` : "elastream";
    show();
  },
  reset() {
    history.clear();
    timeline.finished = false;
    timeline.playing = false;
    timeline.atMs = null;
    torn = 0;
    jump = true;
    show();
  },
  records(lines) {
    timeline.finished = false;
    lines.filter(Boolean).forEach(take);
    show();
  },
  end(why) {
    timeline.finished = true;
    over = why;
    show();
  },
  state(told) {
    connection = told;
    show();
  },
});
