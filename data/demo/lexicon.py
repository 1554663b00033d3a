"""The shape of lexical entries, and the reading of the compact tables that hold them."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from .conjugation import Irregular, Stem


class Person(Enum):
    """Grammatical person of a subject, with third person plural for agreement."""

    FIRST = "I"
    FIRST_PLURAL = "we"
    SECOND = "you"
    THIRD = "he"
    THIRD_PLURAL = "they"


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun: its word on each side, and what each grammar has to know of it.

    `casual` is the Korean word in 해체 if that is another; `bare` nouns take no article; `mass`
    nouns are counted by the `container` alone; `honored` people are spoken of with (으)시;
    `communal` ones are 우리 and not 제 to their owner; `preposition` is the English one of place.
    """

    english: str
    korean: str
    category: str
    counter: str = "개"
    container: str = ""
    mass: bool = False
    bare: bool = False
    pair: bool = False
    honored: bool = False
    communal: bool = False
    preposition: str = "at"
    pronoun: str = "it"
    casual: str = ""
    person: Person = Person.THIRD


class Kind(Enum):
    """What a predicate is, which decides its syntax on both sides."""

    VERB = "verb"
    ADJECTIVE = "adjective"
    COPULA = "copula"
    LOCATION = "location"
    EXISTENCE = "existence"
    POSSESSION = "possession"


@dataclass(frozen=True, eq=False)
class Predicate:
    """A verb or adjective sense.

    `suppletive` is the honorific stem if it is another word (드시다), `humble` the stem towards an
    honored recipient (드리다), `negative` the stem that negates it (모르다). A `light` verb, a
    Sino-Korean noun with 하다, negates in the long form. `prefix` is a Korean subject of its own
    (키가 크다). The last fields restrict what it combines with.
    """

    english: str
    past: str
    stem: Stem
    kind: Kind = Kind.VERB
    suppletive: str = ""
    humble: str = ""
    negative: str = ""
    light: bool = False
    dative: bool = False
    stative: bool = False
    prefix: str = ""
    objects: tuple[Noun, ...] = ()
    places: tuple[Noun, ...] = ()


def read_pairs(text: str) -> list[tuple[str, str]]:
    """Read `english=korean` entries; an underscore stands for a space inside an entry."""
    pairs = []
    for entry in text.split():
        english, _, korean = entry.replace("_", " ").partition("=")
        pairs.append((english, korean))
    return pairs


def read_stem(text: str, *, adjective: bool = False) -> Stem:
    """Read a stem with its irregular class behind a slash: 춥/ㅂ."""
    stem, _, irregular = text.partition("/")
    return Stem(stem, Irregular(irregular), adjective=adjective)


def select(nouns: Iterable[Noun], names: str) -> tuple[Noun, ...]:
    """The nouns named, each by its category or, failing that, by its English word."""
    lexicon = tuple(nouns)
    chosen: list[Noun] = []
    for name in names.replace("_", " ").split(","):
        word = name.strip()
        found = [noun for noun in lexicon if noun.category == word]
        found = found or [noun for noun in lexicon if noun.english == word]
        if not found:
            raise KeyError(f"no noun or category {word!r}")
        chosen += found
    return tuple(chosen)
