"""ldmatrix's fragments against the picture in the PTX ISA, and that they are what mma.m16n8k16 wants."""

from __future__ import annotations

import itertools

import numpy as np

from ncu_swizzle.smem import layout


def test_a_row_of_a_matrix_is_held_by_four_lanes_and_a_transposed_column_too() -> None:
    (plain,) = layout.matrices(1)
    assert plain.lane[0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert plain.lane[:, 0].tolist() == [0, 4, 8, 12, 16, 20, 24, 28]
    assert plain.element[0].tolist() == [0, 1] * 4
    (turned,) = layout.matrices(1, transposed=True)
    assert (turned.lane == plain.lane.T).all()
    assert (turned.element == plain.element.T).all()


def test_every_lane_holds_two_elements_of_every_matrix_in_a_register_of_its_own() -> None:
    for count, transposed in itertools.product((1, 2, 4), (False, True)):
        loaded = layout.matrices(count, transposed)
        assert [each.name for each in loaded] == [f"matrix {number}" for number in range(count)]
        for number, each in enumerate(loaded):
            assert np.bincount(each.lane.ravel()).tolist() == [2] * 32
            assert (each.element // 2 == number).all()


def test_four_matrices_are_the_operand_a_of_m16n8k16() -> None:
    a = layout.fragments(16)[0]
    quarters = (a.lane[:8, :8], a.lane[8:, :8], a.lane[:8, 8:], a.lane[8:, 8:])
    registers = (a.element[:8, :8], a.element[8:, :8], a.element[:8, 8:], a.element[8:, 8:])
    for loaded, lanes, elements in zip(layout.matrices(4), quarters, registers, strict=True):
        assert (loaded.lane == lanes).all()
        assert (loaded.element == elements).all()


def test_two_transposed_matrices_are_the_operand_b_of_m16n8k16() -> None:
    b = layout.fragments(16)[1]
    for half, loaded in enumerate(layout.matrices(2, transposed=True)):
        rows = slice(8 * half, 8 * half + 8)
        assert (loaded.lane == b.lane[rows]).all()
        assert (loaded.element == b.element[rows]).all()
