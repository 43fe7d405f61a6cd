"""Make what the README shows, from the commands and the recordings: ``make picture`` (needs Chromium and nvcc).

docs/session.svg  lint, fix and profile in a terminal, as they print
docs/report.webp  the head of the report of kernel1 and kernel2
docs/learn/*.svg  bank maps
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ncu_swizzle.base.files import write_atomically
from ncu_swizzle.commands import run_kernel
from ncu_swizzle.engines.settings import Request
from ncu_swizzle.explain.own_kernels import Subject
from ncu_swizzle.kernels import catalog
from ncu_swizzle.render import page as report
from ncu_swizzle.smem import access, mapping

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

import animation  # noqa: E402 - of this folder

import examples  # noqa: E402

WIDTH, HEIGHT = 1200, 540
PICTURE = Path(__file__).with_name("report.webp")
SESSION = Path(__file__).with_name("session.svg")
SCENES = (  # a command, for how many seconds its output stays, and what of it is shown: lines at the start and the end
    ("ncu-swizzle lint turn.cu", 4, (None, None)),
    ("ncu-swizzle fix turn.cu --apply", 7, (None, None)),
    ("ncu-swizzle profile transpose-xor --engine recorded", 6, (7, 14)),
)
PICTURED = ("kernel1", "kernel2", "reference-attention")
MAPS_IN = Path(__file__).with_name("learn")
MAPS = {  # a layout, the size of its elements, a swizzle, an access
    "kernel2": ("(64,128):(128,1)", 2, "3,3,4", "ldmatrix"),
    "cute": ("(8,8):(1,8)", 4, "3,2,3", "row"),
    "jonah": ("(8,64):(64,1)", 2, "add:3,3,3", "cp.async"),
    "gemm": ("(64,64):(64,1)", 2, "2,3,5", "ldmatrix"),
}


def main() -> None:
    write_atomically(SESSION, session().encode())
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
    print(SESSION, PICTURE, sep="\n")


def session() -> str:
    """Return the moving picture: the commands are run in a copy of examples/fix."""
    with examples.working_folder("examples/fix") as folder:
        scenes = [
            animation.Scene(command=command, printed=shown(command, folder, *ends), stays_s=stays_s)
            for command, stays_s, ends in SCENES
        ]
    return animation.svg(scenes, "ncu-swizzle finds a bank conflict, fixes it, and shows what such a fix gained")


def shown(command: str, folder: Path, first: int | None, last: int | None) -> str:
    """Return what a command prints, with colours; "…" stands for the lines between the first and the last ones."""
    environment = {
        **os.environ,
        "FORCE_COLOR": "1",
        "COLUMNS": str(animation.COLUMNS),
        "PYTHONPATH": str(examples.ROOT),
    }
    words = [sys.executable, "-m", *command.replace("ncu-swizzle", "ncu_swizzle").split()]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, cwd=folder)
    lines = (done.stdout + done.stderr).replace(f"{folder}/", "").splitlines()
    return "\n".join(lines if first is None or last is None else [*lines[:first], "…", *lines[-last:]])


def bank_map(name: str) -> bytes:
    """Return the picture of a Learn page: a tile before and after its swizzle."""
    layout, element_bytes, swizzle, wanted = MAPS[name]
    tile = mapping.parse(layout, element_bytes, swizzle)
    taken = access.parse(wanted, tile.layout, element_bytes)
    svg = report.render_banks_svg(Subject(before=tile.plain, after=tile, access=taken).maps(), f"{layout}, {wanted}")
    return "".join(line.strip() for line in svg.splitlines()).encode()  # nobody reads or edits it


def page(kernels: tuple[str, ...]) -> bytes:
    result = run_kernel.compare_all(
        [catalog.shipped().target(kernel) for kernel in kernels], Request(engine="recorded")
    )
    return report.render(result.comparison).encode()


if __name__ == "__main__":
    main()
