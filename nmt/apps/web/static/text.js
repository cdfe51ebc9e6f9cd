// Texts, as `nmt translate` reads them: sentences, protected spans, numbers, loops. Each part names the Python that it
// follows; sentences alone are found in a simpler way, because the library that proposes them there is not for browsers.
const WHITE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000"; // str.isspace
export const LEADING = new RegExp(`^[${WHITE}]+`);
const TRAILING = new RegExp(`[${WHITE}]+$`);
export const trimmed = (text) => text.replace(LEADING, "").replace(TRAILING, "");
export const hasLetters = (text) => /\p{L}/u.test(text);
const isLower = (text) => /\p{Lowercase}/u.test(text) && !/[\p{Uppercase}\p{Lt}]/u.test(text);

export function stripped(text, start, end) {
  const part = text.slice(start, end);
  if (!trimmed(part)) return [start, start];
  return [start + part.length - part.replace(LEADING, "").length, start + part.replace(TRAILING, "").length];
}

// ---- Protected spans: nmt/data/text/spans.py and nmt/translation/protect.py ----

const W = "[\\p{L}\\p{N}_]";
const ATTRIBUTE = `[${WHITE}]{1,8}[A-Za-z_:@][\\p{L}\\p{N}_:.\\-]{0,63}[${WHITE}]?=[${WHITE}]?(?:"[^"<>\\n]{0,500}"|'[^'<>\\n]{0,500}'|[^${WHITE}"'<>=]{1,500})`;
const NAME = "[A-Za-z][\\p{L}\\p{N}_:.\\-]{0,31}";
const SPAN = new RegExp([
  "(?:(?<![A-Za-z0-9])(?:https?|ftps?|sftp|file)://|(?<![A-Za-z0-9])www\\.(?=[A-Za-z0-9]))[A-Za-z0-9\\-._~:/?#\\[\\]@!$&'()*+,;=%]{1,2000}",
  "(?<![A-Za-z0-9._%+\\-])[A-Za-z0-9._%+\\-]{1,64}@(?:[A-Za-z0-9\\-]{1,63}\\.){1,8}[A-Za-z]{2,63}",
  `<(?:/${NAME}[${WHITE}]?|${NAME}(?:${ATTRIBUTE}){0,16}[${WHITE}]?/?)>`,
  "&(?:#\\p{Nd}{1,7}|#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});",
  "\\$?\\{\\{ ?[\\p{L}\\p{N}_.:|\\-]{1,64} ?\\}\\}|\\$?\\{[\\p{L}\\p{N}_.:,!%#+\\-]{0,64}\\}",
  `(?<![\\p{Nd}%])%(?:\\p{Nd}{1,2}\\$|\\(${W}{1,64}\\))?[\\-+#0]{0,4}\\p{Nd}{0,4}(?:\\.\\p{Nd}{1,3})?(?:hh?|ll?|[Lzjt])?[diouxXeEfFgGcs@](?![A-Za-z]{3})`,
  "\u27e6\\p{Nd}{1,3}\u27e7",
].map((kind) => `(?:${kind})`).join("|"), "gu");
export const PLACEHOLDERS = [1, 2, 3, 4, 5, 6, 7, 8].map((number) => `\u27e6${number}\u27e7`);
const ANY_PLACEHOLDER = /\u27e6[1-8]\u27e7/g;
const withoutDoubleSpaces = (text) => trimmed(text.replace(/ {2,}/g, " "));

export function findSpans(text, symbols = []) {
  if (!/[@<&{%\u27e6]|:\/\/|www\./.test(text)) return [];
  const spans = [];
  for (const match of text.matchAll(SPAN)) {
    let found = match[0];
    if (found.includes("://") || found.startsWith("www.")) {
      const surplus = { ")": found.split(")").length - found.split("(").length, "]": found.split("]").length - found.split("[").length };
      while (found && (surplus[found.at(-1)]-- > 0 || ".,;:!?'".includes(found.at(-1)))) found = found.slice(0, -1);
    }
    if (!symbols.includes(found)) spans.push([match.index, match.index + found.length]);
  }
  return spans;
}

export function missing(spans, text) {
  const found = findSpans(text).map(([start, end]) => text.slice(start, end));
  const count = (list, span) => list.filter((each) => each === span).length;
  return [...new Set(spans)].filter((span) => count(found, span) !== count(spans, span));
}

export class Protected {
  constructor(text, spans, copies) { // `copies`: whether the model was trained with placeholders
    const kept = spans.slice(0, PLACEHOLDERS.length);
    let at = 0, masked = "";
    kept.forEach(([start, end], i) => (masked += text.slice(at, start) + PLACEHOLDERS[i], at = end));
    this.text = masked + text.slice(at);
    this.spans = kept.map(([start, end]) => text.slice(start, end));
    this.unmasked = spans.length && !copies ? text : null;
    this.source = this.unmasked ?? this.text;
    this.outside = this.spans.length ? this.text.replace(ANY_PLACEHOLDER, "") : this.text;
  }

  hasLetters() { return hasLetters(this.outside); }
  isOnlySpans() { return this.spans.length > 0 && !trimmed(this.outside); }
  bare() { return this.spans.length ? this.text.replace(ANY_PLACEHOLDER, " ") : this.text; }
  numbers() { return numbersIn(this.bare()); }
  between() { return this.text.split(ANY_PLACEHOLDER); }

  withoutSpans(text) {
    for (const span of [...this.spans].sort((a, b) => b.length - a.length)) text = text.replaceAll(span, " ");
    return this.spans.length ? text.replace(ANY_PLACEHOLDER, " ") : text;
  }

  // The translation with its spans, and the spans that are not in it exactly once.
  restore(translation) {
    const held = translation.match(ANY_PLACEHOLDER) || [];
    if (this.unmasked !== null) {
      if (held.length && !this.unmasked.match(ANY_PLACEHOLDER)) translation = withoutDoubleSpaces(translation.replace(ANY_PLACEHOLDER, ""));
      return [translation, missing(this.spans, translation)];
    }
    if (!this.spans.length && !held.length) return [translation, []];
    const known = new Map(this.spans.map((span, i) => [PLACEHOLDERS[i], span])), count = (symbol) => held.filter((each) => each === symbol).length;
    if (held.some((symbol) => !known.has(symbol) || count(symbol) > 1)) {
      const seen = new Set();
      translation = withoutDoubleSpaces(translation.replace(ANY_PLACEHOLDER, (symbol) => (known.has(symbol) && !seen.has(symbol) && seen.add(symbol) ? symbol : "")));
    }
    const text = translation.replace(ANY_PLACEHOLDER, (symbol) => known.get(symbol));
    const lost = [...known].filter(([symbol]) => count(symbol) !== 1).map(([, span]) => span);
    if (lost.length || !missing(this.spans, text).length) return [text, lost];
    const apart = withoutDoubleSpaces(translation.replace(ANY_PLACEHOLDER, (symbol) => ` ${known.get(symbol)} `));
    return missing(this.spans, apart).length ? [text, missing(this.spans, text)] : [apart, []];
  }

  joinAround(translations) {
    const written = [], apart = [];
    this.between().forEach((source, i) => {
      const text = trimmed(translations[i].replace(ANY_PLACEHOLDER, "")), span = this.spans[i] ?? "";
      const [start, end] = stripped(source, 0, source.length), blank = start === end;
      written.push(blank ? source : source.slice(0, start), text, blank ? "" : source.slice(end), span);
      apart.push(text, span);
    });
    const output = written.join("");
    return missing(this.spans, output).length ? apart.filter((part) => part).join(" ") : output;
  }
}

// ---- Numbers: nmt/data/text/spans.py ----

const NUMBER = /\p{Nd}{1,3}(?:[.,'’\u00a0\u202f ]\p{Nd}{3})+(?!\p{Nd})|\p{Nd}{2,}/gu;
const isDigit = (code) => /^\p{Nd}$/u.test(String.fromCodePoint(code));

function valueOf(character) {
  const code = character.codePointAt(0);
  if (code < 0x80) return character;
  if (code >= 0x1d7ce && code <= 0x1d7ff) return String((code - 0x1d7ce) % 10);
  let value = 0;
  while (value < 9 && isDigit(code - value - 1)) value++;
  return String(value);
}

export const numbersIn = (text) => (text.match(NUMBER) || []).map((found) => [...found].filter((c) => /\p{Nd}/u.test(c)).map(valueOf).join(""));
const onlyIn = (numbers, others) => [...new Set(numbers)].filter((number) => !others.includes(number));
export const differences = (source, output) => [...onlyIn(source, output), ...onlyIn(output, source)];

// ---- Copies and loops: nmt/translation/guards.py ----

const WORDS = /[\u2e80-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f]|(?:(?![\p{Nd}\u2e80-\u9fff\uf900-\ufaff])[\p{L}\p{N}])+/gu;

export function isCopy(source, output) {
  const words = (text) => (text.match(WORDS) || []).map((word) => word.toLowerCase()), left = new Map(), written = words(output);
  for (const word of words(source)) left.set(word, (left.get(word) || 0) + 1);
  const copied = written.filter((word) => left.get(word) > 0 && left.set(word, left.get(word) - 1)).length;
  return written.length >= 3 && copied > written.length / 2;
}

function longestRun(ids) {
  let best = [0, 0];
  for (let unit = 1; unit <= 4; unit++) {
    let run = 0, longest = 0;
    for (let i = unit; i < ids.length; i++) {
      run = ids[i] === ids[i - unit] ? run + 1 : 0;
      longest = Math.max(longest, run);
    }
    const repeats = Math.floor(longest / unit) + 1;
    if (repeats > Math.max(best[1], 1)) best = [unit, repeats];
  }
  return best[1] ? best : [Math.min(1, ids.length), Math.min(1, ids.length)];
}

// The size of the n-grams to forbid, if the output repeats itself; else 0.
export function loopIn(output, source) {
  const [unit, repeats] = longestRun(output), inSource = longestRun(source)[1];
  const allowed = inSource < 4 ? 3 : 2 * inSource;
  return repeats > allowed ? Math.max(2, unit * (allowed < 4 ? 2 : allowed)) : 0;
}

// ---- Sentences: nmt/translation/split.py ----

const ENDS = "!?:;…\\u037e\\u055c\\u0589\\u061d-\\u061f\\u06d4\\u0700-\\u0702\\u07f9\\u0837-\\u083e\\u0964\\u0965\\u104a-\\u104f\\u1362-\\u1368\\u166e" +
  "\\u1735\\u1736\\u1803-\\u1809\\u1944\\u1945\\u1aa8-\\u1aab\\u1b5a-\\u1b7e\\u1c3b-\\u1c7f\\u2024\\u203c\\u203d\\u2047-\\u2049\\u2e2e-\\u2e54\\u3002" +
  "\\ua4ff-\\uabeb\\ufe52-\\ufe57\\uff01\\uff0e\\uff1f\\uff61";
const MARK = new RegExp(`\\.(?![a-z\\p{Nd}])|[${ENDS}]`, "u");
const LAST = /[.!?…。！？।؟۔ \t\r\n"'”’“»)）」』]+$/;
const WORD = /[\p{L}\p{N}]/u;
const SENTENCE_END = new RegExp(`([^${WHITE}.${ENDS}“„"«»(\\['’{—–-]*)([.${ENDS}]+)((?:[${WHITE}]?[”“"'’»«)\\]」』）])*)$`, "u");
const PROPOSED = new RegExp(`[.!?…]+["'”’»«)\\]]*[${WHITE}]+|[。！？｡؟।۔]+[”」』）)]*[${WHITE}]*`, "gu");
const ITEM = new RegExp(`^[^\\p{L}\\p{N}_]*(?:\\p{Nd}{1,2}|\\p{L})[.)][${WHITE}]*$`, "u");
const ABBREVIATIONS = new Set(("Mr Mrs Ms Mt Dr Prof St Jr Sr vs etc e.g i.e cf approx Fig No Nr Str str bzw ca usw z.B d.h u.a Hr Fr Frau Abb S Bd M Mme Mlle p pp vol al " +
  "Sra Sta Ud Uds Av Profa डॉ श्री").split(" "));
const ORDINALS = "cs da de et eu fi hr hu is lb lv nb nn no pl sk sl sr tr".split(" ");

function continues(text, begin, at, language, chat) {
  const stop = text.slice(0, at).replace(TRAILING, "").length;
  const end = SENTENCE_END.exec(text.slice(Math.max(begin, stop - 50), stop)), following = WORD.exec(text.slice(at, at + 50));
  if (!end || !following) return !end;
  const [, word, mark, closing] = end, first = following[0], caseless = first.toLowerCase() === first.toUpperCase(), digit = /\p{N}/u.test(first);
  if (digit && (stop === at || /^(?:\.{2,}|…+)$/.test(mark))) return true;
  if (isLower(first) && !chat && (closing || "—–-".includes(text[at]) || mark !== "!" && mark !== "?")) return true; // “Where?” he asked
  if (closing && caseless && !digit) return !/[)）]$/.test(closing) && /^(?:と|って|[^，。！？\s]{1,6}[说說问問喊])/u.test(text.slice(at));
  if (mark !== ".") return false;
  if (/^(?:\p{Nd}{1,2}|[IVX]+)$/u.test(word) && ORDINALS.includes(language.slice(0, 2))) return true;
  if (digit) return /^\p{L}{1,4}$/u.test(word);
  return ABBREVIATIONS.has(word) || ([...word].length === 1 && /\p{L}/u.test(word) && !isLower(word) && word < "\u2e80");
}

// The start of every sentence except the first.
export function sentenceStarts(text, language) {
  if (!MARK.test(text.replace(LAST, ""))) return [];
  const starts = [], chat = isLower(text);
  let begin = 0, searched = 0, hasWord = false;
  for (const match of text.matchAll(PROPOSED)) {
    const at = match.index + match[0].length;
    if (at >= text.length) break;
    hasWord = hasWord || WORD.test(text.slice(searched, at));
    searched = at;
    if (ITEM.test(text.slice(begin, at)) || continues(text, begin, at, language, chat) || !hasWord) continue;
    starts.push(at);
    begin = at, hasWord = false;
  }
  if (starts.length && !WORD.test(text.slice(starts.at(-1)))) starts.pop();
  return starts;
}

const CLAUSE_END = new RegExp(`[,;:.!?،؛)\\]}»”’"—–-](?=[${WHITE}])|[，；：、。！？）】」』》〉…](?![，；：、。！？）】」』》〉…])`, "gu");
const SPACES = new RegExp(`[${WHITE}]+`, "gu");
const belongsToPrevious = (text, at) => /^[\udc00-\udfff\u200d]/.test(text.slice(at)) || text[at - 1] === "\u200d" || /^\p{M}/u.test(text.slice(at));

// Parts [start, end, was cut] of a text: its lines, and the sentences of long lines. `spans` stay whole.
export function* split(text, spans, language, limit, size, maxSentences) {
  const around = (at) => spans.find(([start, end]) => start < at && at < end);
  const notWithin = (start, at, end) => {
    const span = around(at);
    if (span) return span[0] > start ? span[0] : span[1];
    let moved = at;
    while (moved > start + 1 && moved < end && at - moved < 16 && belongsToPrevious(text, moved)) moved--;
    if (moved === start + 1 || at - moved === 16) return at;
    const other = around(moved);
    return other ? (other[0] > start ? other[0] : other[1]) : moved;
  };
  const longest = (start, end) => {
    let reach = start + limit;
    while (reach < end && size(start, reach) <= limit) reach = start + 2 * (reach - start);
    if (reach >= end && size(start, end) <= limit) return end;
    let low = start + 1, high = Math.min(reach, end);
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (size(start, middle) <= limit) low = middle;
      else high = middle;
    }
    return notWithin(start, low, end);
  };
  const boundary = (start, reach) => {
    const window = text.slice(start, reach + 1), least = Math.floor((reach - start) / 4);
    for (const [pattern, after] of [[CLAUSE_END, start + least], [SPACES, start]]) {
      const ends = [...window.matchAll(pattern)].map((match) => start + match.index + match[0].length);
      const fitting = ends.filter((at) => after < at && at <= reach && !around(at));
      if (fitting.length) return fitting.at(-1);
    }
    return reach;
  };
  for (const [from, to] of linesOf(text)) {
    const starts = lineStarts(text, from, to, spans, language);
    if ((maxSentences === null || starts.length < maxSentences) && size(from, to) <= limit) {
      yield [from, to, false];
      continue;
    }
    const edges = [from, ...starts, to];
    for (let i = 1; i < edges.length; i++) {
      let [start, end] = stripped(text, edges[i - 1], edges[i]), cut = false;
      while (start < end) {
        const reach = longest(start, end);
        if (reach === end) {
          yield [start, end, cut];
          break;
        }
        cut = true;
        const at = boundary(start, reach);
        yield [...stripped(text, start, at), true];
        [start] = stripped(text, at, end);
      }
    }
  }
}

function* linesOf(text) {
  let begin = 0;
  for (const match of [...text.matchAll(/\r?\n/g), { index: text.length, 0: "" }]) {
    const [start, end] = stripped(text, begin, match.index);
    if (start < end) yield [start, end];
    begin = match.index + match[0].length;
  }
}

// Marks inside of spans end no sentence.
export function lineStarts(text, start, end, spans, language) {
  let line = text.slice(start, end);
  const first = isLower(line) ? "x" : "X";
  for (const [from, to] of spans)
    if (from >= start && to <= end) line = line.slice(0, from - start) + first + "x".repeat(to - from - 1) + line.slice(to - start);
  return sentenceStarts(line, language).map((at) => start + at);
}
