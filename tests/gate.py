"""What the code makes, line by line, so that a change that should change nothing can prove it.

    python tests/gate.py record.txt        before the change: write the record
    make gate RECORD=record.txt            after it: compare

A record has a line for each file of an artifact, each loss, and each translated line with all that
`mtkit translate` says of it. Bits depend on the processor and on the version of torch, so a record
is made on the machine that compares, and is not part of the repository.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from commands import call
from mtkit.artifacts.manifest import open_artifact
from mtkit.artifacts.storage import write_json
from nasties import LINES

ROOT = Path(__file__).parents[1]
DEMO = ROOT / "mtkit" / "demo"
SHARED = ROOT.parent / "shared"
TRAINED = 6_000
"""Pairs of the demo corpus that the models are trained on."""
SHARED_TEXTS = (
    "data/multi30k/test2016.en",
    "data/tatoeba-deu/dev.en",
    "reports/22-numbers.txt",
    "reports/85-nothing-to-translate.txt",
    "reports/90-entities.txt",
    "reports/96-messages.txt",
    "reports/96-more-messages.txt",
    "reports/98-placeholders.txt",
)
"""More text to translate, where it is at hand."""
LINES_OF_TEXT = 1_000
"""Most lines of each text."""
SPANS = ("{name}", "<b>{0}</b>", "%s", "https://example.org/a?b=1", "12,345.67", "${count}")
"""What must not change: each is put into some lines of the demo."""
TERMS = ("cake\t과자", "movie\t필름", "game\tgame", "time\t시각", "water\t물병")
TRANSFORMER = {"kind": "transformer", "layers": 2, "d_model": 128, "ffn": 256, "heads": 4}
LSTM = {"kind": "seq2seq", "layers": 1, "d_model": 64}
METRICS = ("loss", "gradient_norm", "bleu", "chrf")
"""The numbers of metrics.jsonl that depend on no clock."""


def make_record(folder: Path) -> Iterator[str]:
    """Train four tiny models in a folder, translate with them, and yield the record."""
    texts = write_texts(folder)
    pair = _corpus(texts, "en", "ko")
    reversed_pair = _corpus(texts, "ko", "en")
    both = {
        part: [pair[part] | {"target_tag": "ko"}, reversed_pair[part] | {"target_tag": "en"}]
        for part in pair
    }
    yield from _train(folder, "transformer", pair, TRANSFORMER, steps=160)
    yield from _train(folder, "lstm", pair, LSTM, steps=60)
    yield from _train(folder, "languages", both, TRANSFORMER, steps=60)
    adapted = {**pair, "train": [pair["train"], pair["valid"] | {"weight": 2.0}]}
    given = {"init_from": str(folder / "transformer"), "max_harm": 0.5}
    yield from _train(folder, "adapted", adapted, TRANSFORMER, steps=30, **given)

    plain = folder / "plain.en"
    spans = folder / "spans.en"
    terms = ["--glossary", str(folder / "terms.tsv")]
    details = ["--jsonl", "--alignments", "--n-best", "2"]
    yield from _translate(folder, "transformer", plain)
    yield from _translate(folder, "transformer", spans, *details, "--engine", "torch")
    yield from _translate(folder, "transformer", folder / "test.en", *terms, "--jsonl")
    yield from _translate(folder, "lstm", folder / "test.en", "--jsonl", "--n-best", "2")
    yield from _translate(folder, "languages", folder / "test.en", "--tag", "ko", "--jsonl")
    yield from _translate(folder, "adapted", spans, "--beam", "1", "--compute-type", "int8")


def write_texts(folder: Path) -> dict[str, Path]:
    """Write the corpora, the texts to translate and a glossary; return the corpora by file name."""
    texts: dict[str, Path] = {}
    for part, lines in (("train", TRAINED), ("valid", 300), ("test", 300)):
        for side in ("en", "ko"):
            text = (DEMO / f"{part}.{side}").read_text("utf-8").splitlines(keepends=True)
            path = folder / f"{part}.{side}"
            path.write_text("".join(text[:lines]), "utf-8")
            texts[path.name] = path
    plain = list(LINES.values())
    for name in SHARED_TEXTS:
        path = SHARED / name
        if path.exists():
            plain += path.read_bytes().split(b"\n")[:LINES_OF_TEXT]
    (folder / "plain.en").write_bytes(b"".join(line + b"\n" for line in plain))
    (folder / "spans.en").write_text("".join(_put_spans(texts["test.en"])), "utf-8")
    (folder / "terms.tsv").write_text("".join(f"{term}\n" for term in TERMS), "utf-8")
    return texts


def _put_spans(text: Path) -> Iterator[str]:
    """Yield each line with a span in place of one of its words."""
    for number, line in enumerate(text.read_text("utf-8").splitlines()):
        words = line.split()
        words[number % len(words)] = SPANS[number % len(SPANS)]
        yield " ".join(words) + "\n"


def _corpus(texts: dict[str, Path], source: str, target: str) -> dict[str, dict[str, Any]]:
    """Return the section `data` of a config."""
    return {
        part: {"source": str(texts[f"{part}.{source}"]), "target": str(texts[f"{part}.{target}"])}
        for part in ("train", "valid", "test")
    }


def _train(
    folder: Path,
    name: str,
    data: dict[str, Any],
    model: dict[str, Any],
    steps: int,
    **training: Any,
) -> Iterator[str]:
    """Run all stages; yield the files of its artifacts, its losses and its scores."""
    is_adapted = "init_from" in training
    config = {
        "run": str(folder / name),
        "data": data,
        "tokenizer": {} if is_adapted else {"vocab_size": 1000},
        "batching": {"max_tokens": 1024},
        "model": model,
        "training": {
            "steps": steps,
            "warmup": steps // 10,
            "optimizer": {"kind": "muon"},
            "schedule": {"kind": "cosine", "peak": 8e-3},
            "validate_every": steps // 2,
            "save_every": steps // 2,
            "average": 1,
            "device": "cpu",
            "ranks": 1,
            **training,
        },
        "decoding": {"sentences": "en", "truecase": True, "beam": 4, "max_length": 64},
    }
    path = folder / f"{name}.json"  # JSON is YAML
    write_json(path, config)
    assert call("run", "-q", "-c", str(path)) == 0
    for kind in ("tokenizer", "batches", "model"):
        files = open_artifact(folder / name / kind, kind).files
        for file, state in sorted(files.items()):
            yield f"{name} {kind}/{file} {state['sha256'][:16]}"
    for line in (folder / name / "metrics.jsonl").read_text("utf-8").splitlines():
        entry = json.loads(line)
        numbers = [float(entry[key]).hex() for key in METRICS if key in entry]
        yield f"{name} {entry['kind']} {entry.get('step')} {' '.join(numbers)}"


def _translate(folder: Path, name: str, text: Path, *options: str) -> Iterator[str]:
    """Translate a text; yield a digest of what is written of each line."""
    output = folder / "output"
    flags = folder / "flags"
    files = [str(text), "-o", str(output), "--flags", str(flags)]
    assert call("translate", "-q", "-m", str(folder / name), *files, *options) == 0
    label = " ".join(Path(option).name for option in options)
    for kind, path in (("output", output), ("flags", flags)):
        rows = path.read_bytes().split(b"\n")
        for number, row in enumerate(rows, start=1):
            digest = hashlib.sha256(row).hexdigest()
            yield f"{name} {text.name} {label} {kind} {number} {digest[:16]}"


def main(arguments: Sequence[str]) -> None:
    record = Path(arguments[0]).absolute()
    with tempfile.TemporaryDirectory() as folder:
        record.write_text("".join(f"{line}\n" for line in make_record(Path(folder))), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
