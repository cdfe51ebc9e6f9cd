"use strict";
// What app.js asks of the model in this folder, with the functions of the backend of `nmt serve`.
const CORRECTIONS = "nmt corrections"; // their key in the browser's storage
const NOT_IN_XML = /[^\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu;
const PART = 400; // characters from which a part ends at the next line break

function kept() {
  try {
    const found = JSON.parse(localStorage.getItem(CORRECTIONS) || "[]");
    return Array.isArray(found) ? found.filter((each) => ["date", "source", "target", "src", "tgt"].every((name) => typeof each?.[name] === "string")) : [];
  } catch {
    return []; // no storage
  }
}

// The text as parts of whole lines with the line breaks after them; blank lines stay with the part before.
function parts(text) {
  const found = [];
  for (const line of text.match(/[^\n]*\n+|[^\n]+$/g) || [text]) {
    if (found.length && (found.at(-1).length < PART || !line.trim())) found.push(found.pop() + line);
    else found.push(line);
  }
  return found;
}

const backend = {
  last: Promise.resolve(),

  async load(say) {
    await this._keepOffline();
    const { Translator } = await import("./nmt.js");
    const onProgress = (bytes, total) => say(`Loading the model … ${Math.round((100 * bytes) / total)}% of ${(total / 1e6).toFixed(1)} MB`);
    this.translator = await Translator.load("./", { onProgress });
    const { name, license, card, directions, kernel, flags, splits } = this.translator.about, known = new Map();
    this.splits = splits;
    const language = ({ code, name }) => known.get(code) || known.set(code, { code, name, targets: [] }).get(code);
    for (const { src, tgt } of directions) language(src).targets.push(language(tgt).code);
    $("about").textContent = `${name} (${license ? `license: ${license}` : "no license is named"}); computed with ${kernel}. ` +
      "Your text stays in this browser. After the first visit, the page also works offline, if the browser has room for it.";
    $("card").textContent = card.replace(/^---\n.*?\n---\n/s, "");
    $("about-box").hidden = false;
    say("");
    const settings = { charLimit: -1, detects: false, suggestions: true, filesTranslation: false, keyRequired: false, glossaryDirections: [], supportedFilesFormat: [] };
    return { languages: [...known.values()], settings: { ...settings, flags, language: { target: directions[0].tgt } } };
  },

  // Keeps a correction on this device, by lines and by sentences if there are as many in both; the next translation has
  // it. Rejects if the browser has no room.
  async suggest({ q, s, source, target }) {
    if (!q.trim() || !s.trim()) throw new Error("The text or its correction is blank.");
    const pairs = await this.translator.pairs(q, s, { from: source, to: target });
    const date = new Date().toISOString().replace(/[-:]|\.\d+/g, "");
    try {
      localStorage.setItem(CORRECTIONS, JSON.stringify([...kept(), ...pairs.map(([src, tgt]) => ({ date, source, target, src, tgt }))]));
    } catch {
      throw new Error("This browser has no room for corrections.");
    }
    return "Kept on this device";
  },

  // The corrections as a TMX file, which `nmt adapt` and `nmt translate --tm` read; none: null.
  collected() {
    const escaped = (text) => text.replace(NOT_IN_XML, "").replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
    const variant = (code, text) => `<tuv xml:lang="${escaped(code)}"><seg>${escaped(text)}</seg></tuv>`;
    const units = kept().map(({ date, source, target, src, tgt }) => `<tu creationdate="${escaped(date)}">${variant(source, src)}${variant(target, tgt)}</tu>\n`);
    const tmx = `<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n<header creationtool="nmt" creationtoolversion="1" segtype="paragraph" o-tmf="none" adminlang="en" srclang="*all*" datatype="plaintext"/>\n<body>\n${units.join("")}</body>\n</tmx>\n`;
    return units.length ? { count: units.length, tmx } : null;
  },

  forget() { localStorage.removeItem(CORRECTIONS); },

  // One translation at a time, of texts that are still wanted; long ones in parts of whole lines, each as soon as it is done.
  async *translate({ q, source, target, alternatives }, signal) {
    const before = this.last;
    let done;
    this.last = new Promise((resolve) => (done = resolve));
    try {
      await before;
      signal.throwIfAborted();
      const corrections = kept().filter((each) => each.source === source && each.target === target).map(({ src, tgt }) => [src, tgt]);
      for (const part of this.splits ? parts(q) : [q]) {
        const { text, flags, expected_chrf, memory, alternatives: others } = await this.translator.translate(part, { from: source, to: target, corrections });
        signal.throwIfAborted();
        yield { before: "", text, after: "", flags, expected_chrf, memory, alternatives: alternatives ? others.map((each) => each.text) : [] };
      }
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
