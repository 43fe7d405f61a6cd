"""The mutated tensor maps and descriptors that an H100 ran (bench/descriptors.py), as launches to emulate."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache

from ncu_swizzle.emulate.contents import Buffer
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.program import prepare
from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.emulate.run import setting_of
from ncu_swizzle.emulate.tensor_map import Tiled
from ncu_swizzle.emulate.tile_probes import followed_tiles
from ncu_swizzle.emulate.tile_record import FollowedTiles
from tests.support import measured
from tests.support.emulation import kernel
from tests.support.tile_oracle import Gemm, Side, TensorMap

TILE_BYTES = 128 * 64 * 2
SIZE, MAPS_AT, SHARED = 256, 0x70, 96 * 1024
A, B, C = 0x7F0000000000, 0x7F0000100000, 0x7F0000200000
BUFFERS = (Buffer("a", A, 2 * SIZE**2), Buffer("b", B, 2 * SIZE**2), Buffer("c", C, 4 * SIZE**2))
OPERAND = ("boxes", "columns", "rows", "apart", "along_x", "start", "group", "pair", "further", "per")
DESCRIPTOR = ("leading", "stride", "base_offset", "mode")
STEPS, COPIED = 52, 64  # where a tensor map has its element strides and the bytes of a box


@dataclass(frozen=True)
class MutatedCase:
    """One launch, and what the GPU computed: right, wrong, hang, fault or refused."""

    fields: dict[str, str]

    @property
    def label(self) -> str:
        return self.fields["case"]

    @property
    def right(self) -> bool:
        return self.fields["result"] == "right"

    def launch(self) -> Launch:
        words = [*self._operand("a"), *self._operand("b"), int(self.fields["base"]), int(self.fields["expected"])]
        parameters = bytes(MAPS_AT) + self._map("a", A) + self._map("b", B) + struct.pack("<Q", C)
        parameters += b"".join(struct.pack("<I", word & 0xFFFFFFFF) for word in words)
        return Launch(grid=(2, 2, 1), block=(256, 1, 1), shared_dynamic=SHARED, parameters=parameters, buffers=BUFFERS)

    def judged(self) -> FollowedTiles:
        code, launch = kernel("tiles", self.fields["kernel"]), self.launch()
        setting = setting_of(code, launch, prepare(code, arrays=bool(launch.memory)), Clock())
        return followed_tiles(code, setting, launch.buffers)

    def gemm(self) -> Gemm:
        """Return what the oracle computes."""
        across = self.fields["kernel"][0] == "m", self.fields["kernel"][1] == "m"
        a, b = self._side("a", 0), self._side("b", TILE_BYTES)
        base, expected = self._number("base"), self._number("expected")
        maps = self._tensor("a"), self._tensor("b")
        return Gemm("f16", 128, a, b, *maps, across=across, groups=2, base=base, expected=expected)

    @property
    def arrangements(self) -> str:
        return self.fields["a_map_arrangement"] + self.fields["b_map_arrangement"]

    def _side(self, side: str, at: int) -> Side:
        def of(name: str) -> int:
            return self._number(f"{side}_{name}")

        along_x = of("along_x")
        return Side(
            boxes=of("boxes"),
            apart=of("apart"),
            at=at,
            stage=2 * TILE_BYTES,
            start=of("start"),
            group=of("group"),
            pair=of("pair"),
            further=of("further"),
            per=of("per"),
            box=(of("columns"), of("rows")),
            block=(0, 128) if along_x else (128, 0),
            depth=(64, 0) if along_x else (0, 64),
            leading=of("leading"),
            stride=of("stride"),
            base_offset=of("base_offset"),
            mode=of("mode"),
        )

    def _tensor(self, side: str) -> TensorMap:
        def of(name: str) -> int:
            return self._number(f"{side}_map_{name}")

        return TensorMap(
            of("dtype"),
            (of("inner"), of("outer")),
            (of("stride"),),
            (of("box_inner"), of("box_outer")),
            of("swizzle"),
            offset=of("offset"),
            interleave=of("interleave"),
            fill=of("fill"),
            steps=(of("step_inner"), of("step_outer")),
        )

    def _number(self, name: str) -> int:
        return int(self.fields[name])

    def _operand(self, side: str) -> list[int]:
        leading, stride, base, mode = (
            self._number(f"{side}_{n}") for n in ("leading", "stride", "base_offset", "mode")
        )
        high = stride >> 4 | base << 17 | mode << 30
        return [*(self._number(f"{side}_{name}") for name in OPERAND), leading >> 4 << 16, high]

    def _map(self, side: str, address: int) -> bytes:
        def of(name: str) -> int:
            return self._number(f"{side}_map_{name}")

        box = of("box_inner"), of("box_outer")
        sizes = of("inner"), of("outer")
        modes = of("swizzle"), of("interleave"), of("promotion"), of("fill")
        tiled = Tiled(address + of("offset"), of("dtype"), sizes, (of("stride"),), box, *modes)
        content = bytearray(tiled.encoded())
        if (step := of("step_outer")) > 1:  # Tiled has none
            struct.pack_into("<I", content, STEPS, struct.unpack_from("<I", content, STEPS)[0] | step - 1 << 3)
            struct.pack_into("<I", content, COPIED, box[0] * -(-box[1] // step) * tiled.element_bytes)
        return bytes(content)


@cache
def mutated_cases() -> tuple[MutatedCase, ...]:
    return tuple(map(MutatedCase, measured.rows("descriptors")))
