"""What is read of a checkout that nobody vouches for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ncu_swizzle.kernels import nvcc_options

SOURCE = '#include "far.h"\n#ifdef USE_CUDA\n__global__ void k() {}\n#endif\n'


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / "checkout" / "k.cu"
    (file.parent / ".git").mkdir(parents=True)
    file.write_text(SOURCE)
    return file


def test_macros_of_a_build_come_from_its_files(source: Path) -> None:
    source.with_name("setup.py").write_text("flags = ['-DUSE_CUDA']\n")
    assert nvcc_options.macros_of_build(source, (), "sm_90", "") == [{"-DUSE_CUDA=1": source.with_name("setup.py")}]


def test_macros_in_front_of_what_is_lacking_come_first(source: Path) -> None:
    source.write_text('#include "own.hu"\n')
    own, make = source.with_name("own.hu"), source.with_name("Makefile")
    own.write_text("#ifdef GPU\n#define BLOCK 512\n#endif\n#ifdef CUDNN\n#include <cudnn.h>\n#endif\n")
    make.write_text("FLAGS += -DGPU -DCUDNN -DUSE_HIP\n")
    made = nvcc_options.macros_of_build(
        source, (), "sm_90", 'identifier "BLOCK" is undefined; identifier "USE_HIP" too'
    )
    assert made == [{"-DGPU=1": make}, {"-DCUDNN=1": make, "-DGPU=1": make}]
    assert nvcc_options.folder_in_checkout("own.hu", source) == source.parent


@pytest.mark.parametrize("name", ["setup.py", "other.cu", ".gitmodules", "far.h", "compile_commands.json"])
def test_what_is_huge_elsewhere_or_no_file_is_not_read(source: Path, name: str) -> None:
    file, outside = source.with_name(name), source.parent.parent / "outside"
    outside.write_text("-DUSE_CUDA k.cu")

    def huge() -> None:
        file.touch()
        os.truncate(file, 3 << 30)

    def endless() -> None:
        file.symlink_to("/dev/zero")

    for make in (huge, lambda: os.mkfifo(file), lambda: file.symlink_to(outside), endless, file.mkdir):
        make()
        assert nvcc_options.macros_of_build(source, (), "sm_90", "far.h") == []
        assert nvcc_options.including(source) == []
        assert nvcc_options.build_options(source) == ((), "")
        assert nvcc_options.remedy("far/far.h", source) == ""
        if file.is_dir():
            file.rmdir()
        else:
            file.unlink()


def test_a_source_that_goes_meanwhile_has_no_macros(source: Path) -> None:
    source.unlink()
    assert nvcc_options.macros_of_build(source, (), "sm_90", "") == []
