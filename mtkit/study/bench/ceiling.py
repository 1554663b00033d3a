"""The arithmetic limit: target tokens per second if training were its matrix products alone.

They are recorded while one batch is learnt from, those of a matrix and a vector and those of an
optimizer left out, and then each is measured by itself. No softmax, norm, dropout, cast or
optimizer is in it, and operands lie in the caches as well as they can: a wall that no
implementation of the same model gets through, only nearer to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.benchmark import Timer

from mtkit.models.device import TORCH_DTYPES
from mtkit.report import progress, show
from mtkit.study.bench.record import MACHINE, Record, describe_training, listed
from mtkit.study.bench.watching import REST, part_names, plain_kernels, telling
from mtkit.study.bench.workload import Workload
from mtkit.terms import Batch
from mtkit.training.data import load_batch
from mtkit.training.state import TrainState

SECONDS_EACH = 0.1
"""How long each product is repeated; the median counts."""

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


def bench_ceiling(workload: Workload, *, as_json: bool) -> None:
    """Writes the limit of a workload: in float32, in bfloat16, and as it is trained."""
    state = workload.fresh_state()
    batch = middling_batch(workload, state)
    products = products_of(state, batch)
    sweeps: dict[str, list[Product]] = {
        precision: [replace(product, precision=precision) for product in products]
        for precision in dict.fromkeys(("float32", "bfloat16", state.precision))
    }
    in_use = next((name for name, swept in sweeps.items() if swept == products), "mixed")
    sweeps[in_use] = products
    seconds = {name: product_seconds(swept, batch) for name, swept in sweeps.items()}
    record: Record = {"workload": workload.name} | describe_training(state)
    record["in_use"] = in_use
    record["batch"] = {
        "sentences": len(batch.source),
        "source": batch.source.shape[1],
        "target": batch.target_output.shape[1],
        "target_tokens": batch.target_tokens,
    }
    record["gflop"] = sum(product.flops for product in products) / 1e9
    record["limit_tokens_per_second"] = {
        name: round(batch.target_tokens / sum(taken), 1) for name, taken in seconds.items()
    }
    record["products"] = [
        asdict(product)
        | {"gflop": product.flops / 1e9}
        | {"gflop_per_second": {p: round(product.flops / 1e9 / seconds[p][i], 2) for p in seconds}}
        for i, product in enumerate(products)
    ]
    show(record, _text, as_json=as_json)


def middling_batch(workload: Workload, state: TrainState) -> Batch:
    """On the device: this rank's part of the batch in the middle, by target length, of an epoch."""
    store, plan = workload.data.train, workload.first_epoch(state.max_tokens)
    plan.sort(key=lambda rows: int(store.lengths[rows, 1].max()))
    rows = plan[len(plan) // 2][:: workload.ranks.parts(workload.config.training.accumulate)]
    return load_batch(store, rows).to(state.model.device)


def products_of(state: TrainState, batch: Batch) -> list[Product]:
    """Those of one forward and backward pass, the costliest first; `batch` is on the device."""
    recorder = _Recorder(part_names(state.objective))
    with plain_kernels(), telling(state.objective, recorder.tell), recorder:
        with state.autocast():
            loss = state.objective(batch.source, batch.target_input, batch.target_output)
        loss.smoothed.backward()
    state.optimizer.zero_grad(set_to_none=True)
    return sorted(recorder.products(), key=lambda product: -product.flops)


class _Recorder(TorchDispatchMode):
    """Notes every product that torch is asked for, and in its place hands out zeros, in no time."""

    def __init__(self, parts: Mapping[str, str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._parts, self._at_work = parts, REST
        self._counts: Counter[Product] = Counter()
        self._gradients: Counter[tuple[str, Product]] = Counter()

    def tell(self, module: str) -> None:
        self._at_work = module

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        first = FIRST_FACTOR.get(func.overloadpacket)
        if first is None:
            return func(*args, **given)
        left, right = args[first : first + 2]
        *batch, rows, inner = left.shape
        is_plain = [f.stride(-1) == 1 or f.shape[-1] == 1 for f in (left, right)]
        layout = "".join("n" if plain else "t" for plain in is_plain)
        precision = str(left.dtype).removeprefix("torch.")
        part, columns = self._parts[self._at_work], right.shape[-1]
        product = Product(part, rows, inner, columns, layout, precision, *batch)
        if layout[0] == "t" and product.batch == 1:
            self._gradients[self._at_work, replace(product, inner=0)] += inner
        else:
            self._counts[product] += 1
        shape = (*left.shape[:-1], columns)
        return given["out"].zero_() if "out" in given else left.new_zeros(shape)

    def products(self) -> list[Product]:
        """A weight that is used time and again, as step by step, has one product as its gradient.

        For A1 B1 + A2 B2 + … is the product of [A1 A2 …] and [B1; B2; …].
        """
        whole = Counter(replace(of, inner=inner) for (_, of), inner in self._gradients.items())
        return [replace(of, count=count) for of, count in (self._counts + whole).items()]


def product_seconds(products: Sequence[Product], batch: Batch) -> list[float]:
    """Seconds of each, all its `count` times, measured on the device of the batch."""
    seconds = []
    with progress("ceiling", len(products), "products") as shown:
        for product in products:
            seconds.append(product.count * _seconds(product, batch.source.device))
            shown.advance()
    return seconds


def _seconds(product: Product, device: torch.device) -> float:
    """Seconds of one such product."""

    def factor(rows: int, columns: int, stored: str) -> torch.Tensor:
        shape = (rows, columns) if stored == "n" else (columns, rows)
        batch, dtype = (
            (product.batch,) if product.batch > 1 else (),
            TORCH_DTYPES[product.precision],
        )
        made = torch.randn(*batch, *shape, dtype=dtype, device=device)
        return made if stored == "n" else made.mT

    left = factor(product.rows, product.inner, product.layout[0])
    right = factor(product.inner, product.columns, product.layout[1])
    # Into memory that is there already: a fresh result of many MB is paid for page by page.
    scope = {"multiply": torch.matmul, "a": left, "b": right, "out": left @ right}
    timer = Timer("multiply(a, b, out=out)", globals=scope, num_threads=torch.get_num_threads())
    return float(timer.blocked_autorange(min_run_time=SECONDS_EACH).median)


def _text(record: Record) -> Iterator[str]:
    yield record["workload"]
    yield MACHINE.format_map(record)
    yield (
        "a batch of {sentences} sentences, {source} and {target} long, {target_tokens:,} target "
        "tokens".format_map(record["batch"])
    )
    limits = record["limit_tokens_per_second"]
    for precision, limit in limits.items():
        in_use = "  (in use)" if precision == record["in_use"] else ""
        yield f"{precision:<9} {limit:10,.0f} target tokens/s{in_use}"
    yield ""
    products = [of | {"of_all": of["gflop"] / record["gflop"]} for of in record["products"]]
    sizes = {size: f"{{{size}:,}}" for size in ("batch", "rows", "inner", "columns")}
    columns = {"part": "{part}"} | sizes | {"": "{layout}", "in use": "{precision}"}
    columns |= {"times": "{count:,}", "of all": "{of_all:.1%}"}
    columns |= {f"{name} GFLOP/s": f"{{gflop_per_second[{name}]:,.0f}}" for name in limits}
    yield from listed(products, columns)
