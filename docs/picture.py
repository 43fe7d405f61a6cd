"""Make what the README shows, from the recordings: ``make picture`` (needs Chromium).

docs/attention-report.html  the report of the attention family
docs/report.png             the head of the report of kernel1 and kernel2
docs/learn/*.svg            bank maps
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from ncu_swizzle.base.files import write_atomically
from ncu_swizzle.commands import run_kernel
from ncu_swizzle.engines.settings import Request
from ncu_swizzle.kernels import catalog
from ncu_swizzle.render import page as report
from ncu_swizzle.smem import access, bankmap, mapping

WIDTH, HEIGHT = 1200, 1010
PICTURE = Path(__file__).with_name("report.png")
EXAMPLE = Path(__file__).with_name("attention-report.html")
FAMILY = ("kernel1", "kernel2", "kernel3", "reference-attention")
PICTURED = ("kernel1", "kernel2", "reference-attention")
MAPS_IN = Path(__file__).with_name("learn")
MAPS = {  # a layout, the size of its elements, a swizzle, an access
    "kernel2": ("(64,128):(128,1)", 2, "3,3,4", "ldmatrix"),
    "cute": ("(8,8):(1,8)", 4, "3,2,3", "row"),
    "jonah": ("(8,64):(64,1)", 2, "add:3,3,3", "cp.async"),
    "gemm": ("(64,64):(64,1)", 2, "2,3,5", "ldmatrix"),
}


def main() -> None:
    write_atomically(EXAMPLE, page(FAMILY))
    for name in MAPS:
        write_atomically(MAPS_IN / f"{name}.svg", bank_map(name))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "report.html")
        file.write_bytes(page(PICTURED))
        subprocess.run(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
             "--disable-background-networking", f"--user-data-dir={folder}/chromium",
             f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={PICTURE}", file.as_uri()],
            check=True,
            capture_output=True,
        )  # fmt: skip
    print(EXAMPLE, PICTURE, sep="\n")


def bank_map(name: str) -> bytes:
    """Return the picture of a Learn page: a tile before and after its swizzle."""
    layout, element_bytes, swizzle, wanted = MAPS[name]
    tile = mapping.parse(layout, element_bytes, swizzle)
    taken = access.parse(wanted, tile.layout, element_bytes)
    return report.render_banks_svg(bankmap.before_and_after(tile.plain, tile, taken), f"{layout}, {wanted}").encode()


def page(kernels: tuple[str, ...]) -> bytes:
    result = run_kernel.compare_all(
        [catalog.shipped().target(kernel) for kernel in kernels], Request(engine="recorded")
    )
    return report.render(result.comparison).encode()


if __name__ == "__main__":
    main()
