"""What the recordings from the H100 say: the catalogue's degrees, the machine, their own sources, no foreign folder."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ncu_swizzle.base import paths, validate
from ncu_swizzle.base.errors import EnvironmentLacking
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.kernels import catalog, toolchain
from ncu_swizzle.kernels.toolchain import ARCH, NVCC, Toolchain
from ncu_swizzle.reports import container
from tests.support.recordings import Recorded

pytestmark = pytest.mark.xdist_group("recordings")  # all are read once, by one worker

SHIPPED = catalog.shipped()
OWN = [(family, kernel) for family, kernel in SHIPPED.run() if not kernel.library]
NEUTRAL = ("/tmp/ncu-swizzle/", "/opt/nvidia/nsight-compute/")
INCLUDE = re.compile(r'^#include "(.+)"$', re.MULTILINE)
COMMENT = re.compile(r"//[^\n]*")


@pytest.mark.long
def test_every_recording_has_the_catalogue_s_degrees_few_passes_and_no_foreign_folder(recorded: Recorded) -> None:
    for _, kernel in SHIPPED.run():
        profile = recorded(kernel.name)
        counted = {access: total.degree for access, total in profile.accesses.items() if total.wavefronts}
        assert kernel.library or counted == dict(kernel.degree), kernel.name
        passes = profile.number("profiler__replayer_passes")
        assert passes is not None
        assert passes <= 6, kernel.name
        folders = [word for word in profile.command.split() if word.startswith("/")]
        assert [folder for folder in folders if not folder.startswith(NEUTRAL)] == [], kernel.name


def test_the_machine_the_check_and_the_sources_are_known(recorded: Recorded) -> None:
    profile = recorded("kernel2")
    machine = profile.machine
    assert (machine.gpu, machine.compute_capability, machine.sm_count) == ("NVIDIA H100 80GB HBM3", "9.0", 132)
    assert (machine.driver, machine.clock_control, profile.engine) == ("580.159.04", "none", "recorded")
    assert (profile.grid, profile.block) == ((64, 16, 4), (128, 1, 1))
    assert 0 < profile.errors["o"] < 1e-2
    assert validate.mismatch(profile) == "", "it has the shape that its classes declare"
    files = {file for instruction in profile.instructions for file, _ in instruction.stack}
    assert files >= {"kernels/attention/attention.cuh", "kernels/attention/2_swizzled.cu", "kernels/common/ptx.cuh"}
    assert not [file for file in files if file.startswith("/tmp")]
    assert files & profile.sources.keys()


def test_recordings_are_small() -> None:
    sizes = {report.stem: report.stat().st_size for report in paths.recordings().glob("*/*/*.ncu-rep")}
    assert set(sizes) == {kernel.name for _, kernel in SHIPPED.run()}
    assert sum(sizes.values()) < 16e6
    # A library's report holds all kernels of the module that it was loaded from.
    assert not {name for name, size in sizes.items() if size > 1e6} & {kernel.name for _, kernel in OWN}


# ------------------------------------------------------------------------------------------ the sources of today


def source_seen(sources: Mapping[str, str], entry: str) -> str:
    """Return the file that defines the entry, what it includes in place: without comments, and whatever their names."""
    by_name = {Path(path).name: text for path, text in sources.items()}

    def with_headers(text: str) -> str:
        return INCLUDE.sub(lambda found: with_headers(by_name[found[1]]) if found[1] in by_name else found[0], text)

    (own,) = [text for path, text in sources.items() if path.endswith(".cu") and f" {entry}(" in text]
    return " ".join(COMMENT.sub(" ", with_headers(own)).split())


@pytest.mark.long
def test_the_recorded_sources_are_today_s_or_compiled_to_compare(recorded: Recorded) -> None:
    others = {
        kernel.name
        for family, kernel in OWN
        if source_seen(recorded(kernel.name).sources, kernel.entry) != source_seen(family.source_texts(), kernel.entry)
    }
    assert others == set(COMPILED), "make record, on a GPU machine; or compare what today's source compiles to"


COMPILED = (
    "cute-8x8-plain", "cute-8x8-swizzled", "cute-128x32-plain", "cute-128x32-swizzled", "cute-columns-plain",
    "cute-columns-half", "cute-columns-swizzled",
)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long if name == COMPILED[0] else pytest.mark.slow) for name in COMPILED],
)
def test_today_s_source_compiles_to_the_recorded_instructions(
    name: str, recorded: Recorded, recorded_file: Callable[[str], Path]
) -> None:
    (family, kernel), tools = SHIPPED.named(name), Toolchain()
    if lacking := tools.lacking(NVCC):
        pytest.skip(lacking)
    if tools.version() != recorded(name).machine.cuda:
        pytest.skip(f"recorded with nvcc {recorded(name).machine.cuda}, this one is {tools.version()}")
    try:
        code = toolchain.cubin(family, kernel, ARCH, tools)
    except EnvironmentLacking as headers:
        pytest.skip(str(headers))
    (result,) = container.inspect(recorded_file(name)).results
    today, then = (Cubin(cubin, name).section(f".text.{result.function}") for cubin in (code, result.cubin))
    assert today
    assert today == then, "make record, on a GPU machine"
