"""Korean conjugation as rules on jamo.

Endings fall into three kinds: those in 아/어, which choose by vowel harmony and contract; those in
으, which lose it after a vowel or ㄹ; and those in a consonant. Irregular stems change before the
first two kinds only. Final ㄹ (만들다), final ㅡ (크다) and 하다 follow from the shape of the stem;
the other classes cannot be told from it, and are marked in the lexicon.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum

from .hangul import decompose, final_of, with_final, with_vowel


class Level(Enum):
    """Speech levels: 하십시오체, 해요체 and 해체."""

    FORMAL = "formal"
    POLITE = "polite"
    CASUAL = "casual"


class Irregular(StrEnum):
    """Classes of stems that change before a vowel, by the sound that changes."""

    NONE = ""
    B = "ㅂ"
    B_TO_O = "ㅂ오"
    D = "ㄷ"
    S = "ㅅ"
    H = "ㅎ"
    REU = "르"
    COPULA = "이"
    NEGATIVE_COPULA = "아니"


@dataclass(frozen=True)
class Stem:
    """A stem, the dictionary form without 다; `honorific` if it ends in the suffix (으)시."""

    text: str
    irregular: Irregular = Irregular.NONE
    honorific: bool = False
    adjective: bool = False


_BRIGHT = frozenset("ㅏㅑㅗ")
_CONTRACTED = {"ㅗㅏ": "ㅘ", "ㅜㅓ": "ㅝ", "ㅣㅓ": "ㅕ", "ㅚㅓ": "ㅙ"}
_ABSORBING = frozenset(("ㅏㅏ", "ㅓㅓ", "ㅐㅓ", "ㅔㅓ", "ㅕㅓ"))


def _harmonic(syllable: str) -> str:
    """The vowel of an 아/어 ending after a syllable: ㅏ after a bright vowel, else ㅓ."""
    return "ㅏ" if decompose(syllable).vowel in _BRIGHT else "ㅓ"


def _before_vowel(stem: Stem) -> str:
    """The alternant before a vowel: 춥-, 듣-, 짓-, 빨갛- are 추우-, 들-, 지-, 빨가-."""
    match stem.irregular:
        case Irregular.B | Irregular.B_TO_O:
            return with_final(stem.text, "") + "우"
        case Irregular.D:
            return with_final(stem.text, "ㄹ")
        case Irregular.S | Irregular.H:
            return with_final(stem.text, "")
        case _:
            return stem.text


def _contract(base: str, vowel: str) -> str:
    """Add 아 or 어 to an open syllable, and fuse the two vowels where Korean does."""
    last = decompose(base[-1])
    if last.vowel + vowel in _ABSORBING:
        return base
    if last.vowel + vowel in _CONTRACTED:
        return with_vowel(base, _CONTRACTED[last.vowel + vowel])
    if last.vowel == "ㅡ":
        return with_vowel(base, _harmonic(base[-2]) if len(base) > 1 else "ㅓ")
    return base + ("아" if vowel == "ㅏ" else "어")


def _copular_infinitive(text: str) -> str:
    """이다 gives 이어, which is 여 after a vowel: 학생이어, 의사여."""
    return text + "어" if final_of(text[:-1]) else text[:-1] + "여"


def infinitive(stem: Stem) -> str:
    """The 아/어 form: 먹어, 와, 마셔, 커, 해, 추워, 도와, 들어, 지어, 빨개, 불러."""
    text, irregular = stem.text, stem.irregular
    if text[-1] == "하":
        return text[:-1] + "해"
    if irregular is Irregular.COPULA:
        return _copular_infinitive(text)
    if irregular is Irregular.NEGATIVE_COPULA:
        return text + "어"
    base = _before_vowel(stem)
    vowel = "ㅓ" if final_of(text) == "ㅆ" else _harmonic(text[-1])
    match irregular:
        case Irregular.REU:
            return with_final(text[:-1], "ㄹ") + ("라" if _harmonic(text[-2]) == "ㅏ" else "러")
        case Irregular.H:
            return with_vowel(base, "ㅒ" if decompose(base[-1]).vowel == "ㅑ" else "ㅐ")
        case Irregular.S:
            return base + ("아" if vowel == "ㅏ" else "어")
        case Irregular.B:
            return base[:-1] + "워"
        case Irregular.B_TO_O:
            return base[:-1] + "와"
    return base + ("아" if vowel == "ㅏ" else "어") if final_of(base) else _contract(base, vowel)


def with_eu(stem: Stem, ending: str) -> str:
    """Attach an ending in 으, such as 으러, 으세요, 은, 을, 읍시다.

    After a vowel or a stem's own final ㄹ the 으 falls, and what it carried closes the syllable
    before it. That ㄹ falls as well before ㄴ, ㄹ, ㅂ and ㅅ: 사는, 살 거예요, 삽시다, 사세요.
    """
    base = _before_vowel(stem)
    own_rieul = final_of(base) == "ㄹ" and stem.irregular is not Irregular.D
    open_syllable = not final_of(base) and stem.irregular is not Irregular.S
    if not own_rieul and not open_syllable:
        return base + ending
    carried, rest = decompose(ending[0]).final, ending[1:]
    drops = own_rieul and (carried or decompose(rest[0]).initial == "ㅅ")
    if drops:
        base = with_final(base, "")
    return (with_final(base, carried) if carried else base) + rest


def with_consonant(stem: Stem, ending: str) -> str:
    """Attach an ending in a consonant, such as 고, 지만, 는, 습니다.

    습 is ㅂ after a vowel or ㄹ, and ㄹ falls before ㄴ: 갑니다, 만듭니다, 만드는.
    """
    final = final_of(stem.text)
    if ending.startswith("습") and final in ("", "ㄹ"):
        return with_final(stem.text, "ㅂ") + ending[1:]
    if final == "ㄹ" and decompose(ending[0]).initial == "ㄴ":
        return with_final(stem.text, "") + ending
    return stem.text + ending


def honorific(stem: Stem) -> Stem:
    """The stem with the subject honorific (으)시; 이시 loses its 이 after a vowel: 의사시-."""
    if stem.honorific:
        return stem
    text = with_eu(stem, "으시")
    if stem.irregular is Irregular.COPULA and not final_of(stem.text[:-1]):
        text = stem.text[:-1] + "시"
    return Stem(text, honorific=True, adjective=stem.adjective)


def past(stem: Stem) -> Stem:
    """The past stem: the 아/어 form closed by ㅆ."""
    return Stem(with_final(infinitive(stem), "ㅆ"))


def copula(noun: str) -> Stem:
    """The stem of 이다 on a noun."""
    return Stem(noun + "이", Irregular.COPULA, adjective=True)


def _informal(stem: Stem, level: Level) -> str:
    """해체, and 해요체 by adding 요; the copulas and (으)시 have forms of their own."""
    polite = level is Level.POLITE
    if stem.irregular is Irregular.COPULA:
        closed = final_of(stem.text[:-1])
        shape = ("이에요" if closed else "예요") if polite else ("이야" if closed else "야")
        return stem.text[:-1] + shape
    if stem.irregular is Irregular.NEGATIVE_COPULA:
        return stem.text + ("에요" if polite else "야")
    if stem.honorific and polite:
        return stem.text[:-1] + "세요"
    return infinitive(stem) + ("요" if polite else "")


def finite(stem: Stem, level: Level, *, question: bool = False) -> str:
    """The form that ends a statement or a question; only 하십시오체 tells the two apart."""
    if level is Level.FORMAL:
        return with_consonant(stem, "습니까" if question else "습니다")
    return _informal(stem, level)


def imperative(stem: Stem, level: Level) -> str:
    """The form that ends a command: 읽으십시오, 읽으세요, 읽어."""
    if level is Level.CASUAL:
        return infinitive(stem)
    ending = "십시오" if level is Level.FORMAL else "세요"
    return stem.text[:-1] + ending if stem.honorific else with_eu(stem, "으" + ending)


def adnominal(stem: Stem, *, is_past: bool = False) -> str:
    """The form before a noun: 읽는 or, past, 읽은; adjectives 큰, but 있다 and 없다 take 는."""
    existential = stem.text[-1] in "있없"
    if existential or not (stem.adjective or is_past):
        return with_consonant(stem, "는")
    return with_eu(stem, "은")


def prospective(stem: Stem) -> str:
    """The adnominal form in (으)ㄹ, of what is possible or to come: 읽을."""
    return with_eu(stem, "을")
