"""Names of languages: every code and name that people use, and the one form that mtkit keeps.

langcodes knows the codes of ISO 639 and BCP 47, and with language_data the names in many languages.
Both are imported when a language is first named, because names take long to load.
"""

from __future__ import annotations

import difflib
import unicodedata
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator

if TYPE_CHECKING:
    from langcodes import Language

DOTLESS_LANGUAGES = ("tr", "az", "crh", "gag")
"""Turkish, Azerbaijani, Crimean Tatar and Gagauz."""
MAX_NAME_CHARACTERS = 100
"""Longest name of a language; the rest of a longer one is ignored."""
MIN_NAME_SIMILARITY = 0.8
"""Least similarity (`difflib`) of a name to the one that is suggested."""
PART_OF_SCRIPT = {"Kore": "Hang"}
"""A script that FLORES names, where CLDR names the script that contains it."""
SHORT_CODES = {"fil": "tl"}
"""Two-letter codes that BCP 47 replaced by longer ones."""


@cache
def find_language(name: str) -> str | None:
    """Return the tag of BCP 47 for a language that is named by a code or in words, else None.

    Codes are those of ISO 639 (de, deu, ger), of BCP 47 (de-AT, also de_AT), and of FLORES and NLLB
    (deu_Latn). The tag has a two-letter code if there is one, and a script only if it is not the
    usual one of the language: zho_Hans and cmn become zh, but zho_Hant becomes zh-Hant.
    """
    name = name[:MAX_NAME_CHARACTERS].strip()
    return _find_by_code(name) or _find_by_name(name)


def standard_language(name: str) -> str:
    """Return the tag of a language, as `find_language` does.

    Raises:
        ValueError: no language has this code or name; the message suggests one if possible.
    """
    tag = find_language(name)
    if tag is None:
        name = name[:MAX_NAME_CHARACTERS].strip()
        likely = _find_likely(name)
        hint = f"did you mean {likely}?" if likely else "use a code or a name, such as de or German"
        raise ValueError(f"{name!r} is not a language; {hint}")
    return tag


def _find_by_code(code: str) -> str | None:
    """Return the standard tag of a code; None if there is no such code."""
    from langcodes import Language, tag_is_valid
    from langcodes.tag_parser import LanguageTagError

    try:
        language = Language.get(code)
    except LanguageTagError:
        return None
    names_language = language.language not in (None, "und")
    if not (names_language and tag_is_valid(language)):
        return None
    return _without_usual_script(_with_short_code(language)).to_tag()


def _with_short_code(language: Language) -> Language:
    """Return the macrolanguage of a language if it has a shorter code, and this is its main member.

    Chinese (zh) stands for Mandarin (cmn), and Arabic (ar) for Standard Arabic (arb).
    """
    macrolanguage = language.prefer_macrolanguage()
    has_longer_code = len(language.language or "") > len(macrolanguage.language or "")
    return macrolanguage if has_longer_code else language


def _without_usual_script(language: Language) -> Language:
    """Return the language without its script if the language and region imply the script."""
    from langcodes import Language

    implied = Language.make(language=language.language, territory=language.territory).maximize()
    implied_script = implied.script or ""
    # Korean implies Kore, which contains the script that FLORES names, Hang.
    if language.script not in (implied_script, PART_OF_SCRIPT.get(implied_script)):
        return language
    return Language.get(language.to_tag().replace(f"-{language.script}", "", 1))


def _find_by_name(name: str) -> str | None:
    """Return the standard tag of a language with exactly this name; None if there is none."""
    from language_data.names import get_trie_value, normalize_name

    if name.isascii() and len(name) <= len("ua"):  # more likely a wrong code, here for Ukrainian
        return None
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
        return None  # marisa-trie fails at control characters and lone surrogates
    decomposed = unicodedata.normalize("NFD", name)
    unmarked = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    for names in _names():
        for spelling in (name, unmarked):  # Yorùbá is listed as Yoruba
            key = normalize_name(spelling)
            if key in names:
                return _find_by_code(get_trie_value(names, key))
    return None


@cache
def _names() -> list[Any]:
    """Return the names of languages in English, and those in all languages: tries with codes.

    langcodes.find is not used, because it ignores the rest of a name: "Hungrian" would be Hung.
    """
    from language_data.names import load_trie
    from language_data.util import data_filename

    languages = ("en", "und")
    return [load_trie(data_filename(f"trie/{code}/name_to_language.marisa")) for code in languages]


def _find_likely(name: str) -> str | None:
    """Return the tag of the language that was probably meant; None if no name is similar."""
    from langcodes import Language
    from langcodes.data_dicts import LANGUAGE_ALPHA3, LIKELY_SUBTAGS

    territory = name.upper()
    if f"und-{territory}" in LIKELY_SUBTAGS:  # jp, cn, dk
        return Language.make(territory=territory).maximize().language
    # The keys of LANGUAGE_ALPHA3 are all codes of two letters.
    codes = {language_name(code).casefold(): code for code in LANGUAGE_ALPHA3}
    close = difflib.get_close_matches(name.casefold(), codes, n=1, cutoff=MIN_NAME_SIMILARITY)
    return codes[close[0]] if close else None


def language_name(tag: str) -> str:
    """Return the English name of a language, such as "Chinese (Traditional)" for zh-Hant."""
    from langcodes import Language

    return str(Language.get(standard_language(tag)).display_name())


def describe_language(tag: str) -> str:
    """Return the tag of a language and its English name, such as "ko (Korean)"."""
    return f"{tag} ({language_name(tag)})"


@cache
def language_code(tag: str | None) -> str:
    """Return the code of a language without script and region, such as pt for pt-BR.

    Two texts are in one language if their codes are equal. The result is empty for None.

    Raises:
        ValueError: no language has this code or name.
    """
    return standard_language(tag).partition("-")[0] if tag else ""


@cache
def short_code(tag: str | None) -> str:
    """Return the code by which tokenizers and sentence splitters know a language.

    It has two letters if the language or its macrolanguage has such a code: ar for Egyptian Arabic
    (arz), zh for Cantonese (yue), tl for Filipino (fil). The result is empty for None.
    """
    from langcodes.data_dicts import MACROLANGUAGES

    code = language_code(tag)
    shorter = SHORT_CODES.get(code) or MACROLANGUAGES.get(code, code)
    return shorter if len(shorter) < len(code) else code


def is_language_code(text: str) -> bool:
    """Return whether a short text, such as the name of a column, surely is a code of a language.

    Nearly every word of three letters is the code of some language. Such a code counts only if the
    language has a two-letter code, too, or if a script or region follows, as in ace_Arab.
    """
    tag = _find_by_code(text) if len(text) <= MAX_NAME_CHARACTERS else None
    return tag is not None and (len(language_code(tag)) == 2 or not text.isalpha())


def is_language_name(text: str) -> bool:
    """Return whether a text is the name of a language in some language."""
    return len(text) <= MAX_NAME_CHARACTERS and _find_by_name(text) is not None


def dotless_side(source: str | None, target: str | None) -> str | None:
    """Return the side where I is the capital of ı: "source", "target", "both" or None."""
    has_source = language_code(source) in DOTLESS_LANGUAGES
    has_target = language_code(target) in DOTLESS_LANGUAGES
    sides = {(True, True): "both", (True, False): "source", (False, True): "target"}
    return sides.get((has_source, has_target))


LanguageTag = Annotated[str, AfterValidator(standard_language)]
"""The name of a language, which `standard_language` replaces by its tag."""
