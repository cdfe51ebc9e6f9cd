// Translate in a page of your own, with the model of this folder:
//
//   import { Translator } from "./nmt.js";
//   const translator = await Translator.load("./");
//   const { text } = await translator.translate("Guten Morgen.");
//
// The model computes in a worker, so the page never waits for it. The folder must be on the page's own site.
// Types: nmt.d.ts.

export class Translator {
  // Loads the model of a folder, whose address is relative to the page. Rejects with an Error whose message is for readers.
  static async load(folder = "./", { onProgress } = {}) {
    const translator = new Translator();
    translator.worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
    translator.waiting = new Map();
    translator.onProgress = onProgress;
    translator.worker.onmessage = ({ data }) => translator._receive(data);
    translator.worker.onerror = () => {
      for (const { reject } of translator.waiting.values()) reject(new Error("This browser cannot run the translator. Use a newer browser."));
      translator.waiting.clear();
    };
    translator.about = await translator._call("load", new URL(folder, document.baseURI).href);
    return translator;
  }

  // Translates a text of any length, or several. `to`, a code, is needed if the model has several target languages.
  // Lines and sentences that are the source in `corrections`, a list of [source, target], get that target.
  async translate(text, languages = {}) {
    const found = await this._call("translate", [typeof text === "string" ? [text] : text, languages]);
    return typeof text === "string" ? found[0] : found;
  }

  // What a corrected translation of a text tells, as `corrections`: its lines, and their sentences if there are as many.
  pairs(text, correct, { from, to }) { return this._call("pairs", [text, correct, { from, to }]); }

  // Frees the model.
  close() { this.worker.terminate(); }

  _call(task, value) {
    const id = (this.last = (this.last || 0) + 1);
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ id, task, value });
    });
  }

  _receive({ id, result, error, bytes, total }) {
    if (total !== undefined) return this.onProgress?.(bytes, total);
    const { resolve, reject } = this.waiting.get(id);
    this.waiting.delete(id);
    return error === undefined ? resolve(result) : reject(new Error(error));
  }
}
