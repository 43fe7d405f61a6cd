"""CUDA's tools, where they are looked for and how they fail; which files are a kernel's sources, and their names."""

import importlib.util
import itertools
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import BadFile, EnvironmentLacking, NcuSwizzleError, TimeLimit, UsageError
from ncu_swizzle.cubin import lines, names
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.kernels import __main__, catalog, limits, naming, toolchain
from ncu_swizzle.kernels.family import Family
from ncu_swizzle.kernels.options import CatalogOptions
from ncu_swizzle.kernels.toolchain import ARCH, NVCC, NVDISASM, PTXAS, Toolchain
from ncu_swizzle.reports import container
from ncu_swizzle.reports.container import Facts
from tests.support.marks import NEEDS_ALL, NEEDS_NVCC, NEEDS_PTXAS, executable
from tests.support.own_kernel import FULL, description, own
from tests.support.places import RECORDINGS
from tests.support.refusals import refused, unlike

PTX = b"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry nothing() { ret; }
"""


def test_tools_are_found_in_the_order_that_the_module_promises(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    for folder in (tmp_path / "packaged", tmp_path / "toolkit" / "bin", bare, tmp_path / "home" / "bin"):
        program = executable(folder / NVCC)
        assert Toolchain().find(NVCC) == program
    named = executable(tmp_path / "named" / "nvcc-13")
    beside = executable(tmp_path / "named" / PTXAS)
    executable(bare / PTXAS)
    elsewhere = executable(tmp_path / "packaged" / NVDISASM)  # what the named toolkit lacks
    assert [Toolchain(named).find(tool) for tool in (NVCC, PTXAS, NVDISASM)] == [named, beside, elsewhere]


def test_without_tools_the_error_says_what_to_install(bare: Path) -> None:
    said = refused(Toolchain().find, NVDISASM)
    assert said.startswith("EnvironmentLacking: nvdisasm was not found")
    assert "pip install 'ncu-swizzle[nvcc]'" in said
    executable(bare / NVCC)
    assert Toolchain().lacking(NVCC) == ""
    assert Toolchain().lacking() == "nvdisasm was not found"


@pytest.mark.usefixtures("bare")
def test_a_named_compiler_has_to_be_a_program(tmp_path: Path) -> None:
    assert "nowhere is not a program" in refused(Toolchain(tmp_path / "nowhere").find, NVCC)
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
    executable(
        bare / NVCC,
        "PATH=/usr/bin:/bin",
        'if [ "$1" = --version ]; then echo "release 13.0, V13.0.88"; exit; fi',
        f"echo once >> {counter}",
        f'while [ "$1" != -o ]; do shift; done; cp {tmp_path}/cubin "$2"',
    )
    for name, times in (("transpose-plain", 1), ("transpose-plain", 1), ("transpose-xor", 2)):
        assert toolchain.cubin(*catalog.shipped().named(name), ARCH, Toolchain()) == cubin
        assert counter.read_text().split() == ["once"] * times


def _cubin(name: str) -> Cubin:
    return Cubin(_recorded_cubin(name), name)


def _version(release: str) -> str:
    return f'[ "$1" = --version ] && echo "release {release}, V{release}.1" && exit'


def test_an_older_compiler_that_is_found_before_a_newer_one_of_the_environment_is_said(
    bare: Path, tmp_path: Path
) -> None:
    installed, packaged = executable(bare / NVCC, _version("13.0")), tmp_path / "packaged" / NVCC
    assert Toolchain().compiler == "nvcc 13.0 (V13.0.1)"
    executable(packaged, _version("12.9"))
    assert Toolchain().compiler == "nvcc 13.0 (V13.0.1)"
    executable(packaged, _version("13.10"))
    said = f"nvcc 13.0 (V13.0.1), which is {installed}; this environment has nvcc 13.10 (V13.10.1): --nvcc {packaged}"
    assert Toolchain().compiler == f"{said} takes it"
    assert Toolchain(packaged).compiler == "nvcc 13.10 (V13.10.1)"


def test_ptx_that_is_too_new_for_an_installed_ptxas_is_assembled_by_that_of_the_environment(
    bare: Path, tmp_path: Path
) -> None:
    old = "echo \"ptxas fatal : Unsupported .version 9.5; current version is '9.0'\"; exit 255"
    executable(bare / PTXAS, old)
    with pytest.raises(BadFile, match=r"Unsupported \.version"):
        Toolchain().assemble(PTX, "x")
    executable(tmp_path / "packaged" / PTXAS, 'while [ "$1" != -o ]; do shift; done; printf cubin > "$2"')
    assert Toolchain().assemble(PTX, "x") == b"cubin"
    executable(bare / PTXAS, "echo 'error : it is wrong'; exit 255")
    with pytest.raises(BadFile, match="it is wrong"):
        Toolchain().assemble(PTX, "x")


def test_a_program_is_linked_with_the_runtime_of_a_package(bare: Path, tmp_path: Path) -> None:
    executable(bare / NVCC, f'echo "$@" > {tmp_path}/given')
    runtime = bare.parent / "lib" / "libcudart.so.13"
    runtime.parent.mkdir()
    runtime.touch()
    Toolchain().link(tmp_path / "app.cu", (), ARCH, [], tmp_path / "out")
    assert f"-L {tmp_path}" in (tmp_path / "given").read_text()
    assert (tmp_path / "libcudart.so").resolve() == runtime.resolve()


def _recorded_cubin(name: str) -> bytes:
    """Return a recorded cubin without the hash that follows _INTERNAL_, which is made anew when a cubin is cached."""
    code = container.inspect(RECORDINGS / "transpose" / f"{name}.ncu-rep").results[0].cubin
    return code.replace(b"_INTERNAL_", b"_OTHERWISE")


@pytest.mark.long
@NEEDS_NVCC
@pytest.mark.usefixtures("real_tools")
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
    damaged = {
        PTX[:-12]: "^BadFile: .*could not assemble",
        PTX.replace(b"ret", b"rot"): "^BadFile: .*could not assemble",
        PTX[:14]: "^BadFile: .*no .target",
    }
    assert not unlike(damaged, lambda ptx: refused(Toolchain().assemble, ptx, "damaged.ptx"))


@NEEDS_ALL
def test_what_is_no_cubin_cannot_be_disassembled() -> None:
    assert "cannot be disassembled" in refused(Toolchain().disassemble, b"\x7fELF nothing", "x.cubin")


def test_a_tool_that_fails_says_how_it_ended(bare: Path) -> None:
    executable(bare / NVCC, "echo wrong; exit 3")
    assert re.match("ProgramFailed: .*wrong", refused(Toolchain().version))


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
    toolchain._TEXTS.clear()
    assert toolchain.disassembly(one, tools) == "SASS\n", "from the user's cache"
    assert calls.read_text() == "x\n" * 2
    assert toolchain.disassembly(one, tools, cached=False) == "SASS\n"
    assert calls.read_text() == "x\n" * 3
    executable(bare / NVDISASM, f"{version}\necho x >> {calls}; exit 3")
    for _ in range(2):  # it may have taken its whole time limit to fail
        with pytest.raises(BadFile, match="cannot be disassembled"):
            toolchain.disassembly(one, tools, cached=False)
    assert calls.read_text() == "x\n" * 4


def test_a_tool_s_memory_is_limited(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable(bare / NVDISASM, f'exec {sys.executable} -c "print(len(bytes(1 << 30)))"')
    assert Toolchain().disassemble(b"", "x") == f"{1 << 30}\n"
    monkeypatch.setattr(toolchain, "MEMORY_BYTES", 600 << 20)
    with pytest.raises(BadFile, match="MemoryError"):
        Toolchain().disassemble(b"", "x")


def test_included_headers_of_the_folder_are_sources_and_others_count_for_the_cache(tmp_path: Path) -> None:
    source = own(tmp_path / "src dir")
    text = '#include "inc/a.cuh"\n# include <b.cuh>\n#include "../outside.cuh"\n#include <cstdio>\n'
    source.write_text(text + "__global__ void fn() {}\n", encoding="utf-8")
    (source.parent / "inc").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (source.parent / "inc" / "a.cuh").write_text('#include "a.cuh"\n#include "../inc/c.cuh"\n', encoding="utf-8")
    (source.parent / "inc" / "c.cuh").write_text("// c\n", encoding="utf-8")
    (tmp_path / "outside.cuh").write_text("// outside\n", encoding="utf-8")
    other = tmp_path / "elsewhere" / "b.cuh"
    other.write_text("// b\n", encoding="utf-8")
    asked = description(grid="1", block="1", options=(f"-I{other.parent}",))
    family = naming.family_of(source, asked, ())
    assert sorted(family.source_texts()) == ["inc/a.cuh", "inc/c.cuh", "my.cu"]
    assert {str(other), str(tmp_path / "outside.cuh")} < family.included().keys()
    assert toolchain.cacheable(family, family.kernels[0])
    other.write_text("#include NAMED\n", encoding="utf-8")
    assert not toolchain.cacheable(family, family.kernels[0])
    assert limits.has_computed_include("#include NAMED") is True


def test_a_header_counts_for_the_cache_wherever_the_compiler_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, folder = own(tmp_path / "src"), tmp_path / "elsewhere"
    folder.mkdir()
    includes = ("#include <b.cuh>", "/* c */ #include_next <b.cuh>", "%: include <b.cuh>")
    for form, line in itertools.product((f"-isystem={folder}", f"-I{folder}", "CPATH", "CPLUS_INCLUDE_PATH"), includes):
        source.write_text(f"{line}\n__global__ void fn() {{}}\n", encoding="utf-8")
        (folder / "b.cuh").write_text("// b\n", encoding="utf-8")
        with monkeypatch.context() as patch:
            options = (form,) if form.startswith("-") else ()
            if not options:
                patch.setenv(form, f"/nowhere:{folder}")
            family = naming.family_of(source, description(grid="1", block="1", options=options), ())
            (kernel,) = family.kernels
            before = toolchain.cache_key(family, kernel, "sm_90", "13.0")
            (folder / "b.cuh").write_text("// changed\n", encoding="utf-8")
            assert toolchain.cache_key(family, kernel, "sm_90", "13.0") != before, (form, line)
            assert toolchain.cacheable(family, kernel)
            patch.setenv("NVCC_APPEND_FLAGS", "-I /elsewhere")
            assert not toolchain.cacheable(family, kernel)


@pytest.mark.parametrize("option", ["-I{}", "-isystem={}"])
def test_an_include_folder_that_is_missing_is_named_with_the_file_that_says_it(option: str, tmp_path: Path) -> None:
    source = own(tmp_path / "src")
    missing = option.format(tmp_path / "nowhere")
    described = description(entry="transpose", grid="1", block="1", options=(missing,))
    family = naming.family_of(source, described, ())
    with pytest.raises(UsageError, match=rf"^the include folder {tmp_path}/nowhere \(-I|isystem\) does not exist"):
        toolchain.options(family, family.kernels[0])
    text = '[kernel.mine]\nsource = "my.cu"\ngrid = "1"\nblock = "1"\ninclude = ["nowhere"]\n'
    (source.parent / "ncu-swizzle.toml").write_text(text, encoding="utf-8")
    catalog = naming.catalogue(CatalogOptions(str(source.parent / "ncu-swizzle.toml")))
    with pytest.raises(UsageError, match=r"src/ncu-swizzle.toml \[kernel.mine\]: the include folder .*/src/nowhere"):
        toolchain.options(*catalog.named("mine"))
    (source.parent / "nowhere").mkdir()
    assert toolchain.options(*catalog.named("mine"))
    (source.parent / "nowhere").rmdir()
    (source.parent / "nowhere").touch()
    with pytest.raises(UsageError, match="is not a folder"):
        toolchain.options(*catalog.named("mine"))


@NEEDS_NVCC
def test_what_the_compiler_names_is_what_the_sources_are_called(tmp_path: Path) -> None:
    source = own(tmp_path / "a dir <b>")
    source.write_text(
        '#include "sub/../helper.cuh"\n__global__ void fn(float* x) { x[threadIdx.x] = twice(x[0]); }\n',
        encoding="utf-8",
    )
    (source.parent / "sub").mkdir()
    helper = "__device__ inline float twice(float x) {\n  x = sqrtf(x);\n  return x * 2;\n}\n"
    (source.parent / "helper.cuh").write_text(helper, encoding="utf-8")
    family = naming.family_of(source, description(grid="1", block="32", args=("x=float32[32]:zeros:out",)), ())
    cubin = compile_(family)
    name = names.find(Cubin(cubin, "my.cu"), family.kernels[0].entry)
    facts = Facts({"source_roots": __main__.what_runs(family, family.kernels[0], {})["source_roots"]})
    named = {facts.relative(row.location[0]) for row in lines.line_table(cubin, name).rows}
    assert {"my.cu", "helper.cuh"} <= named
    assert {"my.cu", "helper.cuh"} == family.source_texts().keys()


def compile_(family: Family) -> bytes:
    """Compile a family's first kernel as PyCUDA does, with the same options, folders and text."""
    (kernel,) = family.kernels
    options = toolchain.options(family, kernel)
    return Toolchain().compile(toolchain.unit(family, kernel), options, "sm_90", toolchain.include_folders(family))


@NEEDS_NVCC
def test_a_user_s_kernel_may_include_our_helpers(tmp_path: Path) -> None:
    source = own(tmp_path)
    text = '#include "layout.cuh"\n__global__ void fn(int* x) { x[0] = layout::RowMajor<64>::at(1, 0); }\n'
    source.write_text(text, encoding="utf-8")
    family = naming.family_of(source, description(grid="1", block="1", args=("x=int32[1]:out",)), ())
    assert "#pragma once" in family.included()[str(paths.kernels() / "common" / "layout.cuh")]
    (tmp_path / "layout.cuh").write_text("namespace layout { template <int> struct RowMajor {", encoding="utf-8")
    assert str(tmp_path / "layout.cuh") in family.included(), "their own header goes before ours"
    (tmp_path / "layout.cuh").unlink()
    assert compile_(family)


def test_a_path_that_nvcc_cannot_read_is_told(tmp_path: Path) -> None:
    family = naming.family_of(own(tmp_path / 'a"b'), FULL, ())
    with pytest.raises(UsageError, match=r'nvcc cannot handle the path .*a\\?"b/my\.cu'):
        toolchain.unit(family, family.kernels[0])


def test_headers_are_found_in_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "someones_headers" / "include").mkdir(parents=True)
    (tmp_path / "someones_headers" / "__init__.py").write_text("raise SystemExit('imported')", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert toolchain.locate("someones_headers:include") == tmp_path / "someones_headers" / "include"
    assert "someones_headers:lib are not installed" in refused(toolchain.locate, "someones_headers:lib")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    said = refused(toolchain.locate, "cutlass_library:source/include")
    assert said.startswith("EnvironmentLacking: ")
    assert said.endswith("try: pip install 'nvidia-cutlass>=4.0'")
