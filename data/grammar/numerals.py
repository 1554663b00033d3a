"""Numerals in words.

Korean has two series: the native one counts things and hours, the Sino-Korean one serves dates,
minutes and money.
"""

_ONES = (
    *("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"),
    *("twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_ORDINALS = {"one": "first", "two": "second", "three": "third", "five": "fifth"}
_ORDINALS |= {"eight": "eighth", "nine": "ninth", "twelve": "twelfth"}
_DIGITS = ("", "일", "이", "삼", "사", "오", "육", "칠", "팔", "구")
_UNITS = ((10**4, "만 "), (1000, "천"), (100, "백"), (10, "십"))
_NATIVE_ONES = ("", "한", "두", "세", "네", "다섯", "여섯", "일곱", "여덟", "아홉")
_NATIVE_TENS = ("", "열", "스물", "서른", "마흔", "쉰", "예순", "일흔", "여든", "아흔")


def cardinal(number: int) -> str:
    """A positive English number below one million: twelve thousand five hundred."""
    for unit, name in ((1000, "thousand"), (100, "hundred")):
        if number >= unit:
            many, rest = divmod(number, unit)
            return f"{cardinal(many)} {name} {cardinal(rest)}".strip()
    if number < len(_ONES):
        return _ONES[number]
    return f"{_TENS[number // 10]}-{_ONES[number % 10]}".strip("-")


def ordinal(number: int) -> str:
    """The ordinal of a number below one hundred: twelfth, twentieth, twenty-first."""
    head, hyphen, last = cardinal(number).rpartition("-")
    regular = last[:-1] + "ieth" if last.endswith("y") else last + "th"
    return head + hyphen + _ORDINALS.get(last, regular)


def sino(number: int) -> str:
    """A positive Sino-Korean number below 10^8: 12,500 is 만 이천오백.

    A digit stands before each unit, but 일 is silent before 만, 십, 백 and 천.
    """
    for unit, name in _UNITS:
        if number >= unit:
            many, rest = divmod(number, unit)
            return (("" if many == 1 else sino(many)) + name + sino(rest)).strip()
    return _DIGITS[number]


def native(number: int) -> str:
    """A native Korean number below 100 as it stands before a counter: 한, 스무, 스물한."""
    return "스무" if number == 20 else _NATIVE_TENS[number // 10] + _NATIVE_ONES[number % 10]
