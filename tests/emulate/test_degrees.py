"""Degrees that hold in every launch, of kernels small enough to work them out by hand."""

from fractions import Fraction

import numpy as np
import pytest

from ncu_swizzle.base.degrees import DEPENDS, FIXED, FREE, UNKNOWN, WHO, AccessDegree
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.degrees import degrees
from ncu_swizzle.emulate.dependence import Tag, changing_tag, sum_tag
from ncu_swizzle.emulate.every_launch import EveryLaunch, Name, join_values
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.emulate.values import Value
from ncu_swizzle.smem.wavefronts import wavefronts
from tests.support.emulation import IN, kernel, pointers

N = "the parameter at byte 0x10"
BY_PARAMETER = {
    "a multiple of 32": 32, "a multiple of 16, and not of 32": 16, "a multiple of 8, and not of 16": 8,
    "a multiple of 4, and not of 8": 4, "a multiple of 2, and not of 4": 2, "odd": 1,
}  # fmt: skip
ROWS = (32, 32, 1)
VERDICTS = {
    "columns": [("STS", FREE, 1), ("LDS", FIXED, 32)],
    "columns_padded": [("STS", FREE, 1), ("LDS", FREE, 1)],
    "stride": [("STS", DEPENDS, 32)],
    "moved": [("STS", FREE, 1)],
    "moved_by_block": [("STS", FREE, 1)],
    "moved_by_data": [("STS", UNKNOWN, 0)],
    "moved_in_loop": [("STS", FREE, 1)],
    "swizzled": [("LDS", FREE, 1)],
    "strided_tree": [("LDS", DEPENDS, 32), ("STS", DEPENDS, 32)],
    "halved_tree": [("LDS", FREE, 1), ("LDS", FREE, 1), ("STS", FREE, 1)],
    "some": [("STS", FREE, 1)],
    "some_wide": [("STS", DEPENDS, 4)],
    "some_copy": [("LDGSTS", DEPENDS, 12)],
    "some_copy_every_other": [("LDGSTS", DEPENDS, 12)],
    "some_copy_through": [("LDGSTS", DEPENDS, 32)],
    "nobody": [],
    "by_data": [("STS", UNKNOWN, 0)],
    "apart": [("STS", UNKNOWN, 0)],
    "left": [("STS", UNKNOWN, 0)],
    "under": [("STS", DEPENDS, 4)],
    "counted": [("ATOMS", FIXED, 2)],
}


def said(name: str, block: tuple[int, int, int] = (128, 1, 1)) -> list[AccessDegree]:
    return list(degrees(kernel("degrees", name), block).accesses)


@pytest.mark.parametrize("name", VERDICTS)
def test_each_access_has_the_degree_that_follows_from_the_code(name: str) -> None:
    found = said(name, ROWS if name.startswith("columns") else (128, 1, 1))
    each = [(access.opcode.partition(".")[0], access.verdict, access.most or 0) for access in found]
    assert sorted(each) == sorted(VERDICTS[name])


def test_cases_of_a_parameter_are_told_apart() -> None:
    (access,) = said("stride")
    assert {case.when: case.most for case in access.cases} == {f"{N} is {when}": d for when, d in BY_PARAMETER.items()}


def test_who_takes_part_is_named() -> None:
    (access,) = said("some_wide")
    assert access.depends_on == (WHO,)
    assert [(case.least, case.most) for case in access.cases] == [(1, 1)]


def test_of_copies_it_is_said_what_usual_ones_take() -> None:
    usual = {name: [(case.least, case.most) for case in said(name)[0].cases] for name in VERDICTS if "copy" in name}
    assert usual == {"some_copy": [(1, 1)], "some_copy_every_other": [(8, 8)], "some_copy_through": [(1, 1)]}


def test_what_is_unknown_has_a_reason() -> None:
    reasons = [said(name)[0].reason for name in ("by_data", "left", "apart")]
    assert ["LDG" in reasons[0], "a variable of the loop" in reasons[1], "the way" in reasons[2]] == [True] * 3


@pytest.mark.parametrize("name", [name for name in VERDICTS if not name.startswith("columns")])
@pytest.mark.parametrize("n", [0, 1, 3, 32, 36])
def test_no_launch_contradicts(name: str, n: int) -> None:
    """Launch kernels with what they read: every request has a degree that is said of all."""
    data = np.zeros(1 << 14, np.int32)
    data[::3] = 1
    launch = Launch(grid=(3, 1, 1), block=(128, 1, 1), parameters=pointers(n), memory={IN: data.tobytes()})
    counts, accesses = emulate(kernel("degrees", name), launch), {each.offset: each for each in said(name)}
    for offset, made in counts.requests.items():
        access, counted = accesses[offset], wavefronts(made.op, made.addresses, made.active)
        for actual, ideal in zip(counted.actual, counted.ideal, strict=True):
            if ideal and access.least is not None and access.most is not None:
                assert access.least <= Fraction(int(actual), int(ideal)) <= access.most, (offset, access)


# ---------------------------------------------------------------------------------------------- values where ways meet


LANES = np.arange(32, dtype=np.uint32)[None]
ALL, LOW = np.ones((1, 32), bool), LANES < 16


@pytest.mark.parametrize(
    ("first", "second", "of_first", "of_second", "mixed", "align", "apart"),
    [
        (4 * LANES, 4 * LANES, ALL, ALL, True, 32, 32),
        (4 * LANES, 4 * LANES + 96, ALL, ALL, False, 5, 32),
        (4 * LANES, 4 * LANES + 96, ALL, ALL, True, 5, 5),
        (4 * LANES, 8 * LANES, ALL, ALL, False, 2, 2),
        (4 * LANES, 8 * LANES, LOW, ~LOW, True, 32, 32),
    ],
)  # fmt: skip
def test_a_register_holds_what_either_way_left(
    first: object, second: object, of_first: object, of_second: object, mixed: bool, align: int, apart: int
) -> None:
    joint = join_values(Value(first), Value(second), of_first, of_second, mixed=mixed, dims=64)  # type: ignore[arg-type]
    tag = joint.tag or Tag(dims=0, align=32, apart=32)
    assert (tag.align, tag.apart) == (align, apart)


def test_lanes_of_the_second_way_alone_move_with_the_others() -> None:
    """Lanes 0 to 15 hold 4 t or 4 t + 64; lanes 16 to 31 come with the latter only, and hold 4 t + 64."""
    joint = join_values(Value(4 * LANES), Value(4 * LANES + 64), LOW, ALL, mixed=False, dims=64)
    assert joint.tag == changing_tag(64, 6)
    assert np.array_equal(joint.bits, 4 * LANES)


def test_a_sum_moves_lanes_apart_by_what_its_terms_do() -> None:
    assert sum_tag(changing_tag(64, 2), changing_tag(128, 7, 7)) == changing_tag(192, 2, 7)


def test_constants_that_launches_decide_have_names() -> None:
    machine = EveryLaunch.of(kernel("degrees", "stride"), (32, 1, 1))
    bits = machine.bit(Name(0, 0x220)) | machine.bit(Name(2, 0))
    assert machine.deciding_names(bits) == [Name(0, 0x220), Name(2, 0)]
