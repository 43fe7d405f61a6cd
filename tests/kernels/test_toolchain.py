"""CUDA's tools: where they are looked for, and what is said where they are missing or fail."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import BadFile, EnvironmentLacking, NcuSwizzleError, ProgramFailed, TimeLimit
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.kernels import catalog, toolchain
from ncu_swizzle.kernels.toolchain import ARCH, NVCC, NVDISASM, PTXAS, Toolchain
from ncu_swizzle.reports import container
from tests.support.marks import NEEDS_ALL, NEEDS_NVCC, NEEDS_PTXAS, executable
from tests.support.places import RECORDINGS
from tests.support.refusals import refused, unlike

pytestmark = pytest.mark.usefixtures("real_tools")

PTX = b"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry nothing() { ret; }
"""


def test_tools_are_found_in_the_order_that_the_module_promises(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged = executable(tmp_path / "packaged" / NVCC)
    assert Toolchain().find(NVCC) == packaged
    toolkit = executable(tmp_path / "toolkit" / "bin" / NVCC)
    assert Toolchain().find(NVCC) == toolkit
    on_path = executable(bare / NVCC)
    assert Toolchain().find(NVCC) == on_path
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    home = executable(tmp_path / "home" / "bin" / NVCC)
    assert Toolchain().find(NVCC) == home
    named = executable(tmp_path / "named" / "nvcc-13")
    assert Toolchain(named).find(NVCC) == named


def test_a_tool_that_the_named_toolkit_lacks_is_taken_from_elsewhere(bare: Path, tmp_path: Path) -> None:
    named = executable(tmp_path / "named" / NVCC)
    beside = executable(tmp_path / "named" / PTXAS)
    executable(bare / PTXAS)
    elsewhere = executable(tmp_path / "packaged" / NVDISASM)
    assert Toolchain(named).find(PTXAS) == beside
    assert Toolchain(named).find(NVDISASM) == elsewhere


def test_without_tools_the_error_says_what_to_install(bare: Path) -> None:
    with pytest.raises(EnvironmentLacking, match="nvdisasm was not found") as caught:
        Toolchain().find(NVDISASM)
    assert "pip install 'ncu-swizzle[nvcc]'" in caught.value.hint
    executable(bare / NVCC)
    assert Toolchain().lacking(NVCC) == ""
    assert Toolchain().lacking() == "nvdisasm was not found"


@pytest.mark.usefixtures("bare")
def test_a_named_compiler_has_to_be_a_program(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentLacking, match="nowhere is not a program"):
        Toolchain(tmp_path / "nowhere").find(NVCC)
    assert "is not a program" in Toolchain(tmp_path).lacking()


def test_packages_are_found_without_importing_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("cu9", "cu12", "cu13"):
        (tmp_path / "nvidia" / version / "bin").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "nvidia", raising=False)
    found = [folder for folder in toolchain.packaged() if tmp_path in folder.parents]
    assert [folder.parent.name for folder in found] == ["cu13", "cu12", "cu9"]
    assert "nvidia" not in sys.modules


def test_a_missing_host_compiler_is_the_environments_fault(bare: Path) -> None:
    # What nvcc 13.0 prints where there is no gcc.
    said = "echo 'gcc: No such file or directory'; echo 'nvcc fatal   : Failed to preprocess host compiler properties.'"
    executable(bare / NVCC, f'case "$1" in --version) echo "release 13.0, V13.0.88";; *) {said}; exit 1;; esac')
    with pytest.raises(EnvironmentLacking, match=r"C\+\+ compiler") as caught:
        toolchain.cubin(*catalog.shipped().named("transpose-plain"), ARCH, Toolchain())
    assert "g++" in caught.value.hint


def test_a_cubin_that_was_compiled_before_is_taken_from_the_cache(bare: Path, tmp_path: Path) -> None:
    counter, cubin = tmp_path / "compiled", _recorded_cubin("transpose-plain")
    (tmp_path / "cubin").write_bytes(cubin)
    text = (
        'if [ "$1" = --version ]; then echo "release 13.0, V13.0.88"; exit; fi\n'
        f"echo once >> {counter}\n"
        f'while [ "$1" != -o ]; do shift; done; cp {tmp_path}/cubin "$2"'
    )
    executable(bare / NVCC, f"PATH=/usr/bin:/bin\n{text}")
    family, kernel = catalog.shipped().named("transpose-plain")
    assert (
        toolchain.cubin(family, kernel, ARCH, Toolchain())
        == toolchain.cubin(family, kernel, ARCH, Toolchain())
        == cubin
    )
    assert counter.read_text().split() == ["once"]
    toolchain.cubin(family, catalog.shipped().named("transpose-xor")[1], ARCH, Toolchain())
    assert counter.read_text().split() == ["once", "once"]


def _cubin(name: str) -> Cubin:
    return Cubin(_recorded_cubin(name), name)


def _recorded_cubin(name: str) -> bytes:
    """Return a recorded cubin without the hash that follows _INTERNAL_, which is made anew when a cubin is cached."""
    code = container.inspect(RECORDINGS / "transpose" / f"{name}.ncu-rep").results[0].cubin
    return code.replace(b"_INTERNAL_", b"_OTHERWISE")


@pytest.mark.long
@NEEDS_NVCC
def test_what_is_compiled_here_is_what_was_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tools = Toolchain()
    if tools.version() != "13.0 (V13.0.88)":
        pytest.skip(f"another compiler than that of the recordings: {tools.version()}")
    for name in ("transpose-sudoku", "kernel2", "tma-128"):
        family, kernel = catalog.shipped().named(name)
        recorded = container.inspect(RECORDINGS / family.name / f"{name}.ncu-rep").results[0]
        section = f".text.{recorded.function}"
        here, there = (
            Cubin(data, name).section(section)
            for data in (toolchain.cubin(family, kernel, ARCH, tools), recorded.cubin)
        )
        assert here == there, name


@NEEDS_NVCC
def test_a_source_that_is_wrong_is_reported_with_the_compilers_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    family, kernel = catalog.shipped().named("transpose-plain")
    (tmp_path / "kernels" / "wrong").mkdir(parents=True)
    wrong = replace(family, folder=tmp_path / "kernels" / "wrong")
    wrong.source(kernel).write_text("__global__ void transpose_plain() { undeclared = 1; }")
    with pytest.raises(Exception, match=r'(?s)could not compile 1_plain.cu.*"undeclared" is undefined'):
        toolchain.cubin(wrong, kernel, ARCH, Toolchain())
    wrong.source(kernel).write_text('#include "near.h"\n')
    for folder in ("FOLDER", str(tmp_path / "common")):
        with pytest.raises(NcuSwizzleError) as missing:
            toolchain.cubin(wrong, kernel, ARCH, Toolchain())
        assert missing.value.hint == f"--include {folder}, the folder of near.h"
        (tmp_path / "common").mkdir(exist_ok=True)
        (tmp_path / "common" / "near.h").touch()


@NEEDS_PTXAS
def test_ptx_is_assembled_for_the_architecture_that_it_names() -> None:
    cubin = Cubin(Toolchain().assemble(PTX, "nothing.ptx"), "nothing.ptx")
    assert (cubin.sm, cubin.kernels) == (90, ("nothing",))


@NEEDS_PTXAS
def test_damaged_ptx_is_a_bad_file() -> None:
    damaged = {
        PTX[:-12]: "^BadFile: .*could not assemble",
        PTX.replace(b"ret", b"rot"): "^BadFile: .*could not assemble",
        PTX[:14]: "^BadFile: .*no .target",
    }
    assert not unlike(damaged, lambda ptx: refused(Toolchain().assemble, ptx, "damaged.ptx"))


@NEEDS_ALL
def test_what_is_no_cubin_cannot_be_disassembled() -> None:
    with pytest.raises(BadFile, match="cannot be disassembled"):
        Toolchain().disassemble(b"\x7fELF nothing", "x.cubin")


def test_a_tool_that_fails_says_how_it_ended(bare: Path) -> None:
    executable(bare / NVCC, "echo wrong; exit 3")
    with pytest.raises(ProgramFailed, match="wrong"):
        Toolchain().version()


def test_a_disassembler_that_hangs_gets_time_by_the_size_of_its_input(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable(bare / NVDISASM, "exec /bin/sleep 100")
    monkeypatch.setattr(toolchain, "ALLOWED_S", 0.3)
    with pytest.raises(TimeLimit, match="x cannot be disassembled: nvdisasm was still running after") as raised:
        Toolchain().disassemble(b"\x7fELF", "x")
    assert "--timeout" in raised.value.hint
    assert Toolchain(timeout_s=1200)._limit_s(NVDISASM, 0) == pytest.approx(0.6), "--timeout raises it"
    assert Toolchain(timeout_s=0.1)._limit_s(NVDISASM, 10**9) == 0.1


def test_a_long_disassembly_is_whole_or_refused(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = 400_000
    executable(bare / NVDISASM, f"exec {sys.executable} -c \"print('0123456789' * {lines})\"")
    assert Toolchain().disassemble(b"", "x") == "0123456789" * lines + "\n"
    monkeypatch.setattr(toolchain, "DISASSEMBLY_BYTES", 1 << 20)
    with pytest.raises(BadFile, match="printed more than 1 MiB"):
        Toolchain().disassemble(b"", "x")


def test_a_cubin_is_disassembled_once(bare: Path) -> None:
    calls = bare.parent / "calls"
    version = '[ "$1" = --version ] && echo "release 13.0, V13.0.88" && exit'
    executable(bare / NVDISASM, f"{version}\necho SASS\necho x >> {calls}")
    tools, (one, two) = Toolchain(), (_cubin("transpose-plain"), _cubin("transpose-xor"))
    assert [toolchain.disassembly(cubin, tools) for cubin in (one, two, one)] == ["SASS\n"] * 3
    assert calls.read_text() == "x\n" * 2
    toolchain._disassembly.cache_clear()
    assert toolchain.disassembly(one, tools) == "SASS\n", "from the user's cache"
    assert calls.read_text() == "x\n" * 2
    assert toolchain.disassembly(one, tools, cached=False) == "SASS\n"
    assert calls.read_text() == "x\n" * 3
    executable(bare / NVDISASM, "exit 3")
    with pytest.raises(BadFile, match="cannot be disassembled"):
        toolchain.disassembly(one, tools)


def test_a_tool_s_memory_is_limited(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable(bare / NVDISASM, f'exec {sys.executable} -c "print(len(bytes(1 << 30)))"')
    assert Toolchain().disassemble(b"", "x") == f"{1 << 30}\n"
    monkeypatch.setattr(toolchain, "MEMORY_BYTES", 600 << 20)
    with pytest.raises(BadFile, match="MemoryError"):
        Toolchain().disassemble(b"", "x")
