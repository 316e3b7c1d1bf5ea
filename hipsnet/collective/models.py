# SPDX-License-Identifier: Apache-2.0
"""The gradients of well-known networks, in the buckets of PyTorch's DistributedDataParallel (DDP)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

from hipsnet.errors import InputError

FIRST_BUCKET_BYTES = 1 << 20
BUCKET_BYTES = 25 << 20
"""PyTorch's DistributedDataParallel: the first bucket is small so that communication can start early."""

ITEM_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "int32": 4, "int64": 8}

Parameters = Iterator["Parameter"]


@dataclass(frozen=True)
class Parameter:
    """A trainable tensor, named as in torchvision's `named_parameters()`."""

    name: str
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of elements."""
        return prod(self.shape)


def parameters(model: str) -> tuple[Parameter, ...]:
    """Return a model's parameters in the order of the forward pass. Raises InputError for an unknown model."""
    if model not in _MODELS:
        raise InputError(f"model: found {model!r}; allowed: {', '.join(MODELS)}")
    return tuple(_MODELS[model]())


def buckets(model: str, dtype: str) -> tuple[int, ...]:
    """Return the number of elements of each gradient bucket of a model, in the order of synchronization.

    The assignment is that of DDP after the first iteration (torch/csrc/distributed/c10d/reducer.cpp,
    compute_bucket_assignment_by_size): parameters are taken from last to first, and a bucket is complete when
    it reaches its cap, 1 MiB for the first bucket and 25 MiB for the others. Raises InputError for an unknown
    model or dtype.
    """
    if dtype not in ITEM_BYTES:
        raise InputError(f"dtype: found {dtype!r}; allowed: {', '.join(ITEM_BYTES)}")
    sizes, cap, elements = [], FIRST_BUCKET_BYTES, 0
    for parameter in reversed(parameters(model)):
        elements += parameter.count
        if elements * ITEM_BYTES[dtype] >= cap:
            sizes.append(elements)
            cap, elements = BUCKET_BYTES, 0
    return tuple(sizes) if elements == 0 else (*sizes, elements)


def _layer(name: str, *weight: int) -> Parameters:
    """The weight, output channels first, and the bias of one layer."""
    yield Parameter(f"{name}.weight", weight)
    yield Parameter(f"{name}.bias", weight[:1])


def _vgg19() -> Parameters:
    """VGG-19 for ImageNet (Simonyan and Zisserman 2015, configuration E; torchvision's vgg19)."""
    channels, place = 3, 0
    for block in ((64,) * 2, (128,) * 2, (256,) * 4, (512,) * 4, (512,) * 4):
        for width in block:
            yield from _layer(f"features.{place}", width, channels, 3, 3)
            channels, place = width, place + 2  # each convolution is followed by a ReLU
        place += 1  # each block ends with a pooling layer
    yield from _layer("classifier.0", 4096, 512 * 7 * 7)
    yield from _layer("classifier.3", 4096, 4096)
    yield from _layer("classifier.6", 1000, 4096)


def _lenet5() -> Parameters:
    """LeNet-5 for 32 x 32 images (LeCun et al. 1998), with C3 connected to all maps of S2, as is usual today."""
    yield from _layer("conv1", 6, 1, 5, 5)
    yield from _layer("conv2", 16, 6, 5, 5)
    yield from _layer("fc1", 120, 16 * 5 * 5)
    yield from _layer("fc2", 84, 120)
    yield from _layer("fc3", 10, 84)


def _mnist_1m() -> Parameters:
    """A multi-layer perceptron 784-1000-200-10 for MNIST: 987,210 parameters."""
    yield from _layer("fc1", 1000, 784)
    yield from _layer("fc2", 200, 1000)
    yield from _layer("fc3", 10, 200)


_MODELS: dict[str, Callable[[], Parameters]] = {"vgg19": _vgg19, "lenet5": _lenet5, "mnist-1m": _mnist_1m}
MODELS = tuple(_MODELS)
"""The names of all models."""
