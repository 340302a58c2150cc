/**
 * Scenes: everything there is to see at one moment, laid over each other line by line.
 * Pure; the same rules as `laid_over` of the Python side.
 *
 * @typedef {{executor: string, work: number, bytes: number, standby: ?string, heading: ?string}} Task
 * @typedef {{host: string, cores: number, slots: number, warm: boolean, spare: boolean, busy: ?number}} Executor
 * @typedef {{query: string, batch: number, atMs: number, ms: number, rows: number}} Batch
 * @typedef {object} Scene
 * @property {number} atMs
 * @property {object} loop
 * @property {Map<string, Executor>} executors
 * @property {Map<string, object>} queries
 * @property {Map<string, Task>} tasks by "query/operator/partition"
 * @property {?object} change
 * @property {Batch[]} batches those told by the last line
 */

/**
 * Lay a line over a scene. A line that is not whole changes the maps of `scene` in place, never
 * their entries, so that a copy of the maps is a copy of the scene.
 *
 * @param {?Scene} scene
 * @param {object} line a record of kind "scene"
 * @returns {?Scene} null while no whole line has been seen
 */
export function layOver(scene, line) {
  if (line.whole) scene = emptyScene();
  if (!scene) return null;
  scene.atMs = line.at_ms;
  if (line.loop) scene.loop = { ...scene.loop, ...line.loop };
  if ("change" in line) scene.change = line.change;
  layEntries(scene.executors, line.executors, merged);
  layEntries(scene.queries, line.queries, merged);
  layEntries(scene.tasks, line.tasks, (_, told) => taskOf(told));
  scene.batches = (line.batches ?? []).map(batchOf);
  return scene;
}

/** @param {?Scene} scene @returns {?Scene} a scene that later lines do not change */
export function copyScene(scene) {
  if (!scene) return null;
  const { executors, queries, tasks } = scene;
  return {
    ...scene,
    executors: new Map(executors),
    queries: new Map(queries),
    tasks: new Map(tasks),
  };
}

/**
 * @param {string} key a name may hold slashes, the numbers do not
 * @returns {{query: string, operator: string, partition: string}}
 */
export function taskParts(key) {
  const last = key.lastIndexOf("/");
  const middle = key.lastIndexOf("/", last - 1);
  return {
    query: key.slice(0, middle),
    operator: key.slice(middle + 1, last),
    partition: key.slice(last + 1),
  };
}

function emptyScene() {
  return {
    atMs: 0,
    loop: {},
    executors: new Map(),
    queries: new Map(),
    tasks: new Map(),
    change: null,
    batches: [],
  };
}

function layEntries(known, told, entryOf) {
  for (const [name, value] of Object.entries(told ?? {})) {
    if (value === null) known.delete(name);
    else known.set(name, entryOf(known.get(name), value));
  }
}

const merged = (below, told) => ({ ...below, ...told });

function taskOf([executor, work, bytes, standby = null, heading = null]) {
  return { executor, work, bytes, standby, heading };
}

function batchOf([query, batch, atMs, ms, rows]) {
  return { query, batch, atMs, ms, rows };
}
