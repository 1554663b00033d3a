// Letters, marks, cases and white space, as `mtkit/corpus/characters.py` and `text.py` tell them apart.

const SPACES = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000"; // Python's \s
const WORD = "\\p{L}\\p{N}_"; // Python's \w
const IGNORED_SPACES = "\\t-\\r \\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";

const LONG_RUN_OF_MARKS = /([\p{M}\uff9e\uff9f]{31,})/u;
const RUNS_OF_SPACES = new RegExp(`[${IGNORED_SPACES}]{2,}|[\\t-\\r\\u2028\\u2029]`, "gu");
const OUTER_IGNORED_SPACES = new RegExp(`^[${IGNORED_SPACES}]+|(?<![${IGNORED_SPACES}])[${IGNORED_SPACES}]+$`, "gu");
const NONCHARACTERS = /[\ufdd0-\ufdef]/gu;
const LINE_BREAKS = /[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/gu;
const INVISIBLE = new RegExp(
  `^[${SPACES}\\x00-\\x1f\\x7f-\\x9f\\xad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f` +
    "\\u202a-\\u202e\\u2060-\\u206f\\u2800\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufff8" +
    "\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}]*$",
  "u",
);
const LEADING_SPACES = new RegExp(`^[${SPACES}]+`, "u");
const TRAILING_SPACES = new RegExp(`(?<![${SPACES}])[${SPACES}]+$`, "u");
const CLOSE_CHARACTERS = "\\u3000-\\u30ff\\u3400-\\u4dbf\\u4e00-\\u9fff\\uff00-\\uffef";
const CLOSE = new RegExp(`[${CLOSE_CHARACTERS}]`, "u");

const hasLetters = (text) => /\p{L}/u.test(text);
const isMark = (character) => /^\p{M}/u.test(character);
const isNumber = (character) => /^\p{N}/u.test(character);
const isSpace = (character) => /^[\p{Z}\t-\r\x1c-\x1f\x85]/u.test(character);
const isBlank = (text) => INVISIBLE.test(text);
const characters = (text) => Array.from(text);
const trimStart = (text) => text.replace(LEADING_SPACES, "");
const trim = (text) => trimStart(text).replace(TRAILING_SPACES, "");
const inOneLine = (text) => text.replace(LINE_BREAKS, " ");
const withoutSurrogates = (text) => text.replace(/\p{Cs}/gu, "?");

/** Return the text in NFC; a run of over 30 marks stays, because sorting it takes quadratic time. */
function compose(text) {
  const parts = text.split(LONG_RUN_OF_MARKS);
  return parts.map((part, number) => (number % 2 ? part : part.normalize("NFC"))).join("");
}

/** Return the text in NFC, with one space for a run of white space, and none at its ends. */
function normalise(text) {
  const own = text.replace(NONCHARACTERS, ""); // Unicode reserves them for the inside of programs
  return compose(own).replace(RUNS_OF_SPACES, " ").replace(OUTER_IGNORED_SPACES, "");
}

/** Tells capitals and small letters apart; `titles` has the title cases that JavaScript lacks. */
class Cases {
  constructor(titles) {
    this.titles = new Map(Object.entries(titles));
  }

  title(letter) {
    const known = this.titles.get(letter);
    if (known !== undefined) return known;
    const [first = "", ...others] = characters(letter.toUpperCase());
    return first + others.join("").toLowerCase();
  }

  /** Letters of Cherokee are no capitals: they stand in all places. */
  isCapital(character) {
    const isUpper = /^[\p{Lu}\p{Lt}]/u.test(character) && character.toLowerCase() !== character;
    return isUpper && !/^\p{Script=Cherokee}/u.test(character);
  }

  isSmall(character) {
    if (!/^\p{Ll}/u.test(character)) return false;
    const capital = this.title(character);
    return capital !== character && characters(capital).some((each) => this.isCapital(each));
  }

  isInCapitals(text) {
    const letters = text.match(/[\p{Lu}\p{Lt}\p{Ll}]/gu) ?? [];
    return !letters.some((letter) => this.isSmall(letter)) && letters.some((letter) => this.isCapital(letter));
  }

  isInSmallLetters(text) {
    const letters = text.match(/[\p{Lu}\p{Lt}\p{Ll}]/gu) ?? [];
    return !letters.some((letter) => this.isCapital(letter)) && letters.some((letter) => this.isSmall(letter));
  }

  /** Return the text in small letters; with `hasDotlessI`, I becomes ı. İ always becomes i. */
  lower(text, hasDotlessI) {
    const plain = text.replace(/\u0130|I\u0307/gu, "i");
    return (hasDotlessI ? plain.replaceAll("I", "ı") : plain).toLowerCase();
  }

  /** Return the text in capitals; letters that begin no sentence as capitals, such as Georgian ones, stay. */
  upper(text, hasDotlessI) {
    const dotted = hasDotlessI ? text.replaceAll("i", "İ") : text;
    const capital = (letter) => (this.title(letter) === letter ? letter : letter.toUpperCase());
    return characters(dotted).map(capital).join("");
  }

  /** Capitalise the first letter, even after a bracket. */
  capitalise(word, hasDotlessI) {
    const capital = (letter) => (hasDotlessI && letter === "i" ? "İ" : this.title(letter));
    return word.replace(/[\p{L}\p{Nl}\p{No}]/u, capital);
  }
}
