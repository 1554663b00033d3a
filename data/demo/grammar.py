"""The grammar: the kinds of sentence with their weights, and the speech level of each sentence.

English tells the level. Without a vocative it is 해요체; after Sir, Ma'am or Professor
하십시오체; after Hey or a given name 해체.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from . import compounds, occasions, questions, statements, temporal, to_english, to_korean
from .chance import Chance
from .clauses import Clauses
from .conjugation import Level
from .korean import Particle, attach
from .meaning import Adverb, Mood, Sentence, Word
from .phrases import NAMES

Kind = Callable[[Clauses], Sentence]

KINDS: tuple[tuple[Kind, int], ...] = (
    (statements.activity, 22),
    (statements.intransitive, 7),
    (statements.motion, 7),
    (statements.errand, 3),
    (statements.transfer, 7),
    (statements.attitude, 3),
    (statements.identity, 2),
    (statements.quality, 7),
    (statements.several_objects, 3),
    (statements.call, 2),
    (statements.residence, 1),
    (statements.existence, 4),
    (statements.location, 4),
    (statements.neighborhood, 1),
    (statements.possession, 5),
    (statements.comparison, 4),
    (statements.superlative, 2),
    (occasions.weather, 1),
    (occasions.rain, 1),
    (occasions.schedule, 4),
    (occasions.agenda, 2),
    (occasions.working_hours, 2),
    (occasions.price, 3),
    (compounds.object_relative, 5),
    (compounds.described_relative, 5),
    (compounds.subject_relative, 4),
    (compounds.sequence, 4),
    (compounds.parallel, 3),
    (compounds.contrast, 2),
    (compounds.preference, 2),
    (compounds.mixed_quality, 1),
    (compounds.weariness, 2),
    (compounds.disturbance, 2),
    (compounds.bad_weather, 1),
    (questions.polar, 8),
    (questions.polar_quality, 2),
    (questions.polar_existence, 2),
    (questions.who, 3),
    (questions.what, 3),
    (questions.where, 3),
    (questions.where_to, 1),
    (questions.where_is, 2),
    (questions.when, 3),
    (questions.why, 2),
    (questions.how_many, 3),
    (questions.how_many_exist, 1),
    (questions.how_much, 1),
    (questions.who_is, 1),
    (questions.command, 7),
    (questions.proposal, 3),
)
_LEVELS = ((Level.POLITE, 54), (Level.CASUAL, 26), (Level.FORMAL, 20))
_RESPECTFUL = (
    temporal.tied("Sir,/a = 선생님,/a"),
    temporal.tied("Ma'am,/a = 여사님,/a"),
    temporal.tied("Professor,/a = 교수님,/a"),
)
_HEY = temporal.tied("Hey,/a = 야,/a")
_OPENINGS = (temporal.SO, temporal.AND, temporal.HOWEVER)
_LENGTHS = range(3, 17)


@dataclass(frozen=True)
class Pair:
    """A sentence on both sides, with the word positions that render each other."""

    english: str
    korean: str
    alignment: tuple[tuple[int, int], ...]


def _align(english: list[Word], korean: list[Word]) -> tuple[tuple[int, int], ...]:
    """The pairs of words that share a concept."""
    sources = [frozenset(word.concepts) for word in english]
    targets = [frozenset(word.concepts) for word in korean]
    return tuple(
        (i, j)
        for i, source in enumerate(sources)
        for j, target in enumerate(targets)
        if not source.isdisjoint(target)
    )


def realise(meaning: Sentence) -> Pair:
    """Both sides of a meaning."""
    english, korean = to_english.sentence(meaning), to_korean.sentence(meaning)
    return Pair(
        " ".join(word.text for word in english),
        " ".join(word.text for word in korean),
        _align(english, korean),
    )


def _address(level: Level, chance: Chance) -> Adverb | None:
    """The vocative that shows this level."""
    if level is Level.POLITE:
        return None
    if level is Level.FORMAL:
        return chance.one(_RESPECTFUL)
    if chance.happens(0.5):
        return _HEY
    name = chance.one(NAMES)
    return temporal.tied(f"{name.english},/a = {attach(name.korean, Particle.VOCATIVE)},/a")


def draw(chance: Chance) -> Pair:
    """One random sentence pair of suitable length, in which nobody hears of himself by name."""
    clauses = Clauses(chance)
    while True:
        clauses.level = chance.weighted(_LEVELS)
        kind = chance.weighted(KINDS)
        meaning = replace(
            kind(clauses), level=clauses.level, address=_address(clauses.level, chance)
        )
        if meaning.mood is Mood.STATEMENT and not meaning.address and chance.happens(0.06):
            meaning = replace(meaning, opening=chance.one(_OPENINGS))
        pair = realise(meaning)
        words = pair.english.split()
        if len(words) in _LENGTHS and words[0].strip(",") not in pair.english[len(words[0]) :]:
            return pair
