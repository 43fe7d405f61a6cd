"""The container of a .ncu-rep notices what NVIDIA's reader does not."""

from __future__ import annotations

import contextlib
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncu_swizzle.base.errors import BadFile, DamagedFile
from ncu_swizzle.reports import container


def test_a_whole_report_tells_its_session(report_file: Path) -> None:
    found = container.inspect(report_file)
    assert [result.function for result in found.results] == ["kernel2"]
    assert found.results[0].cubin.startswith(b"\x7fELF")
    assert found.ncu.startswith("2025.3.1")
    assert found.created.startswith("2026-")
    assert "--section SwizzleConflicts" in found.command
    assert found.results[0].clocks_locked is False


def test_every_truncation_inside_a_block_is_noticed(report_file: Path, tmp_path: Path) -> None:
    whole = report_file.read_bytes()
    damaged = tmp_path / "damaged.ncu-rep"
    for size in random.Random(7).sample(range(len(container.MAGIC), len(whole)), 300):
        damaged.write_bytes(whole[:size])
        with pytest.raises(DamagedFile, match="is damaged"):
            container.inspect(damaged)


def test_bytes_after_the_end_are_noticed(report_file: Path, tmp_path: Path) -> None:
    longer = tmp_path / "longer.ncu-rep"
    longer.write_bytes(report_file.read_bytes() + b"\0\0\0\1")
    with pytest.raises(DamagedFile):
        container.inspect(longer)


@pytest.mark.parametrize("content", [b"", b"NV", b"{}", b"\x7fELF", b"kernel,wavefronts\n"])
def test_a_foreign_file_is_not_a_report(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "foreign.ncu-rep"
    file.write_bytes(content)
    with pytest.raises(BadFile, match="is not an Nsight Compute report"):
        container.inspect(file)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="does not exist"):
        container.inspect(tmp_path / "nowhere.ncu-rep")
    with pytest.raises(BadFile, match="cannot be read"):
        container.inspect(tmp_path)


@given(st.binary(max_size=200))
def test_noise_after_the_magic_number_never_crashes(noise: bytes) -> None:
    with tempfile.NamedTemporaryFile(suffix=".ncu-rep") as file:
        file.write(container.MAGIC + noise)
        file.flush()
        with contextlib.suppress(DamagedFile):
            container.inspect(Path(file.name))
