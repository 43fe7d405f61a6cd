"""Accesses outside of the launch's buffers: found where they are, and never where there are none."""

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ncu_swizzle.base.errors import TimeLimit
from ncu_swizzle.emulate.code import Code, Sass
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.engines import emulation
from ncu_swizzle.kernels.limits import LaunchShape
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports import model
from ncu_swizzle.reports.model import Finding
from tests.support.binaries import launched
from tests.support.marks import NEEDS_ALL
from tests.support.reports import EMPTY
from tests.support.stress import NEEDS_RECORDING, Recordings, launch_of


def emulated(recordings: Recordings, name: str, less: int) -> list[str]:
    """Return what a recorded kernel accesses outside of its buffers, each by so many bytes smaller than it is."""
    code, launch = launch_of(name, recordings)
    smaller = tuple(replace(buffer, size=max(0, buffer.size - less)) for buffer in launch.buffers)
    found = emulate(code, replace(launch, buffers=smaller)).global_accesses
    assert found.blocks
    assert not found.lacking
    return [outside.kind for outside in found.outside]


@pytest.mark.long
@NEEDS_RECORDING
def test_a_buffer_that_is_too_small_is_noticed(recordings: Recordings) -> None:
    names = ("bitonic", "halo", "reduction", "scan", "sgemm-edges", "triangular", "templates-plain")
    assert {name for name in names if not emulated(recordings, name, less=1)} == set()


@pytest.mark.long
@NEEDS_ALL
def test_a_null_pointer_and_one_that_only_the_caller_knows(shift: Path) -> None:
    unit = f'#include "{shift / "shift.cu"}"\n'
    (shift / "s.cubin").write_bytes(Toolchain().compile(unit, ["-lineinfo"], "sm_90", []))
    x, at, numbers = np.ones(200, np.float32), np.zeros(200, np.int32), [struct.pack("<i", n) for n in (200, 0)]

    def messages(y: bytes | np.ndarray) -> list[str]:
        arguments = [x, y, at, *numbers]
        profile = launched(shift / "s.cubin", "shift", LaunchShape(grid=(4,), block=(64,)), arguments).profile
        return [found.message for found in model.violations(profile)]

    assert messages(np.ones(200, np.float32)) == []
    assert "write of 4 bytes through a null pointer (address 0x0)" in messages(struct.pack("<Q", 0))[0]
    assert messages(struct.pack("<Q", 0x1234_5678_0000)) == [], "what lies there is not known"
    assert "of parameter 1 (400 bytes)" in messages(np.ones(100, np.float32))[0]


def test_a_title_that_is_no_line_is_none() -> None:
    for title in ("", "k.cu", ":7", "k.cu:", "k.cu:x", "k.cu:٣", f"k.cu:{'9' * 5000}"):
        forged = Finding(rule=model.BOUNDS_RULE, kind="warning", title=title, message="outside")
        found = list(model.violations(replace(EMPTY, findings=(forged,))))
        assert found == [("outside", None, model.BOUNDS_RULE, "SW020")], title[:9]


def test_no_shared_memory_is_called_too_small_because_the_time_was_over() -> None:
    lines = ("S2R R0, SR_TID.X", "LEA R1, R0, 0x1400, 0x2", "STS [R1], R0", "EXIT")
    code = Code(name="k", instructions=tuple(Sass(16 * at, line) for at, line in enumerate(lines)), shared_bytes=0x400)
    launch = Launch(grid=(1, 1, 1), block=(32, 1, 1))
    assert emulation._needed(code, launch, 1 << 16, 60.0) == 0x1080
    assert emulation._needed(code, launch, 1 << 10, 60.0) is None
    with pytest.raises(TimeLimit):
        emulation._needed(code, launch, 1 << 16, 0.0)
