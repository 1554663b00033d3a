"""The Korean side: how noun phrases and predicates are said.

A predicate is a chain of stems, each of which takes the ending that the next one asks for: the word
itself, auxiliaries of mode, negation. The last one carries the subject's honour, tense and level.
"""

from dataclasses import replace
from itertools import pairwise

from grammar.conjugation import Level, Stem, adnominal, attach, finite, honorific, past
from grammar.hangul import final_of
from grammar.meaning import Clause, NounPhrase, Word, words
from grammar.numerals import native

_AFTER_VOWEL = {"은": "는", "이": "가", "을": "를", "과": "와", "아": "야", "으로": "로"}
_FUSED = {"저가": "제가", "나가": "내가", "누구가": "누가", "뭐를": "뭘"}
_FAMILIAR = ("casual", "plain")
_DETERMINERS = {"this": "이", "that": "그"}
_DEGREES = {"very": "아주", "really": "정말", "more": "더", "most": "가장"}
_FUTURE = {"polite": "거예요", "casual": "거야", "plain": "것이다"}
_ENDINGS = {"고": "고", "서": "아서", "면": "으면", "러": "으러"}
_PROPOSAL = {"formal": "지요", "polite": "아요", "casual": "자"}
_COMMAND = {"formal": "으십시오", "polite": "으세요", "casual": "아"}
Link = tuple[str, Stem, tuple[str, ...]]
"""What a stem of a chain asks of the one before it, the stem, and the keys of what it says."""


def with_particle(noun: str, particle: str) -> str:
    """A noun with its particle; those that alternate are named as after a consonant.

    (으)로 treats a final ㄹ as a vowel, and some pronouns fuse with theirs.
    """
    if final_of(noun) in (("", "ㄹ") if particle == "으로" else ("",)):
        particle = _AFTER_VOWEL.get(particle, particle)
    return _FUSED.get(noun + particle, noun + particle)


def noun_phrase(phrase: NounPhrase, particle: str, level: Level) -> list[Word]:
    """A noun phrase with its particle; nothing where Korean leaves the noun out.

    A number stands behind the particle of an object or new subject: 책을 세 권. What is counted is
    no topic: 학생 세 명이. People are honoured by 께서 and 께.
    """
    noun = phrase.noun
    if not noun.korean:
        return []
    quantity = _quantity(phrase)
    name = noun.familiar if level in _FAMILIAR else noun.korean
    if noun.group == "name" and level == "casual" and particle != "아" and final_of(name):
        name += "이"  # 지훈이는, but to call him 지훈아
    if phrase.plural and noun.counter == "명" and not quantity:
        name += "들"
    said = _determiner(phrase, level) + words(_DEGREES.get(phrase.degree, ""), "degree")
    if adjective := phrase.adjective:
        said += words(f"{adjective.prefix} {adnominal(adjective.stem)}", "adjective")
    said += words(name, "head")
    floating = quantity if particle in ("을", "이") else []
    *before, last = said if floating else said + quantity
    if quantity and particle == "은":
        particle = "이"
    if noun.honored:
        particle = {"에게": "께", "이": "께서"}.get(particle, particle)
    elif particle == "에게" and level == "casual":
        particle = "한테"
    keys = last.keys | ({"relation"} if particle else set())
    return [*before, Word(with_particle(last.text, particle), keys), *floating]


def _determiner(phrase: NounPhrase, level: Level) -> list[Word]:
    """A family's elders are 우리, ours, and not 제, mine; the articles are not said."""
    if phrase.owner:
        return [word.under("owner") for word in noun_phrase(phrase.owner, "의", level)]
    mine = "우리" if phrase.noun.honored else "내" if level in _FAMILIAR else "제"
    return words((_DETERMINERS | {"my": mine}).get(phrase.determiner, ""), "determiner")


def _quantity(phrase: NounPhrase) -> list[Word]:
    """A native number, or 몇, and the counter: 세 권."""
    asked = phrase.determiner == "how many"
    if not asked and not phrase.count:
        return []
    number = words("몇", "determiner") if asked else words(native(phrase.count), "count")
    return number + words(phrase.noun.counter, "measure" if phrase.noun.container else "head")


def predicate(clause: Clause, form: str, level: Level, host: str = "") -> list[Word]:
    """The predicate of a clause, ended by `form`.

    That is an ending (고, 지만, 서, 면, 러, 는), `?`, `!` for a command, 자 for a proposal, or
    nothing for a statement. The copula leans on a word: its `host`. (으)시 honours elders, teachers
    and titled people, and whom one addresses formally.
    """
    noun = clause.subject.noun if clause.subject else None
    addressed = form == "자" or (noun is not None and noun.english == "you")
    honored = bool(noun and noun.honored) or (addressed and level == "formal")
    degree = words(_DEGREES.get(clause.degree, ""), "degree")
    said = [*words(clause.predicate.prefix, "head"), *degree]
    chain = [_stem(clause, honored, host), *_mode(clause, honored)]
    if clause.negative and not any("negation" in keys for _, _, keys in chain):
        short, long = _negation(clause, chain[-1][1], form, level)
        said, chain = said + short, chain + long
    for (_, stem, keys), (asks, _, _) in pairwise(chain):
        stem = honorific(stem) if honored and asks in ("아야", "아도") else stem
        said.append(Word(attach(stem, asks), frozenset(keys)))
    _, stem, keys = chain[-1]
    if honored and clause.mode != "obligation" and form != "러":
        stem = honorific(stem)
    ended, *future = _ended(clause, stem, form, level).split()
    return [*said, Word(ended, frozenset({*keys, "finite"})), *words(" ".join(future), "finite")]


def _stem(clause: Clause, honored: bool, host: str) -> Link:
    """The stem of the predicate itself, or the one that replaces it."""
    entry, recipient, head = clause.predicate, clause.recipient, ("head",)
    if honored and entry.honorific:
        return "", replace(entry.honorific, honorific=True), head
    if clause.negative and entry.negative and not clause.mode:
        return "", entry.negative, ("head", "negation")
    if entry.humble and recipient and recipient.noun.honored:
        return "", entry.humble, head
    if entry.stem.irregular == "이":
        return "", replace(entry.stem, text=host + entry.stem.text), head
    return "", entry.stem, head


def _mode(clause: Clause, honored: bool) -> list[Link]:
    """Aspect and modality: -고 있다, -고 싶다, -(으)ㄹ 수 있다, -아야 하다, -지 않아도 되다."""
    modal = ("modal",)
    match clause.mode:
        case "progressive":
            known = honored and not clause.negative  # 가고 계세요, but 가고 있지 않으세요
            auxiliary = Stem("계시", honorific=True) if known else Stem("있", quality=True)
            return [("고", auxiliary, ("finite",))]
        case "desire":
            own = clause.subject is None or clause.subject.noun.english in ("I", "we", "you")
            wish = ("고", Stem("싶", quality=True), modal)
            return [wish] if own else [wish, ("아", Stem("하"), modal)]
        case "obligation" if clause.negative:
            return [("지", Stem("않"), ("negation",)), ("아도", Stem("되"), modal)]
        case "obligation":
            return [("아야", Stem("하"), modal)]
        case "ability" if not _is_unable(clause):
            keys = ("modal", "negation") if clause.negative else modal
            able = Stem("없" if clause.negative else "있", quality=True)
            return [("을", Stem("수"), modal), ("", able, keys)]
    return []


def _is_unable(clause: Clause) -> bool:
    """Past inability is 못, present inability -(으)ㄹ 수 없다."""
    return clause.mode == "ability" and clause.negative and clause.tense == "past"


def _negation(clause: Clause, stem: Stem, form: str, level: Level) -> tuple[list[Word], list[Link]]:
    """The word 안 or 못 before a verb, or the long negation -지 않다, -지 못하다, -지 마.

    That one is natural with commands, adjectives, auxiliaries, verbs in 하다, and in formal or
    written speech.
    """
    keys = ("negation", "modal") if _is_unable(clause) else ("negation",)
    auxiliary = clause.mode in ("progressive", "desire")
    light = len(stem.text) > 1 and stem.text.endswith("하")
    if form == "!":
        return [], [("지", Stem("마"), keys)]
    if stem.quality or auxiliary or light or level in ("formal", "plain"):
        refusal = Stem("못하") if _is_unable(clause) else Stem("않", quality=stem.quality)
        return [], [("지", refusal, keys)]
    return words("못" if _is_unable(clause) else "안", *keys), []


def _ended(clause: Clause, stem: Stem, form: str, level: Level) -> str:
    """The last stem with its ending; -고, -(아/어)서, -(으)면 and -(으)러 have no tense."""
    is_past, is_future = clause.tense == "past", clause.tense == "future"
    match form:
        case "고" | "서" | "면" | "러":
            return attach(stem, _ENDINGS[form])
        case "!":
            return attach(stem, _COMMAND[level])
        case "자":
            return attach(stem, _PROPOSAL[level])
        case "는":
            return attach(stem, "을") if is_future else adnominal(stem, is_past=is_past)
        case _ if is_future:
            future = _FUTURE.get(level, "겁니까" if form == "?" else "겁니다")
            return f"{attach(stem, '을')} {future}"
    tensed = past(stem) if is_past else stem
    return attach(tensed, "지만") if form == "지만" else finite(tensed, level, question=form == "?")
