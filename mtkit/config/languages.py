"""Codes of languages, as ISO 639-1 has them, and what people write instead."""

from __future__ import annotations

import difflib
from typing import Annotated

from pydantic import AfterValidator

LANGUAGES = """
aa aar Afar;ab abk Abkhazian;ae ave Avestan;af afr Afrikaans;ak aka Akan;am amh Amharic;
an arg Aragonese;ar ara Arabic;as asm Assamese;av ava Avaric;ay aym Aymara;az aze Azerbaijani;
ba bak Bashkir;be bel Belarusian;bg bul Bulgarian;bi bis Bislama;bm bam Bambara;bn ben Bengali;
bo bod Tibetan;br bre Breton;bs bos Bosnian;ca cat Catalan;ce che Chechen;ch cha Chamorro;
co cos Corsican;cr cre Cree;cs ces Czech;cu chu Church Slavonic;cv chv Chuvash;cy cym Welsh;
da dan Danish;de deu German;dv div Divehi;dz dzo Dzongkha;ee ewe Ewe;el ell Greek;en eng English;
eo epo Esperanto;es spa Spanish;et est Estonian;eu eus Basque;fa fas Persian;ff ful Fulah;
fi fin Finnish;fj fij Fijian;fo fao Faroese;fr fra French;fy fry Western Frisian;ga gle Irish;
gd gla Scottish Gaelic;gl glg Galician;gn grn Guarani;gu guj Gujarati;gv glv Manx;ha hau Hausa;
he heb Hebrew;hi hin Hindi;ho hmo Hiri Motu;hr hrv Croatian;ht hat Haitian;hu hun Hungarian;
hy hye Armenian;hz her Herero;ia ina Interlingua;id ind Indonesian;ie ile Interlingue;ig ibo Igbo;
ii iii Sichuan Yi;ik ipk Inupiaq;io ido Ido;is isl Icelandic;it ita Italian;iu iku Inuktitut;
ja jpn Japanese;jv jav Javanese;ka kat Georgian;kg kon Kongo;ki kik Kikuyu;kj kua Kuanyama;
kk kaz Kazakh;kl kal Greenlandic;km khm Khmer;kn kan Kannada;ko kor Korean;kr kau Kanuri;
ks kas Kashmiri;ku kur Kurdish;kv kom Komi;kw cor Cornish;ky kir Kyrgyz;la lat Latin;
lb ltz Luxembourgish;lg lug Ganda;li lim Limburgish;ln lin Lingala;lo lao Lao;lt lit Lithuanian;
lu lub Luba-Katanga;lv lav Latvian;mg mlg Malagasy;mh mah Marshallese;mi mri Maori;
mk mkd Macedonian;ml mal Malayalam;mn mon Mongolian;mr mar Marathi;ms msa Malay;mt mlt Maltese;
my mya Burmese;na nau Nauru;nb nob Norwegian Bokmal;nd nde North Ndebele;ne nep Nepali;
ng ndo Ndonga;nl nld Dutch;nn nno Norwegian Nynorsk;no nor Norwegian;nr nbl South Ndebele;
nv nav Navajo;ny nya Chichewa;oc oci Occitan;oj oji Ojibwa;om orm Oromo;or ori Odia;os oss Ossetian;
pa pan Punjabi;pi pli Pali;pl pol Polish;ps pus Pashto;pt por Portuguese;qu que Quechua;
rm roh Romansh;rn run Rundi;ro ron Romanian;ru rus Russian;rw kin Kinyarwanda;sa san Sanskrit;
sc srd Sardinian;sd snd Sindhi;se sme Northern Sami;sg sag Sango;si sin Sinhala;sk slk Slovak;
sl slv Slovenian;sm smo Samoan;sn sna Shona;so som Somali;sq sqi Albanian;sr srp Serbian;
ss ssw Swati;st sot Southern Sotho;su sun Sundanese;sv swe Swedish;sw swa Swahili;ta tam Tamil;
te tel Telugu;tg tgk Tajik;th tha Thai;ti tir Tigrinya;tk tuk Turkmen;tl tgl Tagalog;tn tsn Tswana;
to ton Tonga;tr tur Turkish;ts tso Tsonga;tt tat Tatar;tw twi Twi;ty tah Tahitian;ug uig Uyghur;
uk ukr Ukrainian;ur urd Urdu;uz uzb Uzbek;ve ven Venda;vi vie Vietnamese;vo vol Volapuk;
wa wln Walloon;wo wol Wolof;xh xho Xhosa;yi yid Yiddish;yo yor Yoruba;za zha Zhuang;
zh zho Chinese;zu zul Zulu
"""
"""ISO 639-1 and 639-3, and the name in English, of each language that has a code of two letters."""
OTHERS = """
alb sq;arm hy;baq eu;bur my;chi zh;cn zh;cz cs;cze cs;dk da;dut nl;farsi fa;filipino tl;flemish nl;
fre fr;geo ka;ger de;gr el;gre el;ice is;jp ja;mac mk;mandarin zh;mao mi;may ms;cmn zh;per fa;
rum ro;slo sk;slovene sl;tib bo;ua uk;vn vi;wel cy;castilian es;deutsch de;français fr;español es;
italiano it;português pt;русский ru;中文 zh;日本語 ja;한국어 ko
"""
"""Bibliographic codes of ISO 639-2, codes of countries that are no languages, and other names."""


def language_code(code: str | None) -> str:
    """The language alone, of codes such as pt-BR; nothing of none."""
    return (code or "").replace("_", "-").split("-")[0].lower()


def check_language(code: str) -> str:
    """The code; ValueError for what is none of a language, with the one that was probably meant.

    Codes of three letters are for the languages that have none of two; a script or region may
    follow, as in zh-Hans or pt_BR.
    """
    rows = _rows(LANGUAGES)
    two = {row[0] for row in rows}
    meant = {spelling.lower(): row[0] for row in rows for spelling in row[1:]}
    meant |= {other: code for other, code, *_ in _rows(OTHERS)}
    language = language_code(code)
    is_rare = len(language) == 3 and language.isascii() and language.isalpha()
    if language in two or (is_rare and language not in meant):
        return code
    near = difflib.get_close_matches(code.lower(), meant, 1)
    likely = meant.get(code.lower()) or meant.get(language) or (near and meant[near[0]])
    hint = f"did you mean {likely}?" if likely else "give one of ISO 639, such as de or ko"
    raise ValueError(f"{code!r} is no code of a language: {hint}")


LanguageCode = Annotated[str, AfterValidator(check_language)]
"""A setting that `check_language` looks at."""


def _rows(table: str) -> list[list[str]]:
    return [row.strip().split(" ", 2) for row in table.split(";")]
