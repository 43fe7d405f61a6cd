"""Make docs/report.png, the README's picture, from the recordings: ``make picture`` (needs Chromium)."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from ncu_swizzle import catalog, experiment
from ncu_swizzle.profiling import Request

WIDTH, HEIGHT = 1200, 1010
PICTURE = Path(__file__).with_name("report.png")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        result = experiment.profile(catalog.load(), "kernel2", Request(engine="recorded"), export=Path(folder, "run"))
        assert result.folder is not None
        page = (result.folder / experiment.REPORT).resolve().as_uri()
        subprocess.run(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
             "--disable-background-networking", f"--user-data-dir={folder}/chromium",
             f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={PICTURE}", page],
            check=True,
            capture_output=True,
        )  # fmt: skip
    print(PICTURE)


if __name__ == "__main__":
    main()
