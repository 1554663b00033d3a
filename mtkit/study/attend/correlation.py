"""Rank correlations, a row at a time."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor


def kendall(a: Float[Tensor, "*of I"], b: Float[Tensor, "*of I"]) -> Float[Tensor, "*of"]:
    """Kendall's τ-b of each pair of rows; NaN where all of a row are tied."""
    return _cosine(_order(a).flatten(-2), _order(b).flatten(-2))


def spearman(a: Float[Tensor, "*of I"], b: Float[Tensor, "*of I"]) -> Float[Tensor, "*of"]:
    """Spearman's ρ of each pair of rows, the tied at their mean rank; NaN where all are."""
    # How many are below less how many are above is twice the rank, from the middle.
    return _cosine(_order(a).sum(dim=-1), _order(b).sum(dim=-1))


def _order(x: Float[Tensor, "*of I"]) -> Float[Tensor, "*of I I"]:
    """1 where i is above j, -1 where it is below, 0 where they are tied."""
    return (x.unsqueeze(-1) - x.unsqueeze(-2)).sign()


def _cosine(a: Float[Tensor, "*of X"], b: Float[Tensor, "*of X"]) -> Float[Tensor, "*of"]:
    return (a * b).sum(dim=-1) / (a.square().sum(dim=-1) * b.square().sum(dim=-1)).sqrt()
