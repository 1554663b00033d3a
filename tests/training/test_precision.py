"""The number format that `auto` stands for."""

import pytest
import torch

from mtkit.errors import UserError
from mtkit.training.optimizer.precision import check_lstm, pick_precision

INTEL, AMD = {"cpu_name": "Intel Xeon"}, {"cpu_name": "AMD EPYC"}
AVX512, AMX = {"avx512_bf16": True}, {"amx_bf16": True}


@pytest.mark.parametrize(
    ("features", "fastest"),
    [
        (AMD | AVX512, "bfloat16"),
        (AVX512, "bfloat16"),
        (INTEL | AVX512 | AMX, "bfloat16"),
        (INTEL | AVX512 | {"amx_bf16": False}, "float32"),
        (AMD | {"avx512_bf16": False}, "float32"),
        ({}, "float32"),
    ],
    ids=["AMD", "unnamed", "Intel with AMX", "Intel without AMX", "older AMD", "not x86"],
)
def test_auto_is_bfloat16_only_where_its_products_are_faster(
    features: dict[str, object], fastest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: features)
    cpu = torch.device("cpu")
    assert pick_precision("auto", cpu) == fastest
    assert pick_precision("float16", cpu) == "float16"


def test_an_lstm_in_a_format_that_the_processor_lacks_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("could not create a primitive descriptor")

    check_lstm("float32", torch.device("cpu"))
    monkeypatch.setattr(torch.nn.LSTM, "forward", refuse)
    with pytest.raises(UserError, match=r"training\.precision: bfloat16: .* float32"):
        check_lstm("bfloat16", torch.device("cpu"))
