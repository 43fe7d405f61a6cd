"""What reaches into a shared array is found, through pointers, functions, macros, methods; hostile sources are refused.

The first line of each file of tests/data/fix_hostile says which mapping is written, and what comes of it; a line with
WRONG is the one that the reason has to name.
"""

import re

import pytest
from tree_sitter import Node as ParsedNode

from ncu_swizzle.fix import cuda, ptx
from ncu_swizzle.fix.cuda import NOTHING, Unfit
from ncu_swizzle.fix.draft import Swapped
from ncu_swizzle.fix.webs import BYTES, Web
from tests.support.places import DATA, table
from tests.support.sources_in_cuda import FLAT, LONGER, ROWS, rewritten, web_of

KERNEL = "__global__ void k(float *o) {{ __shared__ float t[32][32]; int x = threadIdx.x; {body} }}\n"
FACTS = table("facts/reaching.toml")
OF_THE_CLASS = [("v", "r c"), ("v", "0 0"), ("v", "r * 2 0")]


def in_kernel(body: str) -> Web:
    return web_of(KERNEL.format(body=body))


def in_class(body: str, before: str = "", method: str = "") -> Web:
    source = (DATA / "fix" / "tile_class.cu").read_text(encoding="utf-8")
    return web_of(source.replace("// METHOD", method).replace("// BEFORE", before).replace("// BODY", body))


def accesses(web: Web) -> list[tuple[str, str]]:
    """Return what is accessed, with the indices and addends on the way to it."""
    ends = [reach for reach in web.reaches if reach.end is None]
    return [(reach.start.name, " ".join(step.node.text or "0" for step in reach.steps)) for reach in ends]


def test_a_tree_has_the_nodes_and_the_parts_that_the_parser_found() -> None:
    text = (DATA / "emulate/shapes.cu").read_bytes().replace(b"__align__", b"  alignas")
    waiting: list[ParsedNode] = [cuda._parser().parse(text).root_node]
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
    found = {body: [list(access) for access in accesses(in_kernel(body))] for body in FACTS["accesses"]}
    assert found == FACTS["accesses"]


def test_what_escapes_is_named() -> None:
    obstacles = {body: in_kernel(body).obstacles[0] for body in FACTS["escapes"]}
    assert {body: obstacle.reason for body, obstacle in obstacles.items()} == FACTS["escapes"]
    assert {obstacle.line for obstacle in obstacles.values()} == {1}


def test_an_address_that_is_taken_through_a_reference_is_named() -> None:
    def taken(statements: str, before: str) -> bool:
        reasons = [obstacle.reason for obstacle in web_of(before + "\n" + KERNEL.format(body=statements)).obstacles]
        return any("may take the address of an element" in reason for reason in reasons)

    references = FACTS["references"]
    assert [case for case in references["taken"] if not taken(*case)] == []
    assert [case for case in references["read"] if taken(*case)] == []
    web = web_of("struct P { float *p; int i; };" + KERNEL.format(body="auto [a, b] = P{&t[x][0], x}; o[0] = a[b];"))
    assert web.obstacles


def test_an_asm_statement_accesses_an_address_or_computes_with_it() -> None:
    def obstacles(code: str, constraint: str = "r") -> list[str]:
        web = in_kernel(f'int v; asm({code} : "=r"(v) : "{constraint}"(&t[x][0]), "r"(x)); o[x] = v;')
        return [obstacle.reason for obstacle in web.obstacles]

    ptx = FACTS["ptx"]
    assert {code: reasons for code in ptx["accesses"] if (reasons := obstacles(code))} == {}
    assert [code for code in ptx["computes"] if not obstacles(code)] == []
    assert obstacles('""') == []
    assert obstacles('""', "0") == ['"" computes with an address of t']  # what comes out is what goes in


def test_an_asm_statement_is_as_wide_as_its_widest_access() -> None:
    def width(code: str) -> int:
        file = cuda.parse(f'void k() {{ asm({code} : "=r"(v) : "r"(a), "r"(b)); }}'.encode(), "k.cu")
        return ptx.width(next(file.nodes("gnu_asm_input_operand")))

    widths = FACTS["ptx"]["widths"]
    assert {code: width(code) for code in widths} == widths


def test_methods_and_references_are_followed() -> None:
    for *texts, indices in FACTS["followed"]:
        web = in_class(*texts)
        assert web.obstacles == [], texts
        found = {access for access in accesses(web) if access not in OF_THE_CLASS}
        assert found == {("v", index) for index in indices}, texts


def test_what_else_an_edit_of_the_class_would_change_is_named() -> None:
    for line, body, before, reason in FACTS["named"]:
        obstacles = in_class(body, before).obstacles
        named = [obstacle.reason for obstacle in obstacles if obstacle.line == line]
        assert any(reason in text for text in named), (body, before, obstacles)
        assert {obstacle.start.name for obstacle in obstacles} == {"v"}, (body, before)


def test_what_is_found_in_whole_sources() -> None:
    usual = {"arrays": ["t"], "members": [], "in_bytes": [], "obstacles": []}
    for fact in FACTS["sources"]:
        web = web_of(fact["text"])
        found = {
            "accesses": sorted(map(list, accesses(web))),
            "arrays": sorted(array.name for array in web.arrays),
            "members": [[member.place.name, member.object_] for member in web.members],
            "in_bytes": [reach.start.name for reach in web.reaches if reach.end is None and reach.unit == BYTES],
            "obstacles": [[obstacle.line, obstacle.length, obstacle.reason] for obstacle in web.obstacles],
        }
        assert found == {**usual, **{key: fact[key] for key in found if key in fact}}, fact["about"]


HEAD = re.compile(r"// ([\w ]+); (refused|written): (.*)")
MAPPINGS = {"rows": ROWS, "flat": FLAT, "padding": LONGER, "swapped": Swapped(columns=32, rows=32)}
WHOLLY = {"wholly": FLAT, "longer wholly": LONGER}  # every index goes through a function


def outcome(text: str, mapping: str) -> tuple[str, list[int | None]]:
    """Return the patched source, or why it is refused, and the line that is blamed."""
    name = "s" if "__shared__ S s" in text else "t"
    try:
        return rewritten(text, (MAPPINGS | WHOLLY)[mapping], name, flat=mapping in WHOLLY), []
    except Unfit as refused:
        return str(refused), [refused.line]


@pytest.mark.parametrize("mapping", [*MAPPINGS, *WHOLLY])
def test_what_the_launch_does_not_show_is_seen_in_the_source(mapping: str) -> None:
    otherwise: dict[str, object] = {}
    files = 0
    for source in sorted((DATA / "fix_hostile").glob("*.cu")):
        text = source.read_text(encoding="utf-8")
        head = HEAD.match(text)
        assert head is not None, source
        if head[1] != mapping:
            continue
        files += 1
        said, lines = outcome(text, mapping)
        wrong = [number for number, line in enumerate(text.splitlines(), 1) if "WRONG" in line]
        expected = [head[3]] if head[2] == "written" else head[3].split("|")
        if lines != wrong or not any(part in said for part in expected):
            otherwise[source.name] = said, lines
    assert otherwise == {}
    assert files


def test_a_column_stays_in_its_row_in_every_launch() -> None:
    facts = table("facts/columns.toml")

    def reason(statements: str, column: str) -> str:
        kernel = """__global__ void k(float *o, int n, int flag) {
            __shared__ float t[1100];
            const int x = threadIdx.x, y = threadIdx.y;
            t[y * 32 + x] = 1; __syncthreads();"""
        text = f"{facts['before']}{kernel} {statements} o[0] = t[(x % 31) * 32 + {column}]; }}"
        try:
            rewritten(text, FLAT)
        except Unfit as refused:
            return str(refused)
        return ""

    reasons = {tuple(case): reason(*case) for case in facts["leaves"]}
    assert {case: why for case, why in reasons.items() if "may leave its row" not in why} == {}
    assert {tuple(case): why for case in facts["stays"] if (why := reason(*case))} == {}
