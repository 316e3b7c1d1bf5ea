# SPDX-License-Identifier: Apache-2.0
"""The models have their published numbers of parameters, and torch's own buckets."""

from __future__ import annotations

import pytest

from hipsnet.collective import models
from hipsnet.errors import InputError


@pytest.mark.parametrize(
    ("model", "count"), [("vgg19", 143_667_240), ("lenet5", 61_706), ("mnist-1m", 987_210)]
)
def test_parameters(model: str, count: int) -> None:
    parameters = models.parameters(model)
    assert sum(parameter.count for parameter in parameters) == count
    assert len({parameter.name for parameter in parameters}) == len(parameters)


def test_vgg19_by_layers() -> None:
    found = {parameter.name: parameter.shape for parameter in models.parameters("vgg19")}
    assert len(found) == 2 * 19
    assert list(found)[:4] == ["features.0.weight", "features.0.bias", "features.2.weight", "features.2.bias"]
    assert found["features.0.weight"] == (64, 3, 3, 3)
    assert found["features.34.weight"] == (512, 512, 3, 3)
    assert found["classifier.0.weight"] == (4096, 25088)
    assert found["classifier.6.bias"] == (1000,)


def test_buckets_of_vgg19() -> None:
    """The last layer closes the first bucket of 1 MiB; the first dense layer is far above any cap."""
    found = models.buckets("vgg19", "float32")
    assert found == (4_097_000, 16_781_312, 102_764_544, 7_079_424, 7_079_424, 5_865_536)


@pytest.mark.parametrize("model", models.MODELS)
@pytest.mark.parametrize("dtype", models.ITEM_BYTES)
def test_buckets_are_those_of_torch(model: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    distributed = pytest.importorskip("torch.distributed")
    backwards = models.parameters(model)[::-1]
    tensors = [torch.empty(p.shape, dtype=getattr(torch, dtype), device="meta") for p in backwards]
    expected, _ = distributed._compute_bucket_assignment_by_size(tensors, [1 << 20, 25 << 20])
    assert models.buckets(model, dtype) == tuple(
        sum(backwards[i].count for i in bucket) for bucket in expected
    )


def test_unknown_names() -> None:
    with pytest.raises(InputError, match="allowed: vgg19, lenet5, mnist-1m"):
        models.buckets("vgg20", "float32")
    with pytest.raises(InputError, match="found 'float8'; allowed: float16"):
        models.buckets("vgg19", "float8")
