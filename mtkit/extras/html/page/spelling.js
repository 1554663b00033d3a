// Spell a source with the characters that the vocabulary knows, as `mtkit/tokenizer/spelling.py` does.

class Spelling {
  /** `data`: the tables of `html.py`, which hold the nearest known spelling of unknown characters. */
  constructor(data, tokenizer) {
    this.tokenizer = tokenizer;
    this.known = new Map();
    this.nearest = expand(data.nearest);
    this.nearestOpening = expand(data.nearestOpening);
    this.longDashes = new Set(data.longDashes);
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
    letters.forEach((character, offset) => {
      const spelling = this.isKnown(character) ? character : this.replace(letters, offset, base);
      spellings.push(spelling);
      if (spelling) base = characters(spelling).at(-1);
    });
    return spellings.join("");
  }

  replace(letters, offset, base) {
    const character = letters[offset];
    if (isMark(character) && !isBlank(character)) return this.isKnown(base) ? "" : character;
    const before = letters[offset - 1] ?? " ";
    const after = letters[offset + 1] ?? " ";
    const isOpening = opensQuotation(before, after) ?? /^[\p{Pi}\p{Ps}]/u.test(character);
    const opening = isOpening ? this.nearestOpening.get(character) : undefined;
    const nearest = opening ?? this.nearest.get(character);
    if (nearest === undefined) return character;
    if (!this.longDashes.has(character) || this.longDashes.has(nearest)) return nearest;
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
