"""Meanings: the trees that both grammars realise.

A concept is one facet of one node of such a tree. Words on either side say which concepts they
realise, and two words are aligned when they share one. That is the whole of word alignment here.
"""

from dataclasses import dataclass
from enum import Enum, auto

from .conjugation import Level
from .korean import Particle
from .lexicon import Kind, Noun, Person, Predicate


class Facet(Enum):
    """What a word can contribute to the node it belongs to."""

    HEAD = auto()
    DETERMINER = auto()
    COUNT = auto()
    MEASURE = auto()
    ADJECTIVE = auto()
    DEGREE = auto()
    RELATION = auto()
    FINITE = auto()
    NEGATION = auto()
    MODAL = auto()
    MANNER = auto()
    LINK = auto()


@dataclass(frozen=True, eq=False)
class Node:
    """A node of a meaning: compared by identity, so that its facets are concepts of its own."""

    def concept(self, facet: Facet) -> "Concept":
        """The concept that this facet of the node is."""
        return Concept(self, facet)


@dataclass(frozen=True)
class Concept:
    """One facet of one node: what words realise."""

    node: Node
    facet: Facet | str


@dataclass(frozen=True)
class Word:
    """A whitespace-separated word of either language, with the concepts it realises."""

    text: str
    concepts: tuple[Concept, ...] = ()


class Determiner(Enum):
    """Determiners; the articles have no Korean counterpart."""

    NONE = ""
    A = "a"
    THE = "the"
    THIS = "this"
    THAT = "that"
    MY = "my"
    HOW_MANY = "how many"


@dataclass(frozen=True, eq=False)
class NounPhrase(Node):
    """A noun with all that modifies it.

    `topic` contrasts an object by 은/는; a `gap` is understood from elsewhere and has no words.
    """

    noun: Noun
    determiner: Determiner = Determiner.NONE
    plural: bool = False
    count: int = 0
    adjective: Predicate | None = None
    superlative: bool = False
    owner: "NounPhrase | None" = None
    relative: "Clause | None" = None
    also: "NounPhrase | None" = None
    topic: bool = False
    gap: bool = False
    interrogative: bool = False

    @property
    def person(self) -> Person:
        """The person that a verb agrees with."""
        many = self.plural or self.also is not None
        return Person.THIRD_PLURAL if many else self.noun.person


class Relation(Enum):
    """What an adjunct says: its English preposition and the Korean particle or relational noun.

    An empty preposition is that of the place noun itself: in the park, at the station.
    """

    ACTIVITY = ("", Particle.ABLATIVE, "")
    PLACE = ("", Particle.LOCATIVE, "")
    GOAL = ("to", Particle.LOCATIVE, "")
    RECIPIENT = ("to", Particle.DATIVE, "")
    VEHICLE = ("by", Particle.INSTRUMENTAL, "")
    COMPANY = ("with", Particle.COMITATIVE, "함께")
    STANDARD = ("than", Particle.THAN, "더")
    ON = ("on", None, "위에")
    UNDER = ("under", None, "아래에")
    INSIDE = ("in", None, "안에")
    BESIDE = ("next to", None, "옆에")
    BEHIND = ("behind", None, "뒤에")
    BEFORE = ("in front of", None, "앞에")

    def __init__(self, preposition: str, particle: Particle | None, postposition: str) -> None:
        self.preposition = preposition
        self.particle = particle
        self.postposition = postposition


@dataclass(frozen=True, eq=False)
class Adjunct(Node):
    """A noun phrase in an oblique relation to the clause."""

    phrase: NounPhrase
    relation: Relation


@dataclass(frozen=True, eq=False)
class Adverb(Node):
    """An adverb or time phrase, as `(word, keys)` on each side: equal keys are one concept."""

    english: tuple[tuple[str, str], ...]
    korean: tuple[tuple[str, str], ...]
    interrogative: bool = False


class Tense(Enum):
    """Tenses."""

    PRESENT = auto()
    PAST = auto()
    FUTURE = auto()


class Mode(Enum):
    """Aspect and modality of the predicate."""

    PLAIN = auto()
    PROGRESSIVE = auto()
    DESIRE = auto()
    ABILITY = auto()
    OBLIGATION = auto()
    PROHIBITION = auto()


@dataclass(frozen=True, eq=False)
class Clause(Node):
    """A predicate with its arguments and adjuncts.

    `degree` is very or really; `habit` an adverb of frequency; `purpose` a clause in order to.
    """

    predicate: Predicate
    subject: NounPhrase
    object: NounPhrase | None = None
    adjuncts: tuple[Adjunct, ...] = ()
    time: Adverb | None = None
    habit: Adverb | None = None
    purpose: "Clause | None" = None
    tense: Tense = Tense.PRESENT
    mode: Mode = Mode.PLAIN
    negative: bool = False
    degree: str = ""

    @property
    def kind(self) -> Kind:
        """The kind of its predicate."""
        return self.predicate.kind


class Mood(Enum):
    """What the speaker does with a sentence."""

    STATEMENT = auto()
    QUESTION = auto()
    COMMAND = auto()
    PROPOSAL = auto()


class Link(Enum):
    """Conjunctions of two clauses."""

    AND = "and"
    BUT = "but"
    BECAUSE = "because"


@dataclass(frozen=True, eq=False)
class Sentence(Node):
    """A sentence: a clause, perhaps linked to a second, addressed to someone or to nobody.

    The address sets the speech level: no vocative means 해요체, a respectful one 하십시오체, and
    Hey or a bare name 해체.
    """

    clause: Clause
    mood: Mood = Mood.STATEMENT
    level: Level = Level.POLITE
    address: Adverb | None = None
    opening: Adverb | None = None
    link: Link | None = None
    second: Clause | None = None
