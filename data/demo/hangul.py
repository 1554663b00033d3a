"""Hangul syllables as jamo: a syllable block is arithmetic on its code point.

Unicode orders the 11,172 modern syllables by initial, then vowel, then final consonant, so that
`code = 0xAC00 + (initial * 21 + vowel) * 28 + final`.
"""

from functools import cache
from typing import NamedTuple

INITIALS = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
VOWELS = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
FINALS = ("", *"ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ")
FIRST, LAST = 0xAC00, 0xD7A3


class Syllable(NamedTuple):
    """The jamo of one syllable block; `final` is empty in an open syllable."""

    initial: str
    vowel: str
    final: str


@cache
def decompose(block: str) -> Syllable:
    """Split one syllable block into its jamo."""
    code = ord(block)
    if not FIRST <= code <= LAST:
        raise ValueError(f"not a Hangul syllable: {block!r}")
    rest, final = divmod(code - FIRST, len(FINALS))
    initial, vowel = divmod(rest, len(VOWELS))
    return Syllable(INITIALS[initial], VOWELS[vowel], FINALS[final])


def compose(syllable: Syllable) -> str:
    """Join jamo into one syllable block."""
    initial = INITIALS.index(syllable.initial)
    vowel = VOWELS.index(syllable.vowel)
    return chr(FIRST + (initial * len(VOWELS) + vowel) * len(FINALS) + FINALS.index(syllable.final))


def final_of(word: str) -> str:
    """The final consonant (batchim) of the last syllable, empty if that syllable is open."""
    return decompose(word[-1]).final


def with_final(word: str, final: str) -> str:
    """The word with the final consonant of its last syllable replaced."""
    return word[:-1] + compose(decompose(word[-1])._replace(final=final))


def with_vowel(word: str, vowel: str) -> str:
    """The word with the vowel of its last syllable replaced."""
    return word[:-1] + compose(decompose(word[-1])._replace(vowel=vowel))
