"""What reaches into a shared array is found, through pointers, functions, methods; what a patch misses is not proved.

The first line of each file of tests/data/fix_hostile says which mapping is written, and whether it can be right: a line
with WRONG is what such a patch misses.
"""

import re
from pathlib import Path

import pytest
from tree_sitter import Node as ParsedNode

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.certify.checker import certify
from ncu_swizzle.certify.verdict import ProofOutcome
from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.cuda import NOTHING, Unfit
from ncu_swizzle.fix.frames import SourceAccess
from ncu_swizzle.fix.names import BYTES
from ncu_swizzle.fix.walking import Walk
from ncu_swizzle.kernels import halves
from ncu_swizzle.kernels.halves import TranslationUnit, Tree
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.smem.swizzle import Swapped
from tests.support.marks import NEEDS_ALL
from tests.support.places import DATA, table
from tests.support.sources_in_cuda import FLAT, LONGER, ROWS, rewritten, walked

KERNEL = "__global__ void k(float *o) {{ __shared__ float t[32][32]; int x = threadIdx.x; {body} }}\n"
FACTS = table("facts/walking.toml")
OF_THE_CLASS = ["r * 2 0", "r 0", "r c"]  # what the class and its kernel access anyhow


def in_kernel(body: str) -> Walk:
    return walked(KERNEL.format(body=body))


def name_of(access: SourceAccess) -> str:
    return access.pointer.members[-1].text if access.pointer.members else access.pointer.array.name


def accesses(walk: Walk) -> list[list[str]]:
    """Return what is accessed, with the indices and addends on the way to it."""
    every = walk.accesses.values()
    return [[name_of(each), " ".join(step.node.text or "0" for step in each.steps)] for each in every]


def test_a_tree_has_the_nodes_and_the_parts_that_the_parser_found() -> None:
    text = (DATA / "emulate/shapes.cu").read_bytes()
    waiting: list[ParsedNode] = [cuda._parser().parse(cuda.for_grammar(text)).root_node]
    nodes = list(cuda.parse(text, "shapes.cu").root.walk())
    for node in nodes:
        theirs = waiting.pop()
        waiting += reversed(theirs.children)
        assert (node.type, node.start_byte, node.end_byte) == (theirs.type, theirs.start_byte, theirs.end_byte)
        assert len(node.children) == theirs.child_count
        assert len(node.named_children) == theirs.named_child_count
        for name in (*node.named_parts, "left", "type", "value", "declarator"):
            parts = [(part.start_byte, part.end_byte) for part in theirs.children_by_field_name(name)]
            assert [(part.start_byte, part.end_byte) for part in node.every(name)] == parts
            assert node.part(name) is (node.every(name) or [NOTHING])[0]
    assert not waiting
    assert len(nodes) > 1000


def test_every_access_is_found_with_its_indices() -> None:
    assert {body: accesses(in_kernel(body)) for body in FACTS["accesses"]} == FACTS["accesses"]


def test_methods_and_references_are_followed() -> None:
    source = (DATA / "fix" / "tile_class.cu").read_text(encoding="utf-8")
    for body, before, method, indices in FACTS["followed"]:
        walk = walked(source.replace("// METHOD", method).replace("// BEFORE", before).replace("// BODY", body))
        found = [access for access in accesses(walk) if access[1] not in OF_THE_CLASS]
        assert found == [["v", index] for index in indices], body


def test_what_is_found_in_whole_sources() -> None:
    usual = {"arrays": ["t"], "members": [], "in_bytes": []}
    for fact in FACTS["sources"]:
        walk = walked(fact["text"])
        every = walk.accesses.values()
        found = {
            "accesses": sorted(accesses(walk)),
            "arrays": sorted({access.pointer.array.name for access in every}),
            "members": [[name_of(access), access.pointer.object_] for access in every if access.pointer.members],
            "in_bytes": [name_of(access) for access in every if access.unit == BYTES],
        }
        assert found == {**usual, **{key: fact[key] for key in found if key in fact}}, fact["about"]


HEAD = re.compile(r"// ([\w ]+); (refused|harmless|written)(: .*)?")  # harmless: what looks wrong is not
MAPPINGS = {"rows": ROWS, "flat": FLAT, "padding": LONGER, "swapped": Swapped(columns=32, rows=32)}
WHOLLY = {"wholly": FLAT, "longer wholly": LONGER}  # every index goes through a function
HOSTILE = sorted((DATA / "fix_hostile").glob("*.cu"))


def patched(source: Path) -> tuple[bool, str]:
    """Return whether a source's mapping can be right, and the source with it. Raises Unfit if it is not written."""
    text = source.read_text(encoding="utf-8")
    head = HEAD.match(text)
    assert head is not None, source
    name = "s" if "__shared__ S s" in text else "t"
    return head[2] != "refused", rewritten(text, (MAPPINGS | WHOLLY)[head[1]], name, flat=head[1] in WHOLLY)


def test_what_can_be_right_is_written() -> None:
    right = [source for source in HOSTILE if "; written: " in source.read_text(encoding="utf-8")]
    lacking = {
        source.name: text
        for source in right
        for expected in [source.read_text(encoding="utf-8").splitlines()[0].partition("; written: ")[2]]
        if expected not in (text := patched(source)[1])
    }
    assert lacking == {}
    assert right


@pytest.mark.slow
@NEEDS_ALL
@pytest.mark.parametrize("source", HOSTILE, ids=lambda source: source.stem)
def test_what_a_patch_misses_is_not_proved(source: Path, tmp_path: Path) -> None:
    try:
        right, text = patched(source)
    except Unfit:
        return
    (tmp_path / source.name).write_text(text, encoding="utf-8")
    units = (TranslationUnit(source=file) for file in (source, tmp_path / source.name))
    try:
        before, after = (
            halves.compiled(unit, "sm_90a", Toolchain(), Tree(unit.source.parent, unit.source.parent)).ptx
            for unit in units
        )
    except NcuSwizzleError:  # the compiler refuses what was written
        assert not right
        return
    proved = [
        certify(before, after, kernel=kernel, block=(32, 32, 1)).outcome is ProofOutcome.PROVED
        for kernel in re.findall(r"\.entry (\w+)", before)
    ]
    assert right or not all(proved)
