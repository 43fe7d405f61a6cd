"""Make what the README shows, from the recordings: ``make picture`` (needs Chromium).

docs/attention-report.html  the report of the attention family
docs/report.png             the head of the report of kernel1 and kernel2
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from ncu_swizzle.catalog import collection
from ncu_swizzle.engines.context import Request
from ncu_swizzle.files import write_atomically
from ncu_swizzle.jobs import compare
from ncu_swizzle.render import page as report

WIDTH, HEIGHT = 1200, 1010
PICTURE = Path(__file__).with_name("report.png")
EXAMPLE = Path(__file__).with_name("attention-report.html")
FAMILY = ("kernel1", "kernel2", "kernel3", "reference-attention")
PICTURED = ("kernel1", "kernel2", "reference-attention")


def main() -> None:
    write_atomically(EXAMPLE, page(FAMILY))
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


def page(kernels: tuple[str, ...]) -> bytes:
    result = compare.compare_all(collection.shipped(), kernels, Request(engine="recorded"))
    return report.render(result.comparison).encode()


if __name__ == "__main__":
    main()
