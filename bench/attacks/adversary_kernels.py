"""Programs for adversary.py: kernels with a tile that conflicts, and practice around it that a patch may break.

A program is drawn from a seed: how its tile is declared, through what it is indexed (an accessor: a helper, a macro, a
view, a lambda …), and twists: other memory reached through the same accessor, extents of the tile that reach results,
side effects in subscripts, tickets, shadowing names, a second kernel. A twist stands behind a guard, most of which the
described launch does not take. In the texts below, @T is the element type, @W the length of a row as it is spelled.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

SIDE = 32  # rows and columns of a tile
THREADS = "32, 8"
BYTES = {"float": 4, "int": 4, "double": 8, "short": 2, "__half": 2}
DTYPES = {"float": "float32", "int": "int32", "double": "float64", "short": "int16", "__half": "float16"}
GLOBAL = "@T *x, @T *y, @T *g, int *c, int n, int flag, int seed"  # the parameters of every kernel


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One launch: a kernel of the program, its blocks, and what its arguments hold."""

    entry: str = "k"
    blocks: int = 1
    other: str = "ZEROS"  # what g holds: RANDOM, ZEROS or ONES
    n: int = SIDE
    flag: int = 0
    seed: int = 1


@dataclass(frozen=True, kw_only=True)
class Program:
    """A source, the launch that `fix` is told, the others that a patch must stand too, and what it is made of."""

    name: str
    text: str
    element: str
    dynamic: int  # bytes of dynamic shared memory
    described: Launch
    others: tuple[Launch, ...]
    features: frozenset[str]

    @property
    def settings(self) -> str:
        """The text of its ncu-swizzle.toml."""
        dtype, made = DTYPES[self.element], self.described
        arguments = [
            f"x={dtype}[4096]:random", f"y={dtype}[8192]:out", f"g={dtype}[4096]:{made.other.lower()}",
            "c=int32[4096]:zeros:out", f"n=int32:{made.n}", f"flag=int32:{made.flag}", f"seed=int32:{made.seed}",
        ]  # fmt: skip
        listed = ", ".join(f'"{argument}"' for argument in arguments)
        shared = f"shared = {self.dynamic}\n" if self.dynamic else ""
        kernel = f'[kernel.k]\nsource = "k.cu"\nentry = "k"\ngrid = {made.blocks}\nblock = "{THREADS}"\n'
        return f"{kernel}{shared}args = [{listed}]\n"


@dataclass(frozen=True, kw_only=True)
class Storage:
    """How a tile is declared: at file scope, in the kernel; its name as an array of rows, and as a pointer."""

    name: str
    outside: str = ""
    inside: str = ""
    rows: str = ""  # an expression of type @T[W][W]; empty if there is none
    flat: str = ""  # an expression of type @T *
    array: str = ""  # whatever array it is, for sizeof
    side: str = ""  # a pointer to 1,024 other elements of shared memory
    dynamic: int = 0  # elements


STORAGES = (
    Storage(name="rows", inside="__shared__ @T tile[@W][@W];", rows="tile", flat="&tile[0][0]", array="tile"),
    Storage(name="rows of a type", outside="typedef @T Rows[@W][@W];", inside="__shared__ Rows tile;", rows="tile",
            flat="tile[0]", array="tile"),
    Storage(name="flat", inside="__shared__ @T tile[@W * @W];", flat="tile", array="tile"),
    Storage(name="two flat", inside="__shared__ @T tile[@W * @W], side[@W * @W];", flat="tile", array="tile",
            side="side"),
    Storage(name="two of rows", inside="__shared__ @T tile[@W][@W];\n    __shared__ @T side[@W][@W];", rows="tile",
            flat="&tile[0][0]", array="tile", side="&side[0][0]"),
    Storage(name="stages", inside="__shared__ @T tile[2][@W][@W];", rows="tile[1]", flat="&tile[1][0][0]",
            array="tile[1]"),
    Storage(name="struct", outside="struct Smem { @T tile[@W][@W]; @T extra[@W]; int tag; };",
            inside="__shared__ Smem smem;", rows="smem.tile", flat="&smem.tile[0][0]", array="smem.tile"),
    Storage(name="struct of flat", outside="struct Smem { int tag; @T tile[@W * @W]; };",
            inside="__shared__ Smem smem;", flat="smem.tile", array="smem.tile"),
    Storage(name="macro declares", outside="#define TILE(type, name) __shared__ type name[@W][@W]",
            inside="TILE(@T, tile);", rows="tile", flat="&tile[0][0]", array="tile"),
    Storage(name="carved", inside="extern __shared__ @T pool[];\n    @T *tile = pool, *side = pool + @W * @W;",
            flat="tile", side="side", dynamic=2 * SIDE * SIDE),
    Storage(name="carved bytes", flat="tile", dynamic=SIDE * SIDE,
            inside="extern __shared__ unsigned char raw[];\n    @T *tile = reinterpret_cast<@T *>(raw);"),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Accessor:
    """Through what a tile is indexed: `use` with {p} (memory), {r} and {c} is an element that can be assigned to.

    `put` assigns {v} where `use` cannot be assigned to. `many`: {p} may be other memory than the tile.
    """

    name: str
    use: str
    outside: str = ""
    inside: str = ""
    put: str = "{use} = {v}"
    rows: bool = False  # {p} is an array of rows
    many: bool = True
    before: str = ""  # after the tile's declaration, with {p}


POLICY = "policy as a template's parameter"
OF_LAUNCH = "length from the launch"
HELPER = "__device__ __forceinline__ "
ACCESSORS = (
    Accessor(name="plain rows", use="{p}[{r}][{c}]", rows=True, many=False),
    Accessor(name="plain flat", use="({p})[({r}) * @W + {c}]"),
    Accessor(name="pointer arithmetic", use="*(({p}) + ({r}) * @W + {c})"),
    Accessor(name="pointer arithmetic on rows", use="*(*({p} + {r}) + {c})", rows=True, many=False),
    Accessor(name="index first", use="({c})[{p}[{r}]]", rows=True, many=False),
    Accessor(name="helper by value", use="get({p}, {r}, {c})", put="put({p}, {r}, {c}, {v})",
             outside=f"{HELPER}@T get(const @T *p, int r, int c) {{ return p[r * @W + c]; }}\n"
                     f"{HELPER}void put(@T *p, int r, int c, @T v) {{ p[r * @W + c] = v; }}"),
    Accessor(name="helper by reference", use="at({p}, {r}, {c})",
             outside=f"{HELPER}@T &at(@T *p, int r, int c) {{ return p[r * @W + c]; }}"),
    Accessor(name="helper template", use="at<@W>({p}, {r}, {c})",
             outside=f"template <int LD, class U>\n{HELPER}U &at(U *p, int r, int c) {{ return p[r * LD + c]; }}"),
    Accessor(name="default argument", use="at({p}, {r}, {c})",
             outside=f"{HELPER}@T &at(@T *p, int r, int c, int ld = @W) {{ return p[r * ld + c]; }}"),
    Accessor(name="default template argument", use="at({p}, {r}, {c})",
             outside=f"template <class U, int LD = @W>\n{HELPER}U &at(U *p, int r, int c) {{ return p[r * LD + c]; }}"),
    Accessor(name="overloads", use="at({p}, {r}, {c})",
             outside=f"struct Line {{ @T *p; }};\n{HELPER}@T &at(@T *p, int r, int c) {{ return p[r * @W + c]; }}\n"
                     f"{HELPER}@T &at(Line line, int r, int c) {{ return at(line.p, r, c); }}"),
    Accessor(name="helper of rows", use="cell({p}, {r}, {c})", rows=True,
             outside=f"{HELPER}@T &cell(@T (&t)[@W][@W], int r, int c) {{ return t[r][c]; }}"),
    Accessor(name="helper of deduced rows", use="cell({p}, {r}, {c})", rows=True,
             outside=f"template <int H, int L>\n{HELPER}@T &cell(@T (&t)[H][L], int r, int c) {{ return t[r][c]; }}"),
    Accessor(name="deduced extent as stride", use="cell({p}, {r}, {c})", rows=True,
             outside=f"template <int H, int L>\n{HELPER}@T &cell(@T (&t)[H][L], int r, int c) {{ "
                     "return (&t[0][0])[r * L + c]; }"),
    Accessor(name="pointer to rows", use="cell({p}, {r}, {c})", rows=True,
             outside=f"{HELPER}@T &cell(@T (*t)[@W], int r, int c) {{ return t[r][c]; }}"),
    Accessor(name="row helper", use="row({p}, {r})[{c}]",
             outside=f"{HELPER}@T *row(@T *p, int r) {{ return p + r * @W; }}"),
    Accessor(name="macro", use="AT({p}, {r}, {c})", outside="#define AT(p, r, c) (p)[(r) * @W + (c)]"),
    Accessor(name="macro in macro", use="AT({p}, {r}, {c})",
             outside="#define IDX(r, c) ((r) * @W + (c))\n#define AT(p, r, c) (p)[IDX(r, c)]"),
    Accessor(name="macro of rows", use="CELL({p}, {r}, {c})", rows=True, outside="#define CELL(t, r, c) t[r][c]"),
    Accessor(name="index macro", use="({p})[IDX({r}, {c})]", outside="#define IDX(r, c) ((r) * @W + (c))"),
    Accessor(name="index helper", use="({p})[idx({r}, {c})]",
             outside=f"{HELPER}constexpr int idx(int r, int c) {{ return r * @W + c; }}"),
    Accessor(name="index functor", use="({p})[index({r}, {c})]", inside="const Index index{@W};",
             outside="struct Index { int ld; __device__ int operator()(int r, int c) const { return r * ld + c; } };"),
    Accessor(name="index policy", use="({p})[Layout::at({r}, {c})]",
             outside="struct Plain { static constexpr int kTag = 7; static __device__ int at(int r, int c) { "
                     "return r * @W + c; } };\nstruct Xor { static constexpr int kTag = 9; "
                     "static __device__ int at(int r, int c) { return r * @W + (c ^ r); } };\nusing Layout = Plain;"),
    Accessor(name=POLICY, use="({p})[Layout::at({r}, {c})]",
             outside="struct Plain { static constexpr int kTag = 7; static __device__ int at(int r, int c) { "
                     "return r * @W + c; } };\nstruct Xor { static constexpr int kTag = 9; "
                     "static __device__ int at(int r, int c) { return r * @W + (c ^ r); } };"),
    Accessor(name="lambda", use="at({p}, {r}, {c})",
             inside="auto at = [](@T *p, int r, int c) -> @T & { return p[r * @W + c]; };"),
    Accessor(name="generic lambda", use="at({p}, {r}, {c})",
             inside="auto at = [](auto *p, int r, int c) -> auto & { return p[r * @W + c]; };"),
    Accessor(name="lambda with a default", use="at({r}, {c}, {p})", before="@T *const base = {p};\n    "
             "auto at = [base](int r, int c, @T *p = nullptr) -> @T & { return (p ? p : base)[r * @W + c]; };"),
    Accessor(name="capturing lambda", use="at({r}, {c})", many=False, before="@T *const base = {p};\n    "
             "auto at = [&](int r, int c) -> @T & { return base[r * @W + c]; };"),
    Accessor(name="lambda of two", use="at({r}, {c}, ({p}) == g)", before="@T *const base = {p};\n    "
             "auto at = [&](int r, int c, bool far = false) -> @T & { return (far ? g : base)[r * @W + c]; };"),
    Accessor(name="view", use="View{{{p}}}.at({r}, {c})",
             outside="struct View { @T *p; __device__ @T &at(int r, int c) const { return p[r * @W + c]; } };"),
    Accessor(name="view template", use="View<@T, @W>{{{p}}}({r}, {c})",
             outside="template <class U, int LD> struct View { U *p; __device__ U &operator()(int r, int c) const "
                     "{ return p[r * LD + c]; } };"),
    Accessor(name="view with a length", use="View{{{p}, @W}}.at({r}, {c})",
             outside="struct View { @T *p; int ld; __device__ @T &at(int r, int c) const { return p[r * ld + c]; } };"),
    Accessor(name="view of rows", use="View{{{p}}}[{r}][{c}]",
             outside="struct View { @T *p; __device__ @T *operator[](int r) const { return p + r * @W; } };"),
    Accessor(name="inherited view", use="Derived({p}).at({r}, {c})",
             outside="struct Base { @T *p; __device__ explicit Base(@T *q) : p(q) {} "
                     "__device__ @T &at(int r, int c) const { return p[r * @W + c]; } };\n"
                     "struct Derived : Base { __device__ explicit Derived(@T *q) : Base(q) {} };"),
    Accessor(name="CRTP view", use="On{{{{}}, {p}}}.at({r}, {c})",
             outside="template <class D> struct Crtp { __device__ @T &at(int r, int c) { return "
                     "static_cast<D *>(this)->p[r * @W + c]; } };\nstruct On : Crtp<On> { @T *p; };"),
    Accessor(name="ADL", use="at(lay::Out{{{p}}}, {r}, {c})",
             outside="namespace lay { struct Out { @T *p; }; __device__ @T &at(Out o, int r, int c) { "
                     "return o.p[r * @W + c]; } }"),
    Accessor(name="hidden friend", use="at(Out{{{p}}}, {r}, {c})",
             outside="struct Out { @T *p; friend __device__ @T &at(Out o, int r, int c) "
                     "{ return o.p[r * @W + c]; } };"),
    Accessor(name="alias", use="alias[({r}) * @W + {c}]", many=False, before="@T *alias = {p};"),
    Accessor(name="reference to rows", use="alias[{r}][{c}]", many=False, rows=True, before="auto &alias = {p};"),
    Accessor(name="pointer to rows, alias", use="alias[{r}][{c}]", many=False, rows=True,
             before="@T (*alias)[@W] = {p};"),
    Accessor(name=OF_LAUNCH, use="({p})[({r}) * n + {c}]"),
)  # fmt: skip

# What is done under which condition. {s} is the statement; v, r, tx, ty, b are known there.
GUARDS = {
    "open": "{s}",
    "flag": "if (flag) {{ {s} }}",
    "two flags": "if (flag & 1) {{ {s} }} else if (flag == 2) {{ {s} }}",
    "block": "if (blockIdx.x == 1) {{ {s} }}",
    "size": "if (n > 40) {{ {s} }}",
    "empty loop": "for (int i = 0; i < flag; ++i) {{ {s} }}",
    "switch": "switch (seed) {{ case 2: case 5: {s} break; default: break; }}",
    "outlier": "if (v > (@T)4000) {{ {s} }}",
    "data": "if (g[(r * 7 + tx) % 1024] > (@T)0) {{ {s} }}",
    "ticket": "if (atomicAdd(c, 1) % 5 == 3) {{ {s} }}",
    "clock": "if (clock() % 5 == 3) {{ {s} }}",
}

# Statements with other memory behind the accessor: {g} is an element of it by [tx][r], the memory is OTHERS'.
SINKS = {
    "added": "v += {g};",
    "times the flag": "v += {g} * (@T)flag;",
    "times data": "v += {g} * g[r];",
    "stored": "y[4096 + b * 1024 + r * 32 + tx] = {g};",
    "written": "{put};",
    "appended": "{{ int slot = atomicAdd(c + 1, 1); c[1024 + slot % 2048] = (int){g}; }}",
    "maximum": "atomicMax(c + 3, (int){g});",
}
OTHERS = {
    "global": "g",
    "input": "x",
    "offset global": "(g + seed)",
    "local": "loc",
    "constant": "table",
    "shared": "",  # the storage's side
    "ternary": "(flag ? g : {tile})",
}

# Expressions of a tile's extents: {t} is an array of rows, or with EXTENTS_OF_ANY any array.
EXTENTS = {
    "sizeof a row": "(int)(sizeof({t}[0]) / sizeof(@T))",
    "sizeof through a star": "(int)(sizeof(*{t}) / sizeof({t}[0][0]))",
    "deduced width": "width_of({t})",
    "deduced area": "area_of({t})",
    "std::extent": "(int)std::extent<std::remove_reference_t<decltype({t})>, 1>::value",
    "difference of rows": "(int)(&{t}[1][0] - &{t}[0][0])",
    "difference in bytes": "(int)((char *)&{t}[2] - (char *)&{t}[0])",
    "decltype of a row": "(int)(sizeof(std::remove_reference_t<decltype({t}[0])>) / sizeof(@T))",
    "if constexpr": "[&] {{ if constexpr (sizeof({t}[0]) == 32 * sizeof(@T)) return 3; else return 5; }}()",
}
EXTENTS_OF_ANY = {
    "sizeof": "(int)(sizeof({t}) / sizeof(@T))",
    "bytes": "(int)sizeof({t})",
    "decltype": "(int)sizeof(decltype({t}))",
}
DEDUCED = f"""template <class U, int H, int L> {HELPER}int width_of(U (&)[H][L]) {{ return L; }}
template <class U, int H, int L> {HELPER}int area_of(U (&)[H][L]) {{ return H * L; }}"""
EXTENT_SINKS = {
    "counter": "atomicAdd(c + 2, {e});",
    "index": "v += x[(r * {e} + tx) % 4096];",
    "value": "v += (@T){e};",
    "constexpr": "{{ constexpr int kOf = {e}; v += x[(r * kOf + tx) % 4096]; }}",
    "bound": "for (int i = 0; i < {e}; i += 16) v += (@T)i;",
}
ROW_LOOPS = {  # of all elements of row tx; {t} is an array of rows
    "range for": "for (auto &e : {t}[tx]) v += e;",
    "to the next row": "for (@T *p = {t}[tx]; p != {t}[tx] + sizeof({t}[tx]) / sizeof(@T); ++p) v += *p;",
    "pointer walk": "{{ @T *p = {t}[tx]; for (int i = 0; i < 32; ++i) v += *p++; }}",
}

# The accessor under another name, by which other memory is reached: at file scope, in the kernel, and its use.
FUNCTION = (
    ("", "@T &(*far)(@T *, int, int) = at;", "far({p}, {r}, {c})"),
    (
        "template <@T &(*F)(@T *, int, int)> __device__ @T &far(@T *p, int r, int c) {{ return F(p, r, c); }}",
        "",
        "far<at>({p}, {r}, {c})",
    ),
    ("#define PASTE(a, b) a##b", "", "PASTE(a, t)({p}, {r}, {c})"),
    ("#define FAR at", "", "FAR({p}, {r}, {c})"),
    (
        "template <class F> __device__ @T &through(F f, @T *p, int r, int c) {{ return f(p, r, c); }}",
        "",
        "through([](@T *q, int i, int j) -> @T & {{ return at(q, i, j); }}, {p}, {r}, {c})",
    ),
    ("__device__ @T &far(@T *p, int r, int c) {{ return at(p, r, c); }}", "", "far({p}, {r}, {c})"),
    (
        "struct Far {{ @T *p; __device__ @T &operator()(int r, int c) const {{ return at(p, r, c); }} }};",
        "",
        "Far{{{p}}}({r}, {c})",
    ),
)
LAMBDA = (
    ("", "auto far = at;", "far({p}, {r}, {c})"),
    ("", "auto &far = at;", "far({p}, {r}, {c})"),
    (
        "template <class F> __device__ @T &through(F f, @T *p, int r, int c) {{ return f(p, r, c); }}",
        "",
        "through(at, {p}, {r}, {c})",
    ),
)
VIEW = (
    ("struct More : View {{}};", "", "More{{{{{p}}}}}.at({r}, {c})"),
    (
        "template <class V> __device__ @T &far(V v, int r, int c) {{ return v.at(r, c); }}",
        "",
        "far(View{{{p}}}, {r}, {c})",
    ),
    ("", "@T &(View::*member)(int, int) const = &View::at;", "(View{{{p}}}.*member)({r}, {c})"),
    ("__device__ @T &take(View v, int r, int c) {{ return v.at(r, c); }}", "", "take({{{p}}}, {r}, {c})"),
    (
        "struct To {{ @T *p; __device__ operator View() const {{ return View{{p}}; }} }};\n"
        "__device__ @T &take(View v, int r, int c) {{ return v.at(r, c); }}",
        "",
        "take(To{{{p}}}, {r}, {c})",
    ),
    ("using Far = View;", "", "Far{{{p}}}.at({r}, {c})"),
    ("", "View both[2] = {{{{{tile}}}, {{{p}}}}};", "both[1 - 0 * flag].at({r}, {c})"),
    ("", "View moving{{{tile}}};", "(moving.p = {p}, moving).at({r}, {c})"),
)
MACRO = (
    ("#define PASTE(a, b) a##b", "", "PASTE(A, T)({p}, {r}, {c})"),
    ("#define FAR AT", "", "FAR({p}, {r}, {c})"),
    ("#define FAR(p, r, c) AT(p, r, c)", "", "FAR({p}, {r}, {c})"),
    ("__device__ @T &far(@T *p, int r, int c) {{ return AT(p, r, c); }}", "", "far({p}, {r}, {c})"),
)
INDIRECT = {
    "helper by reference": FUNCTION, "overloads": FUNCTION, "lambda": LAMBDA, "generic lambda": LAMBDA,
    "lambda of two": (("", "auto far = at;", "far({r}, {c}, true)"),),
    "lambda with a default": (("", "auto far = at;", "far({r}, {c}, {p})"),),
    "view": VIEW, "macro": MACRO, "macro in macro": MACRO,
    "helper template": (("", "", "at<16>({p}, {r}, {c})"),
                        ("", "@T &(*far)(@T *, int, int) = at<@W, @T>;", "far({p}, {r}, {c})")),
    "index helper": (("", "int (*far)(int, int) = idx;", "({p})[far({r}, {c})]"),
                     ("", "constexpr int kNext = idx(1, 0);", "({p})[({r}) * kNext + {c}]"),
                     ("constexpr int kNext = idx(1, 0);", "", "({p})[({r}) * kNext + {c}]")),
    "index functor": (("", "auto far = index;", "({p})[far({r}, {c})]"),
                      ("", "const Index far{{@W}};", "({p})[far({r}, {c})]")),
    "index policy": (("template <class L> __device__ int far(int r, int c) {{ return L::at(r, c); }}", "",
                      "({p})[far<Layout>({r}, {c})]"),
                     ("struct Mine : Layout {{}};", "", "({p})[Mine::at({r}, {c})]")),
    "view template": (("template <class U> using Far = View<U, @W>;", "", "Far<@T>{{{p}}}({r}, {c})"),
                      ("", "", "View<@T, 16>{{{p}}}({r}, {c})")),
    "row helper": (("", "@T *(*far)(@T *, int) = row;", "far({p}, {r})[{c}]"),),
    "ADL": (("", "", "lay::at({{{p}}}, {r}, {c})"), ("using lay::Out;", "", "at(Out{{{p}}}, {r}, {c})")),
}  # fmt: skip

# What else is done with the tile itself: at file scope, in the kernel, and a statement; <row;column> is an element by
# the accessor, {f} a pointer to the first element.
ODDITIES = {
    "column beyond the row": ("", "", "v += <(tx % 31);r + flag * 5>;"),
    "column of another block": ("", "", "v += <(tx % 29);r + blockIdx.x * 5>;"),
    "columns to the parameter": ("", "", "for (int i = n % 32; i < n; ++i) v += <(tx % 16);i>;"),
    "column before the row": ("", "", "v += <(tx % 31 + 1);r - flag * 3>;"),
    "column from a size": ("", "", "v += <(tx % 30);r + n - 32>;"),
    "an index type's own ^": (
        "struct Id {{ int v; __device__ operator int() const {{ return v; }} }};\n"
        "__device__ int operator^(Id a, int b) {{ return (a.v ^ b) & 15; }}\n"
        "__device__ int operator^(int a, Id b) {{ return (a ^ b.v) & 15; }}\n"
        "__device__ int operator&(Id a, int b) {{ return a.v & b & 7; }}", "const Id turn{{tx}};", "v += <turn;r>;"),
    "a macro without parentheses": ("#define COLUMN flag ? r / 2 : r", "", "v += <tx;COLUMN>;"),
    "a macro with a bar": ("#define COLUMN r | flag", "", "v += <tx;COLUMN>;"),
    "taken names": (
        f"template <class N> {HELPER}constexpr int swizzled(N i) {{{{ return i / 2; }}}}\n"
        f"{HELPER}constexpr int padded(long long i) {{{{ return (int)i / 3; }}}}", "",
        "v += (@T)(swizzled(r) + padded(r));"),
    "taken names of macros": ("#define swizzled(i) ((i) + 1)\n#define padded(i) ((i) + 2)", "",
                              "v += (@T)swizzled(r);"),
    "address": ("", "", "v += (@T)(&({f})[(tx) * @W + r] - ({f}));"),
    "linear read": ("", "", "y[4096 + r * 32 + tx] = ({f})[r * 32 + tx];"),
    "bytes": ("", "", "v += (@T)reinterpret_cast<unsigned char *>({f})[r * 32 + tx];"),
    "memcpy": ("", "", "{{ @T own; memcpy(&own, ({f}) + r * 32 + tx, sizeof own); v += own; }}"),
    "rows of another length": ("", "", "v += ({f})[(2 * tx) * 16 + r % 16];"),
    "rows of twice the length": ("", "", "v += ({f})[(tx / 2) * 64 + r];"),
    "length by a flag": ("", "", "v += ({f})[tx * (flag ? 16 : @W) + r];"),
    "halved length": ("", "", "for (int ld = @W; ld >= (flag ? 8 : 16); ld /= 2) v += ({f})[tx * ld + r % 8];"),
    "narrow index": ("", "", "{{ unsigned char narrow = tx * 8 + flag * 200; v += <tx;(narrow % 32)>; }}"),
    "volatile row": ("", "volatile int turn = tx;", "v += <turn;r>;"),
    "comma": ("", "", "v += <tx;(flag, r)>;"),
    "table of pointers": ("", "@T *pick[2] = {{{f}, g}};", "v += pick[flag & 1][tx * @W + r];"),
    "exchanged pointers": ("", "@T *one = {f}, *two = g;\n    if (flag) {{ @T *t = one; one = two; two = t; }}",
                           "v += one[tx * @W + r];"),
    "chosen reference": ("", "", "{{ @T &chosen = flag ? g[tx * @W + r] : <tx;r>; v += chosen; }}"),
    "pair of pointers": ("struct Two {{ @T *a, *b; }};", "Two both_ends{{{f}, g}};",
                         "v += (flag ? both_ends.b : both_ends.a)[tx * @W + r];"),
    "pointer through an integer": ("", "size_t where = (size_t)({f});", "v += ((@T *)where)[tx * @W + r];"),
    "pointer to pointer": ("", "@T *first = {f}; @T **to = &first;\n    if (flag) *to = g;",
                           "v += first[tx * @W + r];"),
    "union": ("union Both {{ @T *p; const @T *q; }};", "Both either; either.p = {f};", "v += either.q[tx * @W + r];"),
    "static pointer table": ("struct Table {{ @T *of[2]; }};",
                             "Table table2; table2.of[0] = {f}; table2.of[1] = g;",
                             "v += table2.of[flag & 1][tx * @W + r];"),
    "returned pointer": (f"{HELPER}@T *chosen(@T *a, @T *b, int second) {{{{ return second ? b : a; }}}}", "",
                         "v += chosen({f}, g, flag)[tx * @W + r];"),
    "walk to the parameter": ("", "", "{{ const @T *w = ({f}) + (tx % 29) * @W + r; for (int i = 32; i < n; ++i) "
                              "v += *w++; }}"),
    "walk back": ("", "", "{{ const @T *w = ({f}) + (tx % 29 + 1) * @W + r; for (int i = 0; i < flag; ++i) "
                  "v += *--w; }}"),
    "step by a flag": ("", "", "{{ const @T *w = ({f}) + (tx % 29) * @W + r; w += flag * 3; v += *w; }}"),
    "step before": ("", "", "{{ const @T *w = ({f}) + (tx % 29) * @W + r; if (flag) v += *++w; }}"),
    "to an end": ("", "", "{{ const @T *w = ({f}) + (tx % 29) * @W, *e = w + (flag ? n : 3); "
                  "while (w < e) v += *w++; }}"),
    "flat index of a flag": ("", "", "v += ({f})[(tx % 29) * @W + flag * 33];"),
    "rows of half the length": ("", "", "v += (*reinterpret_cast<@T (*)[64][16]>({f}))[(tx % 29) * 2 + flag][r % 16];"),
    "address of an element": ("", "", "v += (&<(tx % 29);r>)[flag];"),
    "address of a reference": ("", "", "{{ @T &e = <(tx % 29);r>; v += *(&e + flag); }}"),
    "address by a helper": (f"{HELPER}@T *place(@T &e) {{{{ return &e; }}}}", "", "v += place(<(tx % 29);r>)[flag];"),
    "short circuit": ("", "", "if (flag && {e} > (@T)100) v += 1;"),
    "ternary": ("", "", "v += flag ? {e} : (@T)0;"),
    "loop condition": ("", "", "for (int i = 0; i < 3 && {e} > (@T)i; ++i) v += 1;"),
    "no braces": ("", "", "if (flag) v += {e}; else v -= {e};"),
}  # fmt: skip
LATER = ("short circuit", "ternary", "loop condition", "no braces")  # they have conditions of their own

# Subscripts that do something: {r} becomes the row, once.
EFFECTS = {
    "counting call": ("int calls = 0;", "counted({r}, calls)", "c[256 + ty * 32 + tx] = calls;"),
    "increment": ("int steps = 0;", "({r} + 0 * steps++)", "c[256 + ty * 32 + tx] = steps;"),
    "atomic": ("", "({r} + 0 * atomicAdd(c + 4, 1))", ""),
    "assignment": ("int last = 0;", "(last += {r}, {r})", "c[256 + ty * 32 + tx] = last;"),
    "capturing lambda": ("int calls = 0; auto next = [&](int i) {{ ++calls; return i; }};", "next({r})",
                         "c[256 + ty * 32 + tx] = calls;"),
}  # fmt: skip
COUNTED = f"{HELPER}int counted(int i, int &calls) {{ ++calls; return i; }}"

SHADOWS = (
    "{{ @T *tile = g; v += tile[tx * @W + r] * (@T)flag; }}",
    "if (flag) {{ @T *base = g + 1; @T *tile = base; v += *(tile + tx * @W + r); }}",
    "{{ auto tile = [&](int i) {{ return g[i]; }}; v += tile(tx * @W + r) * (@T)flag; }}",
    "{{ struct Own {{ @T tile[4]; }} own{{}}; own.tile[r & 3] = g[r]; v += own.tile[r & 3]; }}",
    "if (flag) {{ for (int tile = 0; tile < 3; ++tile) v += g[tile * @W + tx]; }}",
)
WIDTHS = {
    "literal": ("", "32"),
    "macro": ("#define W 32", "W"),
    "macro of a macro": ("#define SIDE 32\n#define W SIDE", "W"),
    "constexpr": ("constexpr int W = 32;", "W"),
    "const": ("const int W = 32;", "W"),
    "enum": ("enum { W = 32 };", "W"),
    "computed": ("constexpr int kHalf = 16;\nconstexpr int W = 2 * kHalf;", "W"),
    "static member": ("struct Shape { static constexpr int W = 32; };", "Shape::W"),
}
WIDTH_USES = (  # by which a changed constant reaches results
    "v += (@T)@W;",
    "v += g[(r * @W + tx) % 4096] * (@T)flag;",
    "c[512 + r * @W + tx] = 1;",
    "if (flag) y[4096 + r * @W + tx] = v;",
)


@dataclass(eq=False)
class _Writing:
    """A program while it is written."""

    draw: random.Random
    element: str
    storage: Storage
    accessor: Accessor
    outside: list[str] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)
    within: list[str] = field(default_factory=list)  # the loop that reads: v, r and tx are known
    after: list[str] = field(default_factory=list)
    features: set[str] = field(default_factory=set)
    wrap: Callable[[str], str] = staticmethod(lambda row: row)  # the row of the reads
    others: list[str] = field(default_factory=list)  # further kernels

    def chosen(self, kind: str, table: Sequence[str]) -> str:
        name = self.draw.choice(list(table))
        self.features.add(f"{kind}: {name}")
        return name

    def once(self, place: list[str], text: str) -> None:
        """Add a declaration that several twists may need."""
        if text not in place:
            place.append(text)

    def base(self) -> str:
        return self.storage.rows if self.accessor.rows else self.storage.flat

    def element_at(self, memory: str, row: str, column: str) -> str:
        return self.accessor.use.format(p=memory, r=row, c=column)

    def put(self, memory: str, row: str, column: str, value: str) -> str:
        use = self.element_at(memory, row, column)
        return self.accessor.put.format(use=use, p=memory, r=row, c=column, v=value)

    def guarded(self, statement: str) -> str:
        rare = ("ticket", "clock", "outlier", "data")  # proofs of what hangs on data or on the order end early
        weights = [2 if name == "open" else 1 if name in rare else 3 for name in GUARDS]
        name = self.draw.choices(list(GUARDS), weights)[0]
        self.features.add(f"guard: {name}")
        return GUARDS[name].replace("@T", self.element).format(s=statement)

    def other_memory(self) -> None:
        """Use the accessor for other memory than the tile."""
        if not self.accessor.many:
            return self.extents()
        known = [name for name in OTHERS if name != "shared" or self.storage.side]
        if self.element == "__half":
            known.remove("constant")  # its constructor is no constant expression
        if self.accessor.name == "lambda of two":
            known = ["global"]
        name = self.chosen("other memory", known)
        memory = OTHERS[name].format(tile=self.storage.flat) or self.storage.side
        if name == "shared":
            self.once(self.inside, f"for (int i = ty * 32 + tx; i < 1024; i += 256) ({memory})[i] = x[i];")
        if name == "local":
            self.once(self.inside, "@T loc[1024];\n    for (int i = 0; i < 1024; ++i) loc[i] = (@T)(i * seed);")
        if name == "constant":
            values = ", ".join(str(7 * i % 64) for i in range(1024))
            self.once(self.outside, f"__device__ @T table[1024] = {{{values}}};")
        if self.accessor.rows:
            memory = self._as_rows(name, memory)
        element = self.element_at(memory, "tx", "r")
        ways = INDIRECT.get(self.accessor.name, ())
        if ways and self.draw.random() < 0.5 and "indirect" not in self.features:
            self.features.add("indirect")
            outside, inside, use = self.draw.choice(ways)
            self.outside.append(outside.format())
            self.inside.append(inside.format(p=memory, tile=self.storage.flat))
            element = use.format(p=memory, r="tx", c="r")
        sinks = [sink for sink in SINKS if sink != "written" or name in ("global", "local")]
        sink = self.chosen("sink", sinks)
        self.within.append(self.guarded(SINKS[sink].format(g=element, put=self.put(memory, "tx", "r", "v"))))
        return None

    def _as_rows(self, name: str, memory: str) -> str:
        if name == "shared":
            return memory.removeprefix("&").removesuffix("[0][0]") if memory.startswith("&") else self._cast(memory)
        return self._cast(memory)

    def _cast(self, memory: str) -> str:
        return f"(*reinterpret_cast<@T (*)[@W][@W]>({memory}))"

    def extents(self) -> None:
        """Let an extent of the tile reach a result."""
        tables = [(EXTENTS, self.storage.rows), (EXTENTS_OF_ANY, self.storage.array)]
        table, array = self.draw.choice([(table, array) for table, array in tables if array] or [({}, "")])
        if not table:
            return self.width_reaches()
        if table is EXTENTS and self.draw.random() < 0.25:
            loop = ROW_LOOPS[self.chosen("row loop", ROW_LOOPS)]
            self.within.append(self.guarded(loop.format(t=array)))
            return None
        name = self.chosen("extent", table)
        constant = "difference" not in name and "deduced" not in name and name != "if constexpr"
        sink = self.chosen("extent's sink", [sink for sink in EXTENT_SINKS if constant or sink != "constexpr"])
        if "deduced" in name:
            self.once(self.outside, DEDUCED)
        if "std::" in table[name]:
            self.once(self.outside, "#include <type_traits>")
        self.within.append(self.guarded(EXTENT_SINKS[sink].format(e=table[name].format(t=array))))
        return None

    def width_reaches(self) -> None:
        """Let the constant that is a row's length reach a result."""
        self.features.add("the row's length is used elsewhere")
        self.within.append(self.guarded(self.draw.choice(WIDTH_USES)))

    def effects(self) -> None:
        """Give a subscript a side effect."""
        name = self.chosen("effect", EFFECTS)
        before, row, after = EFFECTS[name]
        if name == "counting call":
            self.outside.append(COUNTED)
        self.inside.append(before.replace("{{", "{").replace("}}", "}"))
        self.after.append(after)
        self.wrap = lambda inner: row.format(r=inner)

    def oddity(self) -> None:
        """Do something else with the tile."""
        # A column beyond its row is undefined behaviour where an array has rows.
        # A macro without parentheses after `pointer +` takes the pointer into its expression: no C++.
        unfit = ("column",) if self.accessor.rows else ()
        unfit += ("a macro with",) if self.accessor.name.startswith("pointer arithmetic") else ()
        unfit += ("address of", "address by", "chosen reference") if self.accessor.name == "helper by value" else ()
        name = self.chosen("oddity", [oddity for oddity in ODDITIES if not oddity.startswith(unfit)])
        outside, inside, statement = ODDITIES[name]
        base, flat = self.base(), self.storage.flat
        statement = statement.replace("{{", "{").replace("}}", "}")
        statement = re.sub(r"<([^<>;]+);([^<>;]+)>", lambda m: self.element_at(base, m[1], m[2]), statement)
        read = self.element_at(base, self.wrap("tx"), "r")
        statement = statement.replace("{f}", flat).replace("{e}", read)
        self.once(self.outside, outside.format())
        self.once(self.inside, inside.replace("{{", "{").replace("}}", "}").replace("{f}", flat))
        self.within.append(self.guarded(statement) if name not in LATER else statement)

    def shadows(self) -> None:
        """Reuse the tile's name for something else."""
        self.features.add("shadowed name")
        self.within.append(self.draw.choice(SHADOWS).format())

    def tag(self) -> None:
        """Let another member of a policy reach a result, if the accessor is a policy; else queue what was read."""
        if "policy" in self.accessor.name:
            self.features.add("policy's member")
            self.within.append(self.guarded("v += (@T)Layout::kTag;"))
        else:
            self.features.add("queue")
            self.within.append("{ int slot = atomicAdd(c + 1, 1); c[1024 + slot % 2048] = (int)v; }")

    def second_kernel(self) -> None:
        """Write a kernel that uses the accessor for global memory alone."""
        of_kernel = self.accessor.inside or self.accessor.before or self.accessor.name == POLICY
        if not self.accessor.many or self.accessor.rows or of_kernel:
            return self.other_memory()
        if self.others:
            return None
        self.features.add("second kernel")
        element, put = self.element_at("g", "tx", "r"), self.put("(y + 4096)", "r", "tx", "v")
        self.others.append(
            f"__global__ void second({GLOBAL}) {{\n    const int tx = threadIdx.x, r = threadIdx.y;\n"
            f"    const @T v = {element} + x[r];\n    {put};\n    if (c[0] == 77) y[0] = (@T)(n + flag + seed);\n}}\n"
        )
        return None


TWISTS = (
    (_Writing.other_memory, 8), (_Writing.extents, 5), (_Writing.width_reaches, 2), (_Writing.effects, 3),
    (_Writing.oddity, 8), (_Writing.shadows, 2), (_Writing.tag, 1), (_Writing.second_kernel, 2),
)  # fmt: skip


def program(seed: int, name: str = "") -> Program:
    """Return the program of a seed."""
    draw = random.Random(seed)
    element = draw.choices(list(BYTES), [6, 2, 2, 1, 2])[0]
    storage = draw.choice(STORAGES)
    accessor = draw.choice([made for made in ACCESSORS if not made.rows or storage.rows])
    writing = _Writing(draw, element, storage, accessor)
    writing.features |= {f"tile: {storage.name}", f"accessor: {accessor.name}", f"element: {element}"}
    width = writing.chosen("width", WIDTHS)
    twists = draw.choices([0, 1, 2, 3], [1, 5, 3, 1])[0]
    for twist in draw.choices([twist for twist, _ in TWISTS], [weight for _, weight in TWISTS], k=twists):
        if twist is not _Writing.effects or not any(made.startswith("effect") for made in writing.features):
            twist(writing)
    writing.features.add(f"{twists} twists")
    body = _kernel(writing)
    header = "#include <cuda_fp16.h>" if element == "__half" else ""
    parts = (header, WIDTHS[width][0], storage.outside, accessor.outside, *writing.outside)
    outside = "\n".join(part for part in parts if part)
    includes = [line for line in outside.split("\n") if line.startswith("#include")]
    outside = "\n".join([*includes, *(line for line in outside.split("\n") if not line.startswith("#include"))])
    text = f"{outside}\n\n{body}{''.join(writing.others)}"
    text = text.replace("@T", element).replace("@W", WIDTHS[width][1])
    described = Launch(other=draw.choice(["ZEROS", "ZEROS", "ONES", "RANDOM"]))
    return Program(
        name=name or f"p{seed}",
        text=text,
        element=element,
        dynamic=storage.dynamic * BYTES[element],
        described=described,
        others=_others(draw, bool(writing.others), accessor.name == OF_LAUNCH),
        features=frozenset(writing.features),
    )


def _kernel(writing: _Writing) -> str:
    draw, storage, accessor = writing.draw, writing.storage, writing.accessor
    base = writing.base()
    written = writing.put(base, "r", "tx", "x[b * 1024 + r * 32 + tx]")
    turned = draw.random() < 0.3  # written along columns, read along rows
    if turned:
        written = writing.put(base, "tx", "r", "x[b * 1024 + r * 32 + tx]")
    row, column = ("r", "tx") if turned else ("tx", "r")
    read = writing.element_at(base, writing.wrap(row), column)
    shape = draw.choice(["each", "each", "in place", "sum"])
    writing.features.add(f"reads: {shape}")
    middle = ""
    if shape == "in place":
        kept = writing.put(base, row, column, f"{writing.element_at(base, row, column)} + (@T)2")
        middle = f"    for (int r = ty; r < 32; r += 8) {{ {kept}; }}\n    __syncthreads();\n"
    if shape == "sum":
        also = writing.element_at(base, "(tx + i) % 32", column)
        writing.within.insert(0, f"for (int i = 1; i < 4; ++i) v += {also};")
    twists = "".join(f"        {line}\n" for line in writing.within)
    inside = [storage.inside, "const int tx = threadIdx.x, ty = threadIdx.y, b = blockIdx.x;",
              accessor.inside, accessor.before.replace("{p}", base), *writing.inside]  # fmt: skip
    begin = "".join(f"    {line}\n" for line in inside if line)
    end = "".join(f"    {line}\n" for line in writing.after if line)
    text = (
        f"__global__ void k({GLOBAL}) {{\n{begin}"
        f"    for (int r = ty; r < 32; r += 8) {{ {written}; }}\n    __syncthreads();\n{middle}"
        f"    for (int r = ty; r < 32; r += 8) {{\n        @T v = {read};\n{twists}"
        f"        y[b * 1024 + r * 32 + tx] = v;\n    }}\n{end}}}\n"
    )
    if accessor.name == OF_LAUNCH:  # n rows of n elements
        text = text.replace("r < 32; r += 8)", "r < n; r += 8) if (tx < n)").replace("% 32,", "% n,")
    if accessor.name == POLICY:
        parameters = "x, y, g, c, n, flag, seed"
        text = text.replace("__global__ void k(", "template <class Layout>\n__device__ void body(")
        text += f"__global__ void k({GLOBAL}) {{ body<Plain>({parameters}); }}\n"
    return text


def _others(draw: random.Random, second: bool, of_launch: bool) -> tuple[Launch, ...]:
    """Return other launches: other flags, data, blocks, sizes and seeds, and all of them at once."""
    plain = Launch(other="RANDOM", seed=draw.randrange(2, 9))
    made = [
        plain, replace(plain, flag=1), replace(plain, flag=2, seed=5), replace(plain, blocks=2, seed=2),
        replace(plain, n=draw.choice([8, 16] if of_launch else [48, 64])),
        replace(plain, n=draw.choice([20, 27, 31] if of_launch else [33, 40, 47])),
        Launch(other="ONES", flag=1, blocks=2, seed=5),
    ]  # fmt: skip
    return (*made, *([Launch(entry="second", other="RANDOM", seed=3)] if second else []))
