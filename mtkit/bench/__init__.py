"""How fast this machine trains a model, and how fast it could."""

from mtkit.bench.ceiling import bench_ceiling
from mtkit.bench.train import bench_train

__all__ = ["bench_ceiling", "bench_train"]
