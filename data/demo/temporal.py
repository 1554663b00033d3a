"""Time phrases and adverbs, each written once with the words of both sides tied by keys.

Clock times take native hours and Sino-Korean minutes, 반 for half past; dates are Sino-Korean.
Weeks, years and minutes ago are counted in Sino-Korean numerals, hours and months in native ones.
"""

from .english import cardinal, ordinal
from .korean import month, native_prenominal, sino
from .meaning import Adverb

_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August"),
    *("September", "October", "November", "December"),
)
WEEKDAYS = {
    "Monday": "월요일",
    "Tuesday": "화요일",
    "Wednesday": "수요일",
    "Thursday": "목요일",
    "Friday": "금요일",
    "Saturday": "토요일",
    "Sunday": "일요일",
}
MERIDIEMS = {"morning": "오전", "afternoon": "오후"}
MONTHS = len(_MONTHS)


def tied(text: str) -> Adverb:
    """Read `word/keys word/keys = eojeol/keys`; a word without keys realises nothing."""
    sides = []
    for side in text.split("="):
        cells = [word.partition("/") for word in side.split()]
        sides.append(tuple((word, keys) for word, _, keys in cells))
    return Adverb(sides[0], sides[1])


def _read(table: str) -> tuple[Adverb, ...]:
    return tuple(tied(row) for row in table.strip().splitlines())


PAST = _read("""
yesterday/a = 어제/a
last/a night/a = 어젯밤에/a
last/a week/b = 지난주에/ab
last/a month/b = 지난달에/ab
last/a year/b = 작년에/ab
yesterday/a morning/b = 어제/a 아침에/b
yesterday/a evening/b = 어제/a 저녁에/b
this/a morning/b = 오늘/a 아침에/b
last/a weekend/b = 지난/a 주말에/b
""")
FUTURE = _read("""
tomorrow/a = 내일/a
next/a week/b = 다음/a 주에/b
next/a month/b = 다음/a 달에/b
next/a year/b = 내년에/ab
tomorrow/a morning/b = 내일/a 아침에/b
tomorrow/a evening/b = 내일/a 저녁에/b
this/a weekend/b = 이번/a 주말에/b
tonight/a = 오늘/a 밤에/a
""")
HABITUAL = _read("""
every/a day/b = 매일/ab
every/a morning/b = 매일/a 아침/b
every/a evening/b = 매일/a 저녁/b
every/a week/b = 매주/ab
on/b weekends/a = 주말에/ab
on/b Mondays/a = 월요일마다/ab
on/b Fridays/a = 금요일마다/ab
on/b Sundays/a = 일요일마다/ab
""")
HABITS = _read("""
often/a = 자주/a
always/a = 항상/a
usually/a = 보통/a
sometimes/a = 가끔/a
""")
SOON = _read("""
tomorrow/a = 내일/a
tonight/a = 오늘/a 밤에/a
this/a weekend/b = 이번/a 주말에/b
next/a week/b = 다음/a 주에/b
tomorrow/a morning/b = 내일/a 아침에/b
""")
LATELY = _read("""
yesterday/a = 어제/a
last/a night/a = 어젯밤에/a
last/a weekend/b = 지난/a 주말에/b
this/a morning/b = 오늘/a 아침에/b
""")
NOW = tied("now/a = 지금/a")
TODAY = tied("today/a = 오늘/a")
YESTERDAY = tied("yesterday/a = 어제/a")
TOMORROW = tied("tomorrow/a = 내일/a")
TOGETHER = tied("together/a = 같이/a")
SO = tied("So/a = 그래서/a")
AND = tied("And/a = 그리고/a")
HOWEVER = tied("However,/a = 하지만/a")
_UNITS = {
    "minute": ("분", sino),
    "hour": ("시간", native_prenominal),
    "week": ("주", sino),
    "month": ("달", native_prenominal),
    "year": ("년", sino),
}
AGO_UNITS = tuple(_UNITS)


def question(word: str, korean: str) -> Adverb:
    """A question adverb: when, why."""
    keys = tuple((part, "a") for part in word.split())
    return Adverb(keys, tuple((part, "a") for part in korean.split()), interrogative=True)


def then(first: Adverb, second: Adverb) -> Adverb:
    """Two phrases as one, the larger span first in Korean and last in English."""
    upper = _with_upper_keys(first)
    return Adverb(second.english + upper.english, upper.korean + second.korean)


def _with_upper_keys(adverb: Adverb) -> Adverb:
    english = tuple((word, keys.upper()) for word, keys in adverb.english)
    return Adverb(english, tuple((word, keys.upper()) for word, keys in adverb.korean))


def on_weekday(day: str) -> Adverb:
    """On Monday: 월요일에."""
    return tied(f"on/r {day}/d = {WEEKDAYS[day]}에/rd")


def on_date(number: int, day: int) -> Adverb:
    """On June third: 유월 삼일에."""
    english = f"on/r {_MONTHS[number - 1]}/m {ordinal(day)}/d"
    return tied(f"{english} = {month(number)}/m {sino(day)}일에/rd")


def ago(number: int, unit: str) -> Adverb:
    """Three weeks ago: 삼 주 전에."""
    counter, numeral = _UNITS[unit]
    name = unit if number == 1 else unit + "s"
    english = f"{cardinal(number)}/n {name}/u ago/a"
    return tied(f"{english} = {numeral(number)}/n {counter}/u 전에/a")


def _hour(hour: int, minute: int) -> tuple[str, str]:
    """The hour and minute on each side, with 반 for half past and Sino-Korean minutes."""
    english, korean = cardinal(hour), native_prenominal(hour)
    if minute == 0:
        return f"{english}/h o'clock/c", f"{korean}/h 시/c"
    if minute == 30:
        return f"half/m past/m {english}/h", f"{korean}/h 시/h 반/m"
    return f"{english}/h {cardinal(minute)}/m", f"{korean}/h 시/h {sino(minute)}/m 분/m"


def clock(hour: int, minute: int, meridiem: str = "") -> Adverb:
    """At half past three in the afternoon: 오후 세 시 반에."""
    english, korean = _hour(hour, minute)
    if meridiem:
        english = f"{english} in/p the {meridiem}/p"
        korean = f"{MERIDIEMS[meridiem]}/p {korean}"
    head, _, key = korean.rpartition("/")
    return tied(f"at/r {english} = {head}에/{key}r")


def from_to(first: str, last: str) -> Adverb:
    """From Monday to Friday: 월요일부터 금요일까지."""
    english = f"from/r {first}/f to/s {last}/l"
    return tied(f"{english} = {WEEKDAYS[first]}부터/fr {WEEKDAYS[last]}까지/ls")


def hours(opening: int, closing: int) -> Adverb:
    """From nine o'clock to six o'clock: 아홉 시부터 여섯 시까지."""
    english = f"from/r {cardinal(opening)}/f o'clock/c to/s {cardinal(closing)}/l o'clock/d"
    korean = f"{native_prenominal(opening)}/f 시부터/cr {native_prenominal(closing)}/l 시까지/ds"
    return tied(f"{english} = {korean}")
