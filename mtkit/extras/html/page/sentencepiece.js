// SentencePiece (Kudo and Richardson 2018): its normalisation, BPE and unigram models, and decoding.

const [PAD, UNK, BOS, EOS] = [0, 1, 2, 3];
const SPACE = "▁";
const UNKNOWN_PENALTY = 10;
// The kinds of pieces in a SentencePiece model.
const [NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE] = [1, 2, 3, 4, 5, 6];

const utf8 = new TextEncoder();
const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The characters that a normalisation replaces: a trie of bytes (a double array), and their texts. */
class CharacterMap {
  constructor(bytes) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const size = view.getUint32(0, true);
    this.units = new Uint32Array(size / 4);
    for (let i = 0; i < this.units.length; i++) this.units[i] = view.getUint32(4 + 4 * i, true);
    this.texts = bytes.subarray(4 + size);
  }

  /** Return the longest prefix of bytes from `start` that is replaced: its length and new text, or null. */
  longest(bytes, start) {
    const offset = (unit) => (unit >>> 10) << ((unit & 0x200) >>> 6);
    let node = offset(this.units[0]);
    let found = null;
    for (let i = start; i < bytes.length; i++) {
      node ^= bytes[i];
      const unit = this.units[node];
      if ((unit & 0x800000ff) >>> 0 !== bytes[i]) break;
      node ^= offset(unit);
      if ((unit >>> 8) & 1) found = { length: i + 1 - start, place: this.units[node] & 0x7fffffff };
    }
    if (found === null) return null;
    const end = this.texts.indexOf(0, found.place);
    return { length: found.length, text: strictUtf8.decode(this.texts.subarray(found.place, end)) };
  }
}

/** Pairs of neighbours, of which the best is taken first. */
class Agenda {
  constructor() {
    this.heap = [];
  }

  isBetter(a, b) {
    return a.score !== b.score ? a.score > b.score : a.left < b.left;
  }

  push(pair) {
    const { heap } = this;
    let place = heap.length;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      if (!this.isBetter(pair, heap[parent])) break;
      heap[place] = heap[parent];
      place = parent;
    }
    heap[place] = pair;
  }

  pop() {
    const { heap } = this;
    const best = heap[0];
    const last = heap.pop();
    if (heap.length === 0) return best;
    let place = 0;
    for (;;) {
      let child = 2 * place + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && this.isBetter(heap[child + 1], heap[child])) child++;
      if (!this.isBetter(heap[child], last)) break;
      heap[place] = heap[child];
      place = child;
    }
    heap[place] = last;
    return best;
  }
}

const bytesOf = (base64) => Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));

/** Return the fields of a message of protocol buffers by number, each a list of numbers and bytes. */
function readMessage(bytes) {
  const fields = new Map();
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let place = 0;
  const readNumber = () => {
    let number = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = bytes[place++];
      number += (byte & 0x7f) * factor;
      if (byte < 0x80) return number;
    }
  };
  while (place < bytes.length) {
    const tag = readNumber();
    const wire = tag & 7;
    let value;
    if (wire === 0) {
      value = readNumber();
    } else if (wire === 2) {
      const length = readNumber();
      value = bytes.subarray(place, place + length);
      place += length;
    } else {
      value = wire === 5 ? view.getFloat32(place, true) : view.getFloat64(place, true);
      place += wire === 5 ? 4 : 8;
    }
    const number = Math.floor(tag / 8);
    if (!fields.has(number)) fields.set(number, []);
    fields.get(number).push(value);
  }
  return fields;
}

/** Return what encoding needs of a SentencePiece model; the numbers are those of its fields. */
function readSettings(model) {
  const flag = (fields, number, usual) => Boolean(fields.get(number)?.[0] ?? usual);
  const trainer = readMessage(model.get(2)[0]);
  const normaliser = readMessage(model.get(3)[0]);
  return {
    isBpe: trainer.get(3)?.[0] === 2,
    hasSuffix: flag(trainer, 24, false),
    hasBytes: flag(trainer, 35, false),
    characterMap: normaliser.get(2)?.[0] ?? new Uint8Array(),
    hasPrefix: flag(normaliser, 3, true),
    removesSpaces: flag(normaliser, 4, true),
    escapesSpaces: flag(normaliser, 5, true),
  };
}

class Tokenizer {
  /** Open a serialised SentencePiece model. */
  constructor(bytes) {
    const model = readMessage(bytes);
    this.settings = readSettings(model);
    const { characterMap } = this.settings;
    const pieces = model.get(1).map(readMessage);
    this.pieces = pieces.map((piece) => strictUtf8.decode(piece.get(1)[0]));
    this.scores = pieces.map((piece) => piece.get(2)?.[0] ?? 0);
    this.kinds = pieces.map((piece) => piece.get(3)?.[0] ?? NORMAL);
    this.map = characterMap.length ? new CharacterMap(characterMap) : null;
    this.ids = new Map();
    this.bytes = new Map();
    this.byteIds = [];
    const symbols = [];
    this.longestPiece = 1;
    this.pieces.forEach((piece, id) => {
      const kind = this.kinds[id];
      if (kind === BYTE) {
        const byte = parseInt(piece.slice(1, -1), 16);
        this.bytes.set(id, byte);
        this.byteIds[byte] = id;
      } else if (kind !== CONTROL && kind !== UNKNOWN) {
        this.ids.set(piece, id);
        this.longestPiece = Math.max(this.longestPiece, characters(piece).length);
        if (kind === USER_DEFINED) symbols.push(piece);
      }
    });
    symbols.sort((a, b) => b.length - a.length); // a pattern takes the first that matches
    const escaped = symbols.map((symbol) => symbol.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&"));
    this.symbols = escaped.length ? new RegExp(escaped.join("|"), "uy") : null;
    const normal = this.scores.filter((_, id) => this.kinds[id] === NORMAL);
    this.maxScore = normal.reduce((a, b) => Math.max(a, b), -Infinity);
    this.unknownScore = Math.fround(normal.reduce((a, b) => Math.min(a, b), Infinity) - UNKNOWN_PENALTY);
  }

  /** Return the longest user-defined symbol at an offset of the text, or "". */
  symbolAt(text, offset) {
    if (this.symbols === null) return "";
    this.symbols.lastIndex = offset;
    return this.symbols.exec(text)?.[0] ?? "";
  }

  /** Yield what the text is replaced by, in the smallest parts. */
  *normalisedParts(text) {
    const bytes = this.map === null ? null : utf8.encode(text);
    let byte = 0;
    for (let offset = 0; offset < text.length; ) {
      let part = this.symbolAt(text, offset);
      let replaced = part;
      if (!part && bytes !== null) {
        const found = this.map.longest(bytes, byte);
        if (found !== null) {
          part = strictUtf8.decode(bytes.subarray(byte, byte + found.length));
          replaced = found.text;
        }
      }
      if (!part) part = replaced = String.fromCodePoint(text.codePointAt(offset));
      yield replaced;
      offset += part.length;
      if (bytes !== null) byte += utf8.encode(part).length;
    }
  }

  normalise(text) {
    const { hasPrefix, removesSpaces, escapesSpaces, hasSuffix } = this.settings;
    const space = escapesSpaces ? SPACE : " ";
    let result = "";
    let isAfterSpace = removesSpaces;
    for (let part of this.normalisedParts(text)) {
      if (isAfterSpace) part = part.replace(/^ +/u, "");
      if (part) {
        result += part.replaceAll(" ", space);
        isAfterSpace = part.endsWith(" ");
      }
      if (!removesSpaces) isAfterSpace = false;
    }
    if (removesSpaces) {
      let end = result.length;
      while (result.startsWith(space, end - 1) && end > 0) end--;
      result = result.slice(0, end);
    }
    if (!result || !hasPrefix) return result;
    return hasSuffix ? result + space : space + result;
  }

  /** Return the subword ids of a text. */
  encode(text) {
    const normal = this.normalise(text);
    const parts = this.settings.isBpe ? this.mergePairs(normal) : this.bestPath(normal);
    const ids = [];
    let isAfterUnknown = false;
    for (const [part, id] of parts) {
      if (id !== UNK) {
        ids.push(id);
      } else if (this.settings.hasBytes) {
        for (const byte of utf8.encode(part)) ids.push(this.byteIds[byte]);
      } else if (!isAfterUnknown) {
        ids.push(UNK);
      }
      isAfterUnknown = id === UNK;
    }
    return ids;
  }

  /** BPE: merge the best pair of neighbours until none is a piece. Return texts with ids. */
  mergePairs(text) {
    const parts = [];
    for (let offset = 0; offset < text.length; ) {
      const symbol = this.symbolAt(text, offset);
      const part = symbol || String.fromCodePoint(text.codePointAt(offset));
      const number = parts.length;
      parts.push({ text: part, before: number - 1, after: number + 1, isSymbol: symbol !== "" });
      offset += part.length;
    }
    const agenda = new Agenda();
    const halves = new Map(); // of merged pieces that are unused, and so are divided again
    const add = (left, right) => {
      if (left < 0 || right >= parts.length || parts[left].isSymbol || parts[right].isSymbol) return;
      const merged = parts[left].text + parts[right].text;
      const id = this.ids.get(merged);
      if (id === undefined) return;
      agenda.push({ score: this.scores[id], left, right, merged });
      if (this.kinds[id] === UNUSED) halves.set(merged, [parts[left].text, parts[right].text]);
    };
    for (let i = 1; i < parts.length; i++) add(i - 1, i);
    while (agenda.heap.length) {
      const { left, right, merged } = agenda.pop();
      const first = parts[left];
      const second = parts[right];
      const isStale = !first.text || !second.text || first.text.length + second.text.length !== merged.length;
      if (isStale) continue;
      first.text = merged;
      first.after = second.after;
      second.text = "";
      if (second.after < parts.length) parts[second.after].before = left;
      add(first.before, left);
      add(left, first.after);
    }
    const result = [];
    const divide = (part) => {
      const id = this.ids.get(part) ?? UNK;
      const half = this.kinds[id] === UNUSED ? halves.get(part) : undefined;
      if (half === undefined) result.push([part, id]);
      else half.forEach(divide);
    };
    for (let i = 0; i < parts.length; i = parts[i].after) divide(parts[i].text);
    return result;
  }

  /** Unigram: the most probable way to divide the text (Viterbi). Return texts with ids. */
  bestPath(text) {
    const letters = characters(text);
    const ends = letters.map(() => null);
    ends.push(null);
    ends[0] = { score: 0 };
    const reach = (start, end, id, score) => {
      const sum = score + ends[start].score;
      // SentencePiece keeps sums in float32, which decides between equal ways.
      if (ends[end] === null || sum > ends[end].score) ends[end] = { start, id, score: Math.fround(sum) };
    };
    for (let start = 0; start < letters.length; start++) {
      let part = "";
      let isKnown = false;
      for (let end = start + 1; end <= Math.min(letters.length, start + this.longestPiece); end++) {
        part += letters[end - 1];
        const id = this.ids.get(part);
        if (id === undefined || this.kinds[id] === UNUSED) continue;
        const isSymbol = this.kinds[id] === USER_DEFINED;
        reach(start, end, id, isSymbol ? utf8.encode(part).length * this.maxScore - 0.1 : this.scores[id]);
        isKnown ||= end === start + 1;
      }
      if (!isKnown) reach(start, start + 1, UNK, this.unknownScore);
    }
    const result = [];
    for (let end = letters.length; end > 0; end = ends[end].start) {
      result.push([letters.slice(ends[end].start, end).join(""), ends[end].id]);
    }
    return result.reverse();
  }

  /** Return whether the vocabulary can encode the text without bytes and <unk>. */
  canSpell(text) {
    return this.encode(text).every((id) => id !== UNK && this.kinds[id] !== BYTE);
  }

  /** Return the text of subword ids, without bytes that are no complete character. */
  decode(ids) {
    let text = "";
    let isAtBegin = true; // where the space of a first word is no text
    let bytes = [];
    for (const id of [...ids.filter((each) => each > EOS), null]) {
      if (this.bytes.has(id)) {
        bytes.push(this.bytes.get(id));
        continue;
      }
      text += completeCharacters(Uint8Array.from(bytes));
      bytes = [];
      if (text) isAtBegin = false;
      if (id === null || this.kinds[id] === CONTROL) continue;
      let piece = this.pieces[id];
      if (isAtBegin && (this.settings.hasPrefix || this.settings.removesSpaces) && piece.startsWith(SPACE)) {
        piece = piece.slice(SPACE.length);
        isAtBegin = this.settings.removesSpaces;
      }
      text += piece.replaceAll(SPACE, " ");
    }
    return inOneLine(text);
  }
}

/** Return the text of all complete characters in a run of bytes. */
function completeCharacters(bytes) {
  let text = "";
  for (let start = 0; start < bytes.length; ) {
    const first = bytes[start];
    const size = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    try {
      text += strictUtf8.decode(bytes.subarray(start, start + size));
      start += size;
    } catch {
      start++;
    }
  }
  return text;
}
