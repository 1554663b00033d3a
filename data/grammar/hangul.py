"""Hangul syllables as letters: a syllable block is arithmetic on its code point.

Unicode orders the 11,172 modern syllables by initial, then vowel, then final consonant, so that
`code = 0xAC00 + (initial * 21 + vowel) * 28 + final`.
"""

INITIALS = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
VOWELS = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
FINALS = ("", *"ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ")


def decompose(block: str) -> tuple[str, str, str]:
    """Initial, vowel and final consonant of a syllable; no final (batchim) in an open one."""
    rest, final = divmod(ord(block) - 0xAC00, len(FINALS))
    initial, vowel = divmod(rest, len(VOWELS))
    return INITIALS[initial], VOWELS[vowel], FINALS[final]


def compose(initial: str, vowel: str, final: str) -> str:
    """The syllable of these letters."""
    open_ = INITIALS.index(initial) * len(VOWELS) + VOWELS.index(vowel)
    return chr(0xAC00 + open_ * len(FINALS) + FINALS.index(final))


def final_of(word: str) -> str:
    """The final consonant of the last syllable, empty if that is open."""
    return decompose(word[-1])[2]


def with_last(word: str, *, vowel: str = "", final: str = "") -> str:
    """The word whose last syllable has this final consonant, and this vowel if one is given."""
    initial, own, _ = decompose(word[-1])
    return word[:-1] + compose(initial, vowel or own, final)
