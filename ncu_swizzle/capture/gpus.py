"""What a GPU answers to device queries, for the stand-in: values that a real one gave, by cudaDeviceAttr's numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ncu_swizzle.profiles.model import MachineInfo


@dataclass(frozen=True)
class StandInGpu:
    """A GPU to stand in for."""

    name: str
    sm: int
    memory: int  # bytes
    attributes: Mapping[int, int]

    @property
    def machine(self) -> MachineInfo:
        capability = f"{self.attributes[75]}.{self.attributes[76]}"
        return MachineInfo(compute_capability=capability, sm_count=self.attributes[16])


# As an H100 answered ncu: device__attribute_… of recordings/h100.
H100 = StandInGpu(
    "NVIDIA H100 80GB HBM3",
    90,
    85_017_493_504,
    {
        1: 1024, 2: 1024, 3: 1024, 4: 64, 5: 2147483647, 6: 65535, 7: 65535, 8: 49152, 9: 65536, 10: 32, 11: 2147483647,
        12: 65536, 13: 1980000, 14: 512, 15: 1, 16: 132, 17: 0, 18: 0, 19: 1, 20: 0, 31: 1, 32: 1, 35: 0, 36: 2619000,
        37: 5120, 38: 52428800, 39: 2048, 40: 3, 41: 1, 75: 9, 76: 0, 78: 1, 79: 1, 80: 1, 81: 233472, 82: 65536, 83: 1,
        84: 0, 86: 0, 87: 2, 88: 0, 89: 1, 90: 1, 91: 1, 95: 1, 97: 232448, 99: 1, 100: 0, 101: 0, 106: 32,
        108: 32768000, 109: 134217728, 111: 1024, 115: 1, 120: 1,
    },
)  # fmt: skip
GPUS: Mapping[str, StandInGpu] = {"h100": H100}

PROPERTIES_BYTES = 1008  # of CUDA 13's cudaDeviceProp
# Its fields, as offset, bytes and the attribute that says the same.
PROPERTIES = (
    (296, 8, 8), (304, 4, 12), (308, 4, 10), (312, 8, 11), (320, 4, 1), (324, 4, 2), (328, 4, 3), (332, 4, 4),
    (336, 4, 5), (340, 4, 6), (344, 4, 7), (352, 8, 9), (360, 4, 75), (364, 4, 76), (368, 8, 14), (384, 4, 16),
    (392, 4, 19), (560, 4, 31), (584, 4, 40), (588, 4, 41), (592, 4, 37), (596, 4, 38), (604, 4, 39), (624, 8, 81),
    (632, 4, 82), (636, 4, 83), (652, 4, 88), (656, 4, 89), (668, 4, 95), (672, 8, 97), (688, 4, 106), (696, 8, 111),
    (748, 4, 120),
)  # fmt: skip


def header(gpu: StandInGpu, runtime_version: int) -> str:
    """Return device.h, with what the stand-in answers."""
    values = ", ".join(f"{{{number}, {value}}}" for number, value in gpu.attributes.items())
    fields = ", ".join(f"{{{offset}, {size}, {number}}}" for offset, size, number in PROPERTIES)
    return (
        f"#define RUNTIME_VERSION {runtime_version}\n"
        f'#define DEVICE_NAME "{gpu.name}"\n'
        f"#define DEVICE_MEMORY ((size_t){gpu.memory})\n"
        f"#define DEVICE_PROPERTIES_BYTES {PROPERTIES_BYTES}\n"
        f"static const DeviceValue DEVICE_VALUES[] = {{{values}}};\n"
        f"static const DeviceField DEVICE_FIELDS[] = {{{fields}}};\n"
    )
