"""The verbs and adjectives, with the nouns that each may combine with."""

from typing import Any

from .conjugation import Irregular, Stem
from .lexicon import Kind, Predicate, read_pairs, read_stem
from .nouns import nouns

# english/past | stem/irregular | objects | places
_TRANSITIVE = """
eat/ate | 먹 | fruit, dish, food | restaurant, kitchen, park, living_room
drink/drank | 마시 | drink, bottle | cafe, kitchen, living_room, garden
read/read | 읽 | book, mail | room, living_room, cafe, park, library
write/wrote | 쓰 | mail, novel, postcard | room, cafe, office, library
buy/bought | 사 | fruit, vegetable, book, garment, footwear, hat, thing, tool, flower | store
sell/sold | 팔 | fruit, vegetable, flower, book, tool | market, store
make/made | 만들 | chair, desk, box, doll, bag, salad, cake, pizza, kimchi | room, kitchen
bake/baked | 굽/ㅂ | bread, cake, potato | kitchen, bakery
watch/watched | 보 | film, game | living_room, theater, room
look_for/looked_for | 찾 | thing, tool, book, footwear, hat | room, living_room, office, park
lose/lost | 잃어버리 | thing, gloves, camera, ticket, hat | park, station, airport, market
wash/washed | 씻 | fruit, carrot, tomato, cup, knife | kitchen
peel/peeled | 깎 | apple, pear, persimmon | kitchen, living_room
learn/learned | 배우 | subject, language, racket | university, company
listen_to/listened_to | 듣/ㄷ | music, song, radio | room, living_room, cafe, garden
sing/sang | 부르/르 | song | park, theater, room
play/played | 하 | sport | park, gym, yard
play/played | 치 | instrument | living_room, room
play/played | 치 | racket | park, gym
use/used | 쓰 | computer, laptop, camera, tool, umbrella | office, library, room
fix/fixed | 고치 | car, bike, machine, watch | yard, office
open/opened | 열 | opening, box | classroom, room, office
close/closed | 닫 | opening | classroom, room, office
turn_on/turned_on | 켜 | computer, laptop, radio, television | room, living_room, office
turn_off/turned_off | 끄 | computer, laptop, radio, television | room, living_room, office
meet/met | 만나 | name, worker, person | cafe, park, station, restaurant, airport
help/helped | 돕/ㅂ오 | name, person, sibling | hospital, library, kitchen, airport
wait_for/waited_for | 기다리 | name, person, bus, ride | station, park, airport
choose/chose | 고르/르 | book, garment, footwear, ring, flower, hat | department_store
draw/drew | 그리 | pet, beast, flower, mountain, house | room, park, garden, zoo
take/took | 찍 | photo | park, beach, museum, zoo
borrow/borrowed | 빌리 | book, umbrella, pen, camera | library, hotel, university
raise/raised | 기르/르 | pet, cow, horse, pig | yard, garden
see/saw | 보 | pet, beast, name | zoo, park, market
ride/rode | 타 | bike, horse | park, beach
drive/drove | 몰 | car | beach
build/built | 짓/ㅅ | building | -
finish/finished | 끝내 | task | library, room
bring/brought | 가져오 | thing, book, umbrella, chair, fruit | -
throw/threw | 던지 | ball | park, yard
catch/caught | 잡 | ball | park, beach
kick/kicked | 차 | ball | park, yard
pick_up/picked_up | 줍/ㅂ | wallet, ring, key, ball, ticket, photo | station, park, beach
touch/touched | 만지 | pet, doll, instrument | zoo, room, garden
carry/carried | 나르/르 | box, furniture, bag | office, room
show/showed | 보여주 | photo, map, ring, letter | -
"""

_LIGHT = """
cook/cooked | 요리하 | fish, meat, bulgogi | kitchen, restaurant
study/studied | 공부하 | subject, language | library, room, cafe, university
clean/cleaned | 청소하 | room, kitchen, living_room, classroom, office, garden, yard | -
practice/practiced | 연습하 | instrument, song | room, living_room
practice/practiced | 연습하 | sport, racket | gym, park
invite/invited | 초대하 | name, friend, neighbor, cousin | -
prepare/prepared | 준비하 | meal, party | kitchen, company
visit/visited | 방문하 | city, country, museum, library, hospital, company | -
"""

_INTRANSITIVE = """
sleep/slept | 자 | | room, living_room, hotel
rest/rested | 쉬 | | room, living_room, park, garden, cafe, beach
walk/walked | 걷/ㄷ | | park, beach, garden
run/ran | 뛰 | | park, beach, gym, yard
cry/cried | 울 | | room, hospital, airport
laugh/laughed | 웃 | | room, classroom, office
play/played | 놀 | | park, yard, beach, garden
"""

# A noun and a verb in one: only the long negation is natural.
_LIGHT_INTRANSITIVE = """
work/worked | 일하 | | shop, eatery, hospital, bank, library, office, company, city
swim/swam | 수영하 | | swimming_pool, beach
exercise/exercised | 운동하 | | gym, park, beach
dance/danced | 춤추 | | theater, park, hotel
shop/shopped | 쇼핑하 | | department_store, market
"""

_DITRANSITIVE = """
give/gave | 주 | flower, book, fruit, thing, garment
send/sent | 보내 | mail, photo, postcard, book, flower
lend/lent | 빌려주 | book, umbrella, pen, camera, bicycle
show/showed | 보여주 | photo, map, ring, letter, book, ticket
teach/taught | 가르치 | subject, language, racket
sell/sold | 팔 | fruit, flower, book, bicycle, computer
"""

_STATIVE = """
like/liked | 좋아하 | fruit, dish, food, drink, bottle, flower, pet, beast, film, sport, music
hate/hated | 싫어하 | onion, carrot, kimchi, fish, beer, cola, subject, racket, sport
know/knew | 알 | name, worker, student, neighbor, song
understand/understood | 이해하 | issue
remember/remembered | 기억하 | name, song, house, movie
"""

# english | stem/irregular | nouns it describes
_ADJECTIVES = """
big | 크 | pet, beast, thing, garment, room, shop, building, opening, furniture, fruit
small | 작 | pet, thing, garment, room, shop, house, opening, furniture, vegetable
expensive | 비싸 | book, garment, footwear, thing, machine, hat, car, bike, restaurant, ticket
cheap | 싸 | book, garment, footwear, thing, tool, fruit, vegetable, hat, restaurant, ticket
heavy | 무겁/ㅂ | box, bag, dictionary, furniture, laptop, instrument, camera, washing_machine
light | 가볍/ㅂ | bag, laptop, chair, camera, coat, sneakers, umbrella
long | 길 | film, letter, bridge, road, river, pencil, coat, skirt, novel, meeting
short | 짧 | film, letter, bridge, pencil, skirt, song, novel, meeting, concert
beautiful | 아름답/ㅂ | flower, city, mountain, river, song, beach, garden, museum, bridge
pretty | 예쁘 | garment, flower, doll, ring, hat, cafe, postcard, child, cup, puppy
cute | 귀엽/ㅂ | pet, doll, child, duck, monkey, elephant
delicious | 맛있 | fruit, dish, food, drink
spicy | 맵/ㅂ | kimchi, ramen, soup, curry
sweet | 달 | fruit, cake, chocolate, juice
fresh | 신선하 | fruit, vegetable, milk, fish, salad, juice
interesting | 재미있 | book, film, game, class, subject
boring | 지루하 | novel, film, meeting, class, game, concert
difficult | 어렵/ㅂ | subject, language, exam, issue, homework
easy | 쉽/ㅂ | subject, language, exam, issue, homework
important | 중요하 | meeting, exam, issue, game, letter, subject
famous | 유명하 | singer, writer, painter, actor, athlete, scientist, restaurant, city, song, museum
kind | 친절하 | worker, person, name, kin, elder, titled, sibling
tall | 키가_크 | worker, person, name, sibling, kin
diligent | 부지런하 | worker, student, name, kin, sibling
smart | 똑똑하 | student, child, scientist, lawyer, name, sibling
busy | 바쁘 | worker, student, name, kin, elder, titled, sibling
tired | 피곤하 | worker, student, guest, tourist, name, kin, elder, titled, sibling
happy | 행복하 | child, tourist, man, woman, name, kin, sibling
sick | 아프 | student, child, friend, name, kin, elder, pet, sibling
healthy | 건강하 | child, farmer, athlete, name, kin, pet, sibling
young | 젊 | worker, man, woman, tourist
sad | 슬프 | song, film, novel
quiet | 조용하 | library, room, park, cafe, classroom, museum, hotel, garden, office
noisy | 시끄럽/ㅂ | market, restaurant, classroom, room, station, cafe, washing_machine, bus
clean | 깨끗하 | room, shop, eatery, hotel, hospital, garment, beach, cup, car
dirty | 더럽/ㅂ | room, kitchen, socks, sneakers, river, cup, car, gloves
spacious | 넓 | room, yard, park, garden, office, airport, house
bright | 밝 | room, office, classroom, living_room, kitchen, cafe
dark | 어둡/ㅂ | room, office, classroom, theater, road
fast | 빠르/르 | ride, bike, horse, computer, laptop, athlete
slow | 느리 | bus, bike, computer, laptop, train
red | 빨갛/ㅎ | rose, tulip, garment, hat, car, bag, umbrella, apple, gloves, pencil
blue | 파랗/ㅎ | garment, hat, car, bag, umbrella, shoes, door, pencil
yellow | 노랗/ㅎ | tulip, sweater, hat, bus, bag, umbrella, boots, pencil, bird
white | 하얗/ㅎ | rose, lily, garment, car, pet, sneakers, horse, house
black | 까맣/ㅎ | coat, suit, hat, car, bag, cat, shoes, horse, umbrella, socks
high | 높 | mountain, bridge
low | 낮 | chair, table, bed, mountain
soft | 부드럽/ㅂ | bread, pillow, sweater, cake, gloves
sturdy | 튼튼하 | furniture, box, bag, bridge, building, boots
comfortable | 편하 | chair, sofa, bed, sneakers, shoes, pillow
"""
_ATTRIBUTIVE = """
new | 새 | garment, footwear, thing, machine, car, bike, book, hat, building, furniture, film
old | 오래되 | house, building, book, car, bike, machine, furniture, song, film, photo, hotel
"""
_WEATHER = "hot=덥/ㅂ cold=춥/ㅂ warm=따뜻하 cool=시원하 good=좋 bad=나쁘"

_SUPPLETIVE = {"eat": "드시", "drink": "드시", "sleep": "주무시", "be": "계시"}
_NEGATIVE = {"know": "모르/르", "delicious": "맛없", "interesting": "재미없"}
_HUMBLE = {
    "give": "드리",
    "send": "보내드리",
    "lend": "빌려드리",
    "show": "보여드리",
    "teach": "가르쳐드리",
}
UNGRADABLE = frozenset(("red", "blue", "yellow", "white", "black", "new", "sick", "tired"))


def _split(row: str) -> tuple[str, ...]:
    """The cells of a table row, padded to the widest table."""
    cells = [cell.strip() for cell in row.split("|")]
    return (*cells, "", "", "")[:4]


def _nouns_or_none(names: str) -> tuple[Any, ...]:
    return nouns(names) if names.strip(" -") else ()


def _verbs(table: str, **features: Any) -> tuple[Predicate, ...]:
    """Read a table of verbs; an English verb may carry a particle: look for, looked for."""
    verbs = []
    for row in table.strip().splitlines():
        forms, stem, objects, places = _split(row)
        english, past = forms.replace("_", " ").split("/")
        entry = Predicate(
            english,
            past,
            read_stem(stem),
            suppletive=_SUPPLETIVE.get(english, ""),
            humble=_HUMBLE.get(english, ""),
            negative=_NEGATIVE.get(english, ""),
            objects=_nouns_or_none(objects),
            places=_nouns_or_none(places),
            **features,
        )
        verbs.append(entry)
    return tuple(verbs)


def _adjectives(table: str) -> tuple[Predicate, ...]:
    """Read a table of adjectives; what comes before an underscore is a subject of its own."""
    adjectives = []
    for row in table.strip().splitlines():
        english, stem, objects, _ = _split(row)
        prefix, _, head = stem.rpartition("_")
        adjectives.append(_adjective(english, head, prefix=prefix, objects=nouns(objects)))
    return tuple(adjectives)


def _adjective(english: str, stem: str, **features: Any) -> Predicate:
    negative = _NEGATIVE.get(english, "")
    read = read_stem(stem, adjective=True)
    return Predicate(english, "", read, Kind.ADJECTIVE, negative=negative, **features)


def _be(kind: Kind, stem: Stem, **features: Any) -> Predicate:
    english = "have" if kind is Kind.POSSESSION else "be"
    return Predicate(english, "had", stem, kind, stative=True, **features)


TRANSITIVE = _verbs(_TRANSITIVE) + _verbs(_LIGHT, light=True)
INTRANSITIVE = _verbs(_INTRANSITIVE) + _verbs(_LIGHT_INTRANSITIVE, light=True)
DITRANSITIVE = _verbs(_DITRANSITIVE)
STATIVE = _verbs(_STATIVE, stative=True)
ADJECTIVES = _adjectives(_ADJECTIVES)
ATTRIBUTIVE = _adjectives(_ATTRIBUTIVE)
WEATHERS = tuple(_adjective(english, stem) for english, stem in read_pairs(_WEATHER))

GO = Predicate("go", "went", Stem("가"))
COME = Predicate("come", "came", Stem("오"))
ARRIVE = Predicate("arrive", "arrived", Stem("도착하"), light=True)
LEAVE = Predicate("leave", "left", Stem("출발하"), light=True)
LIVE = Predicate("live", "lived", Stem("살"), stative=True)
CALL = Predicate("call", "called", Stem("전화하"), light=True, dative=True)
START = Predicate("start", "started", Stem("시작하"), light=True)
END = Predicate("end", "ended", Stem("끝나"))
OPEN = Predicate("open", "opened", Stem("열"))
CLOSE = Predicate("close", "closed", Stem("닫"))
RAIN = Predicate("rain", "rained", Stem("오"))
COST = Predicate("cost", "cost", Stem("이", Irregular.COPULA), Kind.COPULA, stative=True)
COPULA = _be(Kind.COPULA, Stem("이", Irregular.COPULA))
LOCATION = _be(Kind.LOCATION, Stem("있"), suppletive="계시", negative="없")
EXISTENCE = _be(Kind.EXISTENCE, Stem("있"), negative="없")
POSSESSION = _be(Kind.POSSESSION, Stem("있"), negative="없")
