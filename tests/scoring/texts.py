"""Four German sentences, translated well, otherwise, and badly; a sentence of each script."""

from collections.abc import Sequence
from pathlib import Path

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

REFERENCES = [
    "Ein Hund rennt über die Wiese.",
    "Zwei Männer, „stark“ wie Bären, heben z. B. ein Boot.",
    "Am 3. Mai regnete es.",
    "Warum?",
]
OTHERS = [
    "Ein hund läuft über das Gras.",
    "Zwei bärenstarke Männer heben ein Boot.",
    "Am 3. Mai hat es geregnet.",
    "Weshalb?",
]
"""Second references."""
HYPOTHESES = [
    "Ein hund läuft über die Wiese.",
    'Zwei Männer, "stark" wie Bären, tragen ein Boot.',
    "Am 3. Mai regnete es sehr.",
    "",
]
SENTENCES = {
    "LATIN": "Two men are carrying a small boat over the wet sand.",
    "CYRILLIC": "Двое мужчин несут маленькую лодку по мокрому песку к морю.",
    "GREEK": "Δύο άνδρες κουβαλούν μια μικρή βάρκα πάνω στην υγρή άμμο.",
    "ARABIC": "يحمل رجلان قاربا صغيرا فوق الرمال المبللة نحو البحر الأزرق.",
    "HEBREW": "שני גברים נושאים סירה קטנה על החול הרטוב אל הים.",
    "DEVANAGARI": "दो आदमी गीली रेत पर एक छोटी नाव लेकर जा रहे हैं।",
    "TAMIL": "இரண்டு ஆண்கள் ஈரமான மணலில் ஒரு சிறிய படகை கடலுக்கு எடுத்துச் செல்கிறார்கள்.",
    "ETHIOPIC": "ሁለት ሰዎች በእርጥብ አሸዋ ላይ ትንሽ ጀልባ ወደ ባሕር ይሸከማሉ።",
    "HANGUL": "두 남자가 젖은 모래 위로 작은 배를 바다까지 나르고 있다.",
    "HAN": "两个男人正抬着一条小船走过潮湿的沙滩。",
    "KANA": "二人の男が濡れた砂の上で小さな舟を運んでいる。",
    "THAI": "ชายสองคนกำลังแบกเรือลำเล็กข้ามหาดทรายเปียก.",
    "LAO": "ຜູ້ຊາຍສອງຄົນກຳລັງແບກເຮືອນ້ອຍຂ້າມຫາດຊາຍ.",
    "KHMER": "បុរសពីរនាក់កំពុងសែងទូកតូចមួយឆ្លងកាត់ខ្សាច់សើម។",
    "MYANMAR": "လူနှစ်ယောက်သည် လှေငယ်တစ်စင်းကို သယ်ဆောင်နေကြသည်။",
    "TIBETAN": "མི་གཉིས་ཀྱིས་གྲུ་ཆུང་ཞིག་བྱེ་མའི་སྟེང་ནས་འཁྱེར་གྱི་འདུག།",
    "JAVANESE": "ꦮꦺꦴꦁꦭꦫꦺꦴꦭꦶꦫꦺꦴꦒꦺꦴꦠꦺꦴꦁꦥꦿꦲꦸꦕꦶꦭꦶꦏ꧉",
}
"""A sentence of at least eight words in each script, as `main_script` names it."""


def write(path: Path, lines: list[str]) -> Path:
    """Write a line each."""
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Compute sacreBLEU's BLEU."""
    return float(BLEU(force=True).corpus_score(hypotheses, [references]).score)


def corpus_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Compute sacreBLEU's chrF2."""
    return float(CHRF().corpus_score(hypotheses, [references]).score)
