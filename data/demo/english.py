"""English inflection: rules, and the few irregular forms that the lexicon does not carry."""

import re

_PLURALS = {"child": "children", "man": "men", "woman": "women", "knife": "knives", "fish": "fish"}
_THIRD = {"have": "has", "go": "goes", "do": "does"}
_SUPPLETIVE = {
    "good": {"er": "better", "est": "best"},
    "bad": {"er": "worse", "est": "worst"},
}
_SOUNDED_AS_CONSONANT = ("uni", "use", "one", "euro")
_ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"),
    *("eighteen", "nineteen"),
)
_TENS = ["-", "-", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}


def _sibilant(word: str) -> str:
    """Add -s, -es or -ies."""
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    return word + ("es" if re.search(r"(s|x|z|ch|sh)$", word) else "s")


def plural(noun: str) -> str:
    """The plural of a noun; the last word of a compound inflects."""
    head, space, last = noun.rpartition(" ")
    if last in ("potato", "tomato"):
        return head + space + last + "es"
    return head + space + _PLURALS.get(last, _sibilant(last))


def third_singular(verb: str) -> str:
    """The third person singular; a particle stays behind: looks for."""
    base, space, particle = verb.partition(" ")
    return _THIRD.get(base, _sibilant(base)) + space + particle


def _doubled(base: str) -> str:
    """Double the final consonant of a short stressed syllable: run, runn-; big, bigg-."""
    return base + base[-1] if re.fullmatch(r"[^aeiou]*[aeiou][bdgmnpt]", base) else base


def gerund(verb: str) -> str:
    """The -ing form: silent e falls, and a stressed short final syllable doubles its consonant."""
    base, space, particle = verb.partition(" ")
    silent = base.endswith("e") and not base.endswith("ee")
    return (base[:-1] if silent else _doubled(base)) + "ing" + space + particle


def compared(adjective: str, suffix: str) -> str | None:
    """The form in -er or -est, None if the adjective takes more and most.

    Adjectives of one syllable take the suffix, and those of two in -y.
    """
    if adjective in _SUPPLETIVE:
        return _SUPPLETIVE[adjective][suffix]
    if re.fullmatch(r"[^aeiou]*[aeiou]+[^aeiou]*y", adjective):
        return adjective[:-1] + "i" + suffix
    base = adjective.removesuffix("e")
    if len(re.findall(r"[aeiouy]+", base)) > 1:
        return None
    return (_doubled(base) if base == adjective else base) + suffix


def article(word: str) -> str:
    """The indefinite article before a word, by its sound: an apple, a university."""
    vowel = word[0].lower() in "aeiou" and not word.lower().startswith(_SOUNDED_AS_CONSONANT)
    return "an" if vowel else "a"


def cardinal(number: int) -> str:
    """A number below one hundred in words, or in whole hundreds and thousands: five thousand."""
    for unit, name in ((1000, "thousand"), (100, "hundred")):
        if number >= unit:
            rest = number % unit
            tail = f" {cardinal(rest)}" if rest else ""
            return f"{cardinal(number // unit)} {name}{tail}"
    if number < len(_ONES):
        return _ONES[number]
    tens, ones = divmod(number, 10)
    return _TENS[tens] + (f"-{_ONES[ones]}" if ones else "")


def ordinal(number: int) -> str:
    """The ordinal of a number below one hundred: twelfth, twentieth, twenty-first."""
    head, hyphen, last = cardinal(number).rpartition("-")
    if last.endswith("y"):
        return last[:-1] + "ieth"
    return head + hyphen + _ORDINALS.get(last, last + "th")
