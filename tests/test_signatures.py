"""Types and shapes are checked in tests."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch
from jaxtyping import TypeCheckError

from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.engines.engine import Request
from mtkit.decoding.text.case import truecase
from mtkit.training.optimizers import orthogonalize


def test_a_function_refuses_arguments_of_other_types_and_shapes() -> None:
    with pytest.raises(TypeCheckError, match="orthogonalize"):
        orthogonalize(torch.zeros(2, 2))
    with pytest.raises(TypeCheckError, match="truecase"):
        truecase(cast(Any, 1), cast(Any, None))


def test_a_dataclass_refuses_fields_of_other_types() -> None:
    with pytest.raises(TypeCheckError, match="Request"):
        Request(cast(DecodingSettings, 1))
