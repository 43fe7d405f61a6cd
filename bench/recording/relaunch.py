"""Launch what a launches file holds again, on this machine's GPU: ``python3 bench/recording/relaunch.py FILE``.

Under ``ncu-swizzle capture --outputs -- python3 bench/recording/relaunch.py FILE`` the same kernels, sizes and contents
of memory are captured again, now with what each launch leaves. Buffers lie elsewhere than in the file, so each word of
parameters and memory that is an address in one of them is moved with it. Nothing but the driver and NumPy is needed.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ncu_swizzle.capture.launches import CapturedLaunch, LaunchesFile, open_launches

BUFFER, SIZE, END = 1, 2, 0  # CU_LAUNCH_PARAM_…
CLUSTER, MOST_SHARED = 4, 8  # a launch's attribute, and a function's
PLAIN_SHARED = 48 << 10  # bytes of dynamic shared memory that need no permission


class Attribute(ctypes.Structure):
    _fields_ = (
        ("id", ctypes.c_int),
        ("padding", ctypes.c_int),
        ("cluster", ctypes.c_uint * 3),
        ("rest", ctypes.c_char * 52),
    )


class Config(ctypes.Structure):
    _fields_ = (
        ("shape", ctypes.c_uint * 7),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("count", ctypes.c_uint),
    )


driver = ctypes.CDLL("libcuda.so.1")


def call(name: str, *arguments: Any) -> None:
    """Call the driver; exit with its error."""
    if status := getattr(driver, name)(*arguments):
        text = ctypes.c_char_p()
        driver.cuGetErrorName(status, ctypes.byref(text))
        sys.exit(f"{name}: {(text.value or b'?').decode()}")


def moved(content: bytes, places: dict[tuple[int, int], int]) -> bytes:
    """Return bytes with each aligned word that is an address in a buffer moved; `places`: by old address and size."""
    words = np.frombuffer(content[: len(content) // 8 * 8], np.uint64).copy()
    new = words.copy()
    for (address, size), place in places.items():
        inside = (words >= np.uint64(address)) & (words < np.uint64(address + size))
        new[inside] = words[inside] + np.uint64((place - address) % (1 << 64))
    return new.tobytes() + content[len(content) // 8 * 8 :]


def copy_in(file: LaunchesFile, place: int, sha256: str, places: dict[tuple[int, int], int]) -> None:
    if sha256:
        content = moved(file.memory(sha256), places)
        call("cuMemcpyHtoD_v2", ctypes.c_uint64(place), content, ctypes.c_size_t(len(content)))


def launch(file: LaunchesFile, module: ctypes.c_void_p, captured: CapturedLaunch) -> None:
    """Give one launch its memory, and launch it."""
    function, address, size = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_size_t()
    call("cuModuleGetFunction", ctypes.byref(function), module, captured.kernel.encode())
    places = {}
    for buffer in captured.buffers:
        call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(buffer.bytes))
        places[buffer.address, buffer.bytes] = address.value
    for buffer in captured.buffers:
        copy_in(file, places[buffer.address, buffer.bytes], buffer.contents.sha256, places)
    for variable in captured.variables:
        call("cuModuleGetGlobal_v2", ctypes.byref(address), ctypes.byref(size), module, variable.name.encode())
        copy_in(file, address.value, variable.contents.sha256, places)
    end = max((each.offset + len(each.bytes) for each in captured.parameters), default=0)
    packed = bytearray(-(-end // 8) * 8)
    for each in captured.parameters:
        packed[each.offset : each.offset + len(each.bytes)] = each.bytes
    parameters = ctypes.create_string_buffer(moved(bytes(packed), places), len(packed) + 1)
    length = ctypes.c_size_t(end)
    extra = (ctypes.c_void_p * 5)(BUFFER, ctypes.addressof(parameters), SIZE, ctypes.addressof(length), END)
    if captured.shared > PLAIN_SHARED:
        call("cuFuncSetAttribute", function, MOST_SHARED, captured.shared)
    attributes = Attribute(id=CLUSTER, cluster=captured.cluster or (1, 1, 1))
    shape = (*captured.grid, *captured.block, captured.shared)
    config = Config(shape=shape, attributes=ctypes.pointer(attributes), count=bool(captured.cluster))
    call("cuLaunchKernelEx", ctypes.byref(config), function, None, extra)
    call("cuCtxSynchronize")
    for place in places.values():
        call("cuMemFree_v2", ctypes.c_uint64(place))


def main(path: Path) -> None:
    device, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    modules = {}
    with open_launches(path) as file:
        for captured in file.manifest.launches:
            if captured.cubin not in modules:
                modules[captured.cubin] = ctypes.c_void_p()
                call("cuModuleLoadData", ctypes.byref(modules[captured.cubin]), file.cubin(captured.cubin))
            launch(file, modules[captured.cubin], captured)
            print(f"{captured.index} {captured.kernel}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
