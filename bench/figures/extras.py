"""What ncu-swizzle and each of its extras take on disk: ``python3 bench/figures/extras.py --write``; needs the network.

The wheel is installed into an empty environment; each extra into one of its own, in which the first one's packages are
found, so that only what they lack is added. What is counted is what lies in site-packages afterwards, bytecode
included, pip not. What needs a GPU's toolkit to install (gpu), or is for work on the package (dev), is only measured
when named.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.figures import tables

PAGE = tables.ROOT / "docs" / "install.md"
LEFT_OUT = ("gpu", "dev")


def extras() -> list[str]:
    """Return the names of the extras, as pyproject.toml has them."""
    project = tomllib.loads((tables.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return list(project["optional-dependencies"])


def environment(folder: Path, *below: Path) -> Path:
    """Make an empty environment that finds the packages of those below it; return its site-packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "below.pth").write_text("\n".join(map(str, below)), encoding="utf-8")
    return packages


def installed(wheel: Path, extra: str, packages: Path) -> int:
    """Install the wheel with an extra; return the bytes that were added."""
    python = packages.parents[2] / "bin" / "python"
    name = f"ncu-swizzle[{extra}] @ {wheel.as_uri()}" if extra else str(wheel)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", name]
    subprocess.run(pip, check=True)
    return size(packages)


def size(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())


def rows(names: list[str]) -> Iterator[str]:
    """Yield a line of the table for the package alone and for each extra."""
    yield tables.head("extra", "adds")
    with tempfile.TemporaryDirectory() as scratch:
        build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", scratch, str(tables.ROOT)]
        subprocess.run(build, check=True)
        (wheel,) = Path(scratch).glob("*.whl")
        base = environment(Path(scratch, "base"))
        yield tables.row("none", f"{megabytes(installed(wheel, '', base))}")
        for name in names:
            with tempfile.TemporaryDirectory(dir=scratch) as folder:
                yield tables.row(f"`{name}`", megabytes(installed(wheel, name, environment(Path(folder, name), base))))


def megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("extras", nargs="*", default=[name for name in extras() if name not in LEFT_OUT])
    parser.add_argument("--write", action="store_true", help="write the table to docs/install.md")
    options = parser.parse_args()
    lines = []
    for line in rows(options.extras):
        print(line, flush=True)
        lines.append(line)
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    if options.write:
        tables.replace(PAGE, "extras", "extras.py", f"Linux x86-64, Python {python}\n\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
