/** Steering: commands to the loop, with the token that its user was given. The token is kept nowhere. */
import { byId, setText } from "./dom.js";

const SURE_MS = 5_000;
let wired = false;
let sureUntil = 0;

/** Show the commands where the page takes any. @param {boolean} taken */
export function offerSteering(taken) {
  byId("steer").hidden = !taken;
  if (!taken || wired) return;
  wired = true;
  on("pause", () => ({ command: "pause" }));
  on("resume", () => ({ command: "resume" }));
  on("scale", () => ({ command: "scale", executors: Number(byId("steer-executors").value) }));
  on("set", () => ({ command: "set", fields: fieldsIn(byId("steer-fields").value) }));
  on("detach", () => {
    if (Date.now() < sureUntil) return { command: "detach" };
    sureUntil = Date.now() + SURE_MS;
    setText(byId("steer-answer"), "The queries will run on as they are. Press again to detach.");
    return null;
  });
}

/** @param {string} text as "tau=0.3 max_executors=8" @returns {Object<string, string>} */
export function fieldsIn(text) {
  const pairs = text.split(/\s+/).filter(Boolean).map((pair) => {
    const at = pair.indexOf("=");
    return at < 0 ? [pair, ""] : [pair.slice(0, at), pair.slice(at + 1)];
  });
  return Object.fromEntries(pairs);
}

function on(name, command) {
  byId(`steer-${name}`).addEventListener("click", async () => {
    const record = command();
    if (record) setText(byId("steer-answer"), await answerTo(record));
  });
}

async function answerTo(record) {
  try {
    const response = await fetch("control", {
      method: "POST",
      headers: {
        Authorization: `Bearer ${byId("steer-token").value.trim()}`,
        "Content-Type": "application/json",
      },
      body: JSON.stringify(record),
    });
    const text = await response.text();
    const kind = response.headers.get("Content-Type") ?? "";
    return kind.startsWith("application/json") ? JSON.parse(text).says : text.trim();
  } catch {
    return "The page does not answer.";
  }
}
