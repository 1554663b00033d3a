"""The precision that "auto" chooses."""

import pytest
import torch
from pytest import MonkeyPatch

from mtkit.models.device import pick_precision

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
    features: dict[str, object], fastest: str, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: features)
    cpu = torch.device("cpu")
    assert pick_precision("auto", cpu) == fastest
    assert pick_precision("bfloat16", cpu) == "bfloat16"
