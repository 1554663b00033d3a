// The text steps of `mtkit/decoding/text`: all changes of a line on its way to the model, and back.
//
// A step gets a text and returns parts: texts for the next step, or copied text. `join` makes one
// translation of those of the parts.

const spaceBetween = (before, after) => (needsSpace(before, after) ? " " : "");
const joinTexts = (texts) => texts.reduce((before, after) => before + spaceBetween(before, after) + after, "");
const concatenate = (texts) => texts.join("");
const copied = (text) => ({ copied: text });

function needsSpace(before, after) {
  if (!before || !after) return false;
  return !(CLOSE.test(characters(before.slice(-2)).at(-1)) && CLOSE.test(after.slice(0, 2)[0]));
}

// ---- What is not translated (untranslatable.py) ----

const AT_BEGIN = "(?<![A-Za-z0-9_.@+/\\\\~%\\-])";
const AT_BEGIN_OF_WORD = `(?<![${WORD}.@+/\\\\~%\\-])`;
const UNSPACED_CHARACTERS = `\\u0e00-\\u0eff\\u1000-\\u109f\\u1780-\\u17ff${CLOSE_CHARACTERS}`;
const IN_URL = `[^${SPACES}<>"“”‘’«»\\{\\}\\|\\\\^\`${UNSPACED_CHARACTERS}]`;
const URLS = `${AT_BEGIN}(?:[A-Za-z][A-Za-z0-9+.\\-]*://|mailto:|www\\.)${IN_URL}+(?<![.,;:!?)\\]'])`;
const ADDRESSES = `${AT_BEGIN}[A-Za-z0-9._%+\\-]+@[A-Za-z0-9\\-]+(?:\\.[A-Za-z0-9\\-]+)+`;
const NAMES = `${AT_BEGIN}(?:[A-Za-z0-9_\\-]+\\.)+[a-z][a-z0-9]+(?![${WORD}.@\\-])(?:/[${WORD}./@+\\-]*)?`;
const PATHS =
  `${AT_BEGIN_OF_WORD}(?:~?/|\\.\\.?/)[${WORD}@+\\-][${WORD}./@+\\-]*` +
  `|${AT_BEGIN_OF_WORD}(?:[A-Za-z]:[\\\\/]|\\\\\\\\)[^${SPACES}"<>\\|?*]+(?<![.,;:!?)\\]'])` +
  `|${AT_BEGIN_OF_WORD}(?:[${WORD}.@+\\-]+/)+[${WORD}@+\\-]*\\.[A-Za-z][${WORD}]{0,5}(?![${WORD}/])`;
const PLACEHOLDERS =
  `\\{\\{[^\\{\\}]{0,60}\\}\\}|[$#%]?\\{[^\\{\\}${SPACES}]{0,60}\\}` +
  `|(?<![\\p{Nd}%])%(?:\\([${WORD}]{1,60}\\)|\\p{Nd}+\\$)?[\\-+#]{0,3}\\p{Nd}*(?:\\.\\p{Nd}+)?(?:hh?|ll?|[jztL])?` +
  "[sdiufFeEgGxXoc@](?![A-Za-z0-9])" +
  "|(?<![\\p{Nd}%])%\\p{Nd}(?!\\p{Nd})";
const TAGS =
  `</?[A-Za-z][${WORD}:.\\-]*(?:[${SPACES}][^<>]*)?/?>|<!--[^<>]*-->|<[\\p{Nd}:.]{5,20}>` + "|\\{\\\\[^\\{\\}]*\\}";
const ALL_TAGS = new RegExp(TAGS, "gu");
const SPAN = [TAGS, URLS, ADDRESSES, PLACEHOLDERS, PATHS, NAMES].join("|");
const SPANS = new RegExp(SPAN, "gu");
const ONE_SPAN = new RegExp(`^(?:${SPAN})$`, "u");
const MAY_BE_SPAN = new RegExp(`[@{%<\\\\/]|\\.[${WORD}]`, "u");
const CUE = new RegExp(
  `^(?:WEBVTT(?:[${SPACES}].*)?|[\\p{Nd}:.,]+ --> [\\p{Nd}:.,]+(?: [${WORD}]+:[^${SPACES}]+)*)$`,
  "su",
);
const AFTER_TEXT = new RegExp(`^[${SPACES}"'”’»)\\]♪*_]*$`, "u");
const WORD_CHARACTER = /[\p{L}\p{M}\p{N}\p{Pc}]/gu;

const withoutSpans = (text) => (MAY_BE_SPAN.test(text) ? text.replace(SPANS, " ") : text);

/** Return whether a text has no letters outside of URLs and the like, or none that the model can read. */
function isUntranslatable(text, spelling) {
  if (!hasLetters(text) || CUE.test(text)) return true;
  const rest = withoutSpans(text);
  return !hasLetters(rest) || spelling.lacksScriptOf(rest);
}

function copyOuterTags(text) {
  const unchanged = { parts: [text], join: joinTexts };
  if (!text.includes("<") && !text.includes("{")) return unchanged;
  const tags = [...text.matchAll(ALL_TAGS)];
  const endOf = (tag) => tag.index + tag[0].length;
  const mayPrecede = (before) => (before.match(WORD_CHARACTER) ?? []).every((each) => /[\ufe00-\ufe0f]/u.test(each));
  let first = 0;
  let start = 0;
  while (first < tags.length && mayPrecede(text.slice(start, tags[first].index))) start = endOf(tags[first++]);
  let last = tags.length;
  let end = text.length;
  while (last > first && AFTER_TEXT.test(text.slice(endOf(tags[last - 1]), end))) end = tags[--last].index;
  const hasTagWithin = last > first;
  if (hasTagWithin || !hasLetters(text.slice(start, end)) || end - start === text.length) return unchanged;
  const inner = trim(text.slice(start, end));
  const begin = text.indexOf(inner, start);
  const parts = [copied(text.slice(0, begin)), inner, copied(text.slice(begin + inner.length))];
  return { parts, join: concatenate };
}

// ---- Truecasing (case.py) ----

const WORDS = new RegExp(`[^${SPACES}]+`, "gu");
const LETTERS = /[\p{L}\p{Nl}\p{No}]/gu;
const LONG_WORDS = /[\p{L}\p{Nl}\p{No}]{4,}/gu;

class TrueCaser {
  constructor(settings, spelling, cases) {
    this.settings = settings;
    this.spelling = spelling;
    this.cases = cases;
    this.stopped = new Set(settings.abbreviations.map((word) => `${word.toLowerCase()}.`));
  }

  restore(text) {
    const { settings, cases } = this;
    const cased = settings.truecase ? this.truecase(text) : text;
    if (cased === text || !cases.isInCapitals(text)) return { parts: [cased], join: joinTexts };
    const hasDotlessI = settings.dotless_i === "target" || settings.dotless_i === "both";
    return { parts: [cased], join: (texts) => cases.upper(joinTexts(texts), hasDotlessI) };
  }

  /** Return whether a line is IN CAPITALS, in lower case, or With A Capital In Each Long Word. */
  hasNoCase(line) {
    const { cases } = this;
    if (!cases.isInCapitals(line) && !cases.isInSmallLetters(line)) {
      const others = line.match(WORDS)?.slice(1).join(" ") ?? "";
      const long = others.match(LONG_WORDS) ?? [];
      if (long.length < 3 || !long.every((word) => cases.isCapital(characters(word)[0]))) return false;
    }
    const letters = line.match(LETTERS) ?? [];
    const cased = letters.filter((letter) => cases.isCapital(letter) || cases.isSmall(letter));
    return 2 * cased.length > letters.length;
  }

  truecase(line) {
    if (!this.hasNoCase(line)) return line;
    let isFirst = true;
    const cased = line.replace(WORDS, (word) => {
      const best = this.bestSpelling(word, isFirst);
      isFirst = /[.!?…]$/u.test(word) && !this.stopped.has(word.toLowerCase());
      return best;
    });
    return this.spelling.encode(cased).length < this.spelling.encode(line).length ? cased : line;
  }

  /** Return the spelling with the fewest subwords; the word itself if all are split into letters. */
  bestSpelling(word, isFirst) {
    const { settings, spelling, cases } = this;
    const source = settings.dotless_i === "source" || settings.dotless_i === "both";
    const ways = settings.dotless_i === null ? [false, true] : [source];
    const small = ways.map((way) => cases.lower(word, way));
    const capital = small.map((text, number) => cases.capitalise(text, ways[number]));
    const costs = [...capital, ...small, word].map((text) => {
      const ids = spelling.encode(text);
      // The largest ids belong to the rarest subwords; they decide, but not at the start of a sentence.
      const rarest = isFirst ? [] : ids.slice().sort((a, b) => b - a);
      const isRespelled = spelling.respell(text) !== text;
      return { text, size: ids.length, order: [ids.length, Number(isRespelled), ...rarest] };
    });
    const best = costs.reduce((a, b) => (isBefore(b.order, a.order) ? b : a));
    const isKnown = best.size < characters(word).length || best.size === 1;
    return isKnown ? best.text : word;
  }
}

/** Compare two lists of numbers as Python does. */
function isBefore(a, b) {
  for (let i = 0; i < Math.min(a.length, b.length); i++) if (a[i] !== b[i]) return a[i] < b[i];
  return a.length < b.length;
}

// ---- What is copied (verbatim.py) ----

const EMOJI = new RegExp(
  "(?:(?:[\\u231a\\u231b\\u23e9-\\u23fa\\u2600-\\u27bf\\u2b00-\\u2bff\\u{1f000}-\\u{1faff}]" +
    "|[\\xa9\\xae\\u203c-\\u3299](?=\\ufe0f)" + // text symbols that are displayed as pictures
    "|[0-9#*](?=\\ufe0f?\\u20e3))" + // a keycap
    "[\\u200d\\u20e3\\ufe0e\\ufe0f\\u{e0020}-\\u{e007f}]*)+", // joiners and variation selectors
  "gu",
);
const BULLET = "[\\-–—−*•‣⁃◦·▪▫●○■□◆◇►▶➢➤✓✔→>\\|#]+";
const DATE = "\\p{Nd}{1,4}(?:[\\-./:]\\p{Nd}{1,4}){2}[\\p{Nd}.,:]{0,9}";
const NUMBER = "\\p{Nd}[\\p{Nd}.,:]{0,9}";
// A group that is looked ahead keeps its first match, as Python's possessive "++" does.
const MARKS_BEFORE = new RegExp(
  `^(?=((?:(?:${NUMBER} )?(?:${BULLET}|${DATE}|[(\\[]?${NUMBER}[)\\]:]) )+))\\1(?=[^${SPACES}]*[\\p{L}\\p{Nl}\\p{No}])`,
  "u",
);
const MARK_AFTER = new RegExp(`^(?:${BULLET}|${DATE}|\\(${NUMBER}\\)|\\[${NUMBER}\\]|[:;]-?[()])$`, "u");
const ENDS_SENTENCE = /[.!?…。！？؟।۔]/u;

/** Copy list marks and dates at the ends, and emoji that the vocabulary lacks. */
function copyVerbatim(text, tokenizer) {
  const begin = MARKS_BEFORE.exec(text)?.[0].length ?? 0;
  const end = beginOfLastMarks(text, begin);
  const cuts = [0, begin];
  for (const emoji of text.slice(begin, end).matchAll(EMOJI)) {
    if (tokenizer.canSpell(emoji[0])) continue;
    cuts.push(begin + emoji.index, begin + emoji.index + emoji[0].length);
  }
  cuts.push(end, text.length);
  const runs = [];
  for (let number = 0; number + 1 < cuts.length; ) {
    const isTranslated = (i) => i % 2 === 1 && hasLetters(text.slice(cuts[i], cuts[i + 1]));
    const translated = isTranslated(number);
    const start = cuts[number];
    while (number + 1 < cuts.length && isTranslated(number) === translated) number++;
    const piece = trim(text.slice(start, cuts[number]));
    if (!piece) continue;
    // Runs alternate: before a translated piece stand the text [-2] and the emoji [-1] of its sentence.
    if (translated && runs.length > 1 && !endsSentence(runs.at(-2), runs.at(-1))) runs.at(-2).pieces.push(piece);
    else if (!translated && runs.length && !runs.at(-1).translated) runs.at(-1).pieces.push(piece);
    else runs.push({ pieces: [piece], translated });
  }
  const parts = runs.map(({ pieces, translated }) => (translated ? joinTexts(pieces) : copied(pieces.join(" "))));
  return { parts, join: joinTexts };
}

function beginOfLastMarks(text, begin) {
  let end = text.length;
  let firstMark = end;
  for (;;) {
    const space = end > begin ? text.lastIndexOf(" ", end - 1) : -1;
    if (space <= begin) break;
    const mark = text.slice(space + 1, end);
    if (!MARK_AFTER.test(mark) && !ONE_SPAN.test(mark)) break;
    if (ENDS_SENTENCE.test(text[space - 1])) firstMark = space;
    end = space;
  }
  return firstMark;
}

function endsSentence(translated, copiedRun) {
  const lastLetter = translated.pieces.at(-1).replace(/(?<!["'”’»)\]])["'”’»)\]]+$/u, "").slice(-1);
  return ENDS_SENTENCE.test(lastLetter) || ENDS_SENTENCE.test(copiedRun.pieces.at(-1));
}

// ---- Sentences (sentences.py) ----

// Instead of the library sentencex: every sign that may end a sentence, with the same checks afterwards.
const SENTENCE_END = new RegExp(
  `[.!?…؟]["'”’»)\\]]*[${SPACES}]+|[。！？｡।॥۔።፧။៕։།]["'”’»)\\]」』）]*[${SPACES}]*`,
  "gu",
);
const STOPPED_WORD = /([^\s()[\]"'“”„‘’«»/-]*)\.["'”’»)\]]*$/u;
const FIRST_LETTER = /[\p{L}\p{N}]/u;
const MAX_SHORT_WORD = 4;
const CONTEXT_CHARACTERS = 64;

class SentenceSplitter {
  constructor(settings, cases) {
    this.abbreviations = new Set(settings.abbreviations);
    this.cases = cases;
  }

  /** Return the sentences of a text. */
  split(text) {
    const cuts = [0];
    for (const match of text.matchAll(SENTENCE_END)) {
      const place = match.index + match[0].length;
      const before = trim(text.slice(Math.max(cuts.at(-1), place - CONTEXT_CHARACTERS), place));
      const after = text.slice(place, place + CONTEXT_CHARACTERS);
      if (!isShort(before) && this.isEnd(before, after)) cuts.push(place);
    }
    const rest = trim(text.slice(cuts.at(-1)).slice(0, CONTEXT_CHARACTERS));
    if (cuts.length > 1 && isShort(rest)) cuts.pop();
    const sentences = cuts.map((cut, number) => trim(text.slice(cut, cuts[number + 1])));
    return sentences.filter((sentence) => sentence);
  }

  isEnd(before, after) {
    const isQuoted = /[」』]$/u.test(before);
    if (isQuoted && !/^[「『]/u.test(trimStart(after))) return false;
    const first = FIRST_LETTER.exec(after)?.[0];
    if (first && (isNumber(first) || this.cases.isSmall(first))) return false;
    const stopped = STOPPED_WORD.exec(before);
    return stopped === null || !this.mayBeAbbreviation(stopped[1].replace(/\.+$/u, ""));
  }

  mayBeAbbreviation(word) {
    if (word.includes(".") || this.abbreviations.has(word)) return true;
    const letters = characters(word);
    if (letters.length > 0 && letters.length < MAX_SHORT_WORD && !hasLetters(word)) return true;
    if (letters.length === 1 || (letters.length === 2 && this.cases.isCapital(letters[0]))) return true;
    if (!/^[A-Za-z]+$/u.test(word)) return false;
    return !this.cases.isInCapitals(word) && !/[aeiouy]/iu.test(word);
  }
}

const isShort = (text) => text.endsWith(".") && characters(text).length <= MAX_SHORT_WORD + 1 && !text.includes(" ");

// ---- Parts that fit the model (fit.py) ----

const ONE_SPACE = new RegExp(`^[${SPACES}]`, "u");

/** Return the subword ids of a text, in parts of at most `room`. */
function encodeToFit(text, room, spelling, splitter) {
  const ids = spelling.encode(text);
  if (ids.length <= room) return [ids];
  const parts = divide(text, splitter);
  if (parts.length > 1) return parts.flatMap((part) => encodeToFit(part, room, spelling, splitter));
  const pieces = []; // even a single character can have more subwords than there is room for
  for (let first = 0; first < ids.length; first += room) pieces.push(ids.slice(first, first + room));
  return pieces;
}

/** Split a text at sentence ends, else at the space nearest to its middle, else in half. */
function divide(text, splitter) {
  const sentences = splitter.split(text);
  if (sentences.length > 1) return sentences;
  const letters = characters(text);
  if (letters.length <= 1) return [text];
  const isJoined = (place) => letters[place - 1] === "\u200d" || /[\u200d\u{1f3fb}-\u{1f3ff}]/u.test(letters[place]);
  const isBoundary = (place) => !isMark(letters[place]) && !isJoined(place);
  let middle = letters.length >> 1;
  const after = letters.findIndex((_, place) => place >= middle && isBoundary(place));
  if (after > 0) middle = after;
  else while (middle > 1 && !isBoundary(middle)) middle--;
  const spaces = letters.flatMap((letter, place) => (ONE_SPACE.test(letter) ? [place] : []));
  const nearer = (a, b) => (Math.abs(b - middle) < Math.abs(a - middle) ? b : a);
  const cut = spaces.length ? spaces.reduce(nearer) : middle;
  return [letters.slice(0, cut), letters.slice(cut)].map((part) => trim(part.join(""))).filter((part) => part);
}
