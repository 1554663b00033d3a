"""The kinds of statement with two clauses: relative clauses, coordination, contrast, reason."""

from dataclasses import replace

from .clauses import Clauses
from .lexicon import Person, Predicate
from .meaning import Clause, Determiner, Link, Mode, NounPhrase, Relation, Sentence, Tense
from .nouns import HE, IT, SHE, I, nouns
from .phrases import NAMES
from .predicates import ADJECTIVES, GO, INTRANSITIVE, RAIN, STATIVE, TRANSITIVE

_PAST = (Tense.PAST, Mode.PLAIN)
_VERBS = {verb.english: verb for verb in (*reversed(TRANSITIVE), *INTRANSITIVE, *STATIVE)}
_QUALITIES = {each.english: each for each in ADJECTIVES}
_GAINING = ("buy", "make", "borrow", "draw", "bake", "choose", "write")
_AHEAD = ("watch", "visit", "read", "eat", "drive")
_LATER = ("lose", "look for", "eat", "use", "bring", "fix", "open", "read")
_ACTORS = nouns("student, child, man, woman, tourist, doctor, nurse, guest")
_PRAISED = (
    "pretty",
    "beautiful",
    "cheap",
    "expensive",
    "delicious",
    "heavy",
    "interesting",
    "big",
    "long",
    "famous",
    "difficult",
    "quiet",
    "fast",
)
_SEQUENCES = (
    *(("eat", "drink"), ("drink", "read"), ("bake", "eat"), ("clean", "cook")),
    *(("study", "watch"), ("meet", "drink"), ("finish", "watch"), ("listen to", "read")),
)
_STATES = {
    "tired": ("sleep", "rest"),
    "sick": ("sleep", "rest"),
    "busy": ("work",),
}
_HOME, _OFFICE = nouns("home, office")
_ROOMS = nouns("indoors")
_OUTINGS = nouns("park, beach, zoo, market, mountain, school, swimming_pool")
_DISTURBANCES = ("noisy", "dark", "dirty")


def _gap(subject: NounPhrase) -> NounPhrase:
    """The subject again, understood from elsewhere."""
    return NounPhrase(subject.noun, plural=subject.person is Person.THIRD_PLURAL, gap=True)


def _pronoun(subject: NounPhrase) -> NounPhrase:
    """The pronoun for a subject mentioned before, which Korean leaves out."""
    if subject.noun == I:
        return NounPhrase(replace(I, korean="", casual=""))
    pronoun = HE if subject.noun.pronoun == "he" else SHE
    return NounPhrase(replace(pronoun, honored=subject.noun.honored))


def _mentionable(draw: Clauses) -> NounPhrase:
    """A subject that a singular pronoun can take up."""
    while True:
        subject = draw.anybody()
        known = subject.noun == I or subject.noun.pronoun in ("he", "she")
        if known and subject.person in (Person.FIRST, Person.THIRD):
            return subject


def _unread(draw: Clauses, verb: Predicate) -> NounPhrase:
    """A subject whose agreement shows that this verb is in the past."""
    return draw.name() if verb.past == verb.english else draw.anybody()


def object_relative(draw: Clauses) -> Sentence:
    """I lost the umbrella that Minsu bought."""
    chance = draw.chance
    while True:
        gained, later = _VERBS[chance.one(_GAINING)], _VERBS[chance.one(_LATER)]
        shared = [noun for noun in gained.objects if noun in later.objects]
        if shared:
            break
    noun = chance.one(shared)
    giver, subject = draw.anybody(), _unread(draw, later)
    if giver.noun == subject.noun:
        subject = draw.name() if subject.noun == I else NounPhrase(I)
    if later.past == later.english and subject.noun == I:
        giver, subject = subject, giver
    relative = Clause(gained, giver, tense=Tense.PAST)
    thing = NounPhrase(noun, Determiner.THE, plural=noun.pair, relative=relative)
    return Sentence(Clause(later, subject, thing, tense=Tense.PAST, negative=chance.happens(0.1)))


def described_relative(draw: Clauses) -> Sentence:
    """The cake that my mother baked is delicious."""
    chance = draw.chance
    while True:
        verb = _VERBS[chance.one((*_GAINING, *_AHEAD))]
        adjective = _QUALITIES[chance.one(_PRAISED)]
        shared = [noun for noun in verb.objects if noun in adjective.objects]
        if shared:
            break
    noun = chance.one(shared)
    tense = Tense.FUTURE if verb.english in _AHEAD else Tense.PAST
    relative = Clause(verb, draw.anybody(), tense=tense)
    thing = NounPhrase(noun, Determiner.THE, plural=noun.pair, relative=relative)
    degree = chance.one(("", "very", "really"))
    return Sentence(Clause(adjective, thing, degree=degree))


def subject_relative(draw: Clauses) -> Sentence:
    """The student who lost the key is my friend."""
    chance = draw.chance
    noun = chance.one(_ACTORS)
    gap = NounPhrase(noun, gap=True)
    setting = chance.one((_PAST, (Tense.PRESENT, Mode.PROGRESSIVE)))
    relative = draw.activity(
        gap, _VERBS[chance.one(("read", "wait for", "draw", "sing", "wash"))], setting, plain=True
    )
    relative = replace(relative, negative=False, habit=None)
    person = NounPhrase(noun, Determiner.THE, relative=relative)
    if chance.happens(0.4):
        meeting = _VERBS[chance.one(("meet", "help", "know"))]
        present = meeting.stative
        return Sentence(
            Clause(
                meeting,
                NounPhrase(chance.one((I, *NAMES))),
                person,
                tense=Tense.PRESENT if present else Tense.PAST,
            )
        )
    kind = _QUALITIES[chance.one(("tall", "kind", "smart", "tired", "happy"))]
    return Sentence(Clause(kind, person))


def sequence(draw: Clauses) -> Sentence:
    """Minsu ate bread and drank milk."""
    chance = draw.chance
    first, second = (_VERBS[each] for each in chance.one(_SEQUENCES))
    tense = chance.one((Tense.PAST, Tense.PAST, Tense.FUTURE))
    subject = draw.name() if "read" in (first.english, second.english) else draw.anybody()
    setting = (tense, Mode.PLAIN)
    opening = draw.activity(subject, first, setting, plain=True, negative=False)
    closing = draw.activity(_gap(subject), second, setting, plain=True, negative=False)
    return Sentence(opening, link=Link.AND, second=closing)


def parallel(draw: Clauses) -> Sentence:
    """Minsu drank coffee, and Sujin drank tea."""
    return _two_people(draw, Link.AND, draw.chance.one((Tense.PAST, Tense.FUTURE)))


def contrast(draw: Clauses) -> Sentence:
    """Minsu drank coffee, but Sujin did not drink coffee."""
    return _two_people(draw, Link.BUT, Tense.PAST)


def _two_people(draw: Clauses, link: Link, tense: Tense) -> Sentence:
    """Two people who do, or one of whom does not do, a similar thing."""
    chance = draw.chance
    verb = _VERBS[chance.one(("eat", "drink", "buy", "draw", "choose", "learn", "borrow"))]
    first = draw.anybody()
    second = chance.one([noun for noun in NAMES if noun != first.noun])
    refused = link is Link.BUT
    left, right = (
        draw.activity(subject, verb, (tense, Mode.PLAIN), plain=True, negative=False)
        for subject in (first, NounPhrase(second))
    )
    if refused:
        noun = draw.chance.one(verb.objects)
        left = replace(left, object=draw.generic(noun))
        right = replace(right, object=draw.generic(noun), negative=True)
    return Sentence(left, link=link, second=right)


def preference(draw: Clauses) -> Sentence:
    """I like coffee but do not like tea."""
    chance, like = draw.chance, _VERBS["like"]
    first, second = chance.one(like.objects), chance.one(like.objects)
    while first == second or first.category != second.category:
        first, second = chance.one(like.objects), chance.one(like.objects)
    subject = draw.anybody()
    liked = replace(draw.generic(first), topic=True)
    disliked = replace(draw.generic(second), topic=True)
    refusal = Clause(like, _gap(subject), disliked, negative=True)
    return Sentence(Clause(like, subject, liked), link=Link.BUT, second=refusal)


def mixed_quality(draw: Clauses) -> Sentence:
    """The bag is pretty but is expensive."""
    chance = draw.chance
    pairs = (("pretty", "expensive"), ("cheap", "sturdy"), ("big", "light"), ("small", "heavy"))
    good, bad = (_QUALITIES[each] for each in chance.one(pairs))
    shared = [noun for noun in good.objects if noun in bad.objects and not noun.pair]
    thing = draw.definite(chance.one(shared))
    link = Link.AND if good.english == "cheap" else Link.BUT
    return Sentence(Clause(good, thing), link=link, second=Clause(bad, _gap(thing)))


def weariness(draw: Clauses) -> Sentence:
    """Minsu rested at home because he was tired."""
    state = draw.chance.one(tuple(_STATES))
    subject = _mentionable(draw)
    doing = _VERBS[draw.chance.one(_STATES[state])]
    place = _OFFICE if state == "busy" else _HOME
    main = Clause(doing, subject, adjuncts=(draw.place(place, Relation.ACTIVITY),))
    if draw.chance.happens(0.5):
        main = replace(draw.motion(subject), time=None, mode=Mode.ABILITY, negative=True)
    reason = Clause(_QUALITIES[state], _pronoun(subject), tense=Tense.PAST)
    return Sentence(replace(main, tense=Tense.PAST), link=Link.BECAUSE, second=reason)


def disturbance(draw: Clauses) -> Sentence:
    """I could not sleep because the room was noisy."""
    quality = _QUALITIES[draw.chance.one(_DISTURBANCES)]
    room = draw.chance.one([noun for noun in quality.objects if noun in _ROOMS])
    verb = _VERBS[draw.chance.one(("sleep", "rest", "work", "study", "read"))]
    what = draw.definite(draw.chance.one(verb.objects)) if verb.objects else None
    main = Clause(verb, draw.anybody(), what, tense=Tense.PAST, mode=Mode.ABILITY, negative=True)
    reason = Clause(quality, NounPhrase(room, Determiner.THE), tense=Tense.PAST)
    return Sentence(main, link=Link.BECAUSE, second=reason)


def bad_weather(draw: Clauses) -> Sentence:
    """Sujin could not go to the park because it rained."""
    goal = draw.place(draw.chance.one(_OUTINGS), Relation.GOAL)
    outing = Clause(
        GO, draw.anybody(), adjuncts=(goal,), tense=Tense.PAST, mode=Mode.ABILITY, negative=True
    )
    reason = Clause(RAIN, NounPhrase(IT), tense=Tense.PAST)
    return Sentence(outing, link=Link.BECAUSE, second=reason)
