"""What does a glossary cost? `python glossaries.py MODEL SOURCE REFERENCE`, English to German.

Three glossaries: words that the model knows (another translation that references have), odd words,
and words that stay English. The references get each term in the place of the word that they have;
lines whose reference has no such word are left out. Prints BLEU and TER against these references
without the glossary and with it, how many lines have all their terms, and the length in subwords.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from mtkit.decoding.api import load
from mtkit.decoding.text.demands import find_unmet
from mtkit.decoding.text.line import Translation
from mtkit.decoding.text.text import Text
from mtkit.extras.terms.files import open_terms
from mtkit.extras.terms.terms import TermDemand
from mtkit.scoring.line_files import load_lines
from mtkit.scoring.metrics import score

LINES = 500
KNOWN = """
sidewalk Bürgersteig Gehweg Gehsteig; car Fahrzeug Auto; building Haus Gebäude; path Pfad Weg
crowd Menge Menschenmenge; woman Dame Frau; bike Rad Fahrrad; bicycle Rad Fahrrad; wall Mauer Wand
truck LKW Lastwagen Truck Laster; shirt Hemd T-Shirt Shirt Oberteil Trikot; picture Foto Bild
photo Bild Foto; boat Schiff Boot; sweater Pulli Pullover Sweater; couple Pärchen Paar
girl Mädel Mädchen; microphone Mikro Mikrofon Mikrophon; hat Hut Helm; store Laden Supermarkt Shop
road Straße Landstraße Fahrbahn; guy Typ Mann Kerl; man Kerl Mann; jacket Jacke Weste
tv Fernseher TV; rock Stein Fels Felsen; field Spielfeld Feld; cliff Fels Felsen
player Sportler Spieler; boss Boss Chef; doctor Doktor Arzt; computer Rechner Computer
mistake Irrtum Fehler; wife Ehefrau Frau Gattin; husband Ehemann Mann Gatte
present Präsent Geschenk; trip Fahrt Reise; phone Handy Telefon; job Stelle Arbeit
movie Streifen Film; house Gebäude Haus; lie Unwahrheit Lüge; mother Mama Mutter
father Papa Vater; story Erzählung Geschichte; teacher Pädagoge Lehrer; money Vermögen Geld
book Werk Buch; room Raum Saal; friend Kumpel Freund; city Großstadt Stadt; town Kleinstadt Stadt
"""
ODD = """
dog Wauwau Hund; man Macker Mann; woman Maid Frau Dame; girl Mädel Mädchen; child Balg Kind
street Chaussee Straße; shirt Leibchen Hemd T-Shirt Shirt Oberteil Trikot; bike Velo Fahrrad Rad
bicycle Velo Fahrrad Rad; car Vehikel Auto Fahrzeug; horse Ross Pferd; beach Lido Strand
water Nass Wasser; building Bauwerk Gebäude Haus; guitar Klampfe Gitarre; tree Strunk Baum
jacket Joppe Jacke Weste; camera Knipse Kamera; snow Firn Schnee; crowd Meute Menschenmenge Menge
field Gefilde Feld Spielfeld; group Schar Gruppe; team Kollektiv Team; house Domizil Haus
hat Zylinder Hut; boat Gefährt Boot Schiff; table Tresen Tisch; mother Mutti Mutter
father Vati Vater; money Moos Geld; book Druckwerk Buch; cat Mieze Katze; letter Wisch Brief
doctor Quacksalber Arzt Doktor; friend Spezi Freund; school Penne Schule; room Kammerl Zimmer
wife Gemahlin Frau Ehefrau; teacher Pauker Lehrer; city Metropole Stadt; question Quaestio Frage
train Bummelzug Zug
"""
KEPT = """
dog - Hund; shirt - Hemd T-Shirt Shirt Oberteil Trikot; street - Straße; bike - Fahrrad Rad
water - Wasser; ball - Ball Fußball; beach - Strand; car - Auto Wagen; horse - Pferd
guitar - Gitarre; building - Gebäude Haus; jacket - Jacke Weste; tree - Baum; hat - Hut Mütze
table - Tisch; snow - Schnee; stage - Bühne; crowd - Menschenmenge Menge; field - Feld
camera - Kamera; house - Haus; boat - Boot; truck - Lastwagen LKW; baby - Baby; woman - Frau Dame
man - Mann; girl - Mädchen; boy - Junge Jungen; child - Kind; grass - Gras; group - Gruppe
sidewalk - Gehweg Gehsteig Bürgersteig; road - Straße; microphone - Mikrofon Mikrophon; book - Buch
cat - Katze; money - Geld; letter - Brief; friend - Freund; school - Schule; room - Zimmer
teacher - Lehrer; question - Frage; train - Zug; doctor - Arzt; mother - Mutter; father - Vater
city - Stadt; time - Zeit; problem - Problem; world - Welt; life - Leben; language - Sprache
answer - Antwort; door - Tür; window - Fenster
"""
GLOSSARIES = {"known": KNOWN, "odd": ODD, "kept": KEPT}
"""Each entry: a term, its translation (- : none), and the words of references that it replaces."""


def parse(entries: str) -> dict[str, list[str]]:
    """Return the translation of each term, then the words that it replaces."""
    split = [entry.split() for entry in re.split(r"[;\n]", entries) if entry.strip()]
    return {
        term: [term if translation == "-" else translation, *words]
        for term, translation, *words in split
    }


def put_term(reference: str, target: str, words: Sequence[str]) -> str | None:
    """Return the reference with the target in the place of a word; None if it has none of them."""
    longest_first = "|".join(sorted(map(re.escape, words), key=len, reverse=True))
    pattern = rf"(?<!\w)({longest_first})(e?s)?(?!\w)"
    replaced, count = re.subn(
        pattern, lambda match: target + "s" * bool(match[2]), reference, count=1
    )
    return replaced if count else None


def find_lines(
    sources: Sequence[str], references: Sequence[str], entries: Mapping[str, Sequence[str]]
) -> list[tuple[str, str, list[TermDemand]]]:
    """Return the first lines with terms, with their references and what these have."""
    index = open_terms({term: words[0] for term, words in entries.items()}).index
    found: list[tuple[str, str, list[TermDemand]]] = []
    for source, reference in zip(sources, references, strict=True):
        terms = index.find_terms(source)
        changed: str | None = reference
        for term in terms:
            words = entries.get(source[term.start : term.end].lower())
            changed = put_term(changed, term.targets[0], words) if changed and words else None
        if terms and changed:
            wanted = [
                TermDemand(term.start, term.end, term.targets[0], is_kept=term.is_kept)
                for term in terms
            ]
            found.append((source, changed, wanted))
    return found[:LINES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("files", type=Path, nargs=2)
    arguments = parser.parse_args()
    sources, references = map(load_lines, arguments.files)
    translator = load(arguments.model, "cpu")
    for name, entries_of_name in GLOSSARIES.items():
        entries = parse(entries_of_name)
        lines = find_lines(sources, references, entries)
        glossary = {term: words[0] for term, words in entries.items()}
        subwords: list[int] = []
        for kind, given in (("without", {}), ("with", glossary)):
            started = time.perf_counter()
            request = translator.request.changed(glossary=given)
            found: list[Translation] = list(
                translator.results([source for source, _, _ in lines], request)
            )
            seconds = time.perf_counter() - started
            texts = [translation.text for translation in found]
            scores = score(
                texts,
                [reference for _, reference, _ in lines],
                language="de",
                keys=["bleu", "ter"],
            )
            pairs = zip(lines, texts, strict=True)
            obeyed = sum(not find_unmet(terms, Text(text, ())) for (_, _, terms), text in pairs)
            subwords.append(sum(len(translation.tokens) for translation in found))
            print(
                f"{name}, {kind}: BLEU {scores['bleu'].value:.2f}, TER {scores['ter'].value:.2f}, "
                f"{obeyed} of {len(lines)} lines with all terms, length "
                f"{subwords[-1] / subwords[0]:.2f}, {seconds:.0f} s"
            )


if __name__ == "__main__":
    main()
