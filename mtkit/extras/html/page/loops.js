// Loops: translations that repeat something over and over (`has_loop` of `mtkit/decoding/estimation/flags.py`).

const NGRAM_IN_LOOP = 2; // the second search repeats no n-gram of this many subwords
const MAX_LOOP = 30;
const MAX_LOOPED_TEXT = 2000;
const MARKED_LETTERS = new RegExp(`[\\p{L}\\p{Nl}\\p{No}][^${WORD}${SPACES}]*`, "gu");
const LOOP_IN_WORD = /([\p{L}\p{Nl}\p{No}]{1,5}?)\1{3}/u;
const foldCase = (text) => text.toUpperCase().toLowerCase();
const mayHaveLoop = (ids) => ids.length - new Set(ids).size >= 2;

/** Return whether a translation repeats something over and over, but its source does not. */
function hasLoop(text, source) {
  if (repeatsPhrase(unitsOf(text))) {
    const others = unitsOf(source);
    const repeatsUnit = others.some((unit, place) => place > 0 && unit === others[place - 1]);
    if (!repeatsUnit && !repeatsPhrase(others)) return true;
  }
  return hasLoopInWord(text) && !hasLoopInWord(source);
}

const hasLoopInWord = (text) => (foldCase(text).match(WORDS) ?? []).some((word) => LOOP_IN_WORD.test(word));

/** Return the words without punctuation; of text without spaces, the characters. */
function unitsOf(text) {
  const letters = characters(text).slice(0, MAX_LOOPED_TEXT);
  const folded = foldCase(letters.join(""));
  let units = folded.match(WORDS) ?? [];
  if (10 * units.length < letters.length) units = letters.join("").match(MARKED_LETTERS) ?? [];
  return units.map((unit) => unit.replace(/^[,.!?;:]+/u, "").replace(/(?<![,.!?;:])[,.!?;:]+$/u, ""));
}

/** Return whether a phrase occurs three times in a row, or a single unit four times. */
function repeatsPhrase(units) {
  for (let length = 1; length <= Math.min(Math.floor(units.length / 3), MAX_LOOP); length++) {
    const needed = Math.max(2 * length, 3);
    let equalInARow = 0;
    for (let place = length; place < units.length; place++) {
      equalInARow = units[place] === units[place - length] ? equalInARow + 1 : 0;
      if (equalInARow === needed) return true;
    }
  }
  return false;
}
