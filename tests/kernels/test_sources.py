"""Which files are a kernel's sources, how nvcc names them, and headers of installed packages."""

import importlib.util
import itertools
from pathlib import Path

import pytest

from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import EnvironmentLacking, UsageError
from ncu_swizzle.cubin import lines, names
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.kernels import __main__, limits, naming, toolchain
from ncu_swizzle.kernels.family import Family
from ncu_swizzle.kernels.options import CatalogOptions
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports.container import Facts
from tests.support.marks import NEEDS_NVCC
from tests.support.own_kernel import FULL, description, own


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
    catalog = naming.everything(CatalogOptions(str(source.parent / "ncu-swizzle.toml")))
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
    monkeypatch.syspath_prepend(tmp_path)
    assert toolchain.locate("someones_headers:include") == tmp_path / "someones_headers" / "include"
    with pytest.raises(EnvironmentLacking, match="someones_headers:lib are not installed"):
        toolchain.locate("someones_headers:lib")


def test_missing_cute_headers_name_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvironmentLacking) as lacking:
        toolchain.locate("cutlass_library:source/include")
    assert lacking.value.hint == "pip install 'nvidia-cutlass>=4.0'"
