/** The feed of decisions, newest first. */
import { byId, element, setText } from "./dom.js";
import { groupsUpTo } from "./groups.js";
import { clock, counted } from "./words.js";

const MOST_ROWS = 80;

const KIND_NAMES = {
  hold: "held",
  wait: "waits",
  attach: "attached",
  join: "joins",
  leave: "leaves",
  advise: "advises",
  copy: "copied",
  migrate: "moves",
  verify: "verified",
  refuse: "refused",
  abandon: "abandoned",
  learn: "learnt",
  detach: "let go",
};

export class Feed {
  /**
   * @param {HTMLOListElement} list
   * @param {() => void} changed called when the choice changes
   * @param {(atMs: number) => void} seek
   */
  constructor(list, changed, seek) {
    this.list = list;
    list.addEventListener("click", ({ target }) => {
      const button = target.closest("button");
      if (button) seek(Number(button.value));
    });
    this.all = false;
    /** @type {Map<string, HTMLLIElement>} */
    this.rows = new Map();
    for (const [id, all] of [["feed-changes", false], ["feed-all", true]]) {
      byId(id).addEventListener("click", () => {
        this.all = all;
        byId("feed-changes").setAttribute("aria-pressed", String(!all));
        byId("feed-all").setAttribute("aria-pressed", String(all));
        changed();
      });
    }
  }

  /** @param {import("./history.js").History} history @param {number} seq up to which */
  show(history, seq) {
    const groups = groupsUpTo(history.decisions, seq, { all: this.all, most: MOST_ROWS });
    const rows = new Map();
    for (const group of groups) {
      const key = `${group.key} ${group.weight}`;
      const row = this.rows.get(key) ?? newRow();
      fillRow(row, group);
      rows.set(key, row);
    }
    this.rows = rows;
    this.#order([...rows.values()]);
  }

  /** Put rows where they belong, without touching those that are there already. */
  #order(rows) {
    let next = this.list.firstChild;
    for (const row of rows) {
      if (row === next) next = next.nextSibling;
      else this.list.insertBefore(row, next);
    }
    while (next) {
      const after = next.nextSibling;
      next.remove();
      next = after;
    }
  }
}

function newRow() {
  return element(
    "li", {},
    element("span", { class: "kind" }),
    element("span", { class: "about" }),
    // Out of the order of tabs: the time line goes from change to change by keys.
    element("button", { type: "button", tabindex: "-1", title: "Go to this moment" }, element("time")),
    element("p"),
    element("dl", { class: "brought" }),
  );
}

function fillRow(row, group) {
  const [kind, about, button, reason, results] = row.children;
  row.dataset.kind = group.kind;
  row.dataset.weight = group.weight;
  setText(kind, kindText(group));
  setText(about, [...group.queries].slice(0, 3).join(", "));
  button.value = String(group.toMs);
  const since = group.count > 1 ? `${clock(group.fromMs)} – ` : "";
  setText(button.firstChild, `${since}${clock(group.toMs)}`);
  setText(reason, group.reason);
  if (results.children.length === group.brought.length) return;
  results.replaceChildren(...group.brought.map(([name, words]) => (
    element("div", {}, element("dt", {}, name), element("dd", {}, words))
  )));
}

function kindText({ kind, weight, count, wanted }) {
  const times = count > 1 ? ` ${counted(count, "time")}` : "";
  if (weight === "held") return `held back${times}: ${wanted}`;
  return `${KIND_NAMES[kind] ?? kind}${times}`;
}
