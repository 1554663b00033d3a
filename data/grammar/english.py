"""The English side: how noun phrases and verbs are said."""

import re

from grammar.meaning import Clause, NounPhrase, Predicate, Word, suffixed, words
from grammar.numerals import cardinal

_BE = {"I": ("am", "was"), "it": ("is", "was"), "they": ("are", "were")}
_PAST = {"do": "did", "have": "had", "want": "wanted", "can": "could"}
_AUXILIARIES = ("be", "can", "will")
_MODES = {"desire": "want to", "ability": "can", "obligation": "have to"}


def with_s(word: str) -> str:
    """A plural or a third person singular: watches, studies, goes, has."""
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    sibilant = re.search(r"(s|x|z|ch|sh|go|do)$", word)
    return "has" if word == "have" else word + ("es" if sibilant else "s")


def noun_phrase(phrase: NounPhrase, form: str = "") -> list[Word]:
    """A noun phrase; its form is a preposition (at: that of the place), or asks for a pronoun."""
    noun = phrase.noun
    if form == "pronoun":
        return words("I" if noun.english == "I" else noun.pronoun, "head")
    count = words(cardinal(phrase.count), "count") if phrase.count else []
    adjective = _graded(phrase.adjective, phrase.degree, "adjective") if phrase.adjective else []
    body = [*count, *adjective, *_head(phrase)]
    said = [*_determiner(phrase, body[0].text), *body]
    if form == "to" and noun.english == "home":
        return said
    return words(noun.preposition if form == "at" else form, "relation") + said


def _head(phrase: NounPhrase) -> list[Word]:
    """The noun, under its container if that counts it: two cups of coffee."""
    noun, counted = phrase.noun, phrase.count or phrase.determiner == "how many"
    if counted and noun.container:
        container = with_s(noun.container) if phrase.plural else noun.container
        return words(f"{container} of", "measure") + words(noun.english, "head")
    return words(noun.plural if phrase.plural and not noun.mass else noun.english, "head")


def _graded(adjective: Predicate, degree: str, key: str) -> list[Word]:
    """An adjective with its degree: very big, bigger, biggest, more famous, most famous."""
    if degree in ("more", "most") and adjective.forms:
        comparative = adjective.forms[0]
        form = comparative if degree == "more" else comparative[:-1] + "st"
        return words(form, "degree", key)
    return words(degree, "degree") + words(adjective.english, key)


def _determiner(phrase: NounPhrase, following: str) -> list[Word]:
    """Articles say nothing that Korean says, so that they have no keys."""
    if phrase.owner:
        return [word.under("owner") for word in suffixed(noun_phrase(phrase.owner), "'s")]
    if phrase.determiner in ("a", "the"):
        vowel = phrase.determiner == "a" and following[0] in "aeiou"
        return words("an" if vowel else phrase.determiner)
    plural = {"this": "these", "that": "those"} if phrase.plural else {}
    return words(plural.get(phrase.determiner, phrase.determiner), "determiner")


def _inflected(verb: str, clause: Clause) -> str:
    """The finite form of an auxiliary or of the predicate's verb."""
    subject, is_past = clause.subject, clause.tense == "past"
    many = subject and (subject.plural or subject.noun.english in ("we", "you"))
    person = "they" if many else "I" if subject and subject.noun.english == "I" else "it"
    if verb == "be":
        return _BE[person][is_past]
    if is_past:
        return _PAST.get(verb) or clause.predicate.forms[0].split()[0]
    return with_s(verb) if person == "it" and verb not in _AUXILIARIES else verb


def _base(clause: Clause) -> list[Word]:
    """The bare infinitive: buy, be, be very tall."""
    if clause.predicate.kind != "adjective":
        return words(clause.predicate.english, "head")
    return words("be", "finite") + _graded(clause.predicate, clause.degree, "head")


def verb(clause: Clause, form: str = "") -> list[Word]:
    """The verb group of a statement; the `aux` and the `rest` of a question; the `base`."""
    if form == "base":
        return _base(clause)
    if clause.tense == "future":
        group = words("will", "finite") + _base(clause)
    elif clause.mode == "progressive":
        group = words("be", "finite") + words(clause.predicate.forms[1], "head")
    else:
        group = words(_MODES.get(clause.mode, ""), "modal") + _base(clause)
    inverted, negation = form in ("aux", "rest"), words("not", "negation") * clause.negative
    if group[0].text not in _AUXILIARIES and (inverted or negation):
        group = [Word("do"), *group]
    first, *rest = group
    finite = Word(_inflected(first.text, clause), first.keys | {"finite"})
    if inverted:
        return [finite] if form == "aux" else negation + rest
    if finite.text == "can" and negation:
        return [Word("cannot", finite.keys | {"negation"}), *rest]
    return [finite, *negation, *rest]
