// Texts, as `nmt translate` reads them, each part as the Python that it names; but sentences in a simpler way.
import { AFTER_TOKEN, ALPHABETIC_WORD, AMOUNT, AROUND, BEFORE_TOKEN, CHINESE_PAIRS, CHINESE_QUOTES, CODE_SIGN, DASHES, LIST_MARKER, NUMBER, NUMBERED, NUMBER_ALONE, ODD_MARK, ODD_WORD, OWNED_SIGN, PAIRS, PRINTED_TOKEN, PROSE_MARK, QUOTE, SIGN, SPAN, SYMBOL_RUN, UNIT } from "./patterns.js";

const WHITE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000"; // str.isspace
export const LEADING = new RegExp(`^[${WHITE}]+`);
const TRAILING = new RegExp(`[${WHITE}]+$`), PRINTED = new RegExp(`[^${WHITE}]+`, "gu");
export const trimmed = (text) => text.replace(LEADING, "").replace(TRAILING, "");
export const hasLetters = (text) => /\p{L}/u.test(text);
const isLower = (text) => /\p{Lowercase}/u.test(text) && !/[\p{Uppercase}\p{Lt}]/u.test(text);

export function stripped(text, start, end) {
  const part = text.slice(start, end);
  if (!trimmed(part)) return [start, start];
  return [start + part.length - part.replace(LEADING, "").length, start + part.replace(TRAILING, "").length];
}

// ---- Characters: nmt/data/text/characters.py ----

const JOINED = "\\u0600-\\u109f\\u1700-\\u1cff\\u2190-\\u2bff\\u20e3\\ua800-\\uabff\\ufb50-\\ufdff\\ufe0f\\ufe70-\\ufefc" +
  "\\u{10a00}-\\u{11fff}\\u{1e900}-\\u{1e95f}\\u{1f000}-\\u{1faff}\\u{e0020}-\\u{e007f}";
const REWRITTEN = new RegExp([
  `(?<run>(?<=[^${WHITE}.!?…。！？”»"')\\]])[ \\u000b\\u000c\\u001c-\\u001f\\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f]{2,}(?=[^${WHITE}]|$))`,
  "(?<space>[\\u000b\\u000c\\u001c-\\u001f\\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f])",
  "(?<hyphen>[\\u2010\\u2011])",
  "(?<apostrophe>(?<=[\\p{L}\\p{N}_\\u0300-\\u036f])[\\u00b4\\u2018\\u2019\\uff07](?=[\\p{L}\\p{Nl}\\p{No}]))",
  "(?<letters>[\\u0132\\u0133\\u01c4-\\u01cc\\u01f1-\\u01f3\\ufb00-\\ufb4f\\ufb50-\\ufc5d\\ufc64-\\ufd3d\\ufd50-\\ufdef\\ufe80-\\ufefc]|" +
    "[\\u017f\\u3000\\uff10-\\uff19\\uff21-\\uff3a\\uff41-\\uff5a\\uff66-\\uff9f\\u{1d400}-\\u{1d7ff}])",
  "[\\u0000-\\u0008\\u000e-\\u001b\\u007f-\\u0084\\u0086-\\u009f\\u00ad\\u061c\\u0640\\u115f\\u1160\\u17b4\\u17b5\\u200e\\u200f\\u202a-\\u202e" +
    "\\u2060-\\u206f\\u3164\\ufeff\\uffa0\\ufff9-\\ufffb\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0100}-\\u{e01ef}]+",
  `(?<![${JOINED}])[\\u034f\\u180b-\\u180f\\u200b-\\u200d\\ufe00-\\ufe0f\\u{e0001}\\u{e0020}-\\u{e007f}]+(?![${JOINED}])`,
].join("|"), "gu");

// `learned`: the characters that a model knows, if it was trained on text as it was written; else none.
export function rewritten(text, learned) {
  const knows = (found) => learned.size > 0 && [...found].every((character) => learned.has(character));
  const replaced = text.replace(REWRITTEN, (...match) => {
    const { apostrophe, letters, hyphen, space, run } = match.at(-1);
    if (apostrophe) return knows(apostrophe) ? apostrophe : "'";
    if (letters) return knows(letters) ? letters : letters.normalize("NFKC");
    return hyphen ? "-" : space || run ? " " : "";
  });
  const composed = replaced.normalize("NFC");
  return composed !== replaced && knows(replaced) && !knows(composed) ? replaced : composed;
}

export const asRead = (text) => rewritten(text, new Set());

// A text as a model reads it, with its spans, which stay as they are.
export function readWith(learned, text, spans) {
  if (!hasWords(text) || rewritten(text, learned) === text) return [text, spans];
  let read = "", at = 0;
  const moved = spans.map(([start, end]) => {
    read += rewritten(text.slice(at, start), learned);
    const first = read.length;
    read += text.slice(start, at = end);
    return [first, read.length];
  });
  return [read + rewritten(text.slice(at), learned), moved];
}

const SYMBOL = new RegExp(AROUND, "u");
const BRACKETS = ["()", "[]", "{}", "（）", "［］", "｛｝", "【】", "〔〕"];

// What is between the symbols at both ends of a text.
export function withinSymbols(text) {
  const characters = [...text];
  let start = 0, end = characters.length;
  while (start < end && SYMBOL.test(characters[start])) start++;
  while (start < end && SYMBOL.test(characters[end - 1])) end--;
  return [0, start, end].map((to) => characters.slice(0, to).join("").length).slice(1);
}

// The symbols and brackets before and after the words of a text.
export function edges(text) {
  let inner = text.slice(...withinSymbols(text));
  const around = inner.slice(0, 1) + inner.slice(-1), within = inner.slice(1, -1);
  if (BRACKETS.includes(around) && ![...around].some((mark) => within.includes(mark))) inner = within.slice(...withinSymbols(within));
  const start = text.indexOf(inner);
  return hasWords(inner) ? [text.slice(0, start), text.slice(start + inner.length)] : ["", ""];
}

const MARKER = new RegExp(`^${LIST_MARKER}`, "u");

// The marker of a list at the beginning of a text.
export function listMarker(text) {
  const [marker] = MARKER.exec(text) ?? [""];
  return marker && hasWords(text.slice(marker.length)) ? marker : "";
}

// An output after the marker of its source, unless it has that already.
export function withMarker(marker, output) {
  const core = trimmed(marker).replace(/^[(（]+/, "");
  const number = /^\p{Nd}/u.test(core) && new RegExp(`(?<!\\p{Nd})${core.replace(/[.)）]+$/, "").replaceAll(".", "\\.")}(?!\\p{Nd})`, "u");
  const isWritten = DASHES.includes(core) ? DASHES.includes(output.slice(0, 1)) : number ? number.test(output) : output.includes(core);
  return isWritten ? output : marker + output;
}

// ---- Protected spans: nmt/data/text/spans.py and nmt/translation/protect.py ----

const SPANS = new RegExp(SPAN, "gu"), SIGNS = new RegExp(SIGN, "u"), UNITS = new RegExp(UNIT, "gu"), NUMBERS = new RegExp(NUMBER, "gu"), AMOUNTS = new RegExp(AMOUNT, "gu");
export const PLACEHOLDERS = [1, 2, 3, 4, 5, 6, 7, 8].map((number) => `\u27e6${number}\u27e7`);
const ANY_PLACEHOLDER = /\u27e6[1-8]\u27e7/g;
const withoutDoubleSpaces = (text) => trimmed(text.replace(/ {2,}/g, " "));
const CLOSING = { "{": "}", "(": ")", "[": "]" };
const CLOSED_BY = { "<%": "%>", "<?": "?>", "<!--": "-->", "\\(": "\\)", "\\[": "\\]" };
const REACH = 4000, MOST_INSIDE = 200;
const ALL_CLOSING = { ...CLOSING, ...Object.fromEntries((PAIRS + CHINESE_PAIRS).match(/../gu).map((pair) => [...pair])) };
const EVERY_BRACKET = new RegExp(`"[{}]"|[{}()[\\]${PAIRS}${CHINESE_PAIRS}]`, "gu"), ONLY_SYMBOLS = new RegExp(`^(?:${SYMBOL_RUN})$`, "u");
const CHINESE = /[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]/;
const NUMBER_BEFORE = new RegExp(`\\p{Nd}[${WHITE}]?(?:(?!\\p{Nd})[\\p{L}\\p{N}_]){1,9}\\.?[${WHITE}]$`, "u"); // 5 Mio. €
const NUMBERS_OF_PLACEHOLDERS = new RegExp(NUMBERED, "gu"), SIGNS_OF_NUMBERS = new RegExp(OWNED_SIGN, "gu");
const ODD_MARKS = new RegExp(ODD_MARK, "gu"), ODD_WORDS = new RegExp(ODD_WORD, "gu"), ALPHABETIC_WORDS = new RegExp(ALPHABETIC_WORD, "gu"), PRINTED_TOKENS = new RegExp(PRINTED_TOKEN, "gu"), CODE_SIGNS = new RegExp(CODE_SIGN, "u"), NUMBERS_ALONE = new RegExp(`^(?:${NUMBER_ALONE})$`, "u"), QUOTES = new RegExp(QUOTE, "u"), PROSE_MARKS = new RegExp(PROSE_MARK, "gu");
export const isSymbol = (span) => ONLY_SYMBOLS.test(span);

function withoutTail(url) {
  const surplus = {};
  for (const [opening, closing] of Object.entries(CLOSING)) surplus[closing] = url.split(closing).length - url.split(opening).length;
  while (url && (surplus[url.at(-1)]-- > 0 || ".,;:!?'".includes(url.at(-1)))) url = url.slice(0, -1);
  return url;
}

function endsOfBrackets(text) {
  const ends = new Map(), waiting = {};
  for (const { 0: sign, index } of text.matchAll(EVERY_BRACKET)) {
    if (ALL_CLOSING[sign]) (waiting[ALL_CLOSING[sign]] ??= []).push(index);
    else if (waiting[sign]?.length) ends.set(waiting[sign].pop(), index + 1);
  }
  return ends;
}

function endOfBracket(text, start, opened, ends) {
  const opening = text.slice(start, opened);
  if (opening === "((") {
    const end = ends.get(start) ?? start;
    return text.slice(end - 2, end) === "))" ? end : start;
  }
  const end = ends.get(opened - 1) ?? start;
  if (opening !== "[" || end === start) return end;
  const inside = text.slice(opened, end - 1), word = trimmed(inside);
  if (inside.startsWith("[") && inside.endsWith("]")) return end;
  const before = text.slice(Math.max(0, start - 8), start).replace(TRAILING, "").at(-1) ?? "", after = text.slice(end, end + 8).replace(LEADING, "")[0] ?? "";
  const closing = text.indexOf(`[/${word}]`, end);
  let prose;
  if (text[end] === "(" || (word.includes(" ") && !word.includes("="))) prose = true;
  else if (!/^\p{L}+$/u.test(word.replaceAll("-", ""))) prose = /^\p{L}+[.!?…]$/u.test(word);
  else if (word.toLowerCase() === word.toUpperCase()) prose = true;
  else if (closing >= 0 && closing + word.length + 3 <= end + REACH) prose = false;
  else if (/[A-Za-z0-9]/.test(text.slice(Math.max(0, start - 1), start) + text.slice(end, end + 1))) prose = true;
  else if (/[\p{L}\p{N},]/u.test(before)) prose = false;
  else prose = !(isLower(after) || after === ",");
  return prose ? start : end;
}

function endOfMark(text, start, end, isChinese) {
  const mark = text[start], inside = text.slice(start + 1, Math.min(end - 1, start + MOST_INSIDE));
  if (CHINESE_QUOTES.includes(mark)) return isChinese ? start : start + 1;
  if (isChinese && CHINESE_PAIRS.includes(mark)) return /^[A-Za-z_][A-Za-z0-9_.-]*$/.test(inside) ? end : start;
  const isLine = [start - 1, end].every((at) => (text[at] ?? "\n") === "\n"), spaces = inside.split(" ").length - 1;
  const isSentence = spaces > (isLine ? 0 : 2) || /[.!?…]$/.test(inside), isForeign = hasLetters(inside) && inside.toLowerCase() === inside.toUpperCase();
  return isSentence || isForeign || end - start > MOST_INSIDE ? start + 1 : end;
}

// The spans of a text, with the signs that `lacks` says the model cannot write.
export function findSpansOfModel(text, symbols, lacks) {
  const spans = findSpans(text, symbols), signs = [...text.matchAll(SIGNS_OF_NUMBERS)].filter(({ 0: sign, groups }) => lacks(groups.sign) && !symbols.includes(sign)).map(({ 0: sign, index }) => [index, index + sign.length]);
  return [...spans, ...signs.filter(([start, end]) => !spans.some((span) => span[0] < end && start < span[1]))].sort((a, b) => a[0] - b[0]);
}

// Whether a span may be one with its neighbor, as in %s%d.
const joins = (part) => !(`<&${PAIRS}${CHINESE_PAIRS}${CHINESE_QUOTES}`.includes(String.fromCodePoint(part.codePointAt(0))) || isSymbol(part));

export function findSpans(text, symbols = []) {
  if (!SIGNS.test(text)) return [];
  const spans = [], isChinese = CHINESE.test(text), numbered = [...new Set(text.match(NUMBERS_OF_PLACEHOLDERS))].sort(), prices = "$1$2$3$4$5$6$7$8$9".startsWith(numbered.join("")) ? [] : numbered;
  let ends = null, match;
  SPANS.lastIndex = 0;
  while ((match = SPANS.exec(text))) {
    const start = match.index, found = match[0];
    let end = start + found.length;
    if (prices.includes(found)) end = start;
    else if (match.groups.currency && NUMBER_BEFORE.test(text.slice(Math.max(0, start - 16), start))) end = start;
    else if (match.groups.mark) end = endOfMark(text, start, (ends ??= endsOfBrackets(text)).get(start) ?? start + 1, isChinese);
    else if (match.groups.open === undefined) {
      if ((found.slice(0, 17).includes("/") && !"&#".includes(found[0])) || found.startsWith("www.")) end = start + withoutTail(found).length;
    } else if (CLOSED_BY[found]) {
      const closed = text.slice(end, end + REACH).indexOf(CLOSED_BY[found]);
      end = closed >= 0 ? end + closed + CLOSED_BY[found].length : found[0] === "\\" ? end : start;
    } else end = endOfBracket(text, start, end, (ends ??= endsOfBrackets(text)));
    SPANS.lastIndex = Math.max(end, start + 1);
    if (end > start && !symbols.includes(text.slice(start, end))) {
      const last = spans.at(-1), isJoined = last?.[1] === start && joins(text.slice(...last)) && joins(text.slice(start, end));
      if (isJoined) last[1] = end;
      else spans.push([start, end]);
    }
  }
  return spans;
}

const IN_ORDER = /^(?:(%)[-+#0]*\p{Nd}*(?:\.\p{Nd}+)?(?:hh?|ll?|[Lzjt])?[A-Za-z@]|[<[]\/?([\p{L}\p{N}_:.-]+)[^<[]*[>\]])$/u;

// Where each span of `counts` stands, up to so many times, but not in a longer one of `others`.
function placesOutside(counts, text, others) {
  const places = new Map([...counts.keys()].map((span) => [span, []]));
  for (const length of new Set([...counts.keys()].map((span) => span.length))) {
    const longer = others.filter(([start, end]) => end - start > length);
    for (let at = 0, next = 0; at + length <= text.length; at++) {
      while (next < longer.length && longer[next][1] <= at) next++;
      const span = text.slice(at, at + length), found = places.get(span);
      if (!found || found.length === counts.get(span) || at < (found.at(-1) ?? -length) + length) continue;
      if (!(next < longer.length && longer[next][0] < at + length)) found.push(at);
    }
  }
  return places;
}

const kindOf = (span) => {
  const match = IN_ORDER.exec(span);
  return match ? match[1] ?? match[2] : "";
};

// A mark of each kind that a source has more often than an output.
function marksLeftOut(source, output) {
  const kindOf = ({ groups }) => Object.keys(groups).find((kind) => groups[kind] !== undefined);
  const read = [...source.matchAll(PROSE_MARKS)], left = new Map();
  if (!read.length) return new Map();
  for (const mark of read) left.set(kindOf(mark), (left.get(kindOf(mark)) ?? 0) + 1);
  for (const mark of output.matchAll(PROSE_MARKS)) left.set(kindOf(mark), (left.get(kindOf(mark)) ?? 0) - 1);
  if (QUOTES.test(output)) left.delete("quotation");
  return new Map(read.filter((mark) => left.get(kindOf(mark)) > 0).map((mark) => [kindOf(mark), mark]));
}

// The words of a text, in alphabets, with a letter that a vocabulary lacks.
export function wordsLacking(text, lacks) {
  if (![...text].some(lacks)) return [];
  const words = text.match(ALPHABETIC_WORDS) ?? [], lacking = words.filter((word) => [...word].some(lacks));
  return 2 * lacking.length < words.length ? lacking : [];
}

const trigramsOf = (characters) => characters.slice(2).map((last, at) => characters[at] + characters[at + 1] + last);

// The octave of the frequency of each word that training has seen: 0 for one source, n for 2^n and more.
export const octavesOf = (statistics) => Object.assign(
  new Map([statistics?.once ?? "", ...(statistics?.words ?? [])].flatMap((words, i) => words.split(" ").filter(Boolean).map((word) => [word, i]))),
  { trigrams: new Set(trigramsOf([...["", ...(statistics?.words ?? []), ""].join(" ")])) }, // of the words in 2 sources and more
);

const UNSEEN = "words by shape, forms and tokens"; // of models that did not count them
const LONG = 7, STRANGE = 2; // letters, and trigrams, that more are counted as

// The tokens of a text, without the quotation marks and the punctuation around them.
function* printedTokens(text) {
  for (const [printed] of text.matchAll(PRINTED_TOKENS)) {
    let start = 0, end = printed.length;
    while (start < end && BEFORE_TOKEN.includes(printed[start])) start++;
    while (start < end && AFTER_TOKEN.includes(printed[end - 1])) end--;
    if (start < end) yield printed.slice(start, end);
  }
}

// How many letters a word has, and how many of its trigrams, with the spaces around it, are not in the words that training has seen.
function shapeOf(word, trigrams) {
  const letters = [...word], strange = trigramsOf([" ", ...letters, " "]).filter((each) => !trigrams.has(each)).length;
  return `${Math.min(letters.length, LONG)} ${Math.min(strange, STRANGE)}`;
}

// How a token is written: a, A or x for words, 0 for numbers, and each sign once.
function formOf(token, share) {
  if (/\p{L}°/u.test(token)) return "°";
  if (/[\p{L}\p{N}_][,;!?…]\p{L}|\p{L}[,;!?…][\p{L}\p{N}_]/u.test(token)) return ";";
  const letter = (word) => share !== "unseen" ? "a" : [...word].length === 1 && !token.includes("-") ? "x" : /^\p{Uppercase}/u.test(word) ? "A" : "a";
  const form = token.replace(ALPHABETIC_WORDS, letter).replace(/\p{Nd}+/gu, "0").replace(/([^\p{L}\p{N}_])\1+/gu, "$1");
  return `${form} ${share}`;
}

// The words of a text without spans, in alphabets, and its tokens that training has not seen, but those, and of kinds, that targets leave out.
export function unseenWords(text, octaves, leftOut) {
  if (leftOut.includes(UNSEEN)) return []; // they were not counted
  const hasSmall = (some) => /[\p{Lowercase}\p{Lt}]/u.test(some), isLoud = text.includes(" ") && !hasSmall(text);
  const kindOf = (token) => {
    const words = (token.match(ALPHABETIC_WORDS) ?? []).map((word) => word.toLowerCase());
    if (words.length === 1 && words[0] === token.toLowerCase()) {
      const rest = [...token].slice(1).join(""), isSeen = octaves.has(words[0]);
      if (/\p{Uppercase}/u.test(rest) && !hasSmall(rest) && !isLoud) return isSeen ? "capitals seen" : "capitals";
      return isSeen ? "" : `${/^\p{Uppercase}/u.test(token) && !isLoud ? "capital" : "small"} ${shapeOf(words[0], octaves.trigrams)}`;
    }
    const hasLetters = /-|^\p{Nd}+\p{L}/u.test(token), seen = words.map((word) => octaves.has(word) && ([...word].length > 1 || hasLetters)), allSeen = seen.every(Boolean);
    if ((words.length ? allSeen : NUMBERS_ALONE.test(token)) && !CODE_SIGNS.test(token)) return "";
    return `form ${formOf(token, allSeen ? "seen" : seen.some(Boolean) ? "partly seen" : "unseen")}`;
  };
  return [...printedTokens(text)].filter((token) => !["", ...leftOut].includes(kindOf(token)));
}

// What is lost, each once, but not what is within longer ones.
export function withoutParts(lost, source) {
  const whole = new Set();
  let rest = source;
  for (const item of [...new Set(lost)].sort((a, b) => [...b].length - [...a].length)) {
    if (!rest.includes(item) && source.includes(item)) continue;
    whole.add(item);
    rest = rest.replaceAll(item, "\0");
  }
  return [...new Set(lost)].filter((item) => whole.has(item));
}

// What the output lacks of a source: words beside odd marks, odd and unknown words, marks of prose.
export function lostMarks(source, output, spans = [], leftOut = [], unknown = []) {
  const named = (text) => [...spans].sort((a, b) => b.length - a.length).reduce((rest, span) => rest.replaceAll(span, ("<[\\".includes(span[0]) ? " " : isSymbol(span) || span[0] === "&" ? "º" : "ª").repeat(span.length)), text);
  const read = named(source), written = named(output), left = written.match(ODD_MARKS) ?? [];
  const lost = new Set((read.match(ODD_MARKS) ?? []).filter((mark) => !left.includes(mark) || !left.splice(left.indexOf(mark), 1)));
  const signOf = (word) => [[...lost].find((mark) => word.includes(mark)) ?? []].flatMap((mark) => [...mark])[0];
  const words = [...read.matchAll(PRINTED)].filter(([word]) => signOf(word) && !leftOut.includes(`mark ${signOf(word)}`));
  const prose = marksLeftOut(read, written), halves = prose.has("opening") === prose.has("closing") ? [] : ["opening", "closing"];
  const ofProse = [...prose].filter(([kind]) => !leftOut.includes(kind) || halves.includes(kind)).map(([, mark]) => mark);
  const [inWords, odd, marks] = [words, [...read.matchAll(ODD_WORDS)].filter(({ 0: word, groups }) => !written.includes(word) && !leftOut.some((kind) => groups[kind] !== undefined)), ofProse].map((some) => some.map(({ 0: word, index }) => source.slice(index, index + word.length)));
  return [...[...inWords, ...odd].map((word) => word.replace(/[.,!?]+$/, "")), ...unknown.filter((word, i) => unknown.indexOf(word) === i && output.split(word).length <= unknown.filter((other) => other === word).length), ...marks].filter((word) => !leftOut.includes(word));
}

export function missing(spans, text) {
  if (!spans.length) return [];
  const others = findSpans(text), counts = new Map(), places = new Map();
  for (const span of spans) counts.set(span, (counts.get(span) ?? 0) + 1), places.set(span, []);
  for (const [start, end] of others) places.get(text.slice(start, end))?.push(start);
  const rarer = new Map([...counts].filter(([span, count]) => places.get(span).length < count));
  for (const [span, starts] of placesOutside(rarer, text, others)) places.set(span, starts);
  const lost = [...counts].filter(([span, count]) => places.get(span).length !== count).map(([span]) => span);
  if (lost.length) return lost;
  const written = [...places].flatMap(([span, starts]) => starts.map((start) => [start, span])).sort((a, b) => a[0] - b[0]).map(([, span]) => span);
  const [before, after] = [spans, written].map((side) => side.filter(kindOf).sort((a, b) => (kindOf(a) < kindOf(b) ? -1 : kindOf(a) > kindOf(b) ? 1 : 0)));
  return [...new Set(before.filter((span, i) => span !== after[i]))];
}

const UNSPACED = "\\u0e00-\\u0fff\\u1000-\\u109f\\u1780-\\u17ff\\u2e80-\\u2fdf\\u3005-\\u3007\\u3040-\\u30ff\\u3100-\\u312f\\u31a0-\\u31ff\\u3400-\\u4dbf\\u4e00-\\u9fff\\uf900-\\ufaff\\uff66-\\uff9f\\u{20000}-\\u{3ffff}";
const SPACED = `(?![${UNSPACED}])[\\p{L}\\p{N}_]`, IS_UNSPACED = new RegExp(`[${UNSPACED}]`, "u"), IS_SPACE = new RegExp(`[${WHITE}]`);
const END_MARKS = " .,;:!?…،؛؟۔।。，、；：！？", MARKS = `${WHITE}${END_MARKS}"'“”„‚‘’«»‹›()[\\]{}<>/|+=*—–\\-（）「」『』`;
const PIECE = new RegExp(`^([${MARKS}]*)((?:.*[^${MARKS}])?)([${MARKS}]*)$`, "su"), ENDING = new RegExp(`[${END_MARKS}]+$`, "u"), LAST_MARKS = [".", "!", "?", "…"];

export class Protected {
  constructor(text, spans, copies) { // `copies`: whether the model was trained with placeholders
    const kept = copies ? spans.slice(0, PLACEHOLDERS.length) : spans;
    const bounds = [0, ...kept.flatMap(([start, end]) => [start, end]), text.length];
    const parts = bounds.slice(1).map((end, i) => text.slice(bounds[i], end));
    this.between = parts.filter((_, i) => i % 2 === 0);
    this.spans = parts.filter((_, i) => i % 2 === 1);
    this.copies = copies;
    this.source = this.between.map((part, i) => part + ((copies && this.spans.length > i ? PLACEHOLDERS : this.spans)[i] ?? "")).join("");
  }

  outside() { return this.between.join(" "); }
  hasWords() { return hasWords(this.outside()); }
  isOnlySpans() { return this.spans.length > 0 && !trimmed(this.outside()); }

  withoutSpans(text) {
    for (const span of [...this.spans].sort((a, b) => b.length - a.length)) text = text.replaceAll(span, " ");
    return this.spans.length ? text.replace(ANY_PLACEHOLDER, " ") : text;
  }

  // The translation with its spans, and the spans that are not in it exactly once.
  restore(translation) {
    const held = translation.match(ANY_PLACEHOLDER) || [];
    if (!this.spans.length && !held.length) return [translation, []];
    const left = new Map(), count = (symbol) => held.filter((each) => each === symbol).length;
    for (const symbol of this.source.match(ANY_PLACEHOLDER) || []) left.set(symbol, (left.get(symbol) ?? 0) + 1);
    const without = translation.replace(ANY_PLACEHOLDER, (symbol) => (left.set(symbol, (left.get(symbol) ?? 0) - 1), left.get(symbol) >= 0 ? symbol : ""));
    if (without !== translation) translation = withoutDoubleSpaces(without);
    if (!this.copies) return [translation, missing(this.spans, translation)];
    const known = new Map(this.spans.map((span, i) => [PLACEHOLDERS[i], span])), spanOf = (symbol) => known.get(symbol) ?? symbol;
    if (this.spans.length) translation = this.withSpaces(translation);
    const text = translation.replace(ANY_PLACEHOLDER, spanOf);
    const lost = [...known].filter(([symbol]) => count(symbol) !== 1).map(([, span]) => span);
    if (lost.length || !missing(this.spans, text).length) return [text, lost];
    const apart = withoutDoubleSpaces(translation.replace(ANY_PLACEHOLDER, (symbol) => ` ${spanOf(symbol)} `));
    return missing(this.spans, apart).length ? [text, missing(this.spans, text)] : [apart, []];
  }

  withSpaces(translation) {
    for (const [, before, symbol, after] of ` ${this.source} `.matchAll(/(?<=(.))(\u27e6[1-8]\u27e7)(?=(.))/gsu)) {
      const isTag = "<[\\".includes((this.spans[PLACEHOLDERS.indexOf(symbol)] ?? symbol)[0]);
      for (const [side, glued] of [[before, `(?<=${SPACED})(?=${symbol})`], [after, `(?<=${symbol})(?=${SPACED})`]])
        if (IS_SPACE.test(side) || (!isTag && IS_UNSPACED.test(side))) translation = translation.replace(new RegExp(glued, "gu"), " ");
    }
    return translation;
  }

  // The text before, between and after the spans, each as [marks before, text to translate, marks after].
  pieces() {
    const pieces = this.between.map((part) => PIECE.exec(part).slice(1)), first = pieces[0], last = pieces.at(-1);
    if (!last[1] && LAST_MARKS.includes(last[0]) && pieces.at(-2)?.[1]) pieces.at(-2)[1] += last[0];
    if (first[1]) [first[0], first[1]] = ["", first[0].replace(LEADING, "") + first[1]];
    if (pieces.length > 1 && last[1]) [last[1], last[2]] = [last[1] + last[2].replace(TRAILING, ""), ""];
    return pieces;
  }

  joinAround(translations) {
    const written = [], apart = [], pieces = this.pieces();
    pieces.forEach(([lead, core, tail], i) => {
      let text = trimmed(translations[i].replace(ANY_PLACEHOLDER, ""));
      if (core && i < pieces.length - 1) {
        const bare = text.replace(ENDING, "") || text;
        if (i === pieces.length - 2 && LAST_MARKS.includes(pieces.at(-1)[0])) pieces.at(-1)[0] = text.slice(bare.length) || pieces.at(-1)[0];
        text = bare;
      }
      const span = this.spans[i] ?? "";
      written.push(lead, text, tail, span);
      apart.push(text, span);
    });
    const output = written.join("");
    return missing(this.spans, output).length ? apart.filter((part) => part).join(" ") : output;
  }
}

// ---- Numbers: nmt/data/text/numbers.py ----

const isDigit = (code) => /^\p{Nd}$/u.test(String.fromCodePoint(code)), DIGIT = /[\p{Nd}\u00bc-\u00be\u2150-\u215e]/u;
export const hasWords = (text) => hasLetters(DIGIT.test(text) ? text.replace(UNITS, "") : text);

function valueOf(character) {
  const code = character.codePointAt(0);
  if (code < 0x80) return character;
  if (code >= 0x1d7ce && code <= 0x1d7ff) return String((code - 0x1d7ce) % 10);
  let value = 0;
  while (value < 9 && isDigit(code - value - 1)) value++;
  return String(value);
}

const ascii = (digits) => [...digits].filter((c) => /\p{Nd}/u.test(c)).map(valueOf).join("");

function fractionOf(character) { // ½ is 1⁄2 in compatibility decomposition
  const [over, under] = character.normalize("NFKD").split("\u2044").map(Number);
  return String(Number((over / under).toPrecision(3))).slice(1);
}

export const numbersIn = (text) => (DIGIT.test(text) ? [...text.matchAll(NUMBERS)].flatMap(({ groups }) => {
  const sign = groups.sign ? "-" : "", fraction = groups.fraction ? fractionOf(groups.fraction) : "";
  if (groups.grouped) return [sign + ascii(groups.grouped) + (groups.decimals ? `.${ascii(groups.decimals)}` : fraction)];
  const parts = (groups.parts || "0").split(/[.,:٫]/).map((part) => ascii(part) || "0"), isDate = groups.stop && !groups.parts.includes(",") && +parts.at(-1).slice(0, 3) > 0 && +parts.at(-1).slice(0, 3) <= 12;
  if (parts.length === 2 && !isDate && !groups.parts.includes(":")) return [`${sign}${parts[0]}.${parts[1]}`];
  return [sign + parts[0] + fraction, ...parts.slice(1)];
}) : []);

const value = (number) => (number.includes(".") ? number.replace(/0+$/, "").replace(/\.$/, "") : number), isOneDigit = (number) => number.length === 1;

function rest(numbers, others) {
  const left = new Map();
  for (const other of others.map(value)) left.set(other, (left.get(other) || 0) + 1);
  return numbers.filter((number) => !(left.get(value(number)) > 0 && left.set(value(number), left.get(value(number)) - 1)));
}

export function differences(source, output) {
  const same = (one, two) => one.join("\0") === two.join("\0"), [first, second] = [source.map(value), output.map(value)];
  if (same(first, second)) return [[], []];
  const rests = [rest(source, output), rest(output, source)];
  if (!rests[0].length && !rests[1].length) {
    const [one, two] = [first, second].map((side) => [...side].sort((a, b) => a.length - b.length));
    return [one.filter((number, i) => number !== two[i]), []];
  }
  const parts = rests.map((side) => side.flatMap((number) => number.split(".")).sort());
  return same(...parts) ? [[], []] : rests;
}

// `words` are those for numbers, by number, in the language of the source and of the output.
export function wrongNumbers(source, output, words, leftOut) {
  const written = numbersIn(output), [gone, more] = differences(numbersIn(source), written);
  const isWord = (text, { words: known, spaced }) => (number) => (known[number] || []).some((word) =>
    spaced ? new RegExp(`(?<!\\p{L})${word}${[...word].length < 3 ? "(?!\\p{L})" : ""}`, "u").test(text.toLowerCase()) : text.toLowerCase().includes(word));
  let missed = gone.filter((number) => !isWord(output, words[1])(number));
  const added = more.filter((number) => !isWord(source, words[0])(number));
  const writesDigits = (Object.keys(words[1].words).length ? written : added).some(isOneDigit);
  const amounts = new Set([...source.matchAll(AMOUNTS)].map(([found]) => ascii(found)));
  missed = missed.filter((number) => !isOneDigit(number) || !leftOut.includes(writesDigits || amounts.has(number) ? "amounts" : "digits"));
  return [...missed, ...added.filter((number) => missed.length || !isOneDigit(number))];
}

// ---- Copies and loops: nmt/translation/guards.py ----

const WORDS = /[\u2e80-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f]|(?:(?![\p{Nd}\u2e80-\u9fff\uf900-\ufaff])[\p{L}\p{N}])+/gu;

const countedWords = (text) => (text.match(WORDS) || []).map((word) => word.toLowerCase());

// How many words of the output come from the source, and how many there are.
export function countCopied(source, output) {
  const left = new Map(), written = countedWords(output);
  for (const word of countedWords(source)) left.set(word, (left.get(word) || 0) + 1);
  return [written.filter((word) => left.get(word) > 0 && left.set(word, left.get(word) - 1)).length, written.length];
}

export const isCopy = ([copied, words]) => words >= 3 && copied > words / 2;

// The chrF that such a translation had on average: nmt/data/text/text_statistics.py.
export function expectedChrf(weights, parts, [copied, words]) {
  const joined = (name) => parts.flatMap((part) => [...part[name]]), repeated = (ids) => 1 - new Set(ids).size / Math.max(1, ids.length);
  const [ids, source] = [joined("ids"), joined("source")], sum = (count) => parts.reduce((total, part) => total + count(part), 0);
  const mean = sum(({ score }) => score) / Math.max(1, sum((part) => part.ids.length + part.finished));
  const longer = Math.log((ids.length + 1) / (source.length + 1)) - weights.usual_ratio;
  const expected = weights.intercept + weights.probability * Math.exp(Math.min(mean, 0)) + weights.short * Math.max(0, -longer) + weights.long * Math.max(0, longer) +
    weights.repetition * Math.max(0, repeated(ids) - repeated(source)) + weights.copied * copied / Math.max(1, words);
  return Math.min(Math.max(expected, 0), 100);
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

// The size of the n-grams to forbid in an output; 0 if none repeats.
export function loopIn(output, source) {
  const [unit, repeats] = longestRun(output), inSource = longestRun(source)[1];
  const allowed = inSource < 4 ? 3 : 2 * inSource;
  return repeats > allowed ? Math.max(2, unit * (allowed < 4 ? 2 : allowed)) : 0;
}

// Why a source is unlike the training text, but for its language.
export function unusual(text, numTokens, statistics, octaves) {
  const capitals = text.match(/\p{Uppercase}/gu) ?? [], words = countedWords(text), found = words.map((word) => octaves.get(word) || -2);
  const isLoud = capitals.length >= 8 && trimmed(text).includes(" ") && !/[\p{Lowercase}\p{Lt}]/u.test(text);
  const isLong = words.length >= 8 || words.reduce((sum, word) => sum + [...word].length, 0) >= 20;
  const isRare = isLong && found.reduce((sum, octave) => sum + octave, 0) < statistics?.usual_octave * found.length;
  const reasons = {
    capitals: !!statistics && !statistics.knows_capitals && isLoud,
    repetition: longestRun(words)[1] >= 6,
    noise: !!statistics && !(isLoud && statistics.knows_capitals) && numTokens >= 8 && [...trimmed(text)].length < 0.8 * statistics.chars_per_token * numTokens,
    vocabulary: octaves.size > 0 && words.length > 0 && (isRare || found.filter((octave) => octave === -2).length > (isLong ? found.length - 1 : found.length / 2)),
  };
  return Object.keys(reasons).filter((reason) => reasons[reason]);
}

// ---- Sentences: nmt/translation/sentences.py ----

const ENDS = "!?:;…\\u037e\\u055c\\u0589\\u061d-\\u061f\\u06d4\\u0700-\\u0702\\u07f9\\u0837-\\u083e\\u0964\\u0965\\u104a-\\u104f\\u1362-\\u1368\\u166e" +
  "\\u1735\\u1736\\u1803-\\u1809\\u1944\\u1945\\u1aa8-\\u1aab\\u1b5a-\\u1b7e\\u1c3b-\\u1c7f\\u2024\\u203c\\u203d\\u2047-\\u2049\\u2e2e-\\u2e54\\u3002\\u17d4" +
  "\\ua4ff-\\uabeb\\ufe52-\\ufe57\\uff01\\uff0e\\uff1f\\uff61";
const W = "[\\p{L}\\p{N}_]"; // a word character of Python
const FULL_STOPS = "。！？｡।॥۔؟։።။។", NOTE = "\\[[^\\[\\]]{1,20}\\]|[¹²³⁰-⁹*†‡]"; // a full stop that needs no space; the mark of a footnote
const MARK = new RegExp(`\\.(?![a-z\\p{Nd}])|[•${ENDS}]|\\)(?<=[${WHITE}(](?:${W}|[ivx]{2})\\))`, "u");
const LAST = /[.!?…。！？।؟۔ \t\r\n"'”’“»)）」』]+$/;
const WORD = /[\p{L}\p{N}]/u;
const SENTENCE_END = new RegExp(`([^${WHITE}.${ENDS}“„"«»(\\['’—–-]*)([.${ENDS}]+)((?:[${WHITE}]?[”“"'’»«›‹)\\]」』》）]|${NOTE})*)([${WHITE}]*)$`, "u");
const PROPOSED = new RegExp([
  `[.!?…;\\u037e]+(?:[${WHITE}]»(?=[${WHITE}])|[”“"'’»«›‹)\\]]|${NOTE})*[${WHITE}]+`, // before white space
  `[${FULL_STOPS}][${FULL_STOPS}.!?…]*(?:[”」』）)]|${NOTE})*[${WHITE}]*`,
  "[!?]+(?=[\\u3040-\\u30ff\\u3400-\\u9fff])",
  `(?<=\\p{Ll})[.!?]+(?=[A-Z][a-z]*(?:['’][a-z]+)?(?:[${WHITE},!?]|$))`, // "Hello.How are you?"
].join("|"), "gu");
const ITEM = new RegExp(`^[^\\p{L}\\p{N}_]*(?:\\p{Nd}{1,2}|[ivx]+|[IVX]+|\\p{L})(?:[.)]|\\.\\))[${WHITE}]*$`, "u");
const ITEM_MARK = new RegExp(`[${WHITE}](?=[(\\p{Nd}•]|${W}{1,4}[.)])(?<![,;][${WHITE}])\\(?(?:(\\p{Nd}{1,2}(?=\\.?\\)|\\.[${WHITE}]+(?![a-zß-ÿа-я]|Jan|Feb|Mär|Apr|Mai|Ju[nl]|Aug|Sep|Okt|Nov|Dez))|(?:[A-Za-zА-Яа-я]|[ivx]+)(?=\\))|•)` +
  `|(\\p{Nd}{1,2}|[A-Za-z]|[ivx]+|[IVX]+)(?=\\.[${WHITE}]))\\.?\\)?[${WHITE}]+(?=[^${WHITE}])(?!${W}\\.[${WHITE}])`, "gu");
const FIRST_ITEM = new RegExp(`^\\(?\\p{Nd}{1,2}[.)${WHITE}]|(?<![^:.!?${WHITE}][${WHITE}])\\(?[1aiAIаА•][.)${WHITE}]`, "uy");
const ITEM_LETTERS = " a b c d e f g h i j k i ii iii iv v vi vii viii ix x а б в г д е ж з и к ";
const ITEM_ORDER = ` • •${ITEM_LETTERS}${ITEM_LETTERS.toUpperCase()}${Array.from({ length: 20 }, (_, i) => i + 1).join(" ")} `;
const SYMBOLS = new RegExp(`(?:(?:[\\u2190-\\u245f\\u249c-\\u2bff\\ufe0f\\u200d\\u{1f000}-\\u{1faff}]+|[:;]-?[()DP](?!${W})|\\[[\\p{Nd}${WHITE},–-]+\\][${WHITE}]*$)[${WHITE}]*)+`, "uy");
const LIKE_WORD = new RegExp(`(?<![.(（])(?=\\p{L}{2})(?!${W}*str(?!${W}))(?:(?:hm+|mhm|ps+t|[bg]r{2,}|pc|[cd]v?d|pdf|sms|wc|gps|html|xml|vpn|tv)(?!${W})|\\p{L}*?[aeiouyàáâäåãæèéêëìíîïòóôöõøœùúûüýąęĩıőũűůě\\u1ea0-\\u1ef9ăаеиоуыэюяіїєёαεηιουωάέήίόύώ])`, "iuy");
const LIKE_WORDS = new Set("abb abs afb alin approx av art avv ca cap dott godz hod ing kap obr pag pág para prof profa sig sra şek tab tys ul vol zob αριθ вул ім рис табл ул".split(" "));
const SHORT = new RegExp(`^(?:[A-Za-z\\u00c0-\\u024f\\u0370-\\u052f]{1,4}|approx|${W}*str|[\\u0000-\\u2e7f]|Profa|डॉ|श्री|पृ)$`, "u");
const FINAL = new RegExp(`(?:(?<!${W})(?:[ad]\\.[${WHITE}]?C|J\\.?-C|т\\.[${WHITE}]?[дп]|n\\.[${WHITE}]?[el]|[ef]\\.[${WHITE}]?Kr|[vn]\\.[${WHITE}]?Chr|[πμ]\\.[${WHITE}]?[μΧ]|v\\.t|p\\.e\\.v|etc|usw|May|Ok|T[Vv]|tv|[Jj]r|Co|U\\.S\\.A)` +
  `|\\p{Nd}(?:[°º]|-х)?[${WHITE}]?(?:(?:млн|млрд|тис|тыс|mln|mld)\\.?[${WHITE}])?(?:(?![A-ZА-Я])\\p{L})+|\\p{Nd}(?:[°º]|-х)?[${WHITE}]?(?:[CFKM]|Kč|Ft))$`, "u");
const ORDINAL = new RegExp(`(?<![.:,])(?<!\\.[${WHITE}])(?:\\p{Nd}{1,2}|[IVX]+)\\.`, "uy"), BEFORE_CAPITAL = ["de", "hu", "lb", "tr"];
const PARENTHESIS = new RegExp(`[^${WHITE}.!?…。！？][${WHITE}]*[(（][^(（]*[)）][${WHITE}]*$`, "u");
const ATTRIBUTION = new RegExp(`^(?:と|って|[라하]고|[^，。！？${WHITE}]{1,6}[说說问問喊])`, "u");
// Abbreviations with a vowel that are no words, before a name; and those before a number.
const TITLES = new Set("Prof Проф Frau Abb Mme Mlle Dra Sra Sta Ud Uds Av Capt Col Gen Inc".split(" "));
const BEFORE_NUMBER = new Set("no fig sec ver jan feb mar apr jun jul aug sep sept oct nov dec".split(" "));
const NO_SMALL_START = "ca cs da de fi hy kk lb oc rm sk".split(" "); // where sentencex ends no sentence before a small letter
const ORDINALS = "cs da de et eu fi hr hu is lb lv nb nn no pl sk sl sr tr".split(" ");
const matches = (pattern, text, at) => (pattern.lastIndex = at, pattern.exec(text));

// Whether the word at `start`, with a full stop, is an abbreviation or a number.
function isAbbreviation(text, start, word, at, first, language) {
  const isWord = matches(LIKE_WORD, text, start) && !LIKE_WORDS.has(word.toLowerCase()), two = language.slice(0, 2);
  if (matches(ORDINAL, text, start) && (BEFORE_CAPITAL.includes(two) || (ORDINALS.includes(two) && isLower(first)))) return true;
  const short = SHORT.test(word) && /^\p{L}/u.test(word) && !isWord;
  const isAlone = word.length < 6 && isLower(word) && new RegExp(`^\\p{Nd}+\\.[${WHITE}]+\\p{Lu}`, "u").test(text.slice(at, at + 20));
  if (/\p{N}/u.test(first)) return short || isAlone || BEFORE_NUMBER.has(word.toLowerCase());
  if (/^(?:Chr|UU)(?!\p{L})/u.test(text.slice(at, at + 4))) return true;
  if (/\p{Lu}/u.test(first) && FINAL.test(text.slice(Math.max(0, start - 50), start + word.length))) return false;
  if (isLower(word) && /[\p{L}\p{Nd}]{3}\.$/u.test(text.slice(Math.max(0, start - 4), start))) return false; // example.com
  const isCapitals = word.length > 1 && word === word.toUpperCase() && word !== word.toLowerCase();
  const isVowel = /^[aeiou]\p{M}+$/u.test(word.normalize("NFD")); // "à. Tamba"
  const isSyllable = isLower(word) && /^.[rlрл][^aeiouyаеиоу]/u.test(word); // "vlk. Utekl"
  return TITLES.has(word) || (short && !isCapitals && !isVowel && !isSyllable);
}

function continues(text, at, language, chat) {
  const from = Math.max(0, at - 50), end = SENTENCE_END.exec(text.slice(from, at)), following = WORD.exec(text.slice(at, at + 50));
  if (!end || !following) return !end;
  const [, word, mark, closing, space] = end, first = following[0], caseless = first.toLowerCase() === first.toUpperCase(), digit = /\p{N}/u.test(first);
  const glued = !space && !FULL_STOPS.includes(mark.at(-1));
  if (/[;\u037e]/.test(mark) && !language.startsWith("el")) return true;
  if (glued && !closing && !caseless) return false;
  if (digit && (glued || /^(?:\.{2,}|…+)$/.test(mark))) return true;
  const isStart = NO_SMALL_START.includes(language.slice(0, 2)) ? !/[a-z]/.test(first) : mark !== "." || !word || (word.length > 3 && !/^\p{Nd}+$/u.test(word));
  if (isLower(first) && !chat && (closing || "—–-".includes(text[at]) || /^(?:\.{2,}|…+)$/.test(mark) || !isStart) && !FULL_STOPS.includes(mark.at(-1))) return true; // “Where?” he asked
  if (closing && caseless && !digit) return PARENTHESIS.test(text.slice(Math.max(0, at - 200), at)) || ATTRIBUTION.test(text.slice(at, at + 20));
  return mark === "." && isAbbreviation(text, from + end.index, word, at, first, language);
}

// The starts of the items of lists on one line: "1. Milk 2. Bread".
function itemStarts(text, language) {
  const starts = [], english = language.startsWith("en"); // has no ordinal numbers with a full stop
  let last = "", least = 2, referring;
  for (const { index, 1: sure, 2: label = sure } of ` ${text}`.matchAll(ITEM_MARK)) {
    const before = text.slice(0, index).toLowerCase().match(/\S+(?=\s*$)/)?.[0];
    if (before && before === referring) continue; // "See fig. 1. Now see fig. 2." has no list
    if (!matches(FIRST_ITEM, text, index) && !ITEM_ORDER.includes(` ${last} ${label} `)) continue;
    referring ??= before;
    starts.push(index);
    last = label;
    if (!sure && !(english && /\p{Nd}/u.test(label))) least = 3;
  }
  return starts.length >= least ? starts : [];
}

// The start of every sentence except the first.
export function sentenceStarts(text, language) {
  if (!MARK.test(text.replace(LAST, ""))) return [];
  const starts = [], chat = isLower(text), items = new Set(itemStarts(text, language));
  const ends = [...text.matchAll(PROPOSED)].map((match) => match.index + match[0].length);
  let begin = 0, searched = 0, hasWord = false;
  for (let at of [...new Set([...items, ...ends])].sort((a, b) => a - b)) {
    if (at <= begin || at >= text.length) continue;
    hasWord = hasWord || WORD.test(text.slice(searched, at));
    searched = at;
    if (!items.has(at)) {
      if (ITEM.test(text.slice(Math.max(begin, at - 50), at)) && at - begin <= 50 || continues(text, at, language, chat)) continue;
      at += matches(SYMBOLS, text, at)?.[0].length ?? 0; // "Thanks! :-) Bye": the emoji belongs to the preceding sentence
    }
    if (!hasWord) continue;
    starts.push(at);
    begin = searched = at, hasWord = false;
  }
  if (starts.length && !WORD.test(text.slice(starts.at(-1)))) starts.pop();
  return starts;
}

const CLAUSE_END = new RegExp(`[,;:.!?،؛)\\]}»”’"—–-](?=[${WHITE}])|[，；：、。！？）】」』》〉…](?![，；：、。！？）】」』》〉…])`, "gu");
const SPACES = new RegExp(`[${WHITE}]+`, "gu");
const belongsToPrevious = (text, at) => /^[\udc00-\udfff\u200d]/.test(text.slice(at)) || text[at - 1] === "\u200d" || /^\p{M}/u.test(text.slice(at));

// Parts [start, end, was cut] of a text: lines, and sentences of long ones. `spans` stay whole.
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
  for (const match of [...text.matchAll(/\r?\n|\t/g), { index: text.length, 0: "" }]) {
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

// ---- Corrections: nmt/apps/server/corrections.py ----

const linesIn = (text) => text.split(/\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/).map(trimmed).filter((line) => line);
const sentencesIn = (line, language) => [...split(line, findSpans(line), language, Infinity, () => 0, 1)].map(([start, end]) => line.slice(start, end));
const both = (sources, targets) => (sources.length === targets.length ? sources.map((source, i) => [source, targets[i]]) : []);

// The lines of a text with those of its correct translation, and their sentences, if there are as many.
export function pairsIn(text, correct, { from, to }) {
  const [sources, targets] = [linesIn(text), linesIn(correct)], lines = both(sources, targets);
  return (lines.length ? lines : [[sources.join(" "), targets.join(" ")]]).flatMap(([source, target]) => {
    const sentences = both(sentencesIn(source, from), sentencesIn(target, to));
    return [...(sentences.length > 1 ? sentences : []), [source, target]];
  });
}

// The translation of a text, without its list marker or brackets, in `corrected`, by source.
export function correctionOf(text, corrected) {
  const written = asRead(text);
  for (const [before, after] of [["", ""], [listMarker(written), ""], edges(written)]) {
    const target = corrected.get(trimmed(written.slice(before.length, written.length - after.length)));
    if (target !== undefined) return before + target + after;
  }
  return undefined;
}
