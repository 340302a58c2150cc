/** What a partition or an executor tells when it is pointed at. Pure. */
import { partsOf } from "./layout.js";
import { bytes, counted, percent } from "./words.js";

/** @typedef {{title: string, rows: string[]}} Tip */

/** @param {string} key @param {import("./scenes.js").Task} task @returns {Tip} */
export function taskTip(key, task) {
  const { query, operator, partition } = partsOf(key);
  const rows = [
    `operator ${operator}, on executor ${task.executor}`,
    `state ${bytes(task.bytes)}`,
    `work ${Number(task.work.toPrecision(2))} cores`,
    task.standby === null ? "no standby copy" : `standby copy on executor ${task.standby}`,
  ];
  if (task.heading !== null) rows.push(`about to move to executor ${task.heading}`);
  return { title: `${query}, partition ${partition}`, rows };
}

/** @param {import("./scenes.js").Scene} scene @param {import("./map.js").Box} box @returns {Tip} */
export function executorTip(scene, { name, executor, keys, copies }) {
  const size = keys.reduce((sum, key) => sum + (scene.tasks.get(key)?.bytes ?? 0), 0);
  const limit = busyLimit(scene);
  const rows = [
    `on ${executor.host}, ${counted(executor.cores, "core")}, ${counted(slotsOf(executor), "slot")}`,
    executor.busy === null ? "how busy is not known yet" : `${percent(executor.busy)} busy`,
    `${counted(keys.length, "partition")}, ${bytes(size)}`,
  ];
  const { memory } = executor;
  if (executor.store_memory_bytes) rows.push(`its stores use ${bytes(executor.store_memory_bytes)} of memory`);
  if (memory?.heap_peak != null) rows.push(`heap: at most ${bytes(memory.heap_peak)} of ${bytes(memory.heap_limit)} so far`);
  if (memory?.process_peak != null) {
    const allowed = memory.limit == null ? "" : ` of ${bytes(memory.limit)}`;
    rows.push(`process: at most ${bytes(memory.process_peak)}${allowed} so far`);
  }
  if (limit !== null) rows.push(`a plan puts at most ${percent(limit)} on it`);
  if (copies.length) rows.push(`holds ${counted(copies.length, "copy").replace("copys", "copies")}`);
  if (executor.spare) rows.push("a spare, kept ready");
  if (!executor.warm) rows.push("warming up");
  return { title: `executor ${name}`, rows };
}

/**
 * What an executor may bear after a plan: (1 + tau) times the mean, spares left out.
 *
 * @param {import("./scenes.js").Scene} scene
 * @returns {?number}
 */
export function busyLimit({ executors, loop }) {
  const known = [...executors.values()].filter((each) => !each.spare && each.busy !== null);
  if (!known.length || loop.tau == null) return null;
  const slots = known.reduce((sum, each) => sum + slotsOf(each), 0);
  const mean = known.reduce((sum, each) => sum + each.busy * slotsOf(each), 0) / slots;
  return (1 + loop.tau) * mean;
}

/** How many tasks an executor runs at once; a log that lacks it has one a core. */
function slotsOf(executor) {
  return executor.slots ?? executor.cores;
}
