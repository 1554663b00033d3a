"""The nouns, by category: predicates select their arguments by category."""

from typing import Any

from .lexicon import Noun, Person, read_pairs, select

_COUNTED = {
    "fruit 개": "apple=사과 pear=배 orange=오렌지 banana=바나나 peach=복숭아 strawberry=딸기"
    " watermelon=수박 persimmon=감",
    "vegetable 개": "tomato=토마토 potato=감자 carrot=당근 onion=양파 egg=계란",
    "book 권": "book=책 novel=소설책 magazine=잡지 dictionary=사전 comic_book=만화책"
    " textbook=교과서 cookbook=요리책",
    "mail 통": "letter=편지 email=이메일",
    "sheet 장": "ticket=표 photo=사진 map=지도 postcard=엽서 stamp=우표",
    "flower 송이": "rose=장미 tulip=튤립 sunflower=해바라기 lily=백합",
    "pet 마리": "dog=개 cat=고양이 rabbit=토끼 puppy=강아지 bird=새",
    "beast 마리": "horse=말 cow=소 pig=돼지 duck=오리 bear=곰 tiger=호랑이 monkey=원숭이"
    " elephant=코끼리",
    "car 대": "car=자동차 truck=트럭 bus=버스",
    "ride 대": "taxi=택시 train=기차 airplane=비행기",
    "bike 대": "bicycle=자전거 motorcycle=오토바이",
    "machine 대": "computer=컴퓨터 camera=카메라 laptop=노트북 radio=라디오 television=텔레비전"
    " washing_machine=세탁기 refrigerator=냉장고",
    "instrument 대": "piano=피아노 guitar=기타",
    "garment 벌": "coat=코트 dress=원피스 skirt=치마 sweater=스웨터 suit=양복",
    "hat 개": "hat=모자 cap=야구모자",
    "thing 개": "bag=가방 umbrella=우산 watch=시계 cup=컵 box=상자 mirror=거울 doll=인형"
    " wallet=지갑 pillow=베개 ring=반지 key=열쇠 ball=공",
    "tool 자루": "pencil=연필 pen=펜 knife=칼 brush=붓",
    "furniture 개": "chair=의자 desk=책상 table=식탁 bed=침대 sofa=소파",
    "opening 개": "door=문 window=창문",
    "worker 명": "doctor=의사 nurse=간호사 singer=가수 cook=요리사 farmer=농부 writer=작가"
    " painter=화가 engineer=기술자 lawyer=변호사 actor=배우 reporter=기자 police_officer=경찰관"
    " soldier=군인 scientist=과학자 athlete=운동선수",
    "person 명": "student=학생 child=아이 friend=친구 neighbor=이웃 guest=손님 foreigner=외국인"
    " tourist=관광객 man=남자 woman=여자",
    "sibling 명": "younger_brother=남동생 younger_sister=여동생 cousin=사촌",
    "song 곡": "song=노래",
    "film 편": "movie=영화 drama=드라마",
    "event 개": "meeting=회의 class=수업 concert=음악회 party=파티 exam=시험 game=경기",
    "issue 개": "question=질문 problem=문제",
    "building 개": "house=집 building=건물 school=학교 hospital=병원 hotel=호텔 library=도서관"
    " museum=박물관",
    "nature 개": "mountain=산 river=강 road=길 bridge=다리",
}
_PAIRED = "shoes=구두 socks=양말 sneakers=운동화 boots=장화 gloves=장갑"
_MASS = {
    "dish 그릇": "rice=밥 soup=국 ramen=라면 bibimbap=비빔밥 curry=카레 fried_rice=볶음밥",
    "food": "bread=빵 cake=케이크 kimchi=김치 fish=생선 meat=고기 bulgogi=불고기 chocolate=초콜릿"
    " pizza=피자 salad=샐러드",
    "drink 잔": "coffee=커피 tea=차 milk=우유 juice=주스 green_tea=녹차",
    "bottle 병": "water=물 beer=맥주 wine=포도주 cola=콜라",
    "music": "music=음악 classical_music=고전음악",
    "task": "homework=숙제",
    "money": "money=돈 time=시간",
}
_BARE = {
    "subject": "math=수학 history=역사 science=과학 art=미술",
    "language": "English=영어 Korean=한국어 Japanese=일본어 French=프랑스어 Chinese=중국어",
    "sport": "soccer=축구 baseball=야구 basketball=농구",
    "racket": "tennis=테니스 badminton=배드민턴",
    "city": "Seoul=서울 Busan=부산 Incheon=인천 Daegu=대구 Paris=파리 London=런던 Tokyo=도쿄"
    " New_York=뉴욕 Jeju=제주도",
    "country": "Korea=한국 Japan=일본 China=중국 Canada=캐나다 France=프랑스",
    "home": "home=집",
    "schooling": "school=학교",
    "meal": "breakfast=아침 lunch=점심 dinner=저녁",
}
_TRANSPORT = "bus=버스 train=기차 subway=지하철 taxi=택시 bicycle=자전거 airplane=비행기"
_PLACES = {
    "in": {
        "indoors": "room=방 kitchen=부엌 living_room=거실 classroom=교실 office=사무실",
        "outdoors": "park=공원 garden=정원 yard=마당",
    },
    "at": {
        "shop": "store=가게 market=시장 bookstore=서점 bakery=빵집 department_store=백화점",
        "eatery": "restaurant=식당 cafe=카페",
        "public": "library=도서관 museum=박물관 theater=극장 hotel=호텔 hospital=병원 bank=은행"
        " post_office=우체국 station=역 airport=공항 gym=체육관 swimming_pool=수영장 zoo=동물원"
        " beach=바닷가 company=회사 university=대학교",
    },
}
_NAMES = {
    "he": "Minsu=민수 Jihun=지훈 Dongmin=동민 Junho=준호 Taeyang=태양 Minjun=민준",
    "she": "Sujin=수진 Yuna=유나 Jimin=지민 Sora=소라 Hayun=하윤 Mina=미나",
}
_HONORED = {
    "he": "father=아버지 grandfather=할아버지",
    "she": "mother=어머니 grandmother=할머니",
    "": "teacher=선생님 professor=교수님 boss=사장님",
}
_TITLED = {
    "he": "Mr._Kim=김_선생님 Mr._Park=박_선생님 Mr._Choi=최_선생님",
    "she": "Ms._Lee=이_선생님 Ms._Jung=정_선생님 Ms._Han=한_선생님",
    "": "Professor_Kang=강_교수님 Professor_Yoon=윤_교수님 Doctor_Oh=오_박사님",
}
_CONTAINERS = {"그릇": "bowl", "잔": "cup", "병": "bottle"}
_COMMUNAL = {"father", "mother", "grandfather", "grandmother", "school", "house", "company"}


def _read(text: str, category: str, **features: Any) -> list[Noun]:
    return [
        Noun(english, korean, category, communal=english in _COMMUNAL, **features)
        for english, korean in read_pairs(text)
    ]


def _things() -> list[Noun]:
    """Common nouns and those that take no article."""
    nouns = _read(_PAIRED, "footwear", counter="켤레", container="pair", pair=True)
    for label, text in _COUNTED.items():
        category, counter = label.split()
        nouns += _read(text, category, counter=counter)
    for label, text in _MASS.items():
        category, _, counter = label.partition(" ")
        container = _CONTAINERS.get(counter, "")
        nouns += _read(text, category, counter=counter, container=container, mass=True)
    for category, text in _BARE.items():
        inside = category in ("city", "country")
        nouns += _read(text, category, bare=True, preposition="in" if inside else "at")
    return nouns


def _places() -> list[Noun]:
    """Places where things are done, under the English preposition they take."""
    return [
        noun
        for preposition, categories in _PLACES.items()
        for category, text in categories.items()
        for noun in _read(text, category, preposition=preposition)
    ]


def _people() -> list[Noun]:
    """People with a name, a title, or the honor due to age and office."""
    people = []
    for pronoun, text in _NAMES.items():
        people += _read(text, "name", bare=True, pronoun=pronoun, counter="명")
    for pronoun, text in _HONORED.items():
        kin = "kin" if pronoun else "elder"
        people += _read(text, kin, honored=True, pronoun=pronoun, counter="명")
    for pronoun, text in _TITLED.items():
        people += _read(text, "titled", bare=True, honored=True, pronoun=pronoun)
    return people


NOUNS: tuple[Noun, ...] = (*_things(), *_places(), *_people())
TRANSPORT = tuple(_read(_TRANSPORT, "transport", bare=True))

I = Noun("I", "저", "pronoun", bare=True, casual="나", person=Person.FIRST)  # noqa: E741
WE = Noun("we", "우리", "pronoun", bare=True, person=Person.FIRST_PLURAL)
HE = Noun("he", "", "pronoun", bare=True)
SHE = Noun("she", "", "pronoun", bare=True)
YOU = Noun("you", "", "pronoun", bare=True, person=Person.SECOND)
WHO = Noun("who", "누구", "interrogative", bare=True)
WHAT = Noun("what", "무엇", "interrogative", bare=True, casual="뭐")
WHERE = Noun("where", "어디", "interrogative", bare=True)
WON = Noun("won", "원", "currency", counter="원", mass=True)
HOW_MUCH = Noun("how much", "얼마", "interrogative", bare=True)
WEATHER = Noun("weather", "날씨", "weather", mass=True)
IT = Noun("it", "비", "weather", bare=True)


def nouns(names: str) -> tuple[Noun, ...]:
    """The nouns of these categories or with these English words, separated by commas."""
    return select(NOUNS, names)
