/**
 * Columns of figures over time that never grow beyond a number of points: where there would be
 * more, points are merged into steps twice as long. Pure.
 */

/** @typedef {"last"|"max"} Merge how two values of one step become one */

const MERGES = {
  last: (before, now) => now ?? before,
  max: (before, now) => (before === null ? now : now === null ? before : Math.max(before, now)),
};

export class Series {
  /** @param {number} limit most points that are kept */
  constructor(limit = 1600) {
    this.limit = limit;
    this.stepMs = 1;
    /** @type {number[]} beginnings of steps, in ms, rising */
    this.times = [];
    /** @type {Map<string, {merge: Merge, values: (number|null)[]}>} */
    this.columns = new Map();
  }

  /** @param {string} name @returns {(number|null)[]} */
  column(name) {
    return this.columns.get(name)?.values ?? new Array(this.times.length).fill(null);
  }

  /**
   * @param {number} atMs not before those added already
   * @param {Record<string, ?number>} values
   * @param {Merge} merge
   */
  add(atMs, values, merge = "last") {
    const time = this.#stepOf(atMs);
    if (this.times.length === 0 || time > this.times.at(-1)) this.#begin(time);
    for (const [name, value] of Object.entries(values)) this.#put(name, value, merge);
    if (this.times.length > this.limit) this.#thin();
  }

  #stepOf(atMs) {
    return Math.floor(atMs / this.stepMs) * this.stepMs;
  }

  #begin(time) {
    this.times.push(time);
    for (const { values } of this.columns.values()) values.push(null);
  }

  #put(name, value, merge) {
    if (!this.columns.has(name)) {
      this.columns.set(name, { merge, values: new Array(this.times.length).fill(null) });
    }
    const { values } = this.columns.get(name);
    const last = values.length - 1;
    values[last] = MERGES[merge](values[last], value ?? null);
  }

  #thin() {
    const span = this.times.at(-1) - this.times[0];
    this.stepMs = Math.max(2 * this.stepMs, Math.ceil((2 * span) / this.limit));
    const before = { times: this.times, columns: this.columns };
    this.times = [];
    this.columns = new Map();
    for (let at = 0; at < before.times.length; at++) {
      const time = this.#stepOf(before.times[at]);
      if (this.times.length === 0 || time > this.times.at(-1)) this.#begin(time);
      for (const [name, { merge, values }] of before.columns) this.#put(name, values[at], merge);
    }
  }
}
