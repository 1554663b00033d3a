"""Translates a file with CTranslate2 and SentencePiece alone, and tells how long it took.

Run by translate_against_peers.py; mtkit is not used. Writes {"seconds": [of each pass]} to stdout.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import ctranslate2
import sentencepiece


def main() -> None:
    options = _options()
    source = sentencepiece.SentencePieceProcessor(model_file=options.source_spm)
    target = sentencepiece.SentencePieceProcessor(model_file=options.target_spm)
    translator = ctranslate2.Translator(
        options.model,
        compute_type=options.compute_type,
        inter_threads=options.workers,
        intra_threads=options.threads,
    )
    lines = options.input.read_text(encoding="utf-8").removesuffix("\n").split("\n")

    def translate(lines: list[str]) -> list[str]:
        results = translator.translate_batch(
            source.encode(lines, out_type=str),
            beam_size=options.beam,
            max_batch_size=options.batch_size,
            batch_type=options.batch_type,
            max_decoding_length=options.max_length,
        )
        return [target.decode(result.hypotheses[0]) for result in results]

    seconds = []
    for _ in range(options.passes):
        began = time.perf_counter()
        translations = translate(lines)
        seconds.append(time.perf_counter() - began)
    if options.output:
        options.output.write_text("".join(f"{line}\n" for line in translations), encoding="utf-8")
    print(json.dumps({"seconds": seconds}))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("input", type=Path)
    parser.add_argument("--source-spm", required=True)
    parser.add_argument("--target-spm", required=True)
    parser.add_argument("--compute-type", default="float32")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--max-length", type=int, default=256)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--batch-type", choices=("examples", "tokens"), default="examples")
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
