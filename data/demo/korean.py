"""Korean particles and numerals.

Particles choose their shape by the final consonant of the noun. Numbers come in two series: the
native one counts things and hours, the Sino-Korean one serves dates, minutes and money.
"""

from enum import StrEnum

from .hangul import final_of


class Particle(StrEnum):
    """Particles, written `shape after a consonant/shape after a vowel` where they alternate."""

    TOPIC = "은/는"
    NOMINATIVE = "이/가"
    HONORIFIC_NOMINATIVE = "께서"
    ACCUSATIVE = "을/를"
    COMITATIVE = "과/와"
    INSTRUMENTAL = "으로/로"
    VOCATIVE = "아/야"
    GENITIVE = "의"
    LOCATIVE = "에"
    ABLATIVE = "에서"
    DATIVE = "에게"
    CASUAL_DATIVE = "한테"
    HONORIFIC_DATIVE = "께"
    THAN = "보다"


_FUSED = {
    ("저", Particle.NOMINATIVE): "제가",
    ("나", Particle.NOMINATIVE): "내가",
    ("누구", Particle.NOMINATIVE): "누가",
    ("뭐", Particle.ACCUSATIVE): "뭘",
}


def attach(noun: str, particle: Particle) -> str:
    """Attach a particle; (으)로 treats a final ㄹ as a vowel, and some pronouns fuse with 가."""
    if (noun, particle) in _FUSED:
        return _FUSED[noun, particle]
    after_consonant, _, after_vowel = particle.value.partition("/")
    final = final_of(noun)
    if not after_vowel or (final and not (particle is Particle.INSTRUMENTAL and final == "ㄹ")):
        return noun + after_consonant
    return noun + after_vowel


_DIGITS = ("", "일", "이", "삼", "사", "오", "육", "칠", "팔", "구")
_UNITS = ("", "십", "백", "천")
_MYRIADS = ("", "만", "억")
_NATIVE_ONES = ("", "하나", "둘", "셋", "넷", "다섯", "여섯", "일곱", "여덟", "아홉")
_NATIVE_TENS = ("", "열", "스물", "서른", "마흔", "쉰", "예순", "일흔", "여든", "아흔")
_PRENOMINAL = {"하나": "한", "둘": "두", "셋": "세", "넷": "네", "스물": "스무"}
_MONTHS = {6: "유월", 10: "시월"}


def _sino_group(number: int) -> str:
    """A number below 10,000: a digit before each unit, but 일 is silent before 십, 백 and 천."""
    parts = []
    for power in (3, 2, 1, 0):
        digit = number // 10**power % 10
        if digit:
            parts.append(("" if digit == 1 and power else _DIGITS[digit]) + _UNITS[power])
    return "".join(parts)


def sino(number: int) -> str:
    """The Sino-Korean numeral, grouped by ten thousands: 12,500 is 만 이천오백."""
    if not 0 < number < 10**12:
        raise ValueError(f"no Sino-Korean numeral for {number}")
    groups = list[str]()
    for index, unit in reversed(list(enumerate(_MYRIADS))):
        group = number // 10 ** (4 * index) % 10**4
        if group:
            bare = group == 1 and unit == "만" and not groups
            groups.append(("" if bare else _sino_group(group)) + unit)
    return " ".join(groups)


def native(number: int) -> str:
    """The native numeral, as said when counting aloud: 21 is 스물하나."""
    if not 0 < number < 100:
        raise ValueError(f"no native numeral for {number}")
    return _NATIVE_TENS[number // 10] + _NATIVE_ONES[number % 10]


def native_prenominal(number: int) -> str:
    """The native numeral before a counter: its last member shortens, so 1 is 한 and 20 is 스무."""
    last = _NATIVE_ONES[number % 10] or _NATIVE_TENS[number // 10]
    return native(number).removesuffix(last) + _PRENOMINAL.get(last, last)


def month(number: int) -> str:
    """The name of a month: the Sino-Korean numeral and 월, with 유월 and 시월 worn down."""
    return _MONTHS.get(number, sino(number) + "월")
