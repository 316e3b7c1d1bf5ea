# SPDX-License-Identifier: Apache-2.0
"""Layers of well-known networks: their parameters, and the operations of a forward pass.

Operations are counted from the shapes (a multiply-add is two); the backward pass takes twice as many, one half for
the gradients of the inputs, one for those of the weights. Sources: VGG, Simonyan and Zisserman 2015, table 1;
ResNet-50, He et al. 2016, table 1, with torchvision's strides; GPT, Narayanan et al. 2021 (Megatron-LM), appendix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hipsnet.errors import InputError

BACKWARD = 2
"""Operations of the backward pass for each of the forward pass."""


@dataclass(frozen=True)
class Layer:
    """`tensors`: elements of each parameter, in the order of the forward pass; `flops`: forward, for one sample."""

    name: str
    tensors: tuple[int, ...]
    flops: int

    @property
    def parameters(self) -> int:
        """The number of all parameters."""
        return sum(self.tensors)


def layers(model: str) -> tuple[Layer, ...]:
    """Return a model's layers in the order of the forward pass. Raises InputError for an unknown model."""
    if model not in _MODELS:
        raise InputError(f"model: found {model!r}; allowed: {', '.join(MODELS)}, or gpt()")
    return tuple(_MODELS[model]())


def gpt(depth: int, width: int, sequence: int = 1024, vocabulary: int = 50257) -> tuple[Layer, ...]:
    """Return the layers of a GPT; a sample is one sequence. gpt(12, 768) is GPT-2 small."""
    embedding = Layer("embedding", (vocabulary * width, sequence * width), 0)
    attention = (3 * width * width, 3 * width, width * width, width)
    dense = (4 * width * width, 4 * width, 4 * width * width, width)
    block = (*attention, *dense, *(width,) * 4)  # two layer norms
    flops = sequence * (24 * width * width + 4 * sequence * width)
    blocks = [Layer(f"block {number}", block, flops) for number in range(depth)]
    # The head shares its weights with the embedding.
    return embedding, *blocks, Layer("head", (width, width), 2 * sequence * vocabulary * width)


def _convolution(name: str, into: int, out: int, kernel: int, side: int, norm: bool = False) -> Layer:
    """A convolution with a bias, or with a batch norm behind it; `side`: of its square output."""
    weights = (out * into * kernel**2, *((out, out) if norm else (out,)))
    return Layer(name, weights, 2 * weights[0] * side**2)


def _linear(name: str, into: int, out: int) -> Layer:
    return Layer(name, (into * out, out), 2 * into * out)


def _vgg(depths: tuple[int, ...]) -> Iterator[Layer]:
    channels, side = 3, 224
    for block, (depth, width) in enumerate(zip(depths, (64, 128, 256, 512, 512), strict=True)):
        for number in range(depth):
            yield _convolution(f"conv{block + 1}_{number + 1}", channels, width, 3, side)
            channels = width
        side //= 2
    yield _linear("fc6", channels * side**2, 4096)
    yield _linear("fc7", 4096, 4096)
    yield _linear("fc8", 4096, 1000)


def _resnet50() -> Iterator[Layer]:
    yield _convolution("conv1", 3, 64, 7, 112, norm=True)
    channels, side = 64, 56
    for stage, (depth, width) in enumerate(zip((3, 4, 6, 3), (64, 128, 256, 512), strict=True)):
        for number in range(depth):
            name, stride = f"conv{stage + 2}_{number + 1}", 2 if stage and not number else 1
            yield _convolution(f"{name}a", channels, width, 1, side, norm=True)
            side //= stride  # the 3x3 convolution has the stride
            yield _convolution(f"{name}b", width, width, 3, side, norm=True)
            yield _convolution(f"{name}c", width, 4 * width, 1, side, norm=True)
            if not number:
                yield _convolution(f"{name}s", channels, 4 * width, 1, side, norm=True)
            channels = 4 * width
    yield _linear("fc", channels, 1000)


_MODELS: dict[str, Callable[[], Iterator[Layer]]] = {
    "vgg16": lambda: _vgg((2, 2, 3, 3, 3)),
    "vgg19": lambda: _vgg((2, 2, 4, 4, 4)),
    "resnet50": _resnet50,
}
MODELS = tuple(_MODELS)
"""The names of all models but gpt."""
