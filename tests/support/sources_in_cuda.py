"""CUDA sources in tests: taken apart, and with a mapping written into them, without a compiler."""

import re
from collections.abc import Mapping

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.draft import Draft, PaddingEdits, swapped
from ncu_swizzle.fix.edits import edited
from ncu_swizzle.fix.frames import Members, tiles_of
from ncu_swizzle.fix.names import Names, shared_declarations
from ncu_swizzle.fix.sums import Constants
from ncu_swizzle.fix.walking import Walk
from ncu_swizzle.fix.xor_edits import MatrixEdits, XorEdits
from ncu_swizzle.smem.swizzle import Padding, RowXor, Swapped, XorMatrix

ROWS = RowXor(columns=32, rows=32, bits=5, base=0, drop=0)  # t[32][32]
FLAT = RowXor(columns=32, rows=0, bits=5, base=0, drop=0)  # t[1024]
FOURS = RowXor(columns=32, rows=0, bits=3, base=2, drop=0)  # that keeps four floats together
LONGER = Padding(32, 1)


INDICES = {"x": "threadIdx.x % 31", "y": "threadIdx.y", "z": "y", "c": "x % 8", "r": "y"}  # of what `body` names


def body(text: str, declared: str = "t[32][32]", before: str = "") -> str:
    """Return a source whose kernel has a shared array and these statements, with rows and columns by their names."""
    own = [name for name in INDICES if not re.search(rf"[\w*&>] \*?&?{name}\b *[=({{[]|, {name}\[", text)]
    indices = ", ".join(f"{name} = {INDICES[name]}" for name in own)
    head = f"{before}__global__ void k(float *o) {{ const int {indices};"
    return f"{head}\n    __shared__ float {declared};\n    {text}\n}}\n"


def walked(text: str) -> Walk:
    """Return the walk through a source's kernel `k`."""
    names = Names(cuda.parse(text.encode(), "test.cu"))
    return Walk(names, tuple(shared_declarations(names)), "k")


def rewritten(
    text: str,
    transform: RowXor | XorMatrix | Padding | Swapped,
    name: str = "t",
    flat: bool = False,
    constants: Mapping[str, int] | None = None,
    offsets: Mapping[str, int] | None = None,
    vectors: bool = False,
) -> str:
    """Return a source with a mapping of one array of 4-byte elements; `offsets` are where parts of it begin, in bytes.

    Raises Unfit if the mapping cannot be written.
    """
    walk = walked(text)
    pointers = {declared.text: id_ for id_, (declared, _) in walk.pointers.items()}
    starts = {pointers[start]: at for start, at in (offsets or {}).items()}
    accesses = tuple(walk.accesses.values())
    members = {
        access.pointer.members: Members(offset=0, size=4096, copies=()) for access in accesses if access.pointer.members
    }
    tiles = tiles_of(accesses, starts, members)
    tile = next(made for made in tiles if any(name in (root.declared.text, root.array.name) for root in made.roots))
    values = Constants(walk=walk, name=lambda node, frame: (constants or {}).get(node.text))
    sizes = {"float[32]": 128}  # which the compiler says
    draft = Draft(file=walk.file, tile=tile, constants=values, element_bytes=4, declared_bytes=4, unit_bytes=sizes)
    if isinstance(transform, Swapped):
        edits = swapped(draft)
    elif isinstance(transform, XorMatrix):
        edits = MatrixEdits(draft=draft, matrix=transform).edits()
    elif isinstance(transform, RowXor):
        edits = XorEdits(draft=draft, xor=transform, flat=flat, vectors=vectors).edits()
    else:
        edits = PaddingEdits(draft=draft, padding=transform, flat=flat).edits()
    return edited(walk.file.text, edits).decode()
