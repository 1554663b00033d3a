"""The Korean predicate: stem, auxiliaries, negation, tense and ending, one word after another.

Each word carries the concepts it realises, and the last one always those of the finite verb.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from .conjugation import (
    Irregular,
    Level,
    Stem,
    adnominal,
    copula,
    finite,
    honorific,
    imperative,
    infinitive,
    past,
    prospective,
    with_consonant,
    with_eu,
)
from .korean import Particle, attach
from .lexicon import Kind, Person, read_stem
from .meaning import Clause, Concept, Facet, Link, Mode, Relation, Tense, Word

_FUTURE = {Level.POLITE: "거예요", Level.CASUAL: "거야"}
_DEGREES = {"very": "아주", "really": "정말"}


@dataclass(frozen=True)
class Chain:
    """Finished words, then a stem still to be inflected, with the concepts of that last word."""

    words: tuple[Word, ...]
    stem: Stem
    concepts: tuple[Concept, ...]

    def then(self, form: str, stem: Stem, *concepts: Concept) -> "Chain":
        """Close the present stem in this form, and go on with an auxiliary."""
        return Chain((*self.words, Word(form, self.concepts)), stem, concepts)

    def behind(self, word: Word) -> "Chain":
        """The chain with a word just before its last stem."""
        return replace(self, words=(*self.words, word))

    def close(self, form: str, *concepts: Concept) -> list[Word]:
        """The words, with the last stem in this form."""
        return [*self.words, Word(form, (*self.concepts, *concepts))]


def is_honored(node: Clause, level: Level) -> bool:
    """(으)시 honors elders, teachers and titled people, and whom one addresses in 하십시오체."""
    subject = node.subject.noun
    return subject.honored or (subject.person is Person.SECOND and level is Level.FORMAL)


def _lexical(node: Clause, honored: bool) -> Stem:
    """The stem itself: plain, suppletive (드시다), humble (드리다) or negative (모르다)."""
    entry = node.predicate
    if honored and entry.suppletive:
        return Stem(entry.suppletive, honorific=True)
    if _is_lexically_negated(node, honored):
        return read_stem(entry.negative, adjective=entry.stem.adjective)
    recipients = (each for each in node.adjuncts if each.relation is Relation.RECIPIENT)
    if entry.humble and any(each.phrase.noun.honored for each in recipients):
        return Stem(entry.humble)
    return entry.stem


def _is_lexically_negated(node: Clause, honored: bool) -> bool:
    entry = node.predicate
    replaced = honored and entry.suppletive
    return node.negative and bool(entry.negative) and node.mode is Mode.PLAIN and not replaced


def _start(node: Clause, honored: bool, complement: list[Word]) -> Chain:
    """The word itself, behind its own subject and its degree: 키가 더 크-."""
    stem, head = _lexical(node, honored), node.concept(Facet.HEAD)
    if node.kind is Kind.COPULA:
        return _copular(node, complement)
    words = [Word(part, (head,)) for part in node.predicate.prefix.split()]
    if node.degree:
        words.append(Word(_DEGREES[node.degree], (node.concept(Facet.DEGREE),)))
    for adjunct in node.adjuncts:
        if adjunct.relation is Relation.STANDARD:
            words.append(Word("더", (adjunct.concept(Facet.DEGREE),)))
    concepts: tuple[Concept, ...] = (head,)
    if _is_lexically_negated(node, honored):
        concepts += (node.concept(Facet.NEGATION),)
    return Chain(tuple(words), stem, concepts)


def _copular(node: Clause, complement: list[Word]) -> Chain:
    """이다 leans on the noun; its negation 아니다 stands alone after 이/가."""
    *words, noun = complement
    head = node.concept(Facet.HEAD)
    if not node.negative:
        return Chain(tuple(words), copula(noun.text), (*noun.concepts, head))
    words.append(Word(attach(noun.text, Particle.NOMINATIVE), noun.concepts))
    stem = Stem("아니", Irregular.NEGATIVE_COPULA, adjective=True)
    return Chain(tuple(words), stem, (head, node.concept(Facet.NEGATION)))


def _modal(node: Clause, chain: Chain, honored: bool) -> Chain:
    """Aspect and modality: -고 있다, -고 싶다, -(으)ㄹ 수 있다, -아야/어야 하다."""
    modal, stem = node.concept(Facet.MODAL), chain.stem
    match node.mode:
        case Mode.PROGRESSIVE:
            auxiliary = Stem("계시", honorific=True) if honored else Stem("있")
            return chain.then(with_consonant(stem, "고"), auxiliary, node.concept(Facet.FINITE))
        case Mode.DESIRE:
            wish = chain.then(with_consonant(stem, "고"), Stem("싶", adjective=True), modal)
            third = node.subject.person in (Person.THIRD, Person.THIRD_PLURAL)
            return wish.then("싶어", Stem("하"), modal) if third else wish
        case Mode.OBLIGATION:
            return _obligation(node, chain, honored)
        case Mode.ABILITY if not _is_impotent(node):
            able = Stem("없" if node.negative else "있", adjective=True)
            concepts = (modal, node.concept(Facet.NEGATION)) if node.negative else (modal,)
            return chain.then(prospective(stem), able, modal).then("수", able, *concepts)
    return chain


def _obligation(node: Clause, chain: Chain, honored: bool) -> Chain:
    """-아야/어야 하다, and when there is no need, -지 않아도 되다."""
    modal, negation = node.concept(Facet.MODAL), node.concept(Facet.NEGATION)
    if node.negative:
        refused = chain.then(with_consonant(chain.stem, "지"), Stem("않"), negation)
        return refused.then("않아도", Stem("되"), modal)
    stem = honorific(chain.stem) if honored else chain.stem
    return chain.then(infinitive(stem) + "야", Stem("하"), modal)


def _is_impotent(node: Clause) -> bool:
    """Past inability is 못, present inability -(으)ㄹ 수 없다."""
    return node.mode is Mode.ABILITY and node.negative and node.tense is Tense.PAST


def _needs_negation(node: Clause, honored: bool) -> bool:
    """Whether the negation is still to be said, after lexical and modal ones."""
    if not node.negative or node.kind is Kind.COPULA or _is_lexically_negated(node, honored):
        return False
    said = (Mode.ABILITY, Mode.OBLIGATION, Mode.PROHIBITION)
    return _is_impotent(node) or node.mode not in said


def _negated(node: Clause, chain: Chain, level: Level) -> Chain:
    """Short 안 or 못 before a verb; long -지 않다 or -지 못하다 in 하십시오체 and elsewhere.

    The long form also serves adjectives, auxiliaries and light verbs (공부하다).
    """
    concepts = [node.concept(Facet.NEGATION)]
    if _is_impotent(node):
        concepts.append(node.concept(Facet.MODAL))
    complex_ = node.mode in (Mode.PROGRESSIVE, Mode.DESIRE)
    if level is Level.FORMAL or node.predicate.light or chain.stem.adjective or complex_:
        refusal = Stem("못하") if _is_impotent(node) else Stem("않", adjective=chain.stem.adjective)
        return chain.then(with_consonant(chain.stem, "지"), refusal, *concepts)
    return chain.behind(Word("못" if _is_impotent(node) else "안", tuple(concepts)))


def build(node: Clause, level: Level, complement: list[Word]) -> Chain:
    """The chain up to its last stem, honorific but without tense."""
    honored = is_honored(node, level)
    chain = _modal(node, _start(node, honored, complement), honored)
    if _needs_negation(node, honored):
        chain = _negated(node, chain, level)
    on_verb = node.mode is Mode.OBLIGATION
    return replace(chain, stem=honorific(chain.stem)) if honored and not on_verb else chain


def _tensed(node: Clause, chain: Chain) -> Chain:
    return replace(chain, stem=past(chain.stem)) if node.tense is Tense.PAST else chain


def ending_finite(node: Clause, chain: Chain, level: Level, *, question: bool) -> list[Word]:
    """The end of a main clause; the future is -(으)ㄹ 거예요."""
    tense = node.concept(Facet.FINITE)
    if node.tense is not Tense.FUTURE:
        return _tensed(node, chain).close(_finite(node, chain, level, question), tense)
    formal = "겁니까" if question else "겁니다"
    words = chain.close(prospective(chain.stem))
    return [*words, Word(_FUTURE.get(level, formal), (tense,))]


def _finite(node: Clause, chain: Chain, level: Level, question: bool) -> str:
    return finite(_tensed(node, chain).stem, level, question=question)


def ending_linked(node: Clause, chain: Chain, link: Link, concept: Concept) -> list[Word]:
    """The end of a linked clause: untensed -고 and -아서/어서, tensed -지만."""
    forms: dict[Link, Callable[[Stem], str]] = {
        Link.AND: lambda stem: with_consonant(stem, "고"),
        Link.BUT: lambda stem: with_consonant(stem, "지만"),
        Link.BECAUSE: lambda stem: infinitive(stem) + "서",
    }
    if link is Link.BUT:
        chain = _tensed(node, chain)
    return chain.close(forms[link](chain.stem), node.concept(Facet.FINITE), concept)


def ending_adnominal(node: Clause, chain: Chain) -> list[Word]:
    """The end of a relative clause: 산, 사는, 살."""
    tense = node.concept(Facet.FINITE)
    if node.tense is Tense.FUTURE:
        return chain.close(prospective(chain.stem), tense)
    return chain.close(adnominal(chain.stem, is_past=node.tense is Tense.PAST), tense)


def purpose(node: Clause, level: Level) -> list[Word]:
    """The predicate of a purpose before a verb of motion, -(으)러: (으)시 is left to the motion."""
    chain = _start(node, is_honored(node, level), [])
    return chain.close(with_eu(chain.stem, "으러"), node.concept(Facet.LINK))


def ending_command(node: Clause, chain: Chain, level: Level, manner: Concept) -> list[Word]:
    """The end of a command, or of a prohibition in -지 말다."""
    if not node.negative:
        return chain.close(imperative(chain.stem, level), manner)
    negation, tense = node.concept(Facet.NEGATION), node.concept(Facet.FINITE)
    form = "마" if level is Level.CASUAL else imperative(Stem("말"), level)
    words = chain.close(with_consonant(chain.stem, "지"))
    return [*words, Word(form, (negation, tense, manner))]


def ending_proposal(chain: Chain, level: Level, manner: Concept) -> list[Word]:
    """The end of a proposal: -아요/어요 or casual -자."""
    casual = level is Level.CASUAL
    stem = chain.stem
    return chain.close(with_consonant(stem, "자") if casual else infinitive(stem) + "요", manner)
