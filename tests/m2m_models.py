"""Folders as those of M2M-100 and NLLB are, with random weights."""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
NLLB_LANGUAGES = ["deu_Latn", "eng_Latn", "yor_Latn", "zho_Hans", "zho_Hant"]
MADE_UP = 8
"""Rows of M2M-100 that stand for nothing."""


def train_spm(path: Path, lines: Sequence[str], vocab_size: int = 60) -> list[str]:
    """Write a SentencePiece model, and return its pieces."""
    model = BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        minloglevel=3,
        vocab_size=vocab_size,
        model_type="bpe",
    )
    path.write_bytes(model.getvalue())
    processor = SentencePieceProcessor(model_proto=model.getvalue())
    return [processor.id_to_piece(i) for i in range(processor.vocab_size())]


def write_m2m(transformers: Any, folder: Path, lines: Sequence[str], **config: Any) -> Path:
    """Write an M2M-100 model; `vocab.json` lacks a piece of SentencePiece and has another one."""
    folder.mkdir()
    pieces = train_spm(folder / "sentencepiece.bpe.model", lines)[3:]
    text = [*SPECIAL, *pieces[1:], "\N{LOWER ONE EIGHTH BLOCK}qqq"]
    (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(text)}))
    module = transformers.models.m2m_100.tokenization_m2m_100
    languages = module.FAIRSEQ_LANGUAGE_CODES["m2m100"]
    symbols = [f"__{language}__" for language in languages]
    size = len(text) + len(languages) + MADE_UP
    return _write_model(transformers, folder, size, symbols, config)


def write_nllb(
    transformers: Any, folder: Path, lines: Sequence[str], *, spm_size: int = 60, **config: Any
) -> Path:
    """Write an NLLB model."""
    folder.mkdir()
    pieces = train_spm(folder / "sentencepiece.bpe.model", lines, spm_size)
    size = len(pieces) + 1 + len(NLLB_LANGUAGES) + 1  # <pad>, <mask>
    return _write_model(transformers, folder, size, NLLB_LANGUAGES, config)


def _write_model(
    transformers: Any,
    folder: Path,
    size: int,
    symbols: Sequence[str],
    changes: dict[str, Any],
) -> Path:
    tokens = {"additional_special_tokens": list(symbols)}
    (folder / "special_tokens_map.json").write_text(json.dumps(tokens))
    config = {
        "vocab_size": size,
        "d_model": 16,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_ffn_dim": 24,
        "decoder_ffn_dim": 24,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "init_std": 0.3,
    }
    torch.manual_seed(5)
    model = transformers.M2M100ForConditionalGeneration(
        transformers.M2M100Config(**(config | changes))
    )
    for parameter in model.parameters():
        if parameter.dim() == 1:  # no ties between translations
            torch.nn.init.normal_(parameter, std=0.5)
    model.generation_config = transformers.GenerationConfig(
        bos_token_id=0,
        pad_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=2,
        num_beams=4,
        length_penalty=0.0,
        max_length=20,
        early_stopping=True,
    )
    model.save_pretrained(folder)
    return folder
