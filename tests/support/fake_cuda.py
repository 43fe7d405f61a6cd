"""A stand-in for NVIDIA's driver: a libcuda.so.1 that has GPUs and can say what they are called, and nothing else.

With it, `--workers gpus` starts its workers on a machine without a GPU, for an ncu that is a stand-in too.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.support.marks import COMPILERS

NAME = "NVIDIA H100 80GB HBM3"  # of the recordings that tests/support/fake_ncu.py copies
SOURCE = r"""
#include <stdlib.h>
#include <string.h>

static const char* visible(void) { return getenv("CUDA_VISIBLE_DEVICES"); }
int cuInit(unsigned flags) { return 0; }
int cuDeviceGetCount(int* count) {
    const char* list = visible();
    *count = GPUS;
    if (list)
        for (*count = *list != 0; *list; ++list) *count += *list == ',';
    return 0;
}
int cuDeviceGetName(char* text, int size, int device) { strncpy(text, NAME, size); return 0; }
int cuDeviceGetUuid(unsigned char* uuid, int device) { /* the last digit is the GPU's number: GPU-000…0N */
    const char* list = visible();
    int number = device;
    memset(uuid, 0, 16);
    if (list) {
        for (; device; ++list) device -= *list == ',';
        const char* end = strchr(list, ',');
        number = (end ? end[-1] : list[strlen(list) - 1]) - '0';
    }
    uuid[15] = (unsigned char)number;
    return 0;
}
int cuDeviceGetUuid_v2(unsigned char* uuid, int device) { return cuDeviceGetUuid(uuid, device); }
int cuDeviceGetAttribute(int* value, int attribute, int device) { *value = attribute == 75 ? 9 : 0; return 0; }
"""


def install(folder: Path, gpus: int = 2) -> Path:
    """Write the library into a folder, for LD_LIBRARY_PATH, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "cuda.c"
    source.write_text(SOURCE, encoding="utf-8")
    compiler = next(filter(None, map(shutil.which, COMPILERS)))
    defined = (f"-DGPUS={gpus}", f'-DNAME="{NAME}"')
    subprocess.run([compiler, "-shared", "-fPIC", *defined, "-o", folder / "libcuda.so.1", source], check=True)
    return folder
