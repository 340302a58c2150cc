/** The map as a table, for who does not see it; of many partitions a summary by executor. */
import { element, setText } from "./dom.js";
import { bytes, counted, percent } from "./words.js";

const MANY_TASKS = 200;

/** @param {HTMLTableElement} table @param {import("./scenes.js").Scene} scene */
export function fillTable(table, scene) {
  const many = scene.tasks.size > MANY_TASKS;
  const { head, rows } = many ? executorRows(scene) : taskRows(scene);
  setText(table.caption, many ? "Executors and what they hold" : "Partitions and where they are");
  table.tHead.replaceChildren(
    element("tr", {}, ...head.map((name) => element("th", { scope: "col" }, name))),
  );
  table.tBodies[0].replaceChildren(...rows.map(rowOf));
}

/** @param {import("./scenes.js").Scene} scene @returns {string} */
export function summary(scene) {
  const tasks = counted(scene.tasks.size, "partition");
  const heading = [...scene.tasks.values()].filter((task) => task.heading !== null).length;
  const copies = [...scene.tasks.values()].filter((task) => task.standby !== null).length;
  return `${tasks} on ${counted(scene.executors.size, "executor")}; `
    + `${heading} about to move, ${copies} with a standby copy.`;
}

function rowOf({ name, cells, data }) {
  const row = element("tr", data, element("th", { scope: "row" }, name));
  row.append(...cells.map((text) => element("td", {}, text)));
  return row;
}

function taskRows({ tasks }) {
  const rows = [...tasks].map(([key, task]) => ({
    name: key,
    cells: [task.executor, bytes(task.bytes), String(task.work), task.standby ?? "", task.heading ?? ""],
    data: { "data-task": key, "data-executor": task.executor },
  }));
  return { head: ["task", "executor", "state", "cores of work", "standby copy", "about to move to"], rows };
}

function executorRows({ executors, tasks }) {
  const held = new Map([...executors.keys()].map((name) => [name, { tasks: 0, bytes: 0, copies: 0 }]));
  for (const task of tasks.values()) {
    const holder = held.get(task.executor);
    if (holder) {
      holder.tasks += 1;
      holder.bytes += task.bytes;
    }
    if (held.has(task.standby)) held.get(task.standby).copies += 1;
  }
  const rows = [...executors].map(([name, { host, busy }]) => {
    const holds = held.get(name);
    return {
      name,
      cells: [host, percent(busy), String(holds.tasks), bytes(holds.bytes), String(holds.copies)],
      data: { "data-executor": name },
    };
  });
  return { head: ["executor", "host", "busy", "partitions", "state", "standby copies"], rows };
}
