"""The English realisation of a meaning, word by word with the concepts that each word realises."""

from .conjugation import Level
from .english import article, cardinal, compared, gerund, plural, third_singular
from .lexicon import Kind, Person
from .meaning import (
    Adjunct,
    Adverb,
    Clause,
    Concept,
    Determiner,
    Facet,
    Link,
    Mode,
    Mood,
    Node,
    NounPhrase,
    Relation,
    Sentence,
    Tense,
    Word,
)

_BE = {Person.FIRST: ("am", "was"), Person.THIRD: ("is", "was")}
_MODAL = {Mode.DESIRE: ("want", "wanted"), Mode.OBLIGATION: ("have", "had")}
_OBLIQUE = {"I": "me", "we": "us"}
_PLURAL_DETERMINER = {Determiner.THIS: "these", Determiner.THAT: "those"}


def _words(text: str, node: Node, *facets: Facet) -> list[Word]:
    concepts = tuple(node.concept(facet) for facet in facets)
    return [Word(part, concepts) for part in text.split()]


def adverb(node: Adverb) -> list[Word]:
    """An adverb or time phrase, as written."""
    return [Word(text, tuple(Concept(node, key) for key in keys)) for text, keys in node.english]


def _head(phrase: NounPhrase) -> list[Word]:
    """The noun, under its container if it is counted by one: two cups of coffee."""
    noun = phrase.noun
    many = phrase.count > 1 or phrase.plural
    if noun.container and (phrase.count or phrase.determiner is Determiner.HOW_MANY):
        measure = plural(noun.container) if many else noun.container
        words = _words(f"{measure} of", phrase, Facet.MEASURE)
        return words + _words(noun.english, phrase, Facet.HEAD)
    inflects = many and not (noun.pair or noun.mass)
    return _words(plural(noun.english) if inflects else noun.english, phrase, Facet.HEAD)


def _modifiers(phrase: NounPhrase) -> list[Word]:
    """The numeral and the adjective before a noun."""
    words = _words(cardinal(phrase.count), phrase, Facet.COUNT) if phrase.count else []
    if not phrase.adjective:
        return words
    base = phrase.adjective.english
    form = compared(base, "est") if phrase.superlative else base
    if form is None:
        most = _words("most", phrase, Facet.DEGREE)
        return words + most + _words(base, phrase, Facet.ADJECTIVE)
    facets = (Facet.DEGREE, Facet.ADJECTIVE) if phrase.superlative else (Facet.ADJECTIVE,)
    return words + _words(form, phrase, *facets)


def _determiner(phrase: NounPhrase, following: Word) -> list[Word]:
    if phrase.owner:
        *rest, last = noun_phrase(phrase.owner)
        return [*rest, Word(last.text + "'s", last.concepts)]
    determiner = phrase.determiner
    if determiner is Determiner.A:
        return [Word(article(following.text))]
    if determiner is Determiner.THE:
        return [Word("the")]
    text = determiner.value
    if phrase.plural:
        text = _PLURAL_DETERMINER.get(determiner, text)
    return _words(text, phrase, Facet.DETERMINER)


def noun_phrase(phrase: NounPhrase, *, oblique: bool = False) -> list[Word]:
    """Determiner, modifiers, noun, relative clause; nothing for a gap."""
    if phrase.gap:
        return []
    body = [*_modifiers(phrase), *_head(phrase)]
    if oblique and phrase.noun.english in _OBLIQUE:
        body = _words(_OBLIQUE[phrase.noun.english], phrase, Facet.HEAD)
    words = [*_determiner(phrase, body[0]), *body]
    if phrase.relative:
        human = phrase.relative.subject.gap and phrase.noun.counter == "명"
        words += [Word("who" if human else "that"), *clause(phrase.relative)]
    if phrase.also:
        words += [*_words("and", phrase, Facet.LINK), *noun_phrase(phrase.also, oblique=oblique)]
    return words


def _be(node: Clause) -> str:
    present, past = _BE.get(node.subject.person, ("are", "were"))
    return past if node.tense is Tense.PAST else present


def _do(node: Clause) -> str:
    if node.tense is Tense.PAST:
        return "did"
    return "does" if node.subject.person is Person.THIRD else "do"


def _is_be(node: Clause) -> bool:
    return node.predicate.english == "be" or node.kind is Kind.ADJECTIVE


def _base(node: Clause) -> list[Word]:
    """The bare infinitive of the predicate; an adjective takes be."""
    if node.kind is Kind.ADJECTIVE:
        return [*_words("be", node, Facet.FINITE), *_complement(node)]
    return _words(node.predicate.english, node, Facet.HEAD)


def _complement(node: Clause) -> list[Word]:
    """A predicative adjective with its degree, in the comparative before a standard."""
    base = node.predicate.english
    standards = [each for each in node.adjuncts if each.relation is Relation.STANDARD]
    if standards:
        degree = standards[0].concept(Facet.DEGREE)
        form = compared(base, "er")
        if form is None:
            return [Word("more", (degree,)), *_words(base, node, Facet.HEAD)]
        return [Word(form, (degree, node.concept(Facet.HEAD)))]
    return _words(node.degree, node, Facet.DEGREE) + _words(base, node, Facet.HEAD)


def _inflected(node: Clause, base: str, past: str) -> str:
    """The finite form of a main verb."""
    if node.tense is Tense.PAST:
        return past
    return third_singular(base) if node.subject.person is Person.THIRD else base


def _auxiliary(node: Clause) -> tuple[list[Word], list[Word]]:
    """The auxiliary, if the predicate has one of its own, and what follows it."""
    if node.tense is Tense.FUTURE:
        return _words("will", node, Facet.FINITE), _base(node)
    if node.mode is Mode.ABILITY:
        can = "could" if node.tense is Tense.PAST else "can"
        return _words(can, node, Facet.MODAL), _base(node)
    if node.mode is Mode.PROGRESSIVE:
        verb = gerund(node.predicate.english)
        return _words(_be(node), node, Facet.FINITE), _words(verb, node, Facet.HEAD)
    if node.kind is Kind.ADJECTIVE and node.mode is Mode.PLAIN:
        return _words(_be(node), node, Facet.FINITE), _complement(node)
    if _is_be(node):
        return _words(_be(node), node, Facet.HEAD, Facet.FINITE), []
    return [], []


def _supported(node: Clause, needs_do: bool) -> tuple[list[Word], list[Word]]:
    """A main verb: finite itself, or bare under the support of do."""
    verb, past, tail = node.predicate.english, node.predicate.past, list[Word]()
    facets = (Facet.HEAD,)
    if node.mode in _MODAL:
        tail = [*_words("to", node, Facet.MODAL), *_base(node)]
        (verb, past), facets = _MODAL[node.mode], (Facet.MODAL,)
    if needs_do:
        do = _words(_do(node), node, Facet.FINITE)
        return do, [*_words(verb, node, *facets), *tail]
    first, *particle = _inflected(node, verb, past).split()
    finite = _words(first, node, *facets, Facet.FINITE)
    return [], [*finite, *_words(" ".join(particle), node, *facets), *tail]


def _verb_group(node: Clause, inverted: bool) -> tuple[list[Word], list[Word], list[Word]]:
    """Auxiliary, negation, and the rest; the caller places the subject among them."""
    auxiliary, rest = _auxiliary(node)
    if not auxiliary:
        auxiliary, rest = _supported(node, needs_do=inverted or node.negative)
    negation = _words("not", node, Facet.NEGATION) if node.negative else []
    if negation and not inverted and auxiliary[0].text == "can":
        joint = (*auxiliary[0].concepts, node.concept(Facet.NEGATION))
        return [Word("cannot", joint)], [], rest
    return auxiliary, negation, rest


def _adjunct(node: Adjunct) -> list[Word]:
    noun = node.phrase.noun
    preposition = node.relation.preposition or noun.preposition
    if node.phrase.interrogative or (noun.category == "home" and node.relation is Relation.GOAL):
        preposition = ""
    words = _words(preposition, node, Facet.RELATION)
    return words + noun_phrase(node.phrase, oblique=True)


def _tail(node: Clause) -> list[Word]:
    """What follows the verb, without what a question fronts."""
    words = []
    if node.object and not node.object.interrogative:
        words += noun_phrase(node.object, oblique=True)
    for adjunct in node.adjuncts:
        if not adjunct.phrase.interrogative:
            words += _adjunct(adjunct)
    if node.purpose:
        words += [*_words("to", node.purpose, Facet.LINK), *predicate_phrase(node.purpose)]
    if node.time and not node.time.interrogative:
        words += adverb(node.time)
    return words


def predicate_phrase(node: Clause) -> list[Word]:
    """A bare infinitive with its complements."""
    return [*_base(node), *_tail(node)]


def clause(node: Clause) -> list[Word]:
    """A clause in statement order; existence takes there, and no for its negation."""
    habit = adverb(node.habit) if node.habit else []
    if node.kind is Kind.EXISTENCE:
        return _existential(node, inverted=False)
    auxiliary, negation, rest = _verb_group(node, inverted=False)
    subject = noun_phrase(node.subject)
    return [*subject, *auxiliary, *negation, *habit, *rest, *_tail(node)]


def _existential(node: Clause, *, inverted: bool) -> list[Word]:
    """There is and its question; the theme agrees, and no negates it."""
    be = _words(_be(node), node, Facet.HEAD, Facet.FINITE)
    there = _words("there", node, Facet.HEAD)
    no = _words("no", node, Facet.NEGATION) if node.negative else []
    theme = noun_phrase(node.subject)
    if node.subject.interrogative:
        return [*theme, *be, *there, *_tail(node)]
    first = be + there if inverted else there + be
    return [*first, *no, *theme, *_tail(node)]


def _fronted(node: Clause) -> list[Word]:
    """The question phrase of a clause, if it has one besides the subject."""
    if node.object and node.object.interrogative:
        return noun_phrase(node.object)
    for adjunct in node.adjuncts:
        if adjunct.phrase.interrogative:
            return _adjunct(adjunct)
    return adverb(node.time) if node.time and node.time.interrogative else []


def _question(node: Clause) -> list[Word]:
    """Inversion, after the question phrase; a questioned subject leaves the order as it is."""
    if node.kind is Kind.EXISTENCE:
        return _existential(node, inverted=True)
    if node.subject.interrogative:
        return clause(node)
    auxiliary, negation, rest = _verb_group(node, inverted=True)
    habit = adverb(node.habit) if node.habit else []
    subject = noun_phrase(node.subject)
    return [*_fronted(node), *auxiliary, *subject, *negation, *habit, *rest, *_tail(node)]


def _command(node: Sentence) -> list[Word]:
    """A command is polite by please, but for casual speech."""
    negation = list[Word]()
    if node.clause.negative:
        negation = _words("do", node.clause, Facet.FINITE)
        negation += _words("not", node.clause, Facet.NEGATION)
    please = [] if node.level is Level.CASUAL else _words("please", node, Facet.MANNER)
    return [*please, *negation, *predicate_phrase(node.clause)]


def _core(node: Sentence) -> list[Word]:
    match node.mood:
        case Mood.QUESTION:
            return _question(node.clause)
        case Mood.COMMAND:
            return _command(node)
        case Mood.PROPOSAL:
            let = _words("let us", node, Facet.MANNER)
            return [*let, *predicate_phrase(node.clause)]
        case _:
            return clause(node.clause)


def _linked(node: Sentence) -> list[Word]:
    """The second clause behind its conjunction."""
    if not (node.link and node.second):
        return []
    return [*_words(node.link.value, node, Facet.LINK), *clause(node.second)]


def _capitalised(words: list[Word]) -> list[Word]:
    first = words[0]
    return [Word(first.text[0].upper() + first.text[1:], first.concepts), *words[1:]]


def _closed(words: list[Word], mark: str) -> list[Word]:
    last = words[-1]
    return [*words[:-1], Word(last.text + mark, last.concepts)]


def sentence(node: Sentence) -> list[Word]:
    """The whole sentence, with its capital, stop, and comma between two full clauses."""
    core = _core(node)
    if node.link in (Link.BUT, Link.AND) and node.second and not node.second.subject.gap:
        core = _closed(core, ",")
    core += _linked(node)
    opening = adverb(node.opening) if node.opening else []
    words = [*(adverb(node.address) if node.address else []), *opening, *core]
    return _capitalised(_closed(words, "?" if node.mood is Mood.QUESTION else "."))
