# SPDX-License-Identifier: Apache-2.0
"""Several arrays as one vector: what is copied, and where each array is."""

from __future__ import annotations

import numpy as np
import pytest

from hipsnet.collective.vector import MOST_PIECES, Vector, layout

LARGE = 8_192  # elements of 8 bytes: 64 KiB


@pytest.mark.parametrize(
    ("sizes", "direct", "packed"),
    [
        ((5,), (0,), ()),
        ((0,), (0,), ()),
        ((0, 0), (), ()),
        ((5, 6), (), (0, 1)),
        ((LARGE, LARGE - 1), (0,), (1,)),
        ((1, LARGE, 0, 2, LARGE + 5), (1, 4), (0, 3)),
    ],
)
def test_small_arrays_are_packed(sizes: tuple[int, ...], direct: object, packed: object) -> None:
    placed = layout(sizes, 8)
    assert (placed.direct, placed.packed) == (direct, packed)
    assert placed.count == sum(sizes)


def test_of_too_many_large_arrays_the_smallest_are_packed() -> None:
    sizes = [LARGE + (n * 7) % 100 for n in range(100)]
    placed = layout(sizes, 8)
    assert len(placed.direct) == MOST_PIECES - 1
    assert min(sizes[i] for i in placed.direct) >= max(sizes[i] for i in placed.packed)
    assert sorted(placed.direct + placed.packed) == list(range(100))


def test_large_arrays_are_not_copied_and_packed_ones_get_their_results() -> None:
    arrays = [np.full(size, n, np.float64) for n, size in enumerate((3, LARGE, 4, LARGE + 1))]
    vector = Vector(arrays, layout([len(array) for array in arrays], 8))
    assert [piece.first for piece in vector.pieces] == [0, LARGE, 2 * LARGE + 1]
    assert vector.pieces[0].array is arrays[1]
    assert vector.pieces[1].array is arrays[3]
    assert vector.pieces[2].array.tolist() == [0.0] * 3 + [2.0] * 4
    vector.pieces[2].array[:] += 10
    vector.unpack()
    assert arrays[0].tolist() == [10.0] * 3
    assert arrays[2].tolist() == [12.0] * 4
