"""Translates a file with a MarianMTModel of Hugging Face transformers, and tells how long it took.

Run by translate_against_peers.py, in an interpreter that has torch and transformers; mtkit is not
used. Sentences are sorted by length. Writes {"seconds": [of each pass]} to stdout.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
from transformers import MarianMTModel, MarianTokenizer


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    dtype = getattr(torch, options.compute_type)
    model = MarianMTModel.from_pretrained(options.model, dtype=dtype).eval()
    tokenizer = MarianTokenizer.from_pretrained(options.model)
    lines = options.input.read_text(encoding="utf-8").removesuffix("\n").split("\n")

    def translate(lines: list[str]) -> list[str]:
        ids = tokenizer(lines)["input_ids"]
        order = sorted(range(len(lines)), key=lambda line: -len(ids[line]))
        translations = [""] * len(lines)
        for first in range(0, len(order), options.batch_size):
            chosen = order[first : first + options.batch_size]
            batch = tokenizer.pad({"input_ids": [ids[i] for i in chosen]}, return_tensors="pt")
            found = model.generate(
                **batch,
                num_beams=options.beam,
                do_sample=False,
                length_penalty=1.0,
                early_stopping=True,
                max_length=options.max_length + 1,  # counts the symbol to start with
            )
            texts = tokenizer.batch_decode(found, skip_special_tokens=True)
            for line, text in zip(chosen, texts, strict=True):
                translations[line] = text
        return translations

    seconds = []
    with torch.inference_mode():
        translate(lines[: options.batch_size])
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
    parser.add_argument("--compute-type", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--max-length", type=int, default=256)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
