// Runs the page's own scripts in node: `node run.mjs STATIC TASK`, JSON in and out. STATIC is the folder of the scripts.
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [, , folder, task] = process.argv;
const load = (name) => import(pathToFileURL(path.join(folder, name)));
const given = JSON.parse(fs.readFileSync(0, "utf8"));

const tasks = {
  async segment() {
    const { Tokenizer } = await load("tokenizer.js");
    const tokenizer = new Tokenizer(given.vocabulary);
    return { ids: given.lines.map((line) => tokenizer.encode(line)), texts: given.ids.map((ids) => tokenizer.decode(ids)) };
  },
  async split() {
    const { findSpans, lineStarts, numbersIn, loopIn } = await load("text.js");
    return given.lines.map((line) => [findSpans(line), lineStarts(line, 0, line.length, [], given.language), numbersIn(line), loopIn([...line], [])]);
  },
  async protect() {
    const { Protected, findSpans, hasWords, lostMarks, missing, wrongNumbers } = await load("text.js");
    return given.cases.map(([source, output, masks]) => {
      const kept = new Protected(source, findSpans(source), masks);
      return [kept.source, kept.restore(output), kept.pieces(), kept.joinAround(kept.pieces().map(() => output)), missing(kept.spans, output),
        kept.hasWords(), hasWords(source), wrongNumbers(source, output, given.words, given.left_out), lostMarks(source, output, kept.spans, given.left_out)];
    });
  },
  async unusual() {
    const { octavesOf, unusual } = await load("text.js"), octaves = octavesOf(given.statistics);
    return given.cases.map(([text, tokens]) => unusual(text, tokens, given.statistics, octaves));
  },
  async unseen() {
    const { octavesOf, unseenWords } = await load("text.js"), octaves = octavesOf({ once: "", words: [given.seen.join(" ")] });
    return given.texts.map((text) => unseenWords(text, octaves, given.left_out));
  },
  async empty() { // what the page says of a text for which the model writes nothing
    const { Engine } = await load("engine.js");
    const engine = await Engine.load(async (name) => new Uint8Array(fs.readFileSync(path.join(folder, name))));
    const cut = engine._segments(...engine._direct(given.line, {}));
    for (const segment of cut.segments) segment.hypotheses[0].text = "";
    return [cut, engine._segments(...engine._direct("", {}))].map((each) => engine._assemble(each).flags);
  },
  async read() {
    const { edges, readWith } = await load("text.js");
    return given.lines.map(([line, spans]) => [...readWith(new Set(given.learned), line, spans), edges(line)]);
  },
  async pairs() {
    const { pairsIn } = await load("text.js");
    return given.cases.map(([text, correct]) => pairsIn(text, correct, given.languages));
  },
  async translate() {
    const { Engine, ModelError } = await load("engine.js");
    if (given.lacks === "WebAssembly") globalThis.WebAssembly = undefined;
    if (given.lacks === "SIMD") WebAssembly.instantiate = async () => { throw new WebAssembly.CompileError("no such opcode"); };
    try {
      const engine = await Engine.load(async (name) => new Uint8Array(fs.readFileSync(path.join(folder, name))), given.kernel);
      return { kernel: engine.kernel, translations: engine.translate(given.lines, given.languages), single: given.lines.map((line) => engine.translate([line], given.languages)[0].text) };
    } catch (error) {
      if (!(error instanceof ModelError)) throw error;
      return { error: error.message };
    }
  },
};
process.stdout.write(JSON.stringify(await tasks[task]()));
