"""Random clauses about what people do and what things are like."""

from . import temporal
from .lexicon import Noun, Person, Predicate
from .meaning import Adjunct, Adverb, Clause, Determiner, Mode, NounPhrase, Relation, Tense
from .nouns import TRANSPORT, nouns
from .phrases import Phrases
from .predicates import (
    ADJECTIVES,
    COME,
    COPULA,
    DITRANSITIVE,
    GO,
    INTRANSITIVE,
    STATIVE,
    TRANSITIVE,
)

_BRIEF = frozenset(
    (
        *("lose", "open", "close", "throw", "catch", "kick", "bring", "finish", "invite", "borrow"),
        *(
            "choose",
            "see",
            "take",
            "build",
            "turn on",
            "turn off",
            "pick up",
            "touch",
            "peel",
            "show",
        ),
    )
)
_ACQUIRING = frozenset(("buy", "borrow", "choose", "make"))
_UNWANTED = frozenset(("lose", "hate", "cry", "laugh"))
_GOALS = nouns("shop, eatery, public, park, city, country, home, schooling")
_DAILY = tuple(each for each in _GOALS if each.category not in ("city", "country"))
_NEARBY = tuple(each for each in TRANSPORT if each.english not in ("train", "airplane"))
_FLIGHT = tuple(each for each in TRANSPORT if each.english == "airplane")
_RAILWAY = tuple(each for each in TRANSPORT if each.english in ("train", "bus"))
_TRANSPORT = {"country": _FLIGHT, "city": _RAILWAY}
_OCCUPATIONS = nouns("worker, student")
_PURPOSES = {
    "market": ("fruit, vegetable", "buy"),
    "bookstore": ("book", "buy"),
    "bakery": ("cake, bread", "buy"),
    "department store": ("garment, footwear, hat", "buy"),
    "restaurant": ("dish, pizza, bulgogi", "eat"),
    "cafe": ("drink", "drink"),
    "theater": ("film", "watch"),
    "library": ("book", "borrow"),
    "park": ("soccer, baseball, basketball", "play"),
    "airport": ("name", "meet"),
}
_BY_ENGLISH = {each.english: each for each in reversed(TRANSITIVE)}
_MODES = ((Mode.PLAIN, 12), (Mode.PROGRESSIVE, 2), (Mode.DESIRE, 3), (Mode.ABILITY, 3))
_TENSES = ((Tense.PAST, 9), (Tense.PRESENT, 4), (Tense.FUTURE, 5))


def _vehicles(goal: Noun) -> tuple[Noun, ...]:
    """What takes one there: one flies to a country, and does not to the park."""
    return _TRANSPORT.get(goal.category, _NEARBY)


class Clauses(Phrases):
    """Draws clauses; the arguments given are kept, all others drawn."""

    def _setting(self, verb: Predicate) -> tuple[Tense, Mode]:
        """A tense and mode that suit the verb."""
        chance = self.chance
        if verb.english in _UNWANTED:
            return Tense.PAST, Mode.PLAIN
        mode = chance.weighted((*_MODES, (Mode.OBLIGATION, 3)))
        if mode is Mode.PROGRESSIVE and verb.english not in _BRIEF:
            return chance.weighted(((Tense.PRESENT, 3), (Tense.PAST, 1))), mode
        if mode in (Mode.DESIRE, Mode.ABILITY, Mode.OBLIGATION):
            return chance.weighted(((Tense.PRESENT, 3), (Tense.PAST, 1))), mode
        tense = chance.weighted(_TENSES)
        if tense is Tense.PRESENT and verb.english in _BRIEF:
            tense = Tense.PAST
        return tense, Mode.PLAIN

    def _when(self, tense: Tense, mode: Mode) -> Adverb | None:
        """A time for this tense and mode; wishes, duties and ability look ahead."""
        if mode is Mode.PROGRESSIVE:
            now = tense is Tense.PRESENT and self.chance.happens(0.4)
            return temporal.NOW if now else None
        habitual = tense is Tense.PRESENT and mode is Mode.PLAIN
        if not habitual and not self.chance.happens(0.45):
            return None
        if mode is not Mode.PLAIN:
            near = temporal.SOON if tense is Tense.PRESENT else temporal.LATELY
            return self.chance.one(near)
        return self.time(tense)

    def _clear(self, verb: Predicate, subject: NounPhrase, tense: Tense) -> Tense:
        """The tense, changed where English could not show it: I read."""
        hidden = verb.past == verb.english and subject.person is not Person.THIRD
        return Tense.FUTURE if hidden and tense is not Tense.FUTURE else tense

    def _object(self, verb: Predicate, habitual: bool, negative: bool, rich: float) -> NounPhrase:
        """The object: a kind of thing for a habit, and no number under negation."""
        noun = self.chance.one(verb.objects)
        if habitual:
            return self.generic(noun)
        phrase = self.thing(noun, rich=rich)
        own = phrase.determiner is Determiner.MY and verb.english in _ACQUIRING
        return self.definite(noun) if own or (negative and phrase.count) else phrase

    def activity(
        self,
        subject: NounPhrase | None = None,
        verb: Predicate | None = None,
        setting: tuple[Tense, Mode] | None = None,
        *,
        plain: bool = False,
        negative: bool | None = None,
    ) -> Clause:
        """Somebody does something to something, somewhere, at some time.

        A `plain` clause has neither time, place nor adjectives, as suits a part of a sentence.
        """
        chance = self.chance
        verb = verb or chance.one(TRANSITIVE)
        subject = subject or self.anybody()
        tense, mode = setting or self._setting(verb)
        if mode is Mode.PLAIN:
            tense = self._clear(verb, subject, tense)
        habitual = tense is Tense.PRESENT and mode is Mode.PLAIN
        habit = chance.one(temporal.HABITS) if habitual and chance.happens(0.3) else None
        if negative is None:
            deniable = not habitual and mode is not Mode.PROGRESSIVE
            negative = deniable and chance.happens(0.16)
        chosen = self._object(verb, habitual, negative, 0.1 if plain else 0.3)
        while chosen.noun == subject.noun:
            chosen = self._object(verb, habitual, negative, 0.3)
        return Clause(
            verb,
            subject,
            object=chosen,
            adjuncts=() if plain else self._circumstances(verb, subject),
            time=None if plain or habit else self._when(tense, mode),
            habit=habit,
            tense=tense,
            mode=mode,
            negative=negative,
        )

    def _circumstances(self, verb: Predicate, subject: NounPhrase) -> tuple[Adjunct, ...]:
        """A place where the verb is at home, and now and then somebody to do it with."""
        chance, adjuncts = self.chance, list[Adjunct]()
        if verb.places and chance.happens(0.35):
            adjuncts.append(self.place(chance.one(verb.places), Relation.ACTIVITY))
        elif chance.happens(0.08) and verb.english not in ("lose", "wait for", "invite"):
            adjuncts.append(self.company(subject))
        return tuple(adjuncts)

    def intransitive(self, subject: NounPhrase | None = None) -> Clause:
        """Somebody sleeps, works, swims, somewhere, at some time."""
        verb = self.chance.one(INTRANSITIVE)
        tense, mode = self._setting(verb)
        subject = subject or self.anybody()
        place = self.place(self.chance.one(verb.places), Relation.ACTIVITY)
        return Clause(
            verb,
            subject,
            adjuncts=(place,),
            time=self._when(tense, mode),
            tense=tense,
            mode=mode,
            negative=mode is not Mode.PROGRESSIVE and self.chance.happens(0.1),
        )

    def motion(self, subject: NounPhrase | None = None) -> Clause:
        """Somebody goes somewhere, perhaps by some vehicle."""
        chance = self.chance
        verb = chance.weighted(((GO, 4), (COME, 1)))
        tense, mode = self._setting(verb)
        mode = Mode.PLAIN if mode is Mode.PROGRESSIVE else mode
        subject = subject or self.anybody()
        goal = chance.one(_DAILY if tense is Tense.PRESENT else _GOALS)
        adjuncts = [self.place(goal, Relation.GOAL)]
        draws = ((None, 5), (self.vehicle(_vehicles(goal)), 3), (self.company(subject), 1))
        if extra := chance.weighted(draws):
            adjuncts.append(extra)
        return Clause(
            verb,
            subject,
            adjuncts=tuple(adjuncts),
            time=self._when(tense, mode),
            tense=tense,
            mode=mode,
            negative=chance.happens(0.12) and tense is not Tense.PRESENT,
        )

    def errand(self) -> Clause:
        """Somebody goes somewhere to do what one does there."""
        chance = self.chance
        place = chance.one(tuple(_PURPOSES))
        objects, verb = _PURPOSES[place]
        noun = chance.one(nouns(objects))
        subject, tense = self.anybody(), chance.one((Tense.PAST, Tense.FUTURE))
        gap = NounPhrase(subject.noun, gap=True)
        what = NounPhrase(noun) if noun.bare else self.thing(noun, rich=0.1)
        return Clause(
            GO,
            subject,
            adjuncts=(self.place(nouns(place)[0], Relation.GOAL),),
            time=self.time(tense) if chance.happens(0.4) else None,
            purpose=Clause(_BY_ENGLISH[verb], gap, object=what),
            tense=tense,
        )

    def transfer(self, subject: NounPhrase | None = None) -> Clause:
        """Somebody gives something to somebody."""
        chance = self.chance
        verb = chance.one(DITRANSITIVE)
        subject = subject or self.anybody()
        tense = chance.one((Tense.PAST, Tense.PAST, Tense.FUTURE))
        mode = chance.weighted(((Mode.PLAIN, 6), (Mode.DESIRE, 1), (Mode.OBLIGATION, 1)))
        tense = Tense.PRESENT if mode is not Mode.PLAIN and tense is Tense.FUTURE else tense
        return Clause(
            verb,
            subject,
            object=self.thing(chance.one(verb.objects), rich=0.2),
            adjuncts=(self.recipient(subject),),
            time=self._when(tense, mode),
            tense=tense,
            mode=mode,
            negative=chance.happens(0.1),
        )

    def attitude(self, subject: NounPhrase | None = None) -> Clause:
        """Somebody likes, knows or remembers something."""
        verb = self.chance.one(STATIVE)
        subject = subject or self.anybody()
        noun = self.chance.one([each for each in verb.objects if each != subject.noun])
        generic = verb.english in ("like", "hate")
        return Clause(
            verb,
            subject,
            object=self.generic(noun) if generic else self.definite(noun),
            negative=verb.english in ("like", "know") and self.chance.happens(0.3),
        )

    def quality(self, adjective: Predicate | None = None, *, plain: bool = False) -> Clause:
        """Something is of some quality."""
        chance = self.chance
        adjective = adjective or chance.one(ADJECTIVES)
        degrees = ("", "", "very", "really")
        negative = chance.happens(0.15)
        return Clause(
            adjective,
            self.definite(chance.one(adjective.objects)),
            tense=chance.weighted(((Tense.PRESENT, 3), (Tense.PAST, 1))),
            negative=negative and not plain,
            degree="" if plain or negative else chance.one(degrees),
        )

    def identity(self, subject: NounPhrase | None = None) -> Clause:
        """Somebody is a doctor."""
        noun = self.chance.one(_OCCUPATIONS)
        adjective = self.adjective_for(noun) if self.chance.happens(0.5) else None
        return Clause(
            COPULA,
            subject or self.chance.one((self.name, self.relative))(),
            object=NounPhrase(noun, Determiner.A, adjective=adjective),
            negative=self.chance.happens(0.2),
        )
