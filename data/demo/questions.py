"""The kinds of question, command and proposal: each function draws the meaning of one kind."""

from collections.abc import Callable
from dataclasses import replace

from . import temporal
from .clauses import Clauses
from .conjugation import Level
from .meaning import (
    Adjunct,
    Clause,
    Determiner,
    Mode,
    Mood,
    NounPhrase,
    Relation,
    Sentence,
    Tense,
)
from .nouns import HOW_MUCH, WHAT, WHERE, WHO, YOU, nouns
from .occasions import price, schedule
from .phrases import COUNTABLE
from .predicates import (
    COPULA,
    COST,
    DITRANSITIVE,
    EXISTENCE,
    GO,
    LIVE,
    LOCATION,
    POSSESSION,
    TRANSITIVE,
)
from .statements import scene

_WHEN = temporal.question("when", "언제")
_WHY = temporal.question("why", "왜")
_WHAT_TIME = temporal.question("what time", "몇 시에")
_UNCOMMANDED = frozenset(
    (
        *("lose", "see", "catch", "learn", "drive", "build", "eat", "drink", "meet", "raise"),
        *("sell", "watch", "use", "take", "pick up"),
    )
)
_COMMANDS = tuple(verb for verb in TRANSITIVE if verb.english not in _UNCOMMANDED)
_OWNED = nouns("pet, book, car, bike, machine, thing, sibling, money, task")
_COUNTED = tuple(
    verb
    for verb in TRANSITIVE
    if verb.english in ("eat", "drink", "buy", "read", "write", "make", "draw", "borrow", "peel")
)
_PLACED = tuple(verb for verb in TRANSITIVE if verb.places)
_SHARED = ("eat", "drink", "watch", "sing", "cook", "clean", "study", "practice", "play", "bake")
_PROPOSED = tuple(verb for verb in TRANSITIVE if verb.english in _SHARED)


def _asked(draw: Clauses) -> NounPhrase:
    """Whom a question is about: often the hearer."""
    return NounPhrase(YOU) if draw.chance.happens(0.5) else draw.somebody()


def _positive(clause: Clause) -> Clause:
    return replace(clause, negative=False)


def polar(draw: Clauses) -> Sentence:
    """Did you buy the book?"""
    chance = draw.chance
    kinds: tuple[tuple[Callable[[NounPhrase], Clause], int], ...] = (
        *((draw.activity, 5), (draw.motion, 2), (draw.attitude, 1), (draw.transfer, 1)),
    )
    clause = chance.weighted(kinds)(_asked(draw))
    return Sentence(_positive(clause), Mood.QUESTION)


def polar_quality(draw: Clauses) -> Sentence:
    """Is the river long? Is Minsu a doctor?"""
    asks_quality = draw.chance.happens(0.75)
    clause = draw.quality() if asks_quality else draw.identity()
    return Sentence(_positive(clause), Mood.QUESTION)


def polar_existence(draw: Clauses) -> Sentence:
    """Is there a cat in the room? Do you have a bicycle?"""
    if draw.chance.happens(0.5):
        noun, where = scene(draw)
        theme = NounPhrase(noun, Determiner.A, plural=noun.pair)
        return Sentence(Clause(EXISTENCE, theme, adjuncts=(where,)), Mood.QUESTION)
    noun = draw.chance.one(_OWNED)
    thing = NounPhrase(noun) if noun.mass else NounPhrase(noun, Determiner.A)
    return Sentence(Clause(POSSESSION, _asked(draw), thing), Mood.QUESTION)


def who(draw: Clauses) -> Sentence:
    """Who bought the book?"""
    subject = NounPhrase(WHO, interrogative=True)
    verb = draw.chance.one([each for each in TRANSITIVE if each.english != "read"])
    tense = draw.chance.weighted(((Tense.PAST, 3), (Tense.FUTURE, 1)))
    clause = draw.activity(subject, verb, (tense, Mode.PLAIN))
    return Sentence(_positive(clause), Mood.QUESTION)


def what(draw: Clauses) -> Sentence:
    """What did Minsu buy at the market? Whom it is about when the verb takes people."""
    verb = draw.chance.one([each for each in TRANSITIVE if each.english not in ("play", "clean")])
    clause = _positive(draw.activity(_asked(draw), verb))
    personal = any(noun.category == "name" for noun in verb.objects)
    asked = NounPhrase(WHO if personal else WHAT, interrogative=True)
    return Sentence(replace(clause, object=asked, habit=None), Mood.QUESTION)


def where(draw: Clauses) -> Sentence:
    """Where did you buy the bag?"""
    clause = _positive(draw.activity(_asked(draw), draw.chance.one(_PLACED)))
    place = Adjunct(NounPhrase(WHERE, interrogative=True), Relation.ACTIVITY)
    return Sentence(replace(clause, adjuncts=(place,), habit=None), Mood.QUESTION)


def where_to(draw: Clauses) -> Sentence:
    """Where will you go tomorrow?"""
    clause = _positive(draw.motion(_asked(draw)))
    goal = Adjunct(NounPhrase(WHERE, interrogative=True), Relation.GOAL)
    return Sentence(replace(clause, predicate=GO, adjuncts=(goal,)), Mood.QUESTION)


def where_is(draw: Clauses) -> Sentence:
    """Where is the bank? Where does Minsu live?"""
    place = Adjunct(NounPhrase(WHERE, interrogative=True), Relation.PLACE)
    if draw.chance.happens(0.3):
        place = replace(place, relation=Relation.ACTIVITY)
        return Sentence(Clause(LIVE, _asked(draw), adjuncts=(place,)), Mood.QUESTION)
    findable = nouns("thing, tool, book, pet, shop, bank, library, station, post_office, name, kin")
    subject = draw.definite(draw.chance.one(findable))
    return Sentence(Clause(LOCATION, subject, adjuncts=(place,)), Mood.QUESTION)


def when(draw: Clauses) -> Sentence:
    """When did you meet Minsu? What time does the class start?"""
    if draw.chance.happens(0.35):
        clause = replace(schedule(draw).clause, time=_WHAT_TIME)
        return Sentence(clause, Mood.QUESTION)
    tense = draw.chance.one((Tense.PAST, Tense.FUTURE))
    clause = draw.activity(_asked(draw), setting=(tense, Mode.PLAIN))
    return Sentence(replace(_positive(clause), time=_WHEN), Mood.QUESTION)


def why(draw: Clauses) -> Sentence:
    """Why did you not buy the book?"""
    kind = draw.chance.one((draw.activity, draw.motion))
    clause = kind(_asked(draw))
    tensed = Tense.PAST if clause.mode is Mode.PLAIN else clause.tense
    return Sentence(replace(clause, time=_WHY, habit=None, tense=tensed), Mood.QUESTION)


def how_many(draw: Clauses) -> Sentence:
    """How many books did Minsu read?"""
    chance = draw.chance
    verb = chance.one(_COUNTED)
    counted = [noun for noun in verb.objects if noun.category in COUNTABLE or noun.container]
    asked = NounPhrase(chance.one(counted), Determiner.HOW_MANY, plural=True, interrogative=True)
    setting = (chance.weighted(((Tense.PAST, 3), (Tense.FUTURE, 1))), Mode.PLAIN)
    clause = draw.activity(_asked(draw), verb, setting)
    return Sentence(replace(_positive(clause), object=asked), Mood.QUESTION)


def how_many_exist(draw: Clauses) -> Sentence:
    """How many dogs are there in the park?"""
    while True:
        noun, where_ = scene(draw)
        if noun.category in COUNTABLE:
            break
    theme = NounPhrase(noun, Determiner.HOW_MANY, plural=True, interrogative=True)
    return Sentence(Clause(EXISTENCE, theme, adjuncts=(where_,)), Mood.QUESTION)


def how_much(draw: Clauses) -> Sentence:
    """How much does this hat cost?"""
    asked = NounPhrase(HOW_MUCH, interrogative=True)
    return Sentence(replace(price(draw).clause, predicate=COST, object=asked), Mood.QUESTION)


def who_is(draw: Clauses) -> Sentence:
    """Who is the tall man?"""
    noun = draw.chance.one(nouns("man, woman, student, child, doctor, nurse"))
    adjective = draw.adjective_for(noun)
    determiner = draw.chance.one((Determiner.THE, Determiner.THIS, Determiner.THAT))
    subject = NounPhrase(noun, determiner, adjective=adjective)
    asked = NounPhrase(WHO, interrogative=True)
    return Sentence(Clause(COPULA, subject, asked), Mood.QUESTION)


def command(draw: Clauses) -> Sentence:
    """Please open the window."""
    chance = draw.chance
    negative = chance.happens(0.35)
    verb = chance.one((*_COMMANDS, *DITRANSITIVE))
    hearer = NounPhrase(YOU)
    noun = chance.one(verb.objects)
    adjuncts = (draw.recipient(hearer),) if verb in DITRANSITIVE else ()
    if not adjuncts and verb.places and chance.happens(0.3):
        adjuncts = (draw.place(chance.one(verb.places), Relation.ACTIVITY),)
    clause = Clause(
        verb,
        hearer,
        object=draw.thing(noun, rich=0.2) if not negative else draw.definite(noun),
        adjuncts=adjuncts,
        mode=Mode.PROHIBITION if negative else Mode.PLAIN,
        negative=negative,
    )
    return Sentence(clause, Mood.COMMAND)


def proposal(draw: Clauses) -> Sentence:
    """Let us watch a movie together."""
    chance = draw.chance
    if draw.level is Level.FORMAL:
        return command(draw)
    verb = chance.one(_PROPOSED)
    time = chance.one((temporal.TOGETHER, temporal.then(temporal.TOMORROW, temporal.TOGETHER)))
    places = (draw.place(chance.one(verb.places), Relation.ACTIVITY),) if verb.places else ()
    clause = Clause(
        verb,
        NounPhrase(YOU),
        object=draw.thing(chance.one(verb.objects), rich=0.2),
        adjuncts=places if chance.happens(0.4) else (),
        time=time,
    )
    return Sentence(clause, Mood.PROPOSAL)
