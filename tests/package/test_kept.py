"""What is kept of the compilers' work is what they make; what a test run leaves behind fails it."""

from pathlib import Path

import pytest

from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.cubin.lines import line_table, open_elf
from ncu_swizzle.kernels.toolchain import ARCH, Toolchain
from tests.support import kept

OPTIONS = ("-lineinfo", "-std=c++17", "-O3")
KERNEL = """#include "../twice.cuh"
namespace { __global__ void hidden(int* p) { *p = twice(*p); } }
void use(int* p) { hidden<<<1, 1>>>(p); }
"""
TWICE = "__device__ int twice(int x) { return 2 * x; }\n"


@pytest.fixture
def unit(tmp_path: Path) -> str:
    """Return a translation unit of two files."""
    (tmp_path / "twice.cuh").write_text(TWICE, encoding="utf-8")
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "k.cu").write_text(KERNEL, encoding="utf-8")
    return f'#include "{tmp_path}/kernels/k.cu"\n'


@pytest.mark.long
def test_a_kept_cubin_is_what_nvcc_makes(unit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept_in = tmp_path / "kept"
    kept_in.mkdir()
    tools = Toolchain()
    compiled = kept.compile_now(tools, unit, OPTIONS, ARCH, [])
    disassembled = kept.disassemble_now(tools, compiled, "k.cubin")
    monkeypatch.setenv(kept.VARIABLE, str(kept_in))
    first = tools.compile(unit, OPTIONS, ARCH, [])
    assert tools.disassemble(first, "k.cubin") == disassembled
    assert sorted(file.suffixes[0] for file in kept_in.iterdir()) == [".cubin", ".sass"]
    monkeypatch.setattr(kept, "compile_now", None)  # neither is run again
    monkeypatch.setattr(kept, "disassemble_now", None)
    again = tools.compile(unit, OPTIONS, ARCH, [])
    assert tools.disassemble(again, "k.cubin") == disassembled
    assert again == first
    ours, theirs = open_elf(first), open_elf(compiled)
    differing = {
        section.name
        for section in theirs.iter_sections()
        if section.name and ours.get_section_by_name(section.name).data() != section.data()
    }
    assert differing <= {".debug_line", ".rela.debug_line"}  # whose rows are the same:
    (kernel,) = Cubin(compiled, "k.cubin").kernels
    table = line_table(compiled, kernel)
    assert line_table(first, kernel) == table
    assert table.rows[0].location[0] == f"{tmp_path}/kernels/k.cu"
