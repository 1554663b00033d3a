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

// ---- What is not translated (untranslatable.py, placeholders.py) ----

const WORD_CHARACTER = /[\p{L}\p{M}\p{N}\p{Pc}]/gu;

/** Return a pattern of Python for JavaScript, which has other names for the classes of Unicode.
 *
 * A possessive repetition becomes a greedy one: it is followed by what it cannot match itself. */
function ofPython(pattern, flags) {
  const classes = { w: WORD, d: "\\p{Nd}", s: SPACES };
  let isInClass = false;
  const own = pattern.replace(/\\.|[[\]]|[+*]\+/gsu, (sign) => {
    const letter = sign[1];
    if (sign === "[") isInClass = true;
    else if (sign === "]") isInClass = false;
    else if (sign[0] !== "\\") return isInClass ? sign : sign[0];
    else if (letter in classes) return isInClass ? classes[letter] : `[${classes[letter]}]`;
    else if (letter.toLowerCase() in classes) return `[^${classes[letter.toLowerCase()]}]`;
    else if (!/[\^$\\.*+?()[\]{}|/-]/u.test(letter)) return letter;
    return sign;
  });
  return new RegExp(own, flags);
}

const MESSAGES = new RegExp(
  `\\{[${SPACES}]*[${WORD}.\\-]+[${SPACES}]*,[${SPACES}]*(?:plural|selectordinal|select)[${SPACES}]*,`,
  "gu",
);
const COLON_AT_BEGIN = new RegExp(`^["'”’»)\\]]?:[${SPACES}]`, "u");
const COLON_AT_END = new RegExp(`:[${SPACES}]?["'“„«(\\[\`]?$`, "u");
const MAX_LOST_COUNTED = 20;
const ONE_WORD_CHARACTER = new RegExp(`[${WORD}]`, "u");
const textsBetween = (spans, text) =>
  [...spans, { start: text.length }].map(({ start }, number) => text.slice(spans[number - 1]?.end ?? 0, start));

/** Knows what no translation changes; `patterns`: those of untranslatable.py. */
class Spans {
  constructor(patterns) {
    this.mayBeSpan = ofPython(patterns.may_be_span, "u");
    this.spans = ofPython(patterns.span, "gu");
    this.oneSpan = ofPython(`^(?:${patterns.span})$`, "u");
    this.tags = ofPython(patterns.tag, "gu");
    this.cue = ofPython(`^(?:${patterns.cue})$`, "su");
    this.afterText = ofPython(`^${patterns.after_text}$`, "u");
  }

  /** Return where each span of a text begins and ends. A message of software is one span. */
  find(text) {
    if (!this.mayBeSpan.test(text)) return [];
    const messages = findMessages(text);
    const found = [];
    let last = 0;
    for (const message of [...messages, null]) {
      this.spans.lastIndex = last;
      for (const match of text.slice(0, message?.start).matchAll(this.spans)) {
        found.push({ start: match.index, end: match.index + match[0].length });
      }
      if (message) found.push(message);
      last = message?.end;
    }
    return found;
  }

  texts(text) {
    return this.find(text).map(({ start, end }) => text.slice(start, end));
  }

  /** Return whether a text has no letters outside of spans, or none that the model can read. */
  isUntranslatable(text, spelling) {
    if (!hasLetters(text) || this.cue.test(text)) return true;
    const rest = textsBetween(this.find(text), text).join(" ");
    return !hasLetters(rest) || spelling.lacksScriptOf(rest);
  }

  /** Return how many spans of a text its translation lacks. */
  countLost(text, translation) {
    const needed = countEach(this.texts(text));
    const found = needed.size ? countEach(this.texts(translation)) : needed;
    const counts = [...needed].map(([span, count]) => ({ span, count, missing: count - (found.get(span) ?? 0) }));
    const lost = counts.filter(({ missing }) => missing > 0);
    // A span may be part of a word: "/proc" of "/proc-Dateisystem". To save time, only of a few spans.
    const isPartOfWords = ({ span, count }) => translation.split(span).length - 1 >= count;
    const isLost = (each) => lost.length > MAX_LOST_COUNTED || !isPartOfWords(each);
    return lost.filter(isLost).reduce((sum, { missing }) => sum + missing, 0);
  }

  /** Split a text at its spans, which are copied: at all of them, or at those beside colons. */
  split(text, cutsAtSpans) {
    const spans = this.find(text);
    const cuts = cutsAtSpans ? spans : spansAtColons(spans, text);
    if (!cuts.length) return { parts: [text], join: joinTexts };
    const parts = [];
    textsBetween(cuts, text).forEach((between, number) => {
      let inner = hasLetters(between) ? between : "";
      if (number > 0) inner = inner.replace(COLON_AT_BEGIN, "");
      if (number < cuts.length) inner = inner.replace(COLON_AT_END, "");
      inner = trim(inner);
      const begin = between.indexOf(inner);
      parts.push(copied(between.slice(0, begin)));
      if (inner) parts.push(inner);
      parts.push(copied(between.slice(begin + inner.length)));
      if (number < cuts.length) parts.push(copied(text.slice(cuts[number].start, cuts[number].end)));
    });
    return { parts, join: concatenate };
  }
}

function countEach(texts) {
  const counts = new Map();
  for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1);
  return counts;
}

/** Return the messages of a text (messages.py) whose braces are balanced. */
function findMessages(text) {
  const found = [];
  let end = 0;
  for (const { index } of text.matchAll(MESSAGES)) {
    if (index < end) continue;
    let depth = 0;
    for (end = index; end < text.length; ) {
      const sign = text[end++];
      depth += Number(sign === "{") - Number(sign === "}");
      if (depth === 0) break;
    }
    if (depth > 0) break; // nothing is read twice
    found.push({ start: index, end, isMessage: true });
  }
  return found;
}

/** Return messages, and the spans that a colon separates from the words: "%s: not found". */
function spansAtColons(spans, text) {
  const between = textsBetween(spans, text);
  const firstWords = between.findIndex((part) => ONE_WORD_CHARACTER.test(part));
  const lastWords = between.findLastIndex((part) => ONE_WORD_CHARACTER.test(part));
  // The spans before the first of these texts, and those after the last one, stand at the ends.
  const first = COLON_AT_BEGIN.test(between[firstWords] ?? "") ? firstWords : 0;
  const last = COLON_AT_END.test(between[lastWords] ?? "") ? lastWords : spans.length;
  return spans.filter((span, number) => span.isMessage || number < first || number >= last);
}

function copyOuterTags(text, spans) {
  const unchanged = { parts: [text], join: joinTexts };
  if (!text.includes("<") && !text.includes("{")) return unchanged;
  const tags = [...text.matchAll(spans.tags)];
  const endOf = (tag) => tag.index + tag[0].length;
  const mayPrecede = (before) => (before.match(WORD_CHARACTER) ?? []).every((each) => /[\ufe00-\ufe0f]/u.test(each));
  let first = 0;
  let start = 0;
  while (first < tags.length && mayPrecede(text.slice(start, tags[first].index))) start = endOf(tags[first++]);
  let last = tags.length;
  let end = text.length;
  while (last > first && spans.afterText.test(text.slice(endOf(tags[last - 1]), end))) end = tags[--last].index;
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
function copyVerbatim(text, tokenizer, spans) {
  const begin = MARKS_BEFORE.exec(text)?.[0].length ?? 0;
  const end = beginOfLastMarks(text, begin, spans);
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

function beginOfLastMarks(text, begin, spans) {
  let end = text.length;
  let firstMark = end;
  for (;;) {
    const space = end > begin ? text.lastIndexOf(" ", end - 1) : -1;
    if (space <= begin) break;
    const mark = text.slice(space + 1, end);
    if (!MARK_AFTER.test(mark) && !spans.oneSpan.test(mark)) break;
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
