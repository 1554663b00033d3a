"""What both languages say: the entries of the lexicon, and the meanings that are made of them.

A word of a sentence carries keys, dotted paths into the meaning such as `what.head` or
`does.negation`. Words of both languages that share a key are aligned: that is all of alignment.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from grammar.conjugation import Stem


class Word(NamedTuple):
    """A word between two spaces, and the keys of what it says."""

    text: str
    keys: frozenset[str] = frozenset()

    def under(self, path: str) -> "Word":
        """The word as part of something larger: each key below this path."""
        return Word(self.text, frozenset(f"{path}.{key}" for key in self.keys))


def words(text: str, *keys: str) -> list[Word]:
    """The words of a text, all of them with these keys; none of an empty text."""
    return [Word(part, frozenset(keys)) for part in text.split()]


def suffixed(said: list[Word], suffix: str, keys: Iterable[str] = ()) -> list[Word]:
    """The words with something attached to the last one, which then carries these keys too."""
    *rest, last = said
    return [*rest, Word(last.text + suffix, last.keys | frozenset(keys))]


@dataclass(frozen=True, eq=False)
class Noun:
    """A noun of both languages, and what either grammar has to know of it.

    `counter` counts it in Korean, under the English `container` if it is `mass`. `bare` nouns take
    no article, `personal` ones belong to the speaker (my mother), and `owned` ones may. Who is
    `honored` is spoken of with (으)시. `familiar` is the Korean word between friends and in notes,
    mostly the same.
    """

    english: str
    plural: str
    pronoun: str
    korean: str
    familiar: str
    group: str
    counter: str = ""
    container: str = ""
    preposition: str = "at"
    mass: bool = False
    bare: bool = False
    pair: bool = False
    personal: bool = False
    owned: bool = False
    honored: bool = False


@dataclass(frozen=True, eq=False)
class Predicate:
    """A verb, an adjective or be, of both languages.

    `forms` are the English past and -ing form, or the comparative of an adjective that has one.
    `prefix` is a Korean word that belongs to the stem: 키가 크다. `honorific`, `humble` and
    `negative` stems replace it: 드시다 of a teacher, 드리다 to one, 모르다 for not knowing.
    """

    english: str
    forms: tuple[str, ...]
    prefix: str
    stem: Stem
    kind: str
    objects: list[Noun]
    places: list[Noun]
    honorific: Stem | None = None
    humble: Stem | None = None
    negative: Stem | None = None


@dataclass(frozen=True)
class NounPhrase:
    """A noun with its determiner or owner, number, and adjective in its degree."""

    noun: Noun
    determiner: str = ""
    count: int = 0
    plural: bool = False
    owner: "NounPhrase | None" = None
    adjective: Predicate | None = None
    degree: str = ""


@dataclass(frozen=True)
class Clause:
    """A predicate with its subject, tense, mode and polarity; `time` says which times suit it."""

    predicate: Predicate
    subject: NounPhrase | None = None
    recipient: NounPhrase | None = None
    tense: str = "present"
    mode: str = ""
    negative: bool = False
    degree: str = ""
    time: str = ""
