# SPDX-License-Identifier: Apache-2.0
"""Sizes and operations of the models are the published ones; synchronization is hidden as far as it can be."""

from __future__ import annotations

import pytest

from hipsnet.collective import models
from hipsnet.errors import InputError
from hipsnet.predict.iterations import iteration
from hipsnet.predict.layers import Layer, gpt, layers


@pytest.mark.parametrize(
    ("model", "parameters", "giga_macs"),
    [("vgg16", 138_357_544, 15.47), ("vgg19", 143_667_240, 19.63), ("resnet50", 25_557_032, 4.09)],
)
def test_sizes_and_operations_are_those_of_torchvision(model: str, parameters: int, giga_macs: float) -> None:
    found = layers(model)
    assert sum(layer.parameters for layer in found) == parameters
    assert sum(layer.flops for layer in found) / 2e9 == pytest.approx(giga_macs, rel=5e-3)


def test_gpt_2_small() -> None:
    found = gpt(12, 768)
    assert sum(layer.parameters for layer in found) == 124_439_808
    assert sum(layer.flops for layer in found) == pytest.approx(1024 * 2 * 124.3e6, rel=0.2)  # and attention


def test_buckets_are_those_of_ddp() -> None:
    found = iteration(layers("vgg19"), 1, 1e12, lambda count: 0.0)
    assert tuple(bucket.count for bucket in found.buckets) == models.buckets("vgg19", "float32")


def test_nothing_is_exposed_but_the_last_bucket() -> None:
    """Two layers of 10 s forward and 20 s backward, one bucket each."""
    net = [Layer(name, (8 << 20,), 10) for name in ("first", "last")]
    found = iteration(net, 1, 1.0, lambda count: 5.0)
    assert [(one.ready_s, one.begin_s, one.end_s) for one in found.buckets] == [(40, 40, 45), (60, 60, 65)]
    assert (found.forward_s, found.backward_s, found.sync_s) == (20, 40, 10)
    assert (found.time_s, found.exposed_s) == (65, 5)


def test_buckets_wait_for_each_other() -> None:
    net = [Layer(name, (8 << 20,), 10) for name in ("first", "last")]
    found = iteration(net, 1, 1.0, lambda count: 50.0)
    assert [(one.begin_s, one.end_s) for one in found.buckets] == [(40, 90), (90, 140)]
    assert iteration(net, 1, 1.0, lambda count: 50.0, overlap=False).time_s == 160
    assert iteration(net, 2, 1.0, lambda count: 0.0).exposed_s == 0


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="model: found 'alexnet'; allowed: vgg16, vgg19, resnet50, or gpt"):
        layers("alexnet")
    with pytest.raises(InputError, match="batch: found 0; allowed: a positive number"):
        iteration(layers("vgg16"), 0, 1e12, lambda count: 0.0)
