"""What reaches into a shared array is found, through pointers, functions, macros, methods; what escapes is named."""

from tree_sitter import Node as ParsedNode

from ncu_swizzle.fix import cuda
from ncu_swizzle.fix.cuda import NOTHING
from ncu_swizzle.fix.webs import BYTES, Web
from tests.support.places import DATA, table
from tests.support.sources_in_cuda import web_of

KERNEL = "__global__ void k(float *o) {{ __shared__ float t[{size}]; int x = threadIdx.x; {body} }}\n"
CLASS = """template <int R, int C>
class Tile {{
    float v[R][C];
  public:
    __device__ float& operator()(int r, int c) {{ return v[r][c]; }}
    __device__ float* operator[](int r) {{ return this->v[r]; }}
    __device__ float* part(int r) {{ return v[r * 2]; }}
    {method}
}};
{before}
__global__ void k(float *o, int x, int y) {{
    __shared__ Tile<32, 32> t;
    t.part(0)[0] = 0; t[0][0] = 0; {body}
}}
"""
FACTS = table("facts/reaching.toml")
OF_THE_CLASS = [("v", "r c"), ("v", "0 0"), ("v", "r * 2 0")]


def in_kernel(body: str, size: str = "32][32", before: str = "") -> Web:
    return web_of(before + KERNEL.format(body=body, size=size))


def in_class(body: str, before: str = "", method: str = "") -> Web:
    return web_of(CLASS.format(body=body, before=before, method=method))


def accesses(web: Web) -> list[tuple[str, str]]:
    """Return what is accessed, with the indices and addends on the way to it."""
    return [
        (reach.start.name, " ".join(step.node.text or "0"
                                    for step in reach.steps))
        for reach in web.reaches
        if reach.end is None
    ]  # fmt: skip


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


def test_a_pointer_is_followed_into_functions_and_macros() -> None:
    before = "#define AT(p, y) p[(y) * 32]\n__device__ float get(const float *from, int i) { return from[i]; }\n"
    web = in_kernel("o[x] = get(&t[0][0], x) + AT(t[0], x);", before=before)
    assert sorted(accesses(web)) == [("from", "i"), ("p", "(y) * 32")]
    declared = "#define TILE(name) __shared__ float name[32][32]\n__global__ void k() { TILE(t); t[1][2] = 3; }\n"
    assert accesses(web_of(declared)) == [("t", "1 2")]


def test_an_address_goes_through_a_helper_that_returns_it() -> None:
    before = "__device__ unsigned a(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }\n"
    web = in_kernel('unsigned at = a(&t[x][0]); asm volatile("" :: "r"(at + 16));', before=before)
    (last,) = [reach for reach in web.reaches if reach.end is None]
    assert (last.start.name, last.unit) == ("at", BYTES)
    assert not web.obstacles


def test_arrays_that_one_pointer_reaches_belong_together() -> None:
    web = in_kernel("__shared__ float u[64]; float *p = o[0] > 0 ? t : u; p[1] = 2;", size="64")
    assert {array.name for array in web.arrays} == {"t", "u"}


def test_what_escapes_is_named() -> None:
    obstacles = {body: in_kernel(body).obstacles[0] for body in FACTS["escapes"]}
    assert {body: obstacle.reason for body, obstacle in obstacles.items()} == FACTS["escapes"]
    assert {obstacle.line for obstacle in obstacles.values()} == {1}


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


def test_an_array_in_a_struct_is_a_place_of_its_own() -> None:
    kernel = "__global__ void k(int i) { __shared__ S t[2]; t[i].a[1][2] = 3; t[0].n = 1; }\n"
    web = web_of(f"struct S {{ float a[4][8]; int n; }};\n{kernel}")
    assert [(member.place.name, member.object_) for member in web.members] == [("a", "t[0]")]
    assert ("a", 2) in {(reach.start.name, len(reach.steps)) for reach in web.reaches}


def test_objects_that_cannot_be_edited_are_named_and_whether_only_longer_rows_matter() -> None:
    other = "__global__ void k() { __shared__ Other<3> t; t(1, 2) = 3; }\n"
    union = "union Both { float a[32][32]; int b[1024]; };\n__global__ void k() { __shared__ Both t; t.b[1] = 3; }\n"
    use = "__global__ void k() { __shared__ T t; t.v[1][2] = 3; }\n"
    method = "struct T { float v[4][8]; __device__ float* all() { return &v[0][0]; } };\n"
    data = "struct T { float v[4][8]; };\n__device__ T kept;\n"
    rows = {
        other: (1, False, "t is an object of Other<3>, which is not defined in this file"),
        union: (2, False, "t is an object of Both, which is a union, whose members share their bytes"),
        method + use: (1, False, "all returns an address within v"),  # although nothing calls it
        data + use: (2, True, "T is used where it cannot be followed"),
    }
    for text, (line, longer_only, reason) in rows.items():
        (obstacle,) = web_of(text).obstacles
        assert reason in obstacle.reason
        assert (obstacle.line, obstacle.length) == (line, longer_only), reason
