# SPDX-License-Identifier: Apache-2.0
"""An iteration of data-parallel training: which part of the synchronization the backward pass hides.

The gradients of a bucket are synchronized when the backward pass has computed all of them, and the buckets follow
each other, as in PyTorch's DistributedDataParallel. The next forward pass waits for the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hipsnet.collective.models import BUCKET_BYTES, FIRST_BUCKET_BYTES
from hipsnet.errors import InputError
from hipsnet.predict.layers import BACKWARD, Layer


@dataclass(frozen=True)
class Bucket:
    """`count` elements, complete at `ready_s` after the begin of the iteration, synchronized by `end_s`."""

    count: int
    ready_s: float
    begin_s: float
    end_s: float


@dataclass(frozen=True)
class Iteration:
    """Times in seconds. `exposed_s` is the synchronization that no computation hides."""

    forward_s: float
    backward_s: float
    sync_s: float
    buckets: tuple[Bucket, ...]

    @property
    def time_s(self) -> float:
        """The whole iteration."""
        computed = self.forward_s + self.backward_s
        return max(computed, self.buckets[-1].end_s) if self.buckets else computed

    @property
    def exposed_s(self) -> float:
        """What synchronization adds to the time of the computation."""
        return self.time_s - self.forward_s - self.backward_s


def iteration(
    layers: Sequence[Layer],
    batch: int,
    flops_per_s: float,
    sync_s: Callable[[int], float],
    item_bytes: int = 4,
    overlap: bool = True,
) -> Iteration:
    """Return an iteration on `batch` samples for each server, at a sustained rate of computation.

    `sync_s(count)` is the time to synchronize so many elements. Without `overlap`, synchronization begins after the
    backward pass. Raises InputError for a batch or a rate that is not positive.
    """
    for name, value in (("batch", batch), ("flops_per_s", flops_per_s)):
        if not value > 0:
            raise InputError(f"{name}: found {value}; allowed: a positive number")
    seconds = [layer.flops * batch / flops_per_s for layer in layers]
    forward_s, backward_s = sum(seconds), BACKWARD * sum(seconds)
    buckets: list[Bucket] = []
    free_s = forward_s if overlap else forward_s + backward_s
    total_s = 0.0
    for count, ready_s in _ready(layers, seconds, forward_s, item_bytes):
        begin_s, took_s = max(ready_s, free_s), sync_s(count)
        free_s = begin_s + took_s
        total_s += took_s
        buckets.append(Bucket(count, ready_s, begin_s, free_s))
    return Iteration(forward_s, backward_s, total_s, tuple(buckets))


def _ready(
    layers: Sequence[Layer], seconds: Sequence[float], now_s: float, item_bytes: int
) -> list[tuple[int, float]]:
    """The buckets in order of synchronization: elements, and when the last gradient is computed.

    As in `models.buckets`: from the last tensor to the first, a bucket is complete when it reaches its cap.
    """
    found, cap, elements = [], FIRST_BUCKET_BYTES, 0
    for layer, layer_s in zip(reversed(layers), reversed(seconds), strict=True):
        now_s += BACKWARD * layer_s
        for count in reversed(layer.tensors):
            elements += count
            if elements * item_bytes >= cap:
                found.append((elements, now_s))
                cap, elements = BUCKET_BYTES, 0
    return [*found, (elements, now_s)] if elements else found
