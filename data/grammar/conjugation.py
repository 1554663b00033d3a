"""Korean conjugation as rules on letters.

Endings fall into three kinds: those in 아, which is 어 by vowel harmony and contracts; those in
으, which falls after a vowel or ㄹ; and those in a consonant. Irregular stems change before the
first two. Final ㄹ (만들다), final ㅡ (크다) and 하다 follow from the shape of the stem; the other
classes cannot be told from it, and are marked in the lexicon by the sound that changes.
"""

from dataclasses import dataclass
from typing import Literal

from grammar.hangul import decompose, final_of, with_last

Level = Literal["formal", "polite", "casual", "plain"]
"""Speech levels: 하십시오체, 해요체, 해체 and, in writing, 해라체."""


@dataclass(frozen=True)
class Stem:
    """A stem, the dictionary form without 다; `irregular` is its class, of which 이 is the copula.

    It is `honorific` if it ends in the suffix (으)시. A `quality` is an adjective, or anything else
    that takes 다 and not ㄴ다 in writing.
    """

    text: str
    irregular: str = ""
    honorific: bool = False
    quality: bool = False


_BRIGHT = "ㅏㅑㅗ"
_CONTRACTED = {
    **{"ㅏㅏ": "ㅏ", "ㅓㅓ": "ㅓ", "ㅐㅓ": "ㅐ", "ㅔㅓ": "ㅔ", "ㅕㅓ": "ㅕ"},
    **{"ㅗㅏ": "ㅘ", "ㅜㅓ": "ㅝ", "ㅣㅓ": "ㅕ", "ㅚㅓ": "ㅙ"},
}


def attach(stem: Stem, ending: str) -> str:
    """The stem with an ending, which is named as after 잡: 아서, 으면, 을, 습니다, 고."""
    if ending.startswith("아"):
        return _infinitive(stem) + ending[1:]
    if ending and decompose(ending[0])[:2] == ("ㅇ", "ㅡ"):
        return _with_eu(stem, ending)
    final = final_of(stem.text)
    if ending.startswith("습") and final in ("", "ㄹ"):  # 갑니다, 만듭니다
        return with_last(stem.text, final="ㅂ") + ending[1:]
    drops = final == "ㄹ" and ending and decompose(ending[0])[0] == "ㄴ"  # 만드는
    return (with_last(stem.text) if drops else stem.text) + ending


def _harmonic(syllable: str) -> str:
    """The vowel of an ending in 아 after a syllable: ㅏ after a bright vowel, else ㅓ."""
    return "ㅏ" if decompose(syllable)[1] in _BRIGHT else "ㅓ"


def _before_vowel(stem: Stem) -> str:
    """The alternant before a vowel: 춥-, 듣-, 짓-, 빨갛- are 추우-, 들-, 지-, 빨가-."""
    match stem.irregular:
        case "ㅂ" | "ㅂ오":
            return with_last(stem.text) + "우"
        case "ㄷ":
            return with_last(stem.text, final="ㄹ")
        case "ㅅ" | "ㅎ":
            return with_last(stem.text)
    return stem.text


def _infinitive(stem: Stem) -> str:
    """The form in 아: 먹어, 와, 마셔, 커, 해, 추워, 도와, 들어, 지어, 빨개, 불러, 의사여."""
    text, base = stem.text, _before_vowel(stem)
    vowel = _harmonic(text[-1]) if final_of(text) != "ㅆ" else "ㅓ"
    ending = "아" if vowel == "ㅏ" else "어"
    match stem.irregular:
        case "이":
            return text + "어" if final_of(text[:-1]) else text[:-1] + "여"
        case "르":
            harmony = "라" if _harmonic(text[-2]) == "ㅏ" else "러"
            return with_last(text[:-1], final="ㄹ") + harmony
        case "ㅎ":
            return with_last(base, vowel="ㅒ" if decompose(base[-1])[1] == "ㅑ" else "ㅐ")
        case "ㅂ":
            return base[:-1] + "워"
        case "ㅂ오":
            return base[:-1] + "와"
    if text[-1] == "하":
        return text[:-1] + "해"
    last = decompose(base[-1])[1]
    if final_of(base) or stem.irregular in ("ㅅ", "아니"):
        return base + ending
    if last == "ㅡ":
        return with_last(base, vowel=_harmonic(base[-2]) if len(base) > 1 else "ㅓ")
    fused = _CONTRACTED.get(last + vowel)
    return with_last(base, vowel=fused) if fused else base + ending


def _with_eu(stem: Stem, ending: str) -> str:
    """Attach an ending in 으, such as 으러, 으세요, 은, 을.

    After a vowel or a stem's own final ㄹ the 으 falls, and what it carried closes the syllable
    before it. That ㄹ falls as well before ㄴ, ㄹ, ㅂ and ㅅ: 산, 살 거예요, 사세요.
    """
    base = _before_vowel(stem)
    own_rieul = final_of(base) == "ㄹ" and stem.irregular != "ㄷ"
    if not own_rieul and (final_of(base) or stem.irregular == "ㅅ"):
        return base + ending
    carried, rest = final_of(ending[0]), ending[1:]
    if own_rieul and (carried or decompose(rest[0])[0] == "ㅅ"):
        base = with_last(base)
    return (with_last(base, final=carried) if carried else base) + rest


def honorific(stem: Stem) -> Stem:
    """The stem with the subject honorific (으)시; 이시 loses its 이 after a vowel: 의사시-."""
    if stem.honorific:
        return stem
    drops = stem.irregular == "이" and not final_of(stem.text[:-1])
    text = stem.text[:-1] + "시" if drops else attach(stem, "으시")
    return Stem(text, honorific=True, quality=stem.quality)


def past(stem: Stem) -> Stem:
    """The past stem: the form in 아 closed by ㅆ."""
    return Stem(with_last(_infinitive(stem), final="ㅆ"), quality=True)


def finite(stem: Stem, level: Level, *, question: bool = False) -> str:
    """The form that ends a statement or a question; only 하십시오체 tells the two apart."""
    closed = stem.irregular == "이" and final_of(stem.text[:-1])
    match level, stem.irregular:
        case "formal", _:
            return attach(stem, "습니까" if question else "습니다")
        case "plain", _:
            return _written(stem)
        case "polite", "이":
            return stem.text[:-1] + ("이에요" if closed else "예요")
        case "polite", "아니":
            return stem.text + "에요"
        case "polite", _ if stem.honorific:
            return stem.text[:-1] + "세요"
        case "casual", "이" | "아니":
            return (stem.text if closed or stem.irregular == "아니" else stem.text[:-1]) + "야"
    return attach(stem, "아요" if level == "polite" else "아")


def _written(stem: Stem) -> str:
    """해라체: 먹는다, 간다, 만든다; 크다, 있다, 먹었다; 학생이다, but 의사다."""
    if stem.irregular == "이" and not final_of(stem.text[:-1]):
        return stem.text[:-1] + "다"
    if stem.quality or stem.text[-1] in "있없":
        return stem.text + "다"
    is_open = final_of(stem.text) in ("", "ㄹ")
    return with_last(stem.text, final="ㄴ") + "다" if is_open else stem.text + "는다"


def adnominal(stem: Stem, *, is_past: bool = False) -> str:
    """The form before a noun: 읽는 or, past, 읽은; 큰, but 있는 and 없는; 새 does not inflect."""
    if stem.text == "새":
        return stem.text
    present = stem.text[-1] in "있없" or not (stem.quality or is_past)
    return attach(stem, "는" if present else "은")
