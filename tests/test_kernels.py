"""The kernels compile for every architecture that they are meant for, without spilling."""

from __future__ import annotations

import re
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

from ncu_swizzle import catalog, headers
from ncu_swizzle.device import OPTIONS
from ncu_swizzle.errors import EnvironmentLacking

ROOT = Path(__file__).resolve().parent.parent
# CuTe's headers take ten seconds a kernel; the GPU tests compile them all.
SLOW = {"cute-8x8-plain", "cute-8x8-swizzled", "cute-128x32-plain", "cute-128x32-swizzled", "cute-columns-plain",
        "cute-columns-half"}  # fmt: skip
KERNELS = [(family, kernel) for family, kernel in catalog.load() if not kernel.library and kernel.name not in SLOW]


def compile_(family: catalog.Family, kernel: catalog.Kernel, arch: str, folder: Path) -> str:
    """Compile a kernel as the launching program does, and return what the compiler says of it."""
    folders = [catalog.include_folder(family.folder), *map(headers.locate, family.headers)]
    include = [f"-I{folder}" for folder in folders]
    done = subprocess.run(
        ["nvcc", "-cubin", f"-arch={arch}", *OPTIONS, *include, "-Xptxas", "-v", "-Werror", "all-warnings",
         "-o", str(folder / "out.cubin"), str(family.source(kernel))],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(("family", "kernel"), KERNELS, ids=[kernel.name for _, kernel in KERNELS])
def test_it_compiles_without_spills(family: catalog.Family, kernel: catalog.Kernel, arch: str, tmp_path: Path) -> None:
    least = "sm_{}{}".format(*family.compute_capability)
    if arch < least:
        pytest.skip(f"{family.name} needs {least}")
    try:
        [headers.locate(name) for name in family.headers]
    except EnvironmentLacking as lacking:
        pytest.skip(str(lacking))
    assert re.search(r"\b0 bytes spill stores, 0 bytes spill loads", compile_(family, kernel, arch, tmp_path))


def test_the_worked_example_of_contributing_works(tmp_path: Path) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    entry = textwrap.dedent("\n".join(re.findall(r"^ {7}\S.*$", text, re.MULTILINE)))
    assert 'name = "rotated"' in entry
    kernels = tmp_path / "kernels"
    shutil.copytree(ROOT / "kernels", kernels)
    kernel2 = (kernels / "attention" / "kernel2.cu").read_text(encoding="utf-8")
    copy = kernel2.replace("kernel2", "rotated").replace("layout::XorSwizzle", "layout::AddSwizzle")
    (kernels / "attention" / "rotated.cu").write_text(copy, encoding="utf-8")
    with (kernels / "attention" / "family.toml").open("a", encoding="utf-8") as family_file:
        family_file.write(f"\n{entry}\n")
    family, kernel = catalog.load(kernels).find("rotated")
    assert kernel.baseline == "kernel1"
    assert dict(kernel.degree) == {"LDGSTS": 1, "LDSM": 1, "STS": 1, "LDS": 1}
    if shutil.which("nvcc"):
        compile_(family, kernel, "sm_90", tmp_path)
