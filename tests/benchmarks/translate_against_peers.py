"""Translates the same text with mtkit and with peers, in turn, and compares their speed.

    python tests/benchmarks/translate_against_peers.py --model RUN --input test2016.en
    python tests/benchmarks/translate_against_peers.py --size base --rounds 5

Without a model, one of a size with random weights translates drawn sentences. All sides have the
same weights and search with the same beam; SentencePiece is included on all. Each round runs every
side, one after the other, in processes of their own, so that what else the machine does falls on
all; medians over the rounds are compared. Speed is sentences per second: of passes over the whole
text once all is warm, and of the whole process, from its start to the last line in the file.

ctranslate2  CTranslate2 by itself: first, its fastest workers, threads and batches are searched
             for, in each type of numbers; mtkit chooses for itself
torch        generate of Hugging Face transformers, in batches of 64 by length; another interpreter
             that has it can be named by --peer-python
cold         one sentence from stdin, against the shortest script there is: seconds
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from processes import mtkit, run
from random_model import draw_model, draw_sentences

from mtkit.corpus.files import input_lines
from mtkit.decoding.api import load as load_translator
from mtkit.decoding.engines.conversion import cached
from mtkit.extras.pretrained.huggingface import export_to_huggingface
from mtkit.extras.study.bench.translation_speed import measure_in_process
from mtkit.models.folder import OpenedModel, open_model

HERE = Path(__file__).parent
SECONDS = 5.0
"""How long mtkit translates in a round, when all is warm."""
CORES = len(os.sched_getaffinity(0))
BATCHES = [("examples", 8), ("examples", 16), ("examples", 32), ("examples", 64)]
BATCHES += [("tokens", 256), ("tokens", 512), ("tokens", 1024)]
BARE = """
import sys, ctranslate2, sentencepiece
model, source, target, beam = sys.argv[1:]
encode = sentencepiece.SentencePieceProcessor(model_file=source).encode
decode = sentencepiece.SentencePieceProcessor(model_file=target).decode
translator = ctranslate2.Translator(model, compute_type="float32")
line = sys.stdin.readline().rstrip()
outputs = translator.translate_batch([encode(line, out_type=str)], beam_size=int(beam))
print(decode(outputs[0].hypotheses[0]))
"""


@dataclass(frozen=True)
class Task:
    """The input of all sides."""

    options: argparse.Namespace
    work: Path
    opened: OpenedModel
    input: Path
    lines: list[str]

    def rate(self, seconds: float) -> float:
        """Sentences per second."""
        return len(self.lines) / seconds

    @property
    def beam(self) -> list[str]:
        return ["--beam", str(self.options.beam)]

    @property
    def tokenizers(self) -> list[str]:
        """The source's and the target's SentencePiece model."""
        names = list(self.opened.tokenizer.models)
        return [str(self.opened.artifact.path / name) for name in (names[0], names[-1])]


Side = Callable[[], float]


def main() -> None:
    options = _options()
    with TemporaryDirectory(prefix="mtkit-peers-") as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        if options.model is None:
            model = Path(folder) / "model"
            draw_model(model, options.size)
            lines = draw_sentences(options.size)
        else:
            model = Path(options.model)
            lines = list(input_lines(options.input))
        lines, text = lines[: options.sentences], Path(folder) / "input.txt"
        text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        task = Task(options, Path(folder), open_model(str(model)), text, lines)
        print(f"{len(task.lines):,} sentences, beam {options.beam}, {CORES} cores", flush=True)
        for part in options.parts or PARTS:
            PARTS[part](task)


def compare_ctranslate2(task: Task) -> None:
    for compute_type in ("float32", "int8"):
        model = str(cached(task.opened, compute_type).path)
        best = _best_settings(task, [model, "--compute-type", compute_type])
        print(f"CTranslate2 {compute_type} is fastest with {' '.join(best)}", flush=True)
        peer = _peer("peer_ctranslate2.py", task, [model, "--compute-type", compute_type, *best])
        _compare(f"ctranslate2 {compute_type}", task, ("ctranslate2", compute_type), peer)


def compare_torch(task: Task) -> None:
    folder = task.work / "huggingface"
    export_to_huggingface(str(task.opened.artifact.path), folder)
    for compute_type in ("float32", "bfloat16"):
        arguments = [str(folder), "--compute-type", compute_type, "--threads", str(CORES)]
        peer = _peer("peer_hf_generate.py", task, arguments)
        _compare(f"torch {compute_type}", task, ("torch", compute_type), peer)


def compare_cold(task: Task) -> None:
    line = task.lines[0] + "\n"
    model = str(cached(task.opened, "float32").path)
    bare = [sys.executable, "-c", BARE, model, *task.tokenizers, str(task.options.beam)]
    own = mtkit("translate", "-m", str(task.opened.artifact.path), *task.beam)
    sides: dict[str, Side] = {
        "mtkit": lambda: run([*own, "--compute-type", "float32"], text=line).seconds,
        "peer": lambda: run(bare, text=line).seconds,
    }
    rounds = [{name: side() for name, side in sides.items()} for _ in range(10)]
    middle = {name: median(each[name] for each in rounds) for name in sides}
    ratio = middle["mtkit"] / middle["peer"]
    print(
        f"one sentence, cold: mtkit {middle['mtkit']:.3f} s, bare script {middle['peer']:.3f} s: "
        f"{ratio:.2f} x the time",
        flush=True,
    )


PARTS: dict[str, Callable[[Task], None]] = {
    "ctranslate2": compare_ctranslate2,
    "torch": compare_torch,
    "cold": compare_cold,
}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all, if none is named")
    parser.add_argument("--model", help="run or model")
    parser.add_argument("--input", type=Path, help="its text")
    parser.add_argument("--size", choices=("tiny", "base"), default="tiny", help="without a model")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=1000, help="as many of them at most")
    parser.add_argument("--peer-python", default=sys.executable, help="that has transformers")
    options = parser.parse_args()
    if (options.model is None) != (options.input is None):
        parser.error("--model and --input go together")
    return options


def _best_settings(task: Task, arguments: list[str]) -> list[str]:
    """Options of peer_ctranslate2.py with which the best of three passes is fastest."""
    tried: dict[str, float] = {}
    for workers, (batch_type, size) in product(sorted({1, CORES}), BATCHES):
        settings = ["--workers", str(workers), "--threads", str(CORES // workers)]
        settings += ["--batch-type", batch_type, "--batch-size", str(size)]
        command = _peer("peer_ctranslate2.py", task, [*arguments, *settings, "--passes", "3"])
        tried[" ".join(settings)] = min(run(command).record["seconds"])
    return min(tried, key=tried.__getitem__).split()


def _peer(script: str, task: Task, arguments: list[str]) -> list[str]:
    """A command that translates the text."""
    python, words = task.options.peer_python, [*arguments, *task.beam]
    words += ["--max-length", str(task.opened.config.decoding.max_length)]
    if script == "peer_ctranslate2.py":
        source, target = task.tokenizers
        python, words = sys.executable, [*words, "--source-spm", source, "--target-spm", target]
    return [python, str(HERE / script), words[0], str(task.input), *words[1:]]


def _compare(name: str, task: Task, engine: tuple[str, str], peer: list[str]) -> None:
    model, output = str(task.opened.artifact.path), str(task.work / "output.txt")
    load = partial(
        load_translator,
        model,
        engine=engine[0],
        compute_type=engine[1],
        scores=False,
        beam=task.options.beam,
    )
    own = mtkit("translate", str(task.input), "-o", output, *task.beam, "-m", model, "--quiet")
    own += ["--engine", engine[0], "--compute-type", engine[1]]
    sides: dict[str, dict[str, Side]] = {
        "warm": {
            "mtkit": lambda: measure_in_process(load, task.lines, SECONDS)["sentences_per_second"],
            "peer": lambda: task.rate(median(run([*peer, "--passes", "3"]).record["seconds"])),
        },
        "whole process": {
            "mtkit": lambda: task.rate(run(own).seconds),
            "peer": lambda: task.rate(run([*peer, "-o", output]).seconds),
        },
    }
    for kind, pair in sides.items():
        rounds = [{side: rate() for side, rate in pair.items()} for _ in range(task.options.rounds)]
        rates = {side: median(each[side] for each in rounds) for side in pair}
        ratios = sorted(each["mtkit"] / each["peer"] for each in rounds)
        print(
            f"{name}, {kind}: mtkit {rates['mtkit']:.1f}, peer {rates['peer']:.1f} sentences/s: "
            f"{rates['mtkit'] / rates['peer']:.2f} x ({ratios[0]:.2f} to {ratios[-1]:.2f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
