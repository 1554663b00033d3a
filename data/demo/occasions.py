"""The kinds of statement about time, weather and price: each function draws one kind."""

from . import temporal
from .clauses import Clauses
from .meaning import (
    Clause,
    Determiner,
    NounPhrase,
    Relation,
    Sentence,
    Tense,
)
from .nouns import IT, WEATHER, WON, nouns
from .predicates import (
    ARRIVE,
    CLOSE,
    COST,
    END,
    INTRANSITIVE,
    LEAVE,
    LOCATION,
    OPEN,
    RAIN,
    START,
    WEATHERS,
)

_SHOPS = nouns("shop, eatery, bank, library, museum, zoo")
_EVENTS = nouns("event")
_TRAINS = nouns("train, airplane, bus")
_CITIES = nouns("city")
_PRICED = nouns("book, garment, footwear, hat, thing, tool")


def weather(draw: Clauses) -> Sentence:
    """The weather was cold yesterday."""
    time, tense = draw.chance.one(
        (
            (temporal.TODAY, Tense.PRESENT),
            (temporal.YESTERDAY, Tense.PAST),
            (temporal.TOMORROW, Tense.FUTURE),
            (draw.time(Tense.PAST), Tense.PAST),
        )
    )
    negative = draw.chance.happens(0.2)
    degree = "" if negative else draw.chance.one(("", "very", "really"))
    subject = NounPhrase(WEATHER, Determiner.THE)
    adjective = draw.chance.one(WEATHERS)
    return Sentence(
        Clause(adjective, subject, time=time, tense=tense, negative=negative, degree=degree)
    )


def rain(draw: Clauses) -> Sentence:
    """It rained in Seoul yesterday."""
    tense = draw.chance.one((Tense.PAST, Tense.FUTURE))
    place = draw.place(draw.chance.one(_CITIES), Relation.PLACE)
    return Sentence(
        Clause(
            RAIN,
            NounPhrase(IT),
            adjuncts=(place,) if draw.chance.happens(0.5) else (),
            time=draw.time(tense),
            tense=tense,
            negative=draw.chance.happens(0.2),
        )
    )


def schedule(draw: Clauses) -> Sentence:
    """The meeting starts at half past three."""
    chance = draw.chance
    verb, subjects = chance.weighted(
        (
            ((START, _EVENTS), 2),
            ((END, _EVENTS), 2),
            ((OPEN, _SHOPS), 2),
            ((CLOSE, _SHOPS), 2),
            ((LEAVE, _TRAINS), 1),
            ((ARRIVE, _TRAINS), 1),
        )
    )
    time = draw.clock()
    return Sentence(Clause(verb, draw.definite(chance.one(subjects)), time=time))


def agenda(draw: Clauses) -> Sentence:
    """The concert is on March third."""
    chance = draw.chance
    day = temporal.on_weekday(chance.one(tuple(temporal.WEEKDAYS)))
    time = chance.one((draw.date(), draw.clock(), day))
    subject = draw.definite(chance.one(_EVENTS))
    return Sentence(Clause(LOCATION, subject, time=time))


def working_hours(draw: Clauses) -> Sentence:
    """I work at a bank from Monday to Friday."""
    chance = draw.chance
    if chance.happens(0.5):
        days = tuple(temporal.WEEKDAYS)
        first = chance.number(0, 4)
        time = temporal.from_to(days[first], days[chance.number(first + 1, 6)])
    else:
        time = temporal.hours(chance.number(7, 11), chance.number(1, 6))
    verb = chance.one([each for each in INTRANSITIVE if each.english in ("work", "exercise")])
    place = draw.place(chance.one(verb.places), Relation.ACTIVITY)
    return Sentence(Clause(verb, draw.anybody(), adjuncts=(place,), time=time))


def price(draw: Clauses) -> Sentence:
    """This hat costs twelve thousand won."""
    chance = draw.chance
    thousands = chance.weighted(((chance.number(1, 12), 3), (10 * chance.number(1, 9), 1)))
    amount = 1000 * thousands + 500 * chance.number(0, 1) * chance.number(0, 1)
    won = NounPhrase(WON, count=amount)
    return Sentence(Clause(COST, draw.definite(chance.one(_PRICED)), object=won))
