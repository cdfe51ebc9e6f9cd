// The worker of nmt.js: loads the model of a folder, and translates.
import { Engine, ModelError } from "./engine.js";
import { pairsIn } from "./text.js";

const MOST = 16_000_000; // bytes of a manifest
let engine = null;

async function load(folder) {
  let total = 0, done = 0;
  const read = async (name, expected) => {
    let response = null;
    try {
      response = await fetch(new URL(expected ? `${name}?${expected.sha256.slice(0, 16)}` : name, folder));
    } catch { /* offline, or the browser's storage failed */ }
    if (!response?.ok) throw new ModelError(`The model cannot be loaded (${name}${response ? `: ${response.status}` : ""}). Check the connection, and load this page again.`);
    const parts = [], limit = expected ? expected.bytes : MOST;
    let size = 0;
    total += limit * !!expected;
    for (const reader = response.body.getReader(); ;) {
      const { done: ended, value } = await reader.read();
      if (ended) break;
      parts.push(value);
      size += value.length;
      if (size > limit) throw new ModelError(`The model is damaged (${name}). Load this page again; if that does not help, export the model again.`);
      if (expected) postMessage({ bytes: done += value.length, total });
    }
    const content = new Uint8Array(size);
    let at = 0;
    for (const part of parts) content.set(part, at), at += part.length;
    return content;
  };
  engine = await Engine.load(read);
  const { name, license, card, directions, flags, options } = engine.manifest;
  return { name, license, card, directions, flags, kernel: engine.kernel, splits: options.split !== "never" };
}

const tasks = { load, translate: (value) => engine.translate(...value), pairs: (value) => pairsIn(...value) };

onmessage = async ({ data: { id, task, value } }) => {
  try {
    postMessage({ id, result: await tasks[task](value) });
  } catch (error) {
    if (!(error instanceof ModelError)) console.error(error);
    const memory = error instanceof RangeError; // memory of WebAssembly cannot grow
    postMessage({ id, error: error instanceof ModelError ? error.message : memory ? "There is not enough memory." : `The translator failed (${error.message}). Load this page again.` });
  }
};
