"""The web page of `mtkit attend`: attention, positions, learning rate and beam search.

The page needs no network. Python gives it data only; the script in page.html draws.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from mtkit.artifacts.runs import config_of, read_known_steps
from mtkit.config.model import EncoderDecoderSettings, LstmDecoderSettings, TransformerLayers
from mtkit.decoding.reading import (
    AttentionKind,
    AttentionMap,
    Reader,
    Reading,
    attention_maps,
    label_subwords,
)
from mtkit.errors import UserError
from mtkit.extras.study.attend.tree import BeamTree, TreeNode, search_tree
from mtkit.extras.study.curves import plan_rates, points_of
from mtkit.models.folder import OpenedModel
from mtkit.report import printable
from mtkit.symbols import EOS
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training.metrics_log import MetricsLog

TEMPLATE = Path(__file__).with_name("page.html")
RECURRENT_EQUATIONS = {
    "dot": "softmax(s · hᵀ)",
    "general": "softmax(s · W_a · hᵀ)",
    "additive": "softmax(v · tanh(W s + U h))",
}
"""The weights of each attention of an LSTM decoder."""
RECURRENT_SYMBOLS = "s: state of the decoder, h: states of the encoder"
MAX_NODES = 10
"""Largest number of nodes that a step of the tree shows, besides that of the winner."""


def page_content(text: str, reading: Reading, reader: Reader) -> dict[str, Any]:
    """Return the data of a page; None stands for what the model or its run does not have.

    Raises:
        UserError: as `attention_maps`.
    """
    maps = attention_maps(reader, reading)
    return {
        "source": text,
        "translation": reading.translation,
        "kinds": describe_attention(maps.values(), reader.model.settings),
        "positions": describe_positions(reader, reading),
        "schedule": None if reader.opened is None else describe_schedule(reader.opened),
        "search": describe_search(search_tree(reader, reading.source_ids), reader.tokenizer),
    }


def make_page(content: Mapping[str, Any]) -> str:
    """Return a self-contained HTML page that shows the data of `page_content`."""
    # "</script>" in a sentence would end the script that holds the data.
    encoded = json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")
    return TEMPLATE.read_text(encoding="utf-8").replace("DATA", encoded, 1)


def describe_attention(
    maps: Iterable[AttentionMap], settings: EncoderDecoderSettings
) -> list[dict[str, Any]]:
    """Return the kinds of attention, with words, equation and weights (three digits)."""
    kinds: list[dict[str, Any]] = []
    for attention in maps:
        # By layer, head, query and key.
        weights = attention.weights.double().round(decimals=3)
        description = {
            "kind": attention.kind,
            "equation": _equation(attention.kind, settings),
            "queries": attention.queries,
            "keys": attention.keys,
            "weights": weights.tolist(),
        }
        kinds.append(description)
    return kinds


def _equation(kind: AttentionKind, settings: EncoderDecoderSettings) -> str:
    """Return the equation of the weights; only a Transformer has self-attention."""
    decoder = settings.decoder
    if kind == "cross" and isinstance(decoder, LstmDecoderSettings):
        return f"{RECURRENT_EQUATIONS[decoder.attention]}, {RECURRENT_SYMBOLS}"
    half = settings.encoder if kind == "encoder" else decoder
    heads = cast(TransformerLayers, half).heads
    d_model = settings.d_model
    return f"softmax(Q Kᵀ / √d_head), d_head = {d_model} / {heads} = {d_model // heads}"


def describe_positions(reader: Reader, reading: Reading) -> dict[str, Any] | None:
    """Return the subwords of the source and the model size; None without encodings.

    The script of the page computes the encodings from these.
    """
    settings = reader.model.settings
    if getattr(settings.encoder, "positions", "none") == "none":  # an LSTM has no such setting
        return None
    ids = [*reading.source_ids, EOS]
    subwords = [text for text, _ in label_subwords(reader.tokenizer.source_pieces(ids))]
    return {"subwords": subwords, "size": settings.d_model}


def describe_schedule(opened: OpenedModel) -> dict[str, Any] | None:
    """Return formula, warmup and points of the learning rate; None if the run is unknown."""
    run = opened.run
    with suppress(UserError):
        config = config_of(run)
        if config.model != opened.config.model:  # the folder holds a run of another model
            return None
        losses = points_of(MetricsLog(run).read(), "valid", "loss")
        validations = [(int(step), loss) for step, loss in losses]
        schedule = config.training.schedule
        documentation = inspect.getdoc(type(schedule)) or ""
        formula = documentation.partition("\n")[0]  # the first line of a schedule's docstring
        return {
            "kind": schedule.kind,
            "formula": formula.replace("`", ""),
            "warmup": config.training.warmup,
            "points": plan_rates(config, read_known_steps(run), validations),
        }
    return None


def describe_search(tree: BeamTree, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the best nodes of each step, those of the winner, and all results."""
    steps: list[list[dict[str, Any]]] = []
    places_before: dict[tuple[int, ...], int] = {(): 0}  # the root is the parent of the first step
    for nodes in tree.steps:
        shown: list[TreeNode] = []
        for rank, node in enumerate(nodes):
            if rank < MAX_NODES or tree.is_of_winner(node):
                shown.append(node)
        steps.append([_describe_node(node, tree, tokenizer, places_before) for node in shown])
        places_before = {node.tokens: place for place, node in enumerate(shown)}
    texts = tokenizer.decode([list(hypothesis.tokens) for hypothesis in tree.finished])
    finished: list[dict[str, Any]] = []
    for text, hypothesis in zip(texts, tree.finished, strict=True):
        finished.append({"text": text, "score": round(hypothesis.score, 3)})
    return {"beam": tree.beam, "alpha": tree.alpha, "steps": steps, "finished": finished}


def _describe_node(
    node: TreeNode,
    tree: BeamTree,
    tokenizer: Tokenizer,
    places_before: Mapping[tuple[int, ...], int],
) -> dict[str, Any]:
    """Return a node as a dict for JSON; `places_before`: places of the nodes of the step before.

    The parent is the place of the node that this node extends; None if that node is not shown.
    """
    (subword,) = tokenizer.target_pieces([node.tokens[-1]])
    return {
        "subword": printable(subword),
        "parent": places_before.get(node.tokens[:-1]),
        "score": round(node.log_prob, 2),
        "fate": node.fate,
        "wins": tree.is_of_winner(node),
    }
