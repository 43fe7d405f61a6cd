"""A stand-in for NVIDIA's driver: a libcuda.so.1 that has GPUs and can say what they are called, and nothing else.

With it, `--workers gpus` starts its workers on a machine without a GPU, for an ncu that is a stand-in too.
"""

import shutil
import subprocess
from pathlib import Path

from tests.support.marks import COMPILERS

NAME = "NVIDIA H100 80GB HBM3"  # of the recordings that tests/support/fake_ncu.py copies
SOURCE = Path(__file__).with_suffix(".c")


def install(folder: Path, gpus: int = 2) -> Path:
    """Write the library into a folder, for LD_LIBRARY_PATH, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    compiler = next(filter(None, map(shutil.which, COMPILERS)))
    defined = (f"-DGPUS={gpus}", f'-DNAME="{NAME}"')
    subprocess.run([compiler, "-shared", "-fPIC", *defined, "-o", folder / "libcuda.so.1", SOURCE], check=True)
    return folder
