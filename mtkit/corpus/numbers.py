"""Do the numbers of two sides contradict each other?

A number may be written in words on one side, in other digits, with other separators, as a time of
12 or 24 hours, as a year of two digits, as thousands or as ten thousands: none of that accuses.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import chain, product

_DIGITS = re.compile(r"\d")
_GROUPED = re.compile(r"(?<![\d.,])\d{1,3}(?:[ \u00a0\u202f'’]\d{3})+(?!\d)")
_NUMBER = re.compile(r"\d+(?:[.,٫٬]\d+)*")
_SEPARATOR = re.compile(r"[.,٫٬]")
NUMERALS = re.compile("[〇零一二三四五六七八九十百千万億亿萬兩两]")
"""Numbers in characters, which say the same in other letters."""
_IN_TEN_THOUSANDS = re.compile(r"\d\s?[千万萬億亿兆천만억조]")
TELLING_DIGITS = 3
"""A number of so many digits, ends of zeros aside, is seldom written in words."""
OTHER_ERAS = (543, 621, 622)
"""Years that are between ours and those of Thailand (1970 is 2513), and of Iran (2020 is 1399)."""
ERAS = {
    **{"明治": 1867, "大正": 1911, "昭和": 1925, "平成": 1988, "令和": 2018},
    **{"民國": 1911, "民国": 1911},
}
"""The year before the first one of each: 平成30年 is 2018."""
_TIME = re.compile(r"\b\d{1,2}[:.hH][0-5]\d\b")
LONGEST_AMOUNT = 20
"""Digits: what has more is no amount that somebody would say in parts."""
MOST_NUMBERS = 50
"""More on one side are a table and not looked at one by one."""


def numbers_differ(source: str, target: str) -> bool:
    """Whether either side has a number that the other contradicts, or cannot have in words."""
    if not (_DIGITS.search(source) or _DIGITS.search(target)):
        return False
    ours, theirs = _numbers(source), _numbers(target)
    if ours == theirs or _all_digits(source) == _all_digits(target):
        return False
    left, right = ours - theirs, theirs - ours
    if max(len(left), len(right)) > MOST_NUMBERS:
        return True
    same = _same_but_for_zeros if _IN_TEN_THOUSANDS.search(source + target) else _same
    explained = {n for a in left for b in right if same(a, b) or same(b, a) for n in (a, b)}
    eras = [before for name, before in ERAS.items() if name in source or name in target]
    are_times = _TIME.search(source) is not None and _TIME.search(target) is not None
    across = chain(product(left, theirs), product(right, ours))
    explained |= {a for a, b in across if _of_era(a, b, eras) or (are_times and _of_one_time(a, b))}
    explained.update(_put_together(left - explained, right - explained))
    explained.update(_put_together(right - explained, left - explained))
    left, right = left - explained, right - explained
    if left and right:
        return True
    spelled = NUMERALS.search(target if left else source) is not None
    return not spelled and any(len(number.strip("0")) >= TELLING_DIGITS for number in left | right)


def _numbers(text: str) -> set[str]:
    """The numbers as ASCII digits without separators, leading zeros, and zeros alone."""
    text = _GROUPED.sub(lambda found: re.sub(r"\D", "", found[0]), _ascii(text))
    text = text.replace("元年", "1年")
    found: set[str] = set()
    for number in _NUMBER.findall(text):
        first, *more = _SEPARATOR.split(number)
        if more and all(len(group) == 3 for group in more):  # thousands
            found.add("".join((first, *more)).lstrip("0"))
        elif len(more) == 1:  # a fraction
            found |= {first.lstrip("0"), more[0].rstrip("0").lstrip("0")}
        else:
            found |= {group.lstrip("0") for group in (first, *more)}
    return found - {""}


def _ascii(text: str) -> str:
    if text.isascii():
        return text
    return "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in text)


def _all_digits(text: str) -> str:
    return "".join(_DIGITS.findall(_ascii(text)))


def _put_together(wholes: set[str], parts: set[str]) -> Iterator[str]:
    """The numbers that two others say, as 2만 5천 and 2.5万 say 25,000; and those others."""
    ends = {part.rstrip("0"): part for part in parts}
    for whole in wholes:
        digits = whole.rstrip("0")
        for place in range(1, min(len(digits), LONGEST_AMOUNT)):
            one, other = digits[:place], ends.get(digits[place:], "")
            if one in parts and other not in ("", one):
                yield from (whole, one, other)


def _of_one_time(a: str, b: str) -> bool:
    """Whether they may be of 8:20 and 20.20, whose minutes look like a fraction."""
    if len(a) > 2 or len(b) > 2:
        return False
    return a.rstrip("0") == b.rstrip("0") or abs(int(a) - int(b)) == 12


def _of_era(a: str, b: str, eras: list[int]) -> bool:
    """Whether one is a year of ours, and the other the same in one of the eras."""
    short, long = sorted((a, b), key=len)
    return len(short) < len(long) == 4 and int(long) - int(short) in eras


def _same_but_for_zeros(a: str, b: str) -> bool:
    """As `_same`; or as 25万 says 250 thousand, and 30亿 says 3 billion."""
    return a.rstrip("0") == b.rstrip("0") or _same(a, b)


def _same(a: str, b: str) -> bool:
    """Whether `a` may be another way to write `b`."""
    if len(a) <= 2 and len(b) <= 2:
        return int(b) - int(a) == 12 and int(b) <= 24  # 3 pm, 15 h
    if len(b) == 4 and len(a) == 2 and b.endswith(a):  # '98, 1998
        return True
    if len(a) == len(b) == 4 and int(b) - int(a) in OTHER_ERAS:
        return True
    return b.rstrip("0") == a.rstrip("0") and len(b) - len(a) >= 2  # 3 thousand, 3000
