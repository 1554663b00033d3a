"""Language codes of ISO 639, and what people write instead."""

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
"""ISO 639-1 code, ISO 639-3 code and English name of each language with a two-letter code."""
OTHERS = """
alb sq;arm hy;baq eu;bur my;chi zh;cn zh;cz cs;cze cs;dk da;dut nl;farsi fa;filipino tl;flemish nl;
fre fr;geo ka;ger de;gr el;gre el;ice is;jp ja;mac mk;mandarin zh;mao mi;may ms;cmn zh;per fa;
rum ro;slo sk;slovene sl;tib bo;ua uk;vn vi;wel cy;castilian es;deutsch de;français fr;español es;
italiano it;português pt;русский ru;中文 zh;日本語 ja;한국어 ko
"""
"""Bibliographic codes of ISO 639-2, country codes and other names, with the ISO 639-1 code."""


def language_code(code: str | None) -> str:
    """Return the language of a code such as pt-BR, in lower case; empty for None."""
    return (code or "").replace("_", "-").split("-")[0].lower()


def check_language(code: str) -> str:
    """Return the code if it is one, perhaps with a script or region, as in zh-Hans or pt_BR.

    Three letters are accepted for languages without a code of two.

    Raises:
        ValueError: it is not a language code; names the one that was probably meant.
    """
    rows = _rows(LANGUAGES)
    two = {row[0] for row in rows}
    code_of = {spelling.lower(): row[0] for row in rows for spelling in row[1:]}
    code_of |= {other: code for other, code, *_ in _rows(OTHERS)}
    language = language_code(code)
    is_rare = len(language) == 3 and language.isascii() and language.isalpha()
    if language in two or (is_rare and language not in code_of):
        return code
    close = difflib.get_close_matches(code.lower(), code_of, 1)
    likely = code_of.get(code.lower()) or code_of.get(language) or (close and code_of[close[0]])
    hint = f"did you mean {likely}?" if likely else "use a code of ISO 639, such as de or ko"
    raise ValueError(f"{code!r} is not a language code: {hint}")


LanguageCode = Annotated[str, AfterValidator(check_language)]
"""A language code, checked by `check_language`."""


def _rows(table: str) -> list[list[str]]:
    return [row.strip().split(" ", 2) for row in table.split(";")]
