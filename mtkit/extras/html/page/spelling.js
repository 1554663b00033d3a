// Spell a source with the characters that the vocabulary knows, as `mtkit/tokenizer/spelling.py` does.

class Spelling {
  /** `data`: the tables of `html.py`, which hold the nearest known spelling of unknown characters. */
  constructor(data, tokenizer) {
    this.tokenizer = tokenizer;
    this.known = new Map();
    this.nearest = expand(data.nearest);
    this.nearestOpening = expand(data.nearestOpening);
    this.dashes = new Set("—―⸺⸻︱﹘");
    this.marksBelow = new Set(data.marksBelow);
    this.withMarkBelow = new Map(Object.entries(data.lettersWithMarksBelow));
    this.scripts = data.scripts.map(letterOfScript);
  }

  isKnown(character) {
    let answer = this.known.get(character);
    if (answer === undefined) {
      answer = this.tokenizer.canSpell(character);
      this.known.set(character, answer);
    }
    return answer;
  }

  isSpelled(line) {
    const all = new Set(line);
    return [...all].every((character) => this.isKnown(character)) || this.tokenizer.canSpell(line);
  }

  encode(line) {
    return this.tokenizer.encode(this.respell(line));
  }

  respell(line) {
    if (this.isSpelled(line)) return line;
    const letters = characters(line);
    const spellings = [];
    let base = ""; // the last character that was written, on which marks stand
    let baseOffset = 0;
    letters.forEach((character, offset) => {
      let spelling = character;
      if (isMark(character) && !isBlank(character)) {
        const marked = this.withMark(base, character);
        if (marked !== null) {
          const before = spellings[baseOffset];
          spellings[baseOffset] = before.slice(0, before.length - base.length) + marked;
          base = marked;
          spelling = "";
        }
      } else if (!this.isKnown(character)) {
        spelling = this.replace(letters, offset);
      }
      spellings.push(spelling);
      if (spelling) {
        base = characters(spelling).at(-1);
        baseOffset = offset;
      }
    });
    return spellings.join("");
  }

  /** Return the known letter that is nearest to `base` with the mark on it; null: the mark stays. */
  withMark(base, mark) {
    if (!base || !this.isKnown(base)) return null;
    const composed = compose(base + mark);
    if (characters(composed).length === 1 && this.isKnown(composed)) return composed;
    if (this.isKnown(mark)) return null;
    return this.marksBelow.has(mark) ? (this.withMarkBelow.get(base) ?? base) : base;
  }

  replace(letters, offset) {
    const character = letters[offset];
    const before = letters[offset - 1] ?? " ";
    const after = letters[offset + 1] ?? " ";
    const isOpening = opensQuotation(before, after) ?? /^[\p{Pi}\p{Ps}]/u.test(character);
    const opening = isOpening ? this.nearestOpening.get(character) : undefined;
    const nearest = opening ?? this.nearest.get(character);
    if (nearest === undefined) return character;
    if (!this.dashes.has(character) || this.dashes.has(nearest)) return nearest;
    return (isSpace(before) ? "" : " ") + nearest + (isSpace(after) ? "" : " ");
  }

  /** Return whether the line has letters, and the vocabulary none of their scripts. */
  lacksScriptOf(line) {
    if (this.isSpelled(line)) return false;
    const letters = this.respell(line).match(/\p{L}/gu) ?? [];
    if (letters.some((letter) => this.isKnown(letter))) return false;
    const isInScripts = (letter) => this.scripts.some((script) => script.test(letter));
    return letters.length > 0 && !letters.some(isInScripts);
  }
}

/** Return the pairs of a table that lists for each spelling the characters that it stands for. */
function expand(table) {
  const pairs = Object.entries(table).flatMap(([spelling, all]) => characters(all).map((each) => [each, spelling]));
  return new Map(pairs);
}

/** Return a pattern for the letters of a script; for all letters if JavaScript does not know it. */
function letterOfScript(name) {
  if (name === "KANA") return /^[\p{Script_Extensions=Hiragana}\p{Script_Extensions=Katakana}]/u;
  try {
    return new RegExp(`^\\p{Script_Extensions=${name[0]}${name.slice(1).toLowerCase()}}`, "u");
  } catch {
    return /^/u;
  }
}

/** Return whether a quote between two characters begins a quotation; null: they do not say. */
function opensQuotation(before, after) {
  const hasSpaceBefore = isSpace(before) || /^[\p{Ps}\p{Pd}]/u.test(before);
  const hasSpaceAfter = isSpace(after);
  return hasSpaceBefore === hasSpaceAfter ? null : hasSpaceBefore;
}
