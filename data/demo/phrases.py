"""Random phrases: who, what, where and when. Selection rules decide what may meet."""

from collections.abc import Callable

from . import temporal
from .chance import Chance
from .conjugation import Level
from .lexicon import Noun, Predicate
from .meaning import Adjunct, Adverb, Determiner, NounPhrase, Relation, Tense
from .nouns import WE, I, nouns
from .predicates import ADJECTIVES, ATTRIBUTIVE

_COUNTED = "fruit book mail sheet flower pet beast car bike machine garment thing tool worker"
COUNTABLE = frozenset((*_COUNTED.split(), "person", "footwear", "film", "hat", "vegetable", "song"))
_OWNED = frozenset(
    [
        "garment",
        "footwear",
        "thing",
        "tool",
        "machine",
        "car",
        "bike",
        "book",
        "hat",
        "furniture",
    ]
)
_MANY = frozenset(["fruit", "vegetable", "flower"])
_ATTRIBUTES = ADJECTIVES + ATTRIBUTIVE
_FAMILY = nouns("kin, sibling")
_WEEKDAYS = tuple(temporal.WEEKDAYS)
_MERIDIEMS = tuple(temporal.MERIDIEMS)
_PEOPLE = nouns("student, friend, neighbor, guest, tourist, child, worker")
_ACQUAINTANCES = ("friend", "neighbor")
NAMES = nouns("name")
TITLED = nouns("titled")
ELDERS = nouns("elder")


class Phrases:
    """Draws phrases from the lexicon for one speech level."""

    def __init__(self, chance: Chance) -> None:
        self.chance = chance
        self.level = Level.POLITE

    def adjective_for(self, noun: Noun) -> Predicate | None:
        """An adjective that suits the noun, if there is one."""
        suitable = [each for each in _ATTRIBUTES if noun in each.objects]
        return self.chance.one(suitable) if suitable else None

    def thing(self, noun: Noun, *, rich: float = 0.3) -> NounPhrase:
        """The noun with a determiner or number, and with the chance `rich` an adjective."""
        if noun.bare:
            return NounPhrase(noun)
        if noun in _FAMILY:
            return NounPhrase(noun, Determiner.MY)
        if noun.category in ("instrument", "task"):
            return NounPhrase(noun, Determiner.THE)
        adjective = self.adjective_for(noun) if self.chance.happens(rich) else None
        if noun.mass:
            return self._mass(noun, adjective)
        if noun.category in COUNTABLE and self.chance.happens(0.22):
            return self.counted(noun, adjective)
        if noun.category in _OWNED and self.chance.happens(0.25):
            return self._owned(noun, adjective)
        if noun.category in _MANY and self.chance.happens(0.35):
            return NounPhrase(noun, plural=True, adjective=adjective)
        determiner = self.chance.weighted(
            ((Determiner.A, 5), (Determiner.THE, 5), (Determiner.THIS, 1), (Determiner.THAT, 2))
        )
        plural = noun.pair or (determiner is not Determiner.A and self.chance.happens(0.2))
        if noun.pair and determiner is Determiner.A:
            determiner = Determiner.NONE
        return NounPhrase(noun, determiner, plural=plural, adjective=adjective)

    def _mass(self, noun: Noun, adjective: Predicate | None) -> NounPhrase:
        if noun.container and self.chance.happens(0.4):
            count = self.chance.number(1, 6)
            return NounPhrase(noun, plural=count > 1, count=count)
        return NounPhrase(noun, adjective=adjective)

    def _owned(self, noun: Noun, adjective: Predicate | None) -> NounPhrase:
        owner = None
        if self.chance.happens(0.4):
            owner = self.chance.one((self.name(), self.relative()))
        determiner = Determiner.NONE if owner else Determiner.MY
        return NounPhrase(noun, determiner, plural=noun.pair, adjective=adjective, owner=owner)

    def counted(self, noun: Noun, adjective: Predicate | None = None) -> NounPhrase:
        """The noun under a number."""
        count = self.count()
        return NounPhrase(noun, plural=count > 1, count=count, adjective=adjective)

    def count(self) -> int:
        """A number of things: mostly small, sometimes up to thirty."""
        if self.chance.happens(0.8):
            return self.chance.number(1, 6)
        return self.chance.number(7, 20 if self.chance.happens(0.7) else 29)

    def definite(self, noun: Noun) -> NounPhrase:
        """The noun as something known, in the singular unless it is a pair."""
        if noun.bare:
            return NounPhrase(noun)
        if noun in _FAMILY:
            return NounPhrase(noun, Determiner.MY)
        determiner = self.chance.weighted(
            ((Determiner.THE, 6), (Determiner.THIS, 2), (Determiner.THAT, 2))
        )
        if noun.mass:
            determiner = self.chance.one((Determiner.THIS, Determiner.THAT))
        return NounPhrase(noun, determiner, plural=noun.pair)

    def generic(self, noun: Noun) -> NounPhrase:
        """The noun for its kind: apples, coffee, soccer."""
        if noun in _FAMILY:
            return NounPhrase(noun, Determiner.MY)
        if noun.category in ("instrument", "task"):
            return NounPhrase(noun, Determiner.THE)
        return NounPhrase(noun, plural=not (noun.mass or noun.bare))

    def name(self) -> NounPhrase:
        """Somebody's name."""
        return NounPhrase(self.chance.one(NAMES))

    def relative(self) -> NounPhrase:
        """A member of the speaker's family."""
        return NounPhrase(self.chance.one(_FAMILY), Determiner.MY)

    def _stranger(self) -> NounPhrase:
        noun = self.chance.one(_PEOPLE)
        if noun.english in _ACQUAINTANCES:
            return NounPhrase(noun, Determiner.MY, plural=self.chance.happens(0.2))
        if self.chance.happens(0.15):
            return self.counted(noun)
        return NounPhrase(noun, Determiner.THE, plural=self.chance.happens(0.25))

    def _couple(self) -> NounPhrase:
        first, second = self.chance.one(NAMES), self.chance.one(NAMES)
        if first == second:
            return NounPhrase(first)
        return NounPhrase(first, also=NounPhrase(second))

    def somebody(self) -> NounPhrase:
        """A third person as subject."""
        draws: tuple[tuple[Callable[[], NounPhrase], int], ...] = (
            (self.name, 9),
            (self.relative, 4),
            (self._stranger, 5),
            (self._couple, 1),
            (lambda: NounPhrase(self.chance.one(TITLED)), 2),
            (lambda: NounPhrase(self.chance.one(ELDERS), Determiner.THE), 2),
        )
        return self.chance.weighted(draws)()

    def anybody(self) -> NounPhrase:
        """A subject of any person but the second."""
        if self.chance.happens(0.32):
            return NounPhrase(self.chance.weighted(((I, 4), (WE, 1))))
        return self.somebody()

    def recipient(self, subject: NounPhrase) -> Adjunct:
        """Somebody other than the subject, to whom something is given."""
        while True:
            phrase = self.chance.one((self.name, self.relative, self._recipient))()
            if phrase.noun != subject.noun:
                return Adjunct(phrase, Relation.RECIPIENT)

    def _recipient(self) -> NounPhrase:
        noun = self.chance.one((*ELDERS, *TITLED, *_PEOPLE))
        if noun.english in _ACQUAINTANCES:
            return NounPhrase(noun, Determiner.MY)
        return NounPhrase(noun, Determiner.NONE if noun.bare else Determiner.THE)

    def place(self, noun: Noun, relation: Relation) -> Adjunct:
        """The place in this relation, nearly always known."""
        determiner = Determiner.NONE if noun.bare else Determiner.THE
        if noun.english in ("room", "office", "company") and self.chance.happens(0.15):
            determiner = Determiner.MY
        return Adjunct(NounPhrase(noun, determiner), relation)

    def company(self, subject: NounPhrase) -> Adjunct:
        """Somebody who takes part."""
        noun = self.chance.one([each for each in NAMES if each != subject.noun])
        return Adjunct(NounPhrase(noun), Relation.COMPANY)

    def vehicle(self, vehicles: tuple[Noun, ...]) -> Adjunct:
        """A means of transport."""
        return Adjunct(NounPhrase(self.chance.one(vehicles)), Relation.VEHICLE)

    def time(self, tense: Tense) -> Adverb:
        """A time that suits the tense; in the present, a habitual one."""
        if tense is Tense.PRESENT:
            return self.chance.one(temporal.HABITUAL)
        named = temporal.PAST if tense is Tense.PAST else temporal.FUTURE
        draws: list[tuple[Callable[[], Adverb], int]] = [
            (lambda: self.chance.one(named), 7),
            (lambda: temporal.on_weekday(self.chance.one(_WEEKDAYS)), 2),
            (self.date, 2),
            (self.clock, 2),
            (lambda: temporal.then(self._day(tense), self.clock()), 1),
        ]
        if tense is Tense.PAST:
            draws.append((self._ago, 2))
        return self.chance.weighted(draws)()

    def _day(self, tense: Tense) -> Adverb:
        return temporal.YESTERDAY if tense is Tense.PAST else temporal.TOMORROW

    def _ago(self) -> Adverb:
        return temporal.ago(self.chance.number(1, 10), self.chance.one(temporal.AGO_UNITS))

    def date(self) -> Adverb:
        """A day of a month."""
        return temporal.on_date(self.chance.number(1, temporal.MONTHS), self.chance.number(1, 28))

    def clock(self) -> Adverb:
        """A time of day."""
        minute = self.chance.weighted(((0, 5), (30, 3), (self._minutes(), 3)))
        meridiem = self.chance.one(_MERIDIEMS)
        if self.chance.happens(0.5):
            return temporal.clock(self.chance.number(1, 12), minute)
        hours = (6, 11) if meridiem == "morning" else (1, 6)
        return temporal.clock(self.chance.number(*hours), minute, meridiem)

    def _minutes(self) -> int:
        return 5 * self.chance.one((2, 3, 4, 5, 8, 9, 10, 11))
