// Tokens of a text, and the text of tokens, as SentencePiece computes them (Kudo and Richardson 2018).
const [NORMAL, , , USER_DEFINED, , BYTE] = [1, 2, 3, 4, 5, 6];
const UNK = 0, FIRST = 4; // the ids 0 to 3 are unk, pad, bos and eos
const SPACE = "\u2581";
const utf8 = new TextEncoder();

// Text without lone surrogates, which are no characters.
export const clean = (text) => text.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd");

// The text of bytes without those that are no UTF-8, as Python's decode("utf-8", "ignore") reads them. A replacement character
// that the bytes spell is text; all others stand for bytes that are none.
function read(bytes) {
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const parts = [[]];
  bytes.forEach((byte, i) => {
    parts.at(-1).push(byte);
    if (byte === 0xbd && bytes[i - 1] === 0xbf && bytes[i - 2] === 0xef) parts.at(-1).splice(-3), parts.push([]);
  });
  return parts.map((part) => decoder.decode(new Uint8Array(part)).replaceAll("\ufffd", "")).join("\ufffd");
}

export class Tokenizer {
  // `model` is a vocabulary of nmt/apps/web/export.py.
  constructor({ type, dummy, collapse, charsmap, texts, scores, types }) {
    Object.assign(this, { type, dummy, collapse, texts, scores, types });
    if (charsmap) {
      // The size of a trie (a double array as in Darts, Yata et al. 2007), the trie, and the texts it points to.
      const map = Uint8Array.from(atob(charsmap), (character) => character.charCodeAt(0)), size = new DataView(map.buffer).getUint32(0, true);
      [this.units, this.replacements] = [new Uint32Array(map.buffer.slice(4, 4 + size)), map.subarray(4 + size)];
    }
    this.ids = new Map(); // of the pieces that text may be segmented into
    this.byteIds = new Map();
    const symbols = [];
    let [lowest, highest] = [Infinity, -Infinity], longest = 0;
    texts.forEach((text, id) => {
      if (types[id] === BYTE) this.byteIds.set(parseInt(text.slice(3, 5), 16), id);
      if (types[id] !== NORMAL && types[id] !== USER_DEFINED) return;
      this.ids.set(text, id);
      longest = Math.max(longest, text.length);
      if (types[id] === USER_DEFINED) symbols.push(text);
      else [lowest, highest] = [Math.min(lowest, scores[id]), Math.max(highest, scores[id])];
    });
    Object.assign(this, { lowest, highest, longest });
    symbols.sort((a, b) => b.length - a.length);
    const escaped = symbols.map((symbol) => symbol.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    this.symbol = symbols.length ? new RegExp(escaped.join("|"), "y") : null;
  }

  encode(text) {
    let spelled = this._normalized(clean(text));
    if (!spelled) return [];
    if (this.dummy === "prefix") spelled = " " + spelled;
    if (this.dummy === "suffix") spelled += " ";
    spelled = spelled.replaceAll(" ", SPACE);
    if (this.collapse) spelled = spelled.replace(/\u2581+$/, "");
    const found = this.type === "unigram" ? this._unigram(spelled) : this._merged(this._split(spelled));
    if (!this.byteIds.size) return found.map(([id]) => id).filter((id, i, ids) => id !== UNK || ids[i - 1] !== UNK); // one unk per run of unknown pieces
    return found.flatMap(([id, piece]) => (id === UNK ? [...utf8.encode(piece)].map((byte) => this.byteIds.get(byte)) : [id]));
  }

  // Whether a visible character is spelled in bytes, or unknown.
  lacks(character) {
    const bytes = new Set(this.byteIds.values());
    return !/^[\p{C}\p{Z}\s]$/u.test(character.replace("\u200d", "x")) && this.encode(character).some((id) => id === UNK || bytes.has(id));
  }

  // The length of the longest part of the text from `at` on that the map replaces, and its replacement.
  _mapped(text, at) {
    const { units, replacements } = this, jump = (unit) => (unit >>> 10) << ((unit & 512) >> 6);
    let node = jump(units[0]), found = null;
    for (let end = at; end < text.length;) {
      const character = String.fromCodePoint(text.codePointAt(end));
      let unit = 0;
      for (const byte of utf8.encode(character)) {
        unit = units[(node ^= byte)];
        if ((unit & 0x800000ff) !== byte) return found;
        node ^= jump(unit);
      }
      end += character.length;
      if (!(unit & 256)) continue;
      const start = units[node] & 0x7fffffff;
      found = [end - at, new TextDecoder().decode(replacements.subarray(start, replacements.indexOf(0, start)))];
    }
    return found;
  }

  _normalized(text) {
    if (!this.units && !this.collapse) return text;
    let normalized = "", afterSpace = this.collapse;
    for (let at = 0; at < text.length;) {
      const symbol = this._symbolAt(text, at), character = String.fromCodePoint(text.codePointAt(at));
      const [length, mapped] = symbol ? [symbol.length, symbol] : (this.units && this._mapped(text, at)) || [character.length, character];
      const kept = afterSpace ? mapped.replace(/^ +/, "") : mapped;
      normalized += kept;
      at += length;
      if (kept) afterSpace = this.collapse && kept.endsWith(" ");
    }
    return normalized;
  }

  _symbolAt(text, at) {
    if (!this.symbol) return null;
    this.symbol.lastIndex = at;
    return this.symbol.exec(text)?.[0];
  }

  // Characters, and user-defined symbols whole: [piece, is a symbol].
  _split(text) {
    const pieces = [];
    for (let at = 0; at < text.length;) {
      const symbol = this._symbolAt(text, at), piece = symbol || String.fromCodePoint(text.codePointAt(at));
      pieces.push([piece, !!symbol]);
      at += piece.length;
    }
    return pieces;
  }

  // Viterbi search of the most probable segmentation (Kudo 2018, section 3.1), in fp32 as SentencePiece does it.
  _unigram(text) {
    const size = text.length, score = new Float32Array(size + 1), from = new Int32Array(size + 1).fill(-1), ids = new Int32Array(size + 1);
    const unknown = Math.fround(Math.fround(this.lowest) - 10);
    const reach = (at, start, id, value) => {
      if (from[at] !== -1 && !(value > score[at])) return;
      score[at] = value, from[at] = start, ids[at] = id;
    };
    for (let start = 0; start < size;) {
      const first = String.fromCodePoint(text.codePointAt(start)), here = score[start];
      for (let end = start; end < Math.min(size, start + this.longest);) {
        end += String.fromCodePoint(text.codePointAt(end)).length;
        const piece = text.slice(start, end), id = this.ids.get(piece);
        if (id === undefined) continue;
        const isSymbol = this.types[id] === USER_DEFINED;
        reach(end, start, id, isSymbol ? Math.fround(utf8.encode(piece).length * this.highest) - 0.1 + here : Math.fround(this.scores[id] + here));
      }
      if (!this.ids.has(first)) reach(start + first.length, start, UNK, Math.fround(unknown + here));
      start += first.length;
    }
    const pieces = [];
    for (let end = size; end > 0; end = from[end]) pieces.push([ids[end], text.slice(from[end], end)]);
    return pieces.reverse();
  }

  // Merges the pair with the highest score, the first one in ties, until none is a piece (Sennrich et al. 2016).
  _merged(symbols) {
    const id = (piece) => this.ids.get(piece) ?? UNK;
    if (this.type === "char") return symbols.map(([piece]) => [id(piece), piece]);
    const piece = symbols.map(([text]) => text), frozen = symbols.map(([, symbol]) => symbol);
    const before = piece.map((_, i) => i - 1), after = piece.map((_, i) => (i + 1 < piece.length ? i + 1 : -1));
    const heap = []; // of [score, left, right, length]
    const precedes = (a, b) => a[0] > b[0] || (a[0] === b[0] && a[1] < b[1]);
    const offer = (left, right) => {
      if (left < 0 || right < 0 || frozen[left] || frozen[right]) return;
      const merged = this.ids.get(piece[left] + piece[right]);
      if (merged === undefined) return;
      let at = heap.push([this.scores[merged], left, right, piece[left].length + piece[right].length]) - 1;
      for (let up; at && precedes(heap[at], heap[up = (at - 1) >> 1]); at = up) [heap[at], heap[up]] = [heap[up], heap[at]];
    };
    const take = () => {
      const [top] = heap, last = heap.pop();
      if (heap.length) heap[0] = last;
      for (let at = 0; ;) {
        let best = at;
        for (const child of [2 * at + 1, 2 * at + 2]) if (child < heap.length && precedes(heap[child], heap[best])) best = child;
        if (best === at) return top;
        [heap[at], heap[best]] = [heap[best], heap[at]];
        at = best;
      }
    };
    for (let i = 1; i < piece.length; i++) offer(i - 1, i);
    while (heap.length) {
      const [, left, right, length] = take();
      if (!piece[left] || !piece[right] || piece[left].length + piece[right].length !== length) continue;
      piece[left] += piece[right];
      piece[right] = "";
      after[left] = after[right];
      if (after[right] >= 0) before[after[right]] = left;
      offer(before[left], left);
      offer(left, after[left]);
    }
    return piece.filter((text) => text).map((text) => [id(text), text]);
  }

  decode(ids) {
    let text = "", run = [], first = true;
    const flush = () => {
      if (run.length) text += read(run), first = first && !text;
      run = [];
    };
    for (const id of ids) {
      if (id < FIRST) continue;
      let piece = this.texts[id];
      if (this.types[id] === BYTE) {
        run.push(parseInt(piece.slice(3, 5), 16));
        continue;
      }
      flush();
      const leads = first && piece.startsWith(SPACE) && (this.dummy === "prefix" || this.collapse);
      if (leads) piece = piece.slice(1);
      first = leads && this.collapse && !piece;
      text += piece.replaceAll(SPACE, " ");
    }
    flush();
    return this.dummy === "suffix" && text.endsWith(" ") ? text.slice(0, -1) : text;
  }
}
