"""Translates a file with CTranslate2 and SentencePiece alone, and tells how long it took.

Run by translate_against_peers.py.
"""

from __future__ import annotations

import ctranslate2
import sentencepiece
from peer import parser_of, time_passes


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--source-spm", required=True)
    parser.add_argument("--target-spm", required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--batch-type", choices=("examples", "tokens"), default="examples")
    options = parser.parse_args()
    source = sentencepiece.SentencePieceProcessor(model_file=options.source_spm)
    target = sentencepiece.SentencePieceProcessor(model_file=options.target_spm)
    translator = ctranslate2.Translator(
        options.model,
        compute_type=options.compute_type,
        inter_threads=options.workers,
        intra_threads=options.threads,
    )

    def translate(lines: list[str]) -> list[str]:
        results = translator.translate_batch(
            source.encode(lines, out_type=str),
            beam_size=options.beam,
            max_batch_size=options.batch_size,
            batch_type=options.batch_type,
            max_decoding_length=options.max_length,
        )
        return [target.decode(result.hypotheses[0]) for result in results]

    time_passes(translate, options)


if __name__ == "__main__":
    main()
