/** The stream of events from the server. It reconnects by itself, and goes on where it was. */

const RETRY_MS = 3_000;

/**
 * @typedef {object} Listener
 * @property {(about: object) => void} about
 * @property {() => void} reset forget everything
 * @property {(lines: string[]) => void} records
 * @property {(why: string) => void} end
 * @property {(state: "connecting"|"live"|"reconnecting") => void} state
 */

/** @param {string} url @param {Listener} listener */
export function listen(url, listener) {
  const source = new EventSource(url);
  const on = (name, take) => source.addEventListener(name, (event) => take(event.data));
  source.addEventListener("open", () => listener.state("live"));
  source.addEventListener("error", () => {
    listener.state("reconnecting");
    // Closed for good, as after an answer that is no stream: begin anew, and from the start.
    if (source.readyState !== EventSource.CLOSED) return;
    setTimeout(() => {
      listener.reset();
      listen(url, listener);
    }, RETRY_MS);
  });
  on("about", (data) => listener.about(JSON.parse(data)));
  on("reset", () => listener.reset());
  on("records", (data) => listener.records(data.split("\n")));
  on("end", (data) => listener.end(JSON.parse(data).why));
}
