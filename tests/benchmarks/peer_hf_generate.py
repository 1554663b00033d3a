"""Translates a file with a MarianMTModel of Hugging Face transformers, and tells how long it took.

Run by translate_against_peers.py, in an interpreter that has torch and transformers. Sentences are
sorted by length.
"""

from __future__ import annotations

import torch
from peer import parser_of, time_passes
from transformers import MarianMTModel, MarianTokenizer


def main() -> None:
    options = parser_of(__doc__).parse_args()
    torch.set_num_threads(options.threads)
    dtype = getattr(torch, options.compute_type)
    model = MarianMTModel.from_pretrained(options.model, dtype=dtype).eval()
    tokenizer = MarianTokenizer.from_pretrained(options.model)

    def translate(lines: list[str]) -> list[str]:
        ids = tokenizer(lines)["input_ids"]
        order = sorted(range(len(lines)), key=lambda line: -len(ids[line]))
        translations = [""] * len(lines)
        for first in range(0, len(order), options.batch_size):
            chosen = order[first : first + options.batch_size]
            batch = tokenizer.pad({"input_ids": [ids[i] for i in chosen]}, return_tensors="pt")
            outputs = model.generate(
                **batch,
                num_beams=options.beam,
                do_sample=False,
                length_penalty=1.0,
                early_stopping=True,
                max_length=options.max_length + 1,  # counts the symbol to start with
            )
            texts = tokenizer.batch_decode(outputs, skip_special_tokens=True)
            for line, text in zip(chosen, texts, strict=True):
                translations[line] = text
        return translations

    with torch.inference_mode():
        time_passes(translate, options, warm_up=options.batch_size)


if __name__ == "__main__":
    main()
