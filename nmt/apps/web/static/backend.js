"use strict";
// What app.js asks of the model in this folder, with the functions of the backend of `nmt serve`.
const backend = {
  last: Promise.resolve(),

  async load(say) {
    await this._keepOffline();
    const { Translator } = await import("./nmt.js");
    const onProgress = (bytes, total) => say(`Loading the model … ${Math.round((100 * bytes) / total)}% of ${(total / 1e6).toFixed(1)} MB`);
    this.translator = await Translator.load("./", { onProgress });
    const { name, license, card, directions, kernel, flags } = this.translator.about, known = new Map();
    const language = ({ code, name }) => known.get(code) || known.set(code, { code, name, targets: [] }).get(code);
    for (const { src, tgt } of directions) language(src).targets.push(language(tgt).code);
    $("about").textContent = `${name} (${license ? `license: ${license}` : "no license is named"}); computed with ${kernel}. ` +
      "Your text stays in this browser. After the first visit, the page also works offline, if the browser has room for it.";
    $("card").textContent = card.replace(/^---\n.*?\n---\n/s, "");
    $("about-box").hidden = false;
    say("");
    const settings = { charLimit: -1, detects: false, filesTranslation: false, keyRequired: false, glossaryDirections: [], supportedFilesFormat: [] };
    return { languages: [...known.values()], settings: { ...settings, flags, language: { target: directions[0].tgt } } };
  },

  // One translation at a time, of texts that are still wanted.
  async *translate({ q, source, target, alternatives }, signal) {
    const before = this.last;
    let done;
    this.last = new Promise((resolve) => (done = resolve));
    try {
      await before;
      signal.throwIfAborted();
      const { text, flags, alternatives: others } = await this.translator.translate(q, { from: source, to: target });
      signal.throwIfAborted();
      yield { before: "", text, after: "", flags, alternatives: alternatives ? others.map((each) => each.text) : [] };
    } finally {
      done();
    }
  },

  // Waits for the service worker, so that it keeps what is loaded next. Without one, the page only works online.
  async _keepOffline() {
    const workers = navigator.serviceWorker;
    if (!workers || workers.controller) return workers?.register("sw.js").catch(() => {});
    const controlled = new Promise((resolve) => { workers.oncontrollerchange = resolve, setTimeout(resolve, 3000); }); // a private window may never have one
    await workers.register("sw.js").then(() => controlled, () => {});
  },
};
