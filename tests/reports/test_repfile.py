"""What the recordings from the H100 say, and what becomes of damaged ones."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ncu_swizzle.base import cache, paths
from ncu_swizzle.base.errors import BadFile, DamagedFile, EnvironmentLacking
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.kernels import catalog, toolchain
from ncu_swizzle.kernels.toolchain import ARCH, NVCC, Toolchain
from ncu_swizzle.render import formats
from ncu_swizzle.render import page as report
from ncu_swizzle.reports import container, disassembly, reader, sanity
from ncu_swizzle.reports.comparison import compare
from tests.support.recordings import Recorded

ALL = [kernel.name for _, kernel in catalog.shipped()]
OWN = [kernel.name for _, kernel in catalog.shipped() if not kernel.library]
INCLUDE = re.compile(r'^#include "(.+)"$', re.MULTILINE)
COMMENT = re.compile(r"//[^\n]*")


@pytest.mark.parametrize("name", OWN)
def test_degrees_are_exactly_what_the_catalogue_states(name: str, recorded: Recorded) -> None:
    _, kernel = catalog.shipped().named(name)
    counted = {access: total.degree for access, total in recorded(name).accesses.items() if total.wavefronts}
    assert counted == dict(kernel.degree)


def test_the_swizzle_changes_no_ideal_wavefront(recorded: Recorded) -> None:
    before, after = recorded("kernel1"), recorded("kernel2")
    assert before.total.ideal == after.total.ideal == after.total.wavefronts == 337_641_472
    assert before.total.wavefronts == 2_224_029_696
    assert after.total.excessive == 0


def test_the_machine_and_the_check_are_known(recorded: Recorded) -> None:
    profile = recorded("kernel2")
    assert profile.machine.gpu == "NVIDIA H100 80GB HBM3"
    assert profile.machine.compute_capability == "9.0"
    assert profile.machine.sm_count == 132
    assert profile.machine.driver == "580.159.04"
    assert profile.machine.clock_control == "none"
    assert profile.grid == (64, 16, 4)
    assert profile.block == (128, 1, 1)
    assert 0 < profile.errors["o"] < 1e-2
    assert profile.engine == "recorded"


@pytest.mark.parametrize("name", ALL)
def test_six_replay_passes_or_fewer(name: str, recorded: Recorded) -> None:
    passes = recorded(name).number("profiler__replayer_passes")
    assert passes is not None
    assert passes <= 6


def test_sources_are_the_kernels_own_files(recorded: Recorded) -> None:
    profile = recorded("kernel2")
    files = {file for instruction in profile.instructions for file, _ in instruction.stack}
    assert files >= {"kernels/attention/attention.cuh", "kernels/attention/2_swizzled.cu", "kernels/common/ptx.cuh"}
    assert not [file for file in files if file.startswith("/tmp")]
    assert files & profile.sources.keys()


def source_seen(sources: Mapping[str, str], entry: str) -> str:
    """Return the file that defines the entry, what it includes in place: without comments, and whatever their names."""
    by_name = {Path(path).name: text for path, text in sources.items()}

    def with_headers(text: str) -> str:
        return INCLUDE.sub(lambda found: with_headers(by_name[found[1]]) if found[1] in by_name else found[0], text)

    (own,) = [text for path, text in sources.items() if path.endswith(".cu") and f" {entry}(" in text]
    return " ".join(COMMENT.sub(" ", with_headers(own)).split())


@pytest.mark.long
@pytest.mark.parametrize("name", OWN)
def test_the_recorded_code_is_that_of_todays_sources(
    name: str, recorded: Recorded, recorded_file: Callable[[str], Path]
) -> None:
    """Sources are equal but for comments and files' names; others have to compile to the very same instructions."""
    family, kernel = catalog.shipped().named(name)
    profile, tools = recorded(name), Toolchain()
    if source_seen(profile.sources, kernel.entry) == source_seen(family.source_texts(), kernel.entry):
        return
    if lacking := tools.lacking(NVCC):
        pytest.skip(lacking)
    if tools.version() != profile.machine.cuda:
        pytest.skip(f"recorded with nvcc {profile.machine.cuda}, this one is {tools.version()}")
    try:
        code = toolchain.cubin(family, kernel, ARCH, tools)
    except EnvironmentLacking as headers:
        pytest.skip(str(headers))
    (result,) = container.inspect(recorded_file(name)).results
    today, then = (Cubin(cubin, name).section(f".text.{result.function}") for cubin in (code, result.cubin))
    assert today
    assert today == then, "make record, on a GPU machine"


@pytest.mark.parametrize("name", ALL)
def test_recordings_name_no_folder_but_the_neutral_one(name: str, recorded: Recorded) -> None:
    for word in recorded(name).command.split():
        if word.startswith("/"):
            assert word.startswith(("/tmp/ncu-swizzle/", "/opt/nvidia/nsight-compute/"))


def test_recordings_are_small() -> None:
    sizes = {report.stem: report.stat().st_size for report in paths.recordings().glob("*/*/*.ncu-rep")}
    assert set(sizes) == set(ALL)
    assert sum(sizes.values()) < 16e6
    # A library's report holds all kernels of the module that it was loaded from.
    assert {name for name, size in sizes.items() if size > 1e6} <= set(ALL) - set(OWN)


def test_the_reference_ran_flash_attention(recorded: Recorded) -> None:
    profile = recorded("reference-attention")
    assert "flash_fwd_kernel" in profile.kernel.function
    assert profile.total.excessive == 0


def test_a_report_of_other_origin_reads_without_facts(report_file: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.ncu-rep"
    shutil.copy(report_file, foreign)
    (profile,) = reader.read(foreign)
    assert profile.kernel.name == "kernel2"
    assert profile.problem == {}
    assert profile.total.wavefronts == 337_641_472


def test_a_flipped_bit_is_noticed_where_facts_are(report_file: Path, tmp_path: Path) -> None:
    copy = tmp_path / report_file.name
    shutil.copy(container.facts_path(report_file), tmp_path)
    data = bytearray(report_file.read_bytes())
    data[200_000] ^= 1
    copy.write_bytes(data)
    with pytest.raises(DamagedFile, match="SHA-256"):
        reader.read(copy)


def test_damaged_facts_are_noticed(report_file: Path, tmp_path: Path) -> None:
    copy = tmp_path / report_file.name
    shutil.copy(report_file, copy)
    container.facts_path(copy).write_text('{"kernel": "ker', encoding="utf-8")
    with pytest.raises(DamagedFile, match="is damaged"):
        reader.read(copy)


def test_facts_hold_the_report_s_digest(report_file: Path) -> None:
    facts = json.loads(container.facts_path(report_file).read_text(encoding="utf-8"))
    assert facts["report"] == {"sha256": cache.sha256(report_file.read_bytes()), "bytes": report_file.stat().st_size}


def test_a_report_cut_at_a_block_s_end_holds_no_kernel(report_file: Path, tmp_path: Path) -> None:
    data = report_file.read_bytes()
    header = 8 + int.from_bytes(data[4:8], "little")
    cut = tmp_path / "cut.ncu-rep"
    cut.write_bytes(data[: header + 4 + int.from_bytes(data[header : header + 4], "little")])
    with pytest.raises(BadFile, match="has no kernel"):
        reader.read(cut)


def test_without_texts_accesses_are_counted_and_their_kind_is_unknown(
    report_file: Path, recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = disassembly.units_and_code

    def wordless(report: Path, questions: Any) -> Any:
        units, codes = ask(report, questions)
        return units, [[("", at) for _, at in code] for code in codes]

    monkeypatch.setattr(disassembly, "units_and_code", wordless)
    (profile,) = reader.read(report_file)
    assert profile.accesses == {"unknown": recorded("kernel2").total}
    assert "no instruction has SASS in the report: profile with ncu --import-sass yes" in " ".join(
        sanity.doubts(profile)
    )
    assert not sanity.about_counts(profile), "their sum is known"
    assert "cannot tell which accesses are LDSM" in sanity.about_counts(profile, "LDSM")
    comparison = compare([recorded("kernel1"), profile])
    assert "unknown" in report.render(comparison)
    assert "unknown" in formats.render(comparison)


@pytest.mark.long
def test_a_reader_that_crashes_or_hangs_is_told(
    report_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "ncu_report.py"
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    module.write_text("def load_report(path):\n    import os\n    os.abort()\n", encoding="utf-8")
    with pytest.raises(DamagedFile, match=r"makes NVIDIA's reader crash \(signal 6\)"):
        reader.read(report_file)
    module.write_text("def load_report(path):\n    raise RuntimeError('Failed to open')\n", encoding="utf-8")
    with pytest.raises(BadFile, match="cannot be read: RuntimeError: Failed to open"):
        reader.read(report_file)
    module.write_text("def load_report(path):\n    import time\n    time.sleep(60)\n", encoding="utf-8")
    monkeypatch.setattr(disassembly, "TIMEOUT_S", 1)
    with pytest.raises(DamagedFile, match=r"reading .* took more than 1 s"):
        reader.read(report_file)
