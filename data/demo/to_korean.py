"""The Korean realisation of a meaning, eojeol by eojeol with the concepts that each realises.

Order: topic, time, place, other adjuncts, object, predicate. The subject of a main clause is its
topic (은/는) unless it is asked for or newly introduced; elsewhere it is nominative (이/가).
"""

from .conjugation import Level, adnominal
from .hangul import final_of
from .korean import Particle, attach, native_prenominal, sino
from .korean_predicate import (
    build,
    ending_adnominal,
    ending_command,
    ending_finite,
    ending_linked,
    ending_proposal,
    purpose,
)
from .lexicon import Kind, Noun
from .meaning import (
    Adjunct,
    Adverb,
    Clause,
    Concept,
    Determiner,
    Facet,
    Link,
    Mood,
    NounPhrase,
    Relation,
    Sentence,
    Word,
)

_HUMAN = "명"
_DETERMINERS = {Determiner.THIS: "이", Determiner.THAT: "그"}
_EARLY = (Relation.COMPANY, Relation.VEHICLE)
_FLOATING = (Kind.VERB, Kind.POSSESSION)


def adverb(node: Adverb) -> list[Word]:
    """An adverb or time phrase, as written."""
    return [Word(text, tuple(Concept(node, key) for key in keys)) for text, keys in node.korean]


def _name(noun: Noun, level: Level) -> str:
    """The noun at this level; in 해체 a given name that ends in a consonant takes 이: 지훈이."""
    if level is not Level.CASUAL:
        return noun.korean
    if noun.category == "name" and final_of(noun.korean):
        return noun.korean + "이"
    return noun.casual or noun.korean


def _suffix(words: list[Word], particle: Particle, *concepts: Concept) -> list[Word]:
    """Attach a particle to the last word."""
    *rest, last = words
    return [*rest, Word(attach(last.text, particle), (*last.concepts, *concepts))]


def _determiner(phrase: NounPhrase, level: Level) -> list[Word]:
    """Demonstratives and possessors; what a family or school shares is 우리, not 제."""
    if phrase.owner:
        return _suffix(noun_phrase(phrase.owner, level), Particle.GENITIVE)
    concept = phrase.concept(Facet.DETERMINER)
    text = _DETERMINERS.get(phrase.determiner, "")
    if phrase.determiner is Determiner.MY:
        mine = "내" if level is Level.CASUAL else "제"
        text = "우리" if phrase.noun.communal else mine
    return [Word(text, (concept,))] if text else []


def _adjective(phrase: NounPhrase) -> list[Word]:
    """가장 for a superlative, then the adjective in its adnominal form; 새 does not inflect."""
    if not phrase.adjective:
        return []
    words = [Word("가장", (phrase.concept(Facet.DEGREE),))] if phrase.superlative else []
    entry, concept = phrase.adjective, phrase.concept(Facet.ADJECTIVE)
    words += [Word(part, (concept,)) for part in entry.prefix.split()]
    form = entry.stem.text if entry.stem.text == "새" else adnominal(entry.stem)
    return [*words, Word(form, (concept,))]


def _head(phrase: NounPhrase, level: Level) -> list[Word]:
    """The noun; several people without a number are marked by 들."""
    *titles, name = _name(phrase.noun, level).split()
    several = phrase.plural and not phrase.count and phrase.noun.counter == _HUMAN
    bare = phrase.determiner is Determiner.HOW_MANY
    concepts = (phrase.concept(Facet.HEAD),)
    text = name + ("들" if several and not bare else "")
    return [Word(part, concepts) for part in (*titles, text)]


def _quantity(phrase: NounPhrase) -> list[Word]:
    """A native numeral and its counter, Sino-Korean before 원; 몇 asks for the number."""
    count, noun = phrase.concept(Facet.COUNT), phrase.noun
    measure = phrase.concept(Facet.MEASURE if noun.container and not noun.pair else Facet.HEAD)
    if phrase.determiner is Determiner.HOW_MANY:
        return [Word("몇", (phrase.concept(Facet.DETERMINER),)), Word(noun.counter, (measure,))]
    if not phrase.count:
        return []
    if noun.category == "currency":
        return [Word(part, (count,)) for part in sino(phrase.count).split()]
    return [Word(native_prenominal(phrase.count), (count,)), Word(noun.counter, (measure,))]


def _core(phrase: NounPhrase, level: Level) -> list[Word]:
    """Relative clause, determiner, adjective, noun."""
    words = _relative(phrase.relative, level) if phrase.relative else []
    words += [*_determiner(phrase, level), *_adjective(phrase)]
    return [*words, *_head(phrase, level)]


def noun_phrase(phrase: NounPhrase, level: Level) -> list[Word]:
    """The phrase without a particle; a quantity follows the noun: 학생 세 명."""
    if phrase.gap or not phrase.noun.korean:
        return []
    if phrase.noun.category == "currency":
        return [*_quantity(phrase), *_head(phrase, level)]
    words = [*_core(phrase, level), *_quantity(phrase)]
    if phrase.also:
        words = _suffix(words, Particle.COMITATIVE, phrase.concept(Facet.LINK))
        words += noun_phrase(phrase.also, level)
    return words


def _floated(phrase: NounPhrase, particle: Particle, level: Level) -> list[Word]:
    """The phrase with its particle on the noun and its quantity behind: 책을 세 권."""
    return [*_suffix(_core(phrase, level), particle), *_quantity(phrase)]


def _marked(phrase: NounPhrase, particle: Particle, level: Level) -> list[Word]:
    words = noun_phrase(phrase, level)
    return _suffix(words, particle) if words else []


def _nominative(phrase: NounPhrase) -> Particle:
    return Particle.HONORIFIC_NOMINATIVE if phrase.noun.honored else Particle.NOMINATIVE


def _subject(node: Clause, level: Level, *, embedded: bool) -> list[Word]:
    phrase = node.subject
    if node.kind is Kind.EXISTENCE:
        return _floated(phrase, Particle.NOMINATIVE, level)
    new = phrase.interrogative or phrase.count or phrase.noun.category == "weather"
    particle = _nominative(phrase) if embedded or new else Particle.TOPIC
    return _marked(phrase, particle, level)


def _object(node: Clause, level: Level) -> list[Word]:
    """The object in its case; a counted one leaves its quantity behind the particle."""
    phrase = node.object
    if not phrase or node.kind is Kind.COPULA:
        return []
    particle = Particle.NOMINATIVE if node.kind is Kind.POSSESSION else Particle.ACCUSATIVE
    if node.predicate.dative:
        particle = _dative(phrase, level)
    elif phrase.topic:
        particle = Particle.TOPIC
    quantified = phrase.count or phrase.determiner is Determiner.HOW_MANY
    if node.kind in _FLOATING and quantified and not phrase.also:
        return _floated(phrase, particle, level)
    return _marked(phrase, particle, level)


def _dative(phrase: NounPhrase, level: Level) -> Particle:
    """께 to the honored, 한테 in 해체, otherwise 에게."""
    if phrase.noun.honored:
        return Particle.HONORIFIC_DATIVE
    return Particle.CASUAL_DATIVE if level is Level.CASUAL else Particle.DATIVE


def _adjunct(node: Adjunct, level: Level) -> list[Word]:
    """A noun with its particle, a relational noun (위에), or both (와 함께)."""
    relation, concept = node.relation, node.concept(Facet.RELATION)
    words = noun_phrase(node.phrase, level)
    if particle := relation.particle:
        if relation is Relation.RECIPIENT:
            particle = _dative(node.phrase, level)
        words = _suffix(words, particle, concept)
    if relation.postposition and relation is not Relation.STANDARD:
        words.append(Word(relation.postposition, (concept,)))
    return words


def _middle(node: Clause, level: Level) -> list[Word]:
    """Everything between the subject and the predicate."""
    words = adverb(node.time) if node.time else []
    words += adverb(node.habit) if node.habit else []
    if node.purpose:
        words += _purpose(node.purpose, level)
    for adjunct in sorted(node.adjuncts, key=lambda each: each.relation not in _EARLY):
        words += _adjunct(adjunct, level)
    return words + _object(node, level)


def _before_predicate(node: Clause, level: Level, *, embedded: bool) -> list[Word]:
    """All but the predicate; a new theme, and the weather, come last."""
    subject, middle = _subject(node, level, embedded=embedded), _middle(node, level)
    last = node.kind is Kind.EXISTENCE or node.subject.noun.category == "weather"
    return middle + subject if last else subject + middle


def _complement(node: Clause, level: Level) -> list[Word]:
    return noun_phrase(node.object, level) if node.object and node.kind is Kind.COPULA else []


def _relative(node: Clause, level: Level) -> list[Word]:
    """A relative clause stands before its noun: 민수가 산 책."""
    chain = build(node, level, [])
    words = _before_predicate(node, level, embedded=True)
    return words + ending_adnominal(node, chain)


def _purpose(node: Clause, level: Level) -> list[Word]:
    return [*_middle(node, level), *purpose(node, level)]


def _linked(node: Clause, level: Level, link: Link, concept: Concept) -> list[Word]:
    """A clause linked to a following one; a reason has a nominative subject."""
    words = _before_predicate(node, level, embedded=link is Link.BECAUSE)
    return words + ending_linked(node, build(node, level, _complement(node, level)), link, concept)


def _courtesy(node: Sentence) -> Level:
    """The level that decides on (으)시: a polite command honors, a prohibition need not."""
    if node.mood is not Mood.COMMAND or node.level is Level.CASUAL:
        return node.level
    return Level.POLITE if node.clause.negative else Level.FORMAL


def _end(node: Sentence, clause: Clause) -> list[Word]:
    level = node.level
    chain = build(clause, _courtesy(node), _complement(clause, level))
    manner = node.concept(Facet.MANNER)
    match node.mood:
        case Mood.COMMAND:
            return ending_command(clause, chain, level, manner)
        case Mood.PROPOSAL:
            return ending_proposal(chain, level, manner)
    return ending_finite(clause, chain, level, question=node.mood is Mood.QUESTION)


def _body(node: Sentence) -> list[Word]:
    """One clause or two; a reason goes between the topic and the rest of what it explains."""
    level, concept = node.level, node.concept(Facet.LINK)
    if not (node.link and node.second):
        return [*_before_predicate(node.clause, level, embedded=False), *_end(node, node.clause)]
    if node.link is Link.BECAUSE:
        reason = _linked(node.second, level, node.link, concept)
        topic = _subject(node.clause, level, embedded=False)
        return [*topic, *reason, *_middle(node.clause, level), *_end(node, node.clause)]
    first = _linked(node.clause, level, node.link, concept)
    rest = _before_predicate(node.second, level, embedded=False)
    return [*first, *rest, *_end(node, node.second)]


def sentence(node: Sentence) -> list[Word]:
    """The whole sentence with its vocative and stop."""
    words = adverb(node.address) if node.address else []
    words += adverb(node.opening) if node.opening else []
    *rest, last = [*words, *_body(node)]
    stop = "?" if node.mood is Mood.QUESTION else "."
    return [*rest, Word(last.text + stop, last.concepts)]
