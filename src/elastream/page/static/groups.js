/**
 * The feed of decisions, those in a row that say the same folded together. Pure.
 *
 * @typedef {object} Group
 * @property {number} key number of its first decision
 * @property {string} kind
 * @property {"quiet"|"held"|"turn"|"news"} weight
 * @property {number} count
 * @property {string} reason of the last
 * @property {number} fromMs
 * @property {number} toMs
 * @property {Set<string>} queries
 * @property {?string} wanted what was held back
 * @property {[string, string][]} brought what a change brought, next to what was predicted
 */
import { brought, wantedWords } from "./words.js";

/** Beginnings, ends and what nobody should miss; other kinds are turns of something under way. */
const NEWS = new Set([
  ..."attach join leave detach advise scale-out scale-in rebalance move lost replan".split(" "),
  ..."refuse abandon done partitions repartition stuck".split(" "),
]);

/**
 * @param {import("./history.js").Told[]} decisions
 * @param {number} upTo number of the last that counts
 * @param {{all: boolean, most: number}} choice
 * @returns {Group[]} newest first
 */
export function groupsUpTo(decisions, upTo, { all, most }) {
  const groups = [];
  let apart = false;
  for (let at = decisions.length - 1; at >= 0; at--) {
    const told = decisions[at];
    if (told.seq > upTo) continue;
    const weight = weightOf(told.record);
    if (!all && (weight === "quiet" || weight === "turn")) {
      apart ||= told.record.kind === "hold";
      continue;
    }
    const last = groups.at(-1);
    if (last && !apart && mayFold(last, told.record, weight)) fold(last, told);
    else if (groups.length === most) break;
    else groups.push(newGroup(told, weight));
    apart = false;
  }
  return groups;
}

function weightOf({ kind, figures }) {
  if (kind === "hold") return figures?.wanted === undefined ? "quiet" : "held";
  if (kind === "wait") return "quiet";
  return NEWS.has(kind) ? "news" : "turn";
}

function mayFold(group, record, weight) {
  return (weight === "quiet" || weight === "held") && group.kind === record.kind
    && group.weight === weight;
}

function fold(group, { seq, atMs, record }) {
  group.key = seq;
  group.count += 1;
  group.fromMs = atMs;
  if (record.query) group.queries.add(record.query);
}

function newGroup({ seq, atMs, record }, weight) {
  return {
    key: seq,
    kind: record.kind,
    weight,
    count: 1,
    reason: record.reason,
    fromMs: atMs,
    toMs: atMs,
    queries: new Set(record.query ? [record.query] : []),
    wanted: weight === "held" ? wantedWords(record) : null,
    brought: record.kind === "done" ? brought(record.figures ?? {}) : [],
  };
}
