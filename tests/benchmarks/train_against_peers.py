"""Trains the same small model with mtkit and with a peer, in turn, and compares their speed.

    python tests/benchmarks/train_against_peers.py --peer hf --peer-python PEER/bin/python
    python tests/benchmarks/train_against_peers.py --peer eole --peer-python PEER/bin/python \\
        --size base --rounds 5

Each round runs both, one after the other, in processes of their own, so that what else the machine
does falls on both; medians over the rounds are compared. Both read the corpus in one tokenization
and in batches of one size, and run in the precision that is fastest for each. Speed is real target
tokens (end of sentence included) per second, the median of the windows of a run; memory is the
largest resident set of the main process (eole's data workers are not counted), and of all ranks of
mtkit, which it starts as it does in training.

The peer's environment needs torch, of the same version as mtkit's, and:

hf      transformers; a MarianMTModel in a plain loop (peer_hf.py), on batches of the same size
eole    eole; all that it requires, or what its start needs: pip install --no-deps eole, then
        aiohttp configargparse fastapi huggingface_hub pandas pyahocorasick pydantic pyonmttok
        pyyaml rapidfuzz requests rich sacrebleu safetensors "sentencepiece<=0.2.2" six tensorboard
        tokenizers torch-optimi uvicorn waitress (spacy, fasttext, ctranslate2 are not needed)
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from marian import marian_settings, write_batches
from processes import mtkit, run, start, wait

from mtkit.artifacts.manifest import open_artifact
from mtkit.config.settings import Config
from mtkit.config.yaml import dump_config
from mtkit.extras.study.bench.sample import size_config
from mtkit.tokenizer.codec import Tokenizer

BEST_PRECISION = {"tiny": "float32", "base": "bfloat16"}
"""Of both peers on processors that multiply bfloat16; mtkit chooses for itself."""
SIDES = {"source": "en", "target": "de"}
WARM_UP = 15.0
"""Seconds that a peer trains before its speed counts."""


@dataclass(frozen=True)
class Result:
    """Of one run."""

    tokens_per_second: float
    peak_mib: int


@dataclass(frozen=True)
class Task:
    """The input of both sides."""

    options: argparse.Namespace
    work: Path
    config_file: Path
    config: Config


def main() -> None:
    options = _options()
    with TemporaryDirectory(prefix="mtkit-peers-") as folder:
        task = _prepare(options, Path(options.work or folder))
        sides = {"mtkit": run_mtkit, options.peer: PEERS[options.peer]}
        tokens = task.config.batching.max_tokens
        print(f"{options.size}, batches of {tokens:,}, {options.threads} threads", flush=True)
        results: dict[str, list[Result]] = {name: [] for name in sides}
        for number in range(1, options.rounds + 1):
            for name, run in sides.items():
                results[name].append(run(task))
                _show(f"round {number}", name, results[name][-1])
    middle = {name: _middle(of_name) for name, of_name in results.items()}
    for name, result in middle.items():
        _show("median", name, result)
    own, peer = middle["mtkit"], middle[options.peer]
    print(f"mtkit: {own.tokens_per_second / peer.tokens_per_second:.2f} x the tokens/s, ", end="")
    print(f"{own.peak_mib / peer.peak_mib:.2f} x the memory")


def run_mtkit(task: Task) -> Result:
    """`mtkit bench train` on the batches of the run."""
    command = mtkit("bench", "train", "-c", str(task.config_file), "--json", "--quiet")
    command += ["--seconds", str(task.options.seconds)]
    finished = run(command, threads=task.options.threads)
    record = finished.record
    return Result(record["tokens_per_second"]["median"], record["peak_mib"]["resident"])


def run_hf(task: Task) -> Result:
    """peer_hf.py in the peer's interpreter."""
    batches = task.work / "batches.safetensors"
    if not batches.exists():
        write_batches(task.config, batches)
    options = task.options
    settings = {
        "batches": str(batches),
        "precision": BEST_PRECISION[options.size],
        "model": marian_settings(task.config),
        "seconds": WARM_UP + options.seconds,
    }
    script = str(Path(__file__).with_name("peer_hf.py"))
    command = [options.peer_python, script, json.dumps(settings)]
    finished = run(command, threads=options.threads)
    windows = [json.loads(line) for line in finished.text.splitlines()]
    rates = [
        window["tokens"] / (window["seconds"] - before["seconds"])
        for before, window in pairwise(windows)
        if before["seconds"] > WARM_UP
    ]
    return Result(median(rates), finished.peak_mib)


def run_eole(task: Task) -> Result:
    """`eole train`, stopped when it has trained long enough; its log tells its speed."""
    config = task.work / "eole.yaml"
    if not config.exists():
        _write_pieces(task)
        config.write_text(yaml.safe_dump(_eole_config(task)), encoding="utf-8")
    program = str(Path(task.options.peer_python).with_name("eole"))
    command = [program, "train", "--config", str(config)]
    threads = task.options.threads
    process = start(command, threads=threads, stderr=subprocess.STDOUT, is_leader=True)
    assert process.stdout is not None
    rates, lines, first = [], [], None
    for line in process.stdout:
        lines.append(line)
        if speed := re.search(r"bsz:.*; *\d+/ *(\d+) tok/s", line):
            now = time.monotonic()
            first = first or now
            if now - first > WARM_UP:
                rates.append(float(speed[1]))
            if now - first > WARM_UP + task.options.seconds:
                os.killpg(process.pid, signal.SIGTERM)
                break
    process.stdout.close()
    peak = wait(process)
    if not rates:
        sys.exit("".join(lines[-20:]) + "eole: ended without a line on its speed")
    return Result(median(rates), peak)


PEERS: Mapping[str, Callable[[Task], Result]] = {"hf": run_hf, "eole": run_eole}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer", choices=PEERS, required=True)
    parser.add_argument("--peer-python", required=True, help="interpreter that has the peer")
    parser.add_argument("--size", choices=("tiny", "base"), default="tiny")
    parser.add_argument("--data", type=Path, default=Path("data/multi30k"), help="Multi30k")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60.0, help="of each run that count")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--work", type=Path, help="folder to keep tokenizer and batches in")
    return parser.parse_args()


def _prepare(options: argparse.Namespace, work: Path) -> Task:
    """Tokenizer and batches of mtkit, from which everything else is made."""
    work = (work / options.size).resolve()
    work.mkdir(parents=True, exist_ok=True)
    overrides = [f"run={work / 'run'}"]
    for part, name in (("train", "train"), ("valid", "val")):
        for side, end in SIDES.items():
            overrides.append(f"data.{part}.{side}={(options.data / f'{name}.{end}').resolve()}")
    config = size_config(options.size, overrides)
    config_file = work / "mtkit.yaml"
    config_file.write_text(dump_config(config), encoding="utf-8")
    for stage in ("train-spm", "batch"):
        run(mtkit(stage, "-c", str(config_file)))
    return Task(options, work, config_file, config)


def _write_pieces(task: Task) -> None:
    """The corpus in subwords, and their vocabulary, as text."""
    tokenizer = Tokenizer.load(open_artifact(Path(task.config.run) / "tokenizer", "tokenizer"))
    for name in ("train", "val"):
        for side, end in SIDES.items():
            text = (task.options.data / f"{name}.{end}").read_text(encoding="utf-8")
            encode = tokenizer.encode_source if side == "source" else tokenizer.encode_target
            ids_of_lines = encode(text.removesuffix("\n").split("\n"))
            lines = [" ".join(tokenizer.target_pieces(ids)) for ids in ids_of_lines]
            (task.work / f"{name}.{side}").write_text("\n".join([*lines, ""]), encoding="utf-8")
    ids = list(range(len(SPECIAL), tokenizer.target_vocab))
    vocabulary = "".join(f"{piece}\t1\n" for piece in tokenizer.target_pieces(ids))
    (task.work / "vocabulary").write_text(vocabulary, encoding="utf-8")


SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")


EOLE = """
overwrite: true
seed: 1
vocab_size_multiple: 1
share_vocab: true
n_sample: 0
training: {world_size: 1, gpu_ranks: [], batch_type: tokens, batch_size_multiple: 1,
  bucket_size: 30000, prefetch_factor: 100, accum_count: [1], accum_steps: [0], dropout_steps: [0],
  attention_dropout: [0.0], optim: adam, adam_beta2: 0.98, learning_rate: 1, warmup_steps: 4000,
  decay_method: noam, max_grad_norm: 1, label_smoothing: 0.1, param_init_method: xavier_uniform,
  normalization: tokens}
model: {architecture: transformer, share_embeddings: true, share_decoder_embeddings: true,
  add_qkvbias: true, add_final_linear_bias: true, add_ffnbias: true}
"""
"""The same model, batches and optimizer in the words of eole, as far as they are constant."""


def _eole_config(task: Task) -> dict[str, Any]:
    model, work = task.config.model.model_dump(), task.work
    config: dict[str, Any] = yaml.safe_load(EOLE)
    precision, vocab = BEST_PRECISION[task.options.size], task.config.tokenizer.vocab_size
    config |= {name: str(work / "vocabulary") for name in ("src_vocab", "tgt_vocab")}
    config |= dict.fromkeys(("src_vocab_size", "tgt_vocab_size"), vocab)
    config["save_data"] = str(work / "eole-data")
    config["report_every"] = 10 if task.options.size == "tiny" else 3
    config["data"] = {
        part: {
            "path_src": str(work / f"{name}.source"),
            "path_tgt": str(work / f"{name}.target"),
            "transforms": [],
        }
        for part, name in (("train", "train"), ("valid", "val"))
    }
    steps = dict.fromkeys(("train_steps", "valid_steps", "save_checkpoint_steps"), 1_000_000)
    config["training"] |= steps | {
        "model_path": str(work / "eole-model"),
        "compute_dtype": {"float32": "fp32", "bfloat16": "bf16"}[precision],
        "use_amp": precision != "float32",
        "batch_size": task.config.batching.max_tokens,
        "dropout": [model["dropout"]],
    }
    names = {"layers": "layers", "heads": "heads", "d_model": "hidden_size"}
    config["model"] |= {theirs: model[ours] for ours, theirs in names.items()}
    config["model"]["transformer_ff"] = model["ffn"]
    config["model"]["embeddings"] = {
        "word_vec_size": model["d_model"],
        "position_encoding_type": "SinusoidalInterleaved",
    }
    return config


def _middle(results: list[Result]) -> Result:
    speeds = [result.tokens_per_second for result in results]
    return Result(median(speeds), round(median(result.peak_mib for result in results)))


def _show(when: str, name: str, result: Result) -> None:
    speed = f"{result.tokens_per_second:8,.0f} target tokens/s"
    print(f"{when:<8}  {name:<6}{speed}  {result.peak_mib:6,} MiB", flush=True)


if __name__ == "__main__":
    main()
