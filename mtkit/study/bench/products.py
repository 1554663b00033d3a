"""The matrix products that an update cannot do without: recorded while one batch is learnt from.

Kernels that hide products are out of use meanwhile: oneDNN's and cuDNN's LSTMs, and a GPU's fused
attention (which computes its scores twice, to save memory). Products of a matrix and a vector are
left out, and those of an optimizer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from mtkit.study.bench.parts import REST, part_names, telling
from mtkit.terms import Batch
from mtkit.training.state import TrainState

aten = torch.ops.aten
FIRST_FACTOR = {aten.mm: 0, aten.addmm: 1, aten.bmm: 0, aten.baddbmm: 1}
"""Operators that multiply matrices, and where among their arguments both factors begin."""


@dataclass(frozen=True)
class Product:
    """`count` products of (rows, inner) and (inner, columns) matrices, `batch` at a time each."""

    part: str
    rows: int
    inner: int
    columns: int
    layout: str
    """Whether each factor is stored transposed (t) or not (n), in the letters of BLAS."""
    precision: str
    batch: int = 1
    count: int = 1

    @property
    def flops(self) -> int:
        """Number of additions and multiplications."""
        return 2 * self.count * self.batch * self.rows * self.inner * self.columns


def products_of(state: TrainState, batch: Batch) -> list[Product]:
    """Those of one forward and backward pass, the costliest first; `batch` is on the device."""
    recorder = _Recorder(part_names(state.objective))
    with plain_kernels(), telling(state.objective, recorder.tell), recorder:
        with state.autocast():
            loss = state.objective(batch.source, batch.target_input, batch.target_output)
        loss.smoothed.backward()
    state.optimizer.zero_grad(set_to_none=True)
    return sorted(recorder.products(), key=lambda product: -product.flops)


@contextmanager
def plain_kernels() -> Iterator[None]:
    onednn: Any = torch.backends.mkldnn  # whose `flags` would warn about GPUs
    before, onednn.enabled = onednn.enabled, False
    try:
        with (
            torch.compiler.set_stance("force_eager"),
            torch.backends.cudnn.flags(enabled=False),
            sdpa_kernel(SDPBackend.MATH),
        ):
            yield
    finally:
        onednn.enabled = before


class _Recorder(TorchDispatchMode):
    """Notes every product that torch is asked for, and in its place hands out zeros, in no time."""

    def __init__(self, parts: Mapping[str, str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._parts, self._at_work = parts, REST
        self._seen: Counter[tuple[str, Product]] = Counter()

    def tell(self, module: str) -> None:
        self._at_work = module

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = kwargs or {}
        first = FIRST_FACTOR.get(func.overloadpacket)
        if first is None:
            return func(*args, **given)
        left, right = args[first : first + 2]
        self._seen[self._at_work, self._product(left, right)] += 1
        shape = (*left.shape[:-1], right.shape[-1])
        return given["out"].zero_() if "out" in given else left.new_zeros(shape)

    def _product(self, left: Tensor, right: Tensor) -> Product:
        *batch, rows, inner = left.shape
        part, layout = self._parts[self._at_work], _stored(left) + _stored(right)
        precision = str(left.dtype).removeprefix("torch.")
        return Product(part, rows, inner, right.shape[-1], layout, precision, *batch)

    def products(self) -> list[Product]:
        """A weight that is used time and again, as step by step, has one product as its gradient.

        For A1 B1 + A2 B2 + … is the product of [A1 A2 …] and [B1; B2; …].
        """
        counts: Counter[Product] = Counter()
        inner: Counter[tuple[str, Product]] = Counter()
        for (module, product), count in self._seen.items():
            if product.layout[0] == "t" and product.batch == 1:
                inner[module, replace(product, inner=0)] += count * product.inner
            else:
                counts[product] += count
        counts.update(replace(product, inner=total) for (_, product), total in inner.items())
        return [replace(product, count=count) for product, count in counts.items()]


def _stored(factor: Tensor) -> str:
    return "n" if factor.stride(-1) == 1 or factor.shape[-1] == 1 else "t"
