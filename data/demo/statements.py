"""The kinds of statement: each function draws the meaning of one kind."""

from dataclasses import replace

from .clauses import Clauses
from .lexicon import Noun
from .meaning import (
    Adjunct,
    Clause,
    Determiner,
    Mode,
    NounPhrase,
    Relation,
    Sentence,
    Tense,
)
from .nouns import nouns
from .phrases import COUNTABLE
from .predicates import (
    ADJECTIVES,
    CALL,
    EXISTENCE,
    LIVE,
    LOCATION,
    POSSESSION,
    TRANSITIVE,
    UNGRADABLE,
)

_PAST = (Tense.PAST, Mode.PLAIN)
_SHOPS = nouns("shop, eatery, bank, library, museum, zoo")
_CITIES = nouns("city")
_FURNITURE = nouns("desk, table, bed, sofa, chair")
_SMALL = nouns("thing, tool, book, hat")
_CONTAINED = nouns("tool, ring, key, ball, photo, map, book")
_CONTAINERS = nouns("box, bag")
_DWELLERS = nouns("student, child, guest, tourist, doctor, nurse, reporter")
_FITTINGS = nouns("furniture, computer, television, mirror, pet")
_ROOMS = nouns("room, library, museum, hotel, hospital, cafe, restaurant")
_INDOORS = nouns("indoors")
_BEASTS = nouns("beast")
_OWNED = nouns("pet, book, car, bike, machine, thing, sibling, garment, task, money")
_GRADABLE = tuple(each for each in ADJECTIVES if each.english not in UNGRADABLE)
_ON = (Relation.ON, Relation.UNDER, Relation.BESIDE)
_BY = (Relation.BESIDE, Relation.BEHIND, Relation.BEFORE)
_BOUGHT = tuple(verb for verb in TRANSITIVE if verb.english in ("buy", "borrow", "make", "draw"))


def activity(draw: Clauses) -> Sentence:
    """Minsu bought three apples at the market yesterday."""
    return Sentence(draw.activity())


def intransitive(draw: Clauses) -> Sentence:
    """My father works at a bank."""
    return Sentence(draw.intransitive())


def motion(draw: Clauses) -> Sentence:
    """Sujin went to the library by bus."""
    return Sentence(draw.motion())


def errand(draw: Clauses) -> Sentence:
    """I will go to the market to buy apples."""
    return Sentence(draw.errand())


def transfer(draw: Clauses) -> Sentence:
    """Jihun gave a rose to the teacher."""
    return Sentence(draw.transfer())


def attitude(draw: Clauses) -> Sentence:
    """I like coffee."""
    return Sentence(draw.attitude())


def identity(draw: Clauses) -> Sentence:
    """Minsu is a kind doctor."""
    return Sentence(draw.identity())


def quality(draw: Clauses) -> Sentence:
    """The river is very long."""
    return Sentence(draw.quality())


def several_objects(draw: Clauses) -> Sentence:
    """Minsu bought bread and milk."""
    setting = draw.chance.one((_PAST, (Tense.FUTURE, Mode.PLAIN)))
    clause = draw.activity(
        verb=draw.chance.one(_BOUGHT), setting=setting, plain=True, negative=False
    )
    verb = clause.predicate
    first, second = draw.chance.one(verb.objects), draw.chance.one(verb.objects)
    if first == second or first.category != second.category:
        return Sentence(clause)
    joint = replace(draw.thing(first, rich=0), also=draw.thing(second, rich=0))
    return Sentence(replace(clause, object=joint))


def call(draw: Clauses) -> Sentence:
    """I called my mother last night."""
    subject = draw.anybody()
    callee = draw.chance.one((draw.name, draw.relative))()
    tense = draw.chance.one((Tense.PAST, Tense.FUTURE))
    if callee.noun == subject.noun:
        return motion(draw)
    negative = draw.chance.happens(0.2)
    return Sentence(
        Clause(CALL, subject, callee, time=draw.time(tense), tense=tense, negative=negative)
    )


def residence(draw: Clauses) -> Sentence:
    """Ms. Lee lives in Seoul."""
    place = draw.place(draw.chance.one(_CITIES), Relation.ACTIVITY)
    tense, mode = draw.chance.weighted(
        (
            ((Tense.PRESENT, Mode.PLAIN), 4),
            ((Tense.PAST, Mode.PLAIN), 2),
            ((Tense.PRESENT, Mode.DESIRE), 2),
        )
    )
    negative = draw.chance.happens(0.15)
    clause = Clause(
        LIVE, draw.anybody(), adjuncts=(place,), tense=tense, mode=mode, negative=negative
    )
    return Sentence(clause)


def scene(draw: Clauses) -> tuple[Noun, Adjunct]:
    """Something, and where it may well be."""
    chance = draw.chance
    things, grounds, relations = chance.weighted(
        (
            ((_SMALL, _FURNITURE, _ON), 4),
            ((_CONTAINED, _CONTAINERS, (Relation.INSIDE,)), 2),
            ((_DWELLERS, _ROOMS, (Relation.PLACE,)), 2),
            ((_FITTINGS, _INDOORS, (Relation.PLACE,)), 2),
            ((_BEASTS, nouns("zoo"), (Relation.PLACE,)), 1),
        )
    )
    return chance.one(things), draw.place(chance.one(grounds), chance.one(relations))


def existence(draw: Clauses) -> Sentence:
    """There are two cats in the room; there is no umbrella on the desk."""
    noun, where = scene(draw)
    negative = draw.chance.happens(0.3)
    theme = NounPhrase(noun, Determiner.NONE if negative else Determiner.A)
    if noun.category in COUNTABLE and not negative and draw.chance.happens(0.6):
        theme = draw.counted(noun)
    tense = draw.chance.weighted(((Tense.PRESENT, 3), (Tense.PAST, 1)))
    return Sentence(Clause(EXISTENCE, theme, adjuncts=(where,), tense=tense, negative=negative))


def location(draw: Clauses) -> Sentence:
    """The cat is on the sofa; my mother is at home."""
    chance = draw.chance
    negative = chance.happens(0.15)
    if chance.happens(0.5):
        noun, where = scene(draw)
        subject = draw.definite(noun)
    else:
        subject = draw.somebody()
        where = draw.place(chance.one((*_ROOMS, *nouns("home, schooling"))), Relation.PLACE)
    tense = chance.weighted(((Tense.PRESENT, 3), (Tense.PAST, 1)))
    return Sentence(Clause(LOCATION, subject, adjuncts=(where,), tense=tense, negative=negative))


def neighborhood(draw: Clauses) -> Sentence:
    """The bank is next to the post office."""
    chance = draw.chance
    first, second = chance.one(_SHOPS), chance.one(_SHOPS)
    if first == second:
        return location(draw)
    where = draw.place(second, chance.one(_BY))
    return Sentence(Clause(LOCATION, draw.definite(first), adjuncts=(where,)))


def possession(draw: Clauses) -> Sentence:
    """Minsu has two cats; I do not have time."""
    chance = draw.chance
    noun = chance.one(_OWNED)
    negative = chance.happens(0.35)
    thing = NounPhrase(noun) if noun.mass else NounPhrase(noun, Determiner.A)
    if not noun.mass and not negative and chance.happens(0.6):
        thing = draw.counted(noun, draw.adjective_for(noun) if chance.happens(0.3) else None)
    tense = chance.weighted(((Tense.PRESENT, 4), (Tense.PAST, 1)))
    return Sentence(
        Clause(POSSESSION, draw.anybody(), object=thing, tense=tense, negative=negative)
    )


def comparison(draw: Clauses) -> Sentence:
    """The train is faster than the bus."""
    while True:
        adjective = draw.chance.one(_GRADABLE)
        first, second = draw.chance.one(adjective.objects), draw.chance.one(adjective.objects)
        if first != second and first.category == second.category:
            break
    standard = Adjunct(draw.definite(second), Relation.STANDARD)
    return Sentence(Clause(adjective, draw.definite(first), adjuncts=(standard,)))


def superlative(draw: Clauses) -> Sentence:
    """Minsu bought the most expensive bag."""
    clause = draw.activity(verb=draw.chance.one(_BOUGHT), setting=_PAST)
    thing = clause.object
    if not thing or thing.noun.bare:
        return Sentence(clause)
    adjective = draw.adjective_for(thing.noun)
    if not adjective or adjective.english in UNGRADABLE:
        return Sentence(clause)
    best = NounPhrase(
        thing.noun, Determiner.THE, thing.noun.pair, adjective=adjective, superlative=True
    )
    return Sentence(replace(clause, object=best))
