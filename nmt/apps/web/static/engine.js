// A model in the browser: its decoder in WebAssembly, and the rules of `nmt translate` around it. Runs in a worker of
// nmt.js, and in node.
import { Tokenizer, clean } from "./tokenizer.js";
import { LEADING, PLACEHOLDERS, Protected, asRead, correctionOf, countCopied, edges, expectedChrf, findSpansOfModel, hasWords, isCopy, isSymbol, lineStarts, listMarker, loopIn, lostMarks, missing, octavesOf, readWith, split, stripped, trimmed, unseenWords, unusual, withMarker, withinSymbols, withoutParts, wordsLacking, wrongNumbers } from "./text.js";

const EOS = 3;
const USABLE_CHRF = 30; // of nmt/translation/translation.py
const RETRY_BEAM = 5; // of nmt/translation/retries.py
const NUMBERS_BEAM = 3;
const MAX_SOURCES = 256; // per call of the decoder
const KERNELS = ["wasm-dot", "wasm-fours", "wasm-pairs"];
const MAX_BYTES = 1 << 30;
const TOO_MANY = 1 << 30;

// An error with a message for readers.
export class ModelError extends Error {}

async function checked(content, name, { bytes, sha256 }) {
  let sum = sha256;
  if (globalThis.crypto?.subtle) { // only there in secure contexts
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", content));
    sum = [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  }
  if (content.length !== bytes || sum !== sha256) throw new ModelError(`The model is damaged (${name}). Load this page again; if that does not help, export the model again.`);
  return content;
}

// What a stranger's manifest must look like before anything is allocated.
function sound(manifest) {
  const isCount = (value, most) => Number.isInteger(value) && value >= 0 && value <= most;
  const files = manifest?.files, options = manifest?.options;
  return manifest?.format === 1 && files && typeof files === "object" && Array.isArray(manifest.directions) && manifest.directions.length > 0 &&
    manifest.directions.every((each) => typeof each?.tag === "string" && [each.src, each.tgt].every((side) => typeof side?.code === "string" && typeof side.name === "string")) &&
    Object.values(files).every((file) => isCount(file?.bytes, MAX_BYTES) && /^[0-9a-f]{64}$/.test(file.sha256)) &&
    ["weights.bin", ...KERNELS.map((kernel) => `${kernel}.wasm`)].every((name) => Object.hasOwn(files, name)) &&
    Array.isArray(manifest.vocabularies) && manifest.vocabularies.every((name) => ["src", "tgt"].includes(name) && Object.hasOwn(files, `${name}.json`)) &&
    isCount(manifest.max_src_len, 1 << 20) && isCount(manifest.max_tgt_len, 1 << 20) && Array.isArray(manifest.never_generated) && Array.isArray(manifest.divisors) &&
    Array.isArray(manifest.symbols) && isCount(options?.beam_size, 64) && isCount(options.num_hypotheses, 64);
}

const asWritten = (text) => ({ source: [], ids: [], scores: [], score: 0, finished: true, text }); // by a person, or in the source

// Parts [start, end, was cut] of a text, but a line that has a correction is one: nmt/translation/chain.py
function withCorrections(text, parts, corrected) {
  if (!corrected.size) return parts;
  const lines = [];
  for (const part of parts) {
    const line = lines.at(-1);
    if (line && !text.slice(line[0][0], part[0]).includes("\n")) line.push(part);
    else lines.push([part]);
  }
  return lines.flatMap((line) => {
    const [start, end] = [line[0][0], line.at(-1)[1]];
    return correctionOf(text.slice(start, end), corrected) === undefined ? line : [[start, end, false]];
  });
}

export class Engine {
  // Loads a model. `read(name, {bytes, sha256})` resolves to a file's content as a Uint8Array; the manifest has no second
  // argument. `kernel`: one of KERNELS, else the fastest one that passes its trial.
  static async load(read, kernel = "") {
    if (typeof WebAssembly !== "object") throw new ModelError("This browser has no WebAssembly, so it cannot translate. Use a newer browser.");
    let manifest = null;
    try {
      manifest = JSON.parse(new TextDecoder().decode(await read("manifest.json")));
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
    }
    if (!sound(manifest)) throw new ModelError("The model is damaged (manifest.json), or made for another version of this page.");
    const get = async (name) => checked(await read(name, manifest.files[name]), name, manifest.files[name]);
    const engine = new Engine();
    Object.assign(engine, { manifest, cache: new Map() });
    for (engine.kernel of kernel ? [kernel] : KERNELS) {
      try {
        const { instance } = await WebAssembly.instantiate(await get(`${engine.kernel}.wasm`), {});
        instance.exports._initialize?.();
        if (instance.exports.web_kernel()) engine.wasm = instance.exports;
      } catch (error) {
        if (!(error instanceof WebAssembly.CompileError)) throw error; // this browser has no such instructions
      }
      if (engine.wasm) break;
    }
    if (!engine.wasm) throw new ModelError(kernel ? `This browser does not compute ${kernel} as expected.` : "This browser or its processor has no 128-bit SIMD for WebAssembly, so it cannot translate. Use a newer browser.");
    const vocabularies = await Promise.all(manifest.vocabularies.map(async (name) => new Tokenizer(JSON.parse(new TextDecoder().decode(await get(`${name}.json`))))));
    [engine.src, engine.tgt] = [vocabularies[0], vocabularies.at(-1)];
    engine.octaves = octavesOf(manifest.statistics);
    engine.learned = new Set(manifest.characters === "normalized" ? "" : vocabularies[0].texts.join(" "));
    const weights = await get("weights.bin"), at = engine.wasm.web_allocate(weights.length);
    if (!at) throw new ModelError("There is not enough memory for this model.");
    engine.bytes().set(weights, at);
    engine.model = engine.wasm.web_load(at, weights.length);
    engine.wasm.web_free(at);
    if (!engine.model) throw new ModelError(`The model cannot be loaded: ${engine.error()}.`);
    return engine;
  }

  bytes() { return new Uint8Array(this.wasm.memory.buffer); }
  error() {
    const start = this.wasm.web_error(), bytes = this.bytes();
    return new TextDecoder().decode(bytes.slice(start, bytes.indexOf(0, start)));
  }

  // The outputs of each source (ids without eos), best first.
  search(sources, changes = {}) {
    const found = [];
    for (let i = 0; i < sources.length; i += MAX_SOURCES) found.push(...this._search(sources.slice(i, i + MAX_SOURCES), { ...this.manifest.options, ...changes }));
    return found;
  }

  _search(sources, options) {
    const { max_src_len: most, max_tgt_len: longest, never_generated: never, divisors } = this.manifest;
    const cut = sources.map((ids) => [...ids.slice(0, most - 1), EOS]);
    const rows = Math.max(1, Math.min(16, sources.length * options.beam_size));
    const request = [sources.length, options.beam_size, options.num_hypotheses, options.min_len, options.no_repeat_ngram, 0, 1, rows,
      never.length, divisors.length, ...never, ...new Int32Array(new Float64Array(divisors).buffer)];
    for (const ids of cut) {
      const wanted = Math.max(1, Math.trunc(options.max_len_factor * ids.length) + options.max_len_offset);
      request.push(ids.length, 0, Math.min(wanted, longest), ...ids);
    }
    const at = this.wasm.web_allocate(request.length * 4);
    if (!at) throw new ModelError("There is not enough memory to translate this text.");
    new Int32Array(this.wasm.memory.buffer, at, request.length).set(request);
    const response = this.wasm.web_translate(this.model, at, request.length);
    this.wasm.web_free(at);
    if (!response) throw new ModelError(`The text cannot be translated: ${this.error()}.`);
    const ints = new Int32Array(this.wasm.memory.buffer, response), floats = new Float32Array(this.wasm.memory.buffer, response);
    let next = 1;
    const results = cut.map((source) => Array.from({ length: ints[next++] }, () => {
      const [length, finished, score] = [ints[next], !!ints[next + 1], floats[next + 2]];
      const ids = [...ints.slice(next += 3, next + length - finished)], scores = [...floats.slice(next + length, next + 2 * length)];
      next += 2 * length;
      if (Number.isNaN(score)) throw new ModelError("The model's output is not a number: its weights are damaged.");
      return { source: source.slice(0, -1), ids, scores, score, finished, text: this.tgt.decode(ids) };
    }));
    this.wasm.web_free(response);
    return results;
  }

  // Translates texts, in order: {text, score, segments, ...} of each, as in docs/reference/jsonl.md. Lines and sentences
  // that are sources of `corrections`, [source, target] of each, get the target of the last one.
  translate(texts, { corrections = [], ...languages } = {}) {
    const corrected = new Map(corrections.map(([source, target]) => [trimmed(asRead(source)), trimmed(target)]).filter((pair) => pair.every(Boolean)));
    const cut = texts.map((text) => this._segments(...this._direct(clean(text), languages), corrected)), all = cut.flatMap(({ segments }) => segments), searched = all.filter((segment) => !segment.verbatim);
    const find = (segments, changes) => (segments.length ? this.search(segments.map((segment) => segment.ids), changes) : []);
    find(searched).forEach((hypotheses, i) => (searched[i].hypotheses = hypotheses));
    if (this.manifest.options.retry_loops) this._retryLoops(searched, find);
    this._retryLost(searched.filter((segment) => segment.protected.spans.length), find);
    this._retryNumbers(searched, find);
    return cut.map((each) => this._assemble(each));
  }

  // nmt/translation/languages.py
  _direct(text, { from = null, to = null }) {
    const { directions } = this.manifest, targets = [...new Set(directions.map((each) => each.tgt.code))], wanted = (each) => each.tgt.code === to;
    if (targets.length > 1) {
      const lead = text.length - text.replace(LEADING, "").length, named = directions.find((each) => text.startsWith(each.tag.trimEnd(), lead));
      if (named) [to, text] = [named.tgt.code, text.slice(0, lead) + text.slice(lead + named.tag.trimEnd().length).replace(LEADING, "")];
      if (!to && trimmed(text)) throw new ModelError(`This model translates into ${targets.join(", ")}: choose one of them.`);
    }
    to ??= targets[0];
    if (!targets.includes(to)) throw new ModelError(`This model translates into ${targets.join(", ")}, not into ${to}.`);
    const sides = directions.flatMap(({ src, tgt }) => [src, tgt]), { tgt, tag } = directions.find(wanted);
    const src = from === null ? directions.find(wanted).src : sides.find((each) => each.code === from);
    if (!src) throw new ModelError(`This model does not know ${from}.`);
    const { left_out } = directions.find((each) => wanted(each) && each.src.code === src.code) ?? directions.find(wanted);
    return [text, { src, tgt, tag, left_out }];
  }

  // nmt/translation/texts.py
  _segments(source, direction, corrected = new Map()) {
    const { manifest } = this, { options } = manifest, copies = manifest.placeholders.length > 0, limit = manifest.max_src_len - 1;
    const [text, spans] = readWith(this.learned, source, options.protect ? findSpansOfModel(source, [...manifest.symbols, ...direction.left_out], (sign) => this.src.lacks(sign) || this.tgt.lacks(sign)) : []), [start, end] = stripped(text, 0, text.length);
    if (start === end) return { lead: text, segments: [] };
    const symbolSpans = new Set(spans.filter((span) => isSymbol(text.slice(...span)))), unbroken = spans.filter((span) => !symbolSpans.has(span));
    const inside = (from, to) => { // but for the symbols around it
      const [first, last] = withinSymbols(text.slice(from, to));
      return spans.filter((span) => span[0] >= from && span[1] <= to && !(symbolSpans.has(span) && (span[0] < from + first || span[0] >= from + last)));
    };
    const cutAt = (from, to, some, masks) => new Protected(text.slice(from, to), some.map(([first, last]) => [first - from, last - from]), masks);
    const protect = (from, to) => cutAt(from, to, inside(from, to), copies);
    const leading = (from) => {
      let at = from;
      for (let symbol; (symbol = manifest.symbols.find((each) => text.startsWith(each, at))); ) {
        at += symbol.length;
        [at] = stripped(text, at, text.length);
      }
      return text.slice(from, at);
    };
    const { src, tgt } = direction, symbols = leading(start), tag = (from) => direction.tag + (from <= start || leading(from) ? "" : symbols), tooMany = (from, to) => copies && inside(from, to).length > PLACEHOLDERS.length;
    const kept = new Map();
    const encode = (from, to) => {
      const key = from * (text.length + 1) + to;
      if (!kept.has(key)) kept.set(key, this.src.encode(tag(from) + protect(from, to).source));
      return kept.get(key);
    };
    const size = (from, to) => (tooMany(from, to) ? TOO_MANY : encode(from, to).length), most = options.split === "always" ? 1 : manifest.max_sentences;
    const mustSplit = options.split !== "never" && (/[\n\t]/.test(text.slice(start, end)) || tooMany(start, end) ||
      (most !== null && lineStarts(text, start, end, unbroken, src.code).length >= most) || encode(start, end).length > limit);
    const between = (space) => (!space && !src.spaced && tgt.spaced ? " " : src.sentence_spaces && !tgt.sentence_spaces && !space.replace(/^ +| +$/g, "") ? "" : space);
    const parts = mustSplit ? [...split(text, unbroken, src.code, limit, size, most)] : [[start, end, false]];
    const segments = withCorrections(text, parts, corrected).map(([from, to, wasCut], i, parts) => {
      const [before, after] = symbols ? ["", ""] : edges(cutAt(from, to, inside(from, to).filter((span) => !symbolSpans.has(span)), true).source);
      const isHidden = [...before + after].some((mark) => "([{".includes(mark) || this.src.lacks(mark) || this.tgt.lacks(mark));
      const [first, last] = isHidden ? [from + before.length, to - after.length] : [from, to];
      const guarded = protect(first, last), gap = text.slice(to, i + 1 < parts.length ? parts[i + 1][0] : text.length), space = i + 1 < parts.length ? between(gap) : gap;
      const correction = corrected.size ? correctionOf(text.slice(from, to), corrected) : undefined;
      if (correction !== undefined) return { ids: [], text: text.slice(from, to), correction, withEdges: (output) => output, protected: guarded, space, verbatim: true, hypotheses: [asWritten(correction)] };
      const translated = guarded.hasWords() || (!guarded.isOnlySpans() && (manifest.translates_numbers_alone || !!leading(from)));
      const hypotheses = [asWritten(guarded.source)];
      const marker = symbols ? "" : listMarker(guarded.source), marked = (output) => (marker && trimmed(output) ? withMarker(marker, output) : output);
      const edged = (output) => (!trimmed(output) || (!isHidden && [...before + after].some((mark) => trimmed(mark) && output.includes(mark))) ? output : before + output + after);
      const withEdges = (output) => edged(marked(output));
      return { ids: encode(first, last), text: text.slice(from, to), withEdges, direction, protected: guarded, space, cut: wasCut, verbatim: !translated, tags: [tag(from), direction.tag + (leading(from) || symbols)], hypotheses };
    });
    return { lead: text.slice(0, parts[0][0]), segments, spans: options.protect ? spans.map(([from, to]) => text.slice(from, to)) : null, text: source, direction };
  }

  // nmt/translation/retries.py
  _retryLoops(segments, find) {
    const loop = ({ hypotheses: [{ ids, source }] }) => loopIn(ids, source), sound = ({ ids, source }) => !loopIn(ids, source);
    const again = (looping, size) => find(looping, { no_repeat_ngram: size }).forEach((found, i) => {
      const kept = found.filter(sound);
      if (kept.length) looping[i].hypotheses = kept;
    });
    const bySize = new Map();
    for (const segment of segments) {
      const size = loop(segment);
      if (!size) continue;
      segment.retried = true;
      bySize.set(size, [...(bySize.get(size) || []), segment]);
    }
    for (const size of [...bySize.keys()].sort((a, b) => a - b)) again(bySize.get(size), size);
    again(segments.filter((segment) => segment.retried && loop(segment)), 2);
  }

  _retryLost(segments, find) {
    const lost = (segment, { text }) => segment.protected.restore(text)[1].length, beam = { beam_size: RETRY_BEAM, num_hypotheses: RETRY_BEAM };
    const lossy = segments.filter((segment) => lost(segment, segment.hypotheses[0]));
    find(lossy, beam).forEach((found, i) => {
      const segment = lossy[i], whole = [...segment.hypotheses, ...found].filter((each) => !lost(segment, each) && !loopIn(each.ids, each.source));
      segment.protectedRetried = true;
      if (whole.length) segment.hypotheses = whole.slice(0, this.manifest.options.num_hypotheses);
    });
    const needsWords = !this.manifest.translates_numbers_alone, isTranslated = (text) => !!trimmed(text) && (!needsWords || hasWords(text));
    for (const segment of lossy.filter((each) => lost(each, each.hypotheses[0]))) {
      const parts = segment.protected.pieces().map(([, core]) => core), ids = parts.map((text, i) => (isTranslated(text) ? this.src.encode(segment.tags[Math.min(i, 1)] + text) : []));
      const some = ids.filter((each) => each.length), outputs = some.length ? this.search(some, { num_hypotheses: 1 }) : [];
      segment.around = parts.map((text, i) => (ids[i].length ? outputs.shift()[0] : asWritten(text)));
    }
  }

  _wrongNumbers(segment, text) {
    const { manifest } = this, kept = segment.protected;
    return manifest.keeps_numbers ? wrongNumbers(kept.outside(), kept.withoutSpans(text), [segment.direction.src, segment.direction.tgt], segment.direction.left_out) : [];
  }

  _retryNumbers(segments, find) {
    const wrong = segments.filter((segment) => !segment.around && this._wrongNumbers(segment, segment.hypotheses[0].text).length);
    find(wrong, { beam_size: NUMBERS_BEAM, num_hypotheses: NUMBERS_BEAM }).forEach((found, i) => {
      const segment = wrong[i], byIds = new Map();
      for (const each of [...segment.hypotheses, ...found]) if (!byIds.has(each.ids.join())) byIds.set(each.ids.join(), each);
      const degenerate = (each) => (segment.protected.spans.length ? segment.protected.restore(each.text)[1].length : 0) + !!loopIn(each.ids, each.source);
      const faults = (each) => 2 * degenerate(each) + !!this._wrongNumbers(segment, each.text).length;
      segment.hypotheses = [...byIds.values()].sort((a, b) => faults(a) - faults(b)).slice(0, this.manifest.options.num_hypotheses);
    });
  }

  // nmt/translation/translation.py
  _assemble({ lead, segments, spans, text: source, direction }) {
    if (!segments.length) return { text: "", score: 0, finished: true, flags: {}, segments: 0, loop_retried: false, sentence_split: false, protected_retried: false, alternatives: [] };
    const ranks = Math.max(...segments.map((segment) => segment.hypotheses.length)), inSource = source.includes("\ufffd");
    const plain = segments.map((segment) => segment.protected.withoutSpans(segment.text + segment.space)).join("");
    const all = Array.from({ length: ranks }, (_, rank) => {
      const written = [], lost = [], numbers = [], parts = [];
      for (const segment of segments) {
        const chosen = segment.hypotheses[Math.min(rank, segment.hypotheses.length - 1)], { protected: kept, around, verbatim, correction } = segment;
        const joined = around && kept.joinAround(around.map((part) => part.text));
        const [restored, gone] = around ? [joined, missing(kept.spans, joined)] : correction !== undefined || (spans === null && !verbatim) ? [chosen.text, []] : kept.restore(chosen.text);
        const output = segment.withEdges(restored);
        written.push((inSource ? output : output.replaceAll("\ufffd", "")) + segment.space);
        parts.push(...(around || [chosen]));
        lost.push(...gone);
        if (spans !== null && correction === undefined) lost.push(...lostMarks(segment.text, output, kept.spans, direction.left_out, [...wordsLacking(kept.outside(), (letter) => this.src.lacks(letter)), ...unseenWords(this.manifest.symbols.reduce((rest, symbol) => rest.replaceAll(symbol, " "), kept.outside()), this.octaves, direction.left_out)]));
        if (!verbatim) numbers.push(...this._wrongNumbers(segment, output));
      }
      const text = lead + written.join(""), count = (whole, span) => whole.split(span).length;
      if ((spans || []).length !== segments.reduce((sum, segment) => sum + segment.protected.spans.length, 0))
        lost.push(...new Set(spans.filter((span) => count(text, span) !== count(source, span))));
      const outside = segments.map((segment, i) => segment.protected.withoutSpans(written[i])).join("");
      const searched = parts.filter((part) => part.source.length), numTokens = searched.reduce((sum, part) => sum + part.source.length, 0) - 2 * searched.length;
      const copied = countCopied(segments.map((segment) => segment.protected.outside() + segment.space).join(""), outside), confidence = this.manifest.statistics?.confidence;
      const expected_chrf = confidence && searched.length ? expectedChrf(confidence, searched, copied) : undefined; // unknown
      const found = {
        empty: !trimmed(text),
        truncated: segments.some((segment) => segment.ids.length >= this.manifest.max_src_len),
        loop_unresolved: parts.some(({ ids, source: from }) => !!loopIn(ids, from)),
        copied_source: direction.src.code !== direction.tgt.code && isCopy(copied),
        protected_lost: withoutParts(lost, source), numbers_missed: numbers, unusual_source: unusual(plain, numTokens, this.manifest.statistics, this.octaves),
        doubtful: expected_chrf < USABLE_CHRF,
      };
      const flags = Object.fromEntries(Object.entries(found).filter(([, value]) => value === true || value.length));
      return { text, score: parts.reduce((sum, part) => sum + part.score, 0), finished: parts.every((part) => part.finished), flags, expected_chrf };
    });
    const retries = { loop_retried: segments.some((s) => s.retried), sentence_split: segments.some((s) => s.cut), protected_retried: segments.some((s) => s.protectedRetried) };
    const isCorrected = segments.every((segment) => segment.correction !== undefined), memory = { source: trimmed(source), target: trimmed(all[0].text), similarity: 1 };
    return { ...all[0], segments: segments.length, ...retries, alternatives: all.slice(1), ...(isCorrected && { flags: { from_memory: true }, memory }) };
  }
}
