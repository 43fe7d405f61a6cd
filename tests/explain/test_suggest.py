"""Suggestions: the articles' own choices, what is impossible, the code to paste; predictions against an H100."""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ncu_swizzle.base.errors import BadProblem, UsageError
from ncu_swizzle.explain import predict
from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.tiles import tiles_of
from ncu_swizzle.smem import access, code, layout, mapping
from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.judge import Constraints, Differences, find_matrix
from ncu_swizzle.smem.mapping import Mapping
from ncu_swizzle.smem.suggestions import Suggestion, suggest
from ncu_swizzle.smem.swizzle import Padding, Swizzle, XorMatrix
from tests.support.recordings import Recorded

NO_NVCC = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")


def accesses_of(tile: Mapping, writes: Iterable[str], reads: Iterable[str]) -> list[Access]:
    found = [access.parse(text, tile.layout, tile.element_bytes, True) for text in writes]
    return found + [access.parse(text, tile.layout, tile.element_bytes) for text in reads]


def ask(
    text: str, element_bytes: int, writes: Sequence[str], reads: Sequence[str], limits: Constraints | None = None
) -> Suggestion:
    tile = mapping.parse(text, element_bytes)
    return suggest(tile, accesses_of(tile, writes, reads), limits)


def check(found: Suggestion, writes: Sequence[str], reads: Sequence[str]) -> None:
    """Count every clean candidate again."""
    assert found.clean
    for candidate in found.clean:
        tile = candidate.mapping
        assert tile.collision() is None
        for one in accesses_of(tile.plain, writes, reads):
            assert (one.wavefronts(tile).excessive == 0).all(), (str(tile), one.name)


def test_the_articles_choices() -> None:
    rows = [
        ("(64,64):(64,1)", 2, ["rows:16"], ["ldmatrix"], (3, 3, 3)),  # 128-byte half tiles
        ("(64,32):(32,1)", 2, ["rows:16"], ["ldmatrix"], (2, 3, 3)),  # 64-byte tiles
        ("(64,16):(16,1)", 2, ["rows:16"], ["ldmatrix"], (1, 3, 3)),  # 32-byte tiles
        ("(32,32):(32,1)", 4, ["row:16"], ["column:16"], (3, 2, 3)),  # floats
        ("(8,8):(1,8)", 4, ["column"], ["row"], (3, 2, 3)),  # article 001's tile
        ("(64,128):(128,1)", 2, ["rows:16", "mma"], ["ldmatrix", "ldmatrix.trans", "rows:16"], (3, 3, 4)),
        ("(32,32):(32,1)", 4, ["row"], ["column"], (5, 0, 5)),
        ("(128,64):(64,1)", 2, ["rows:16"], ["ldmatrix"], (3, 3, 3)),  # GEMM: A
        ("(64,128):(128,1)", 2, ["rows:16"], ["ldmatrix.trans"], (3, 3, 4)),  # GEMM: B
    ]
    for text, element_bytes, writes, reads, (bits, base, shift) in rows:
        found = ask(text, element_bytes, writes, reads)
        check(found, writes, reads)
        assert found.best.mapping.transform == Swizzle(bits=bits, base=base, shift=shift), text
        assert found.best.extra_bytes == 0


def test_padding_is_among_the_answers_within_a_budget_and_what_tma_can_write() -> None:
    square, tile = ("(32,32):(32,1)", 4, ["row"], ["column"]), ("(64,64):(64,1)", 2, ["rows:16"], ["ldmatrix"])
    padded, wide = ask(*square).clean[-1], ask(*tile).clean[-1]
    assert (padded.mapping.transform, padded.extra_bytes) == (Padding(32, 1), 32 * 4)
    assert (wide.mapping.transform, wide.extra_bytes) == (Padding(64, 8), 64 * 16), "16-byte accesses stay aligned"
    (within,) = ask(*square, Constraints(max_bytes=0)).clean
    assert within.mapping.transform == Swizzle(bits=5, base=0, shift=5)
    assert [candidate.tma for candidate in ask(*tile, Constraints(tma=True)).clean] == ["128B"]
    assert ask("(64,128):(128,1)", 2, ["rows:16"], ["ldmatrix"], Constraints(tma=True)).clean == ()


def test_what_is_clean_stays_as_it_is() -> None:
    found = ask("(32,32):(32,1)", 4, ["row"], ["rows:16"])
    assert found.best.mapping == mapping.parse("(32,32):(32,1)", 4)
    assert found.clean == (found.best,)


def test_words_down_a_column_exclude_sixteen_bytes_along_a_row() -> None:
    found = ask("(32,32):(32,1)", 4, ["rows:16"], ["column"])
    assert found.clean == ()
    assert found.notes[-1] == (
        "column: 32 lanes of a phase need words at the same position in different 16-byte units, but a bank row of "
        "128 bytes holds only 8: no mapping that keeps units whole can separate them."
    )
    assert found.complete
    assert found.closest.excessive == 32 * 3, "four words move together, so four rows share a bank"


@pytest.mark.long
def test_a_complete_search_says_so() -> None:
    """Every pair of four rows meets in some access, at distances that three free bank bits cannot all tell apart."""
    rows = ["ld.shared.v4.b32@tid%8*4,0", "ld.shared.v4.b32@tid%8*2,0", "ld.shared.v4.b32@tid%8,0"]
    tile = mapping.parse("(32,32):(32,1)", 4)
    assert suggest(tile, accesses_of(tile, [], rows)).best is not None
    every = [f"ld.shared.v4.b32@tid%2*{a}+tid/2%2*{b}+tid/4%2*{c},0" for a in (1, 2, 4, 8, 16)
             for b in (1, 2, 4, 8, 16) for c in (1, 2, 4, 8, 16) if a < b < c]  # fmt: skip
    pairs = [f"ld.shared.v4.b32@tid%2*{a},tid/2%2*{4 * b}" for a in range(1, 32) for b in range(1, 8)]
    found = suggest(tile, accesses_of(tile, [], [*every, *pairs]))
    assert found.best is None
    assert found.complete
    assert "none exists, the search was complete" in " ".join(found.notes)


def test_lost_occupancy_ranks_before_everything_else() -> None:
    # 7 x 16,384 bytes and 1 KB fit twice into an SM's 228 KB, 7 x 18,432 bytes of padded tiles only once.
    found = ask("(128,64):(64,1)", 2, ["rows:16"], ["ldmatrix"], Constraints(copies=7))
    assert [(str(c.mapping.transform), c.blocks) for c in found.clean] == [("Swizzle<3,3,3>", 2), ("padding 64+8", 1)]


def test_a_general_matrix_where_no_swizzle_does() -> None:
    tile = mapping.parse("(32,32):(32,1)", 4)
    texts = ["column", "ld.shared.b32@tid%32,tid%32", "ld.shared.b32@tid%8*4+tid/8,tid%4"]
    found = suggest(tile, accesses_of(tile, ["row"], texts))
    check(found, ["row"], texts)
    assert isinstance(found.best.mapping.transform, XorMatrix)


def test_wider_accesses_than_the_layout_keeps_together_are_refused() -> None:
    tile = mapping.parse("(32,33):(33,1)", 4)
    lane = np.arange(32)[None, :]
    with pytest.raises(UsageError, match="keeps only 4 contiguous"):
        suggest(tile, [Access("wide", "ld.shared.v4.b32", lane, lane * 0)])
    with pytest.raises(UsageError, match="no access to the tile"):
        suggest(tile, [])
    far = Access("far", "cp.async.cg.16", lane * 0, lane * 0, source=lane * 16 + 16)
    lap = mapping.parse("(32,32):(32,1)", 4)
    column = access.parse("column", lap.layout, 4)
    if not far.wavefronts(lap).known.all():
        assert suggest(lap, [far, column]).unjudged == ("far",)
        with pytest.raises(UsageError, match="no rule is known"):
            suggest(lap, [far])
    with pytest.raises(UsageError, match="sm_1"):
        Constraints(arch="sm_1")


def test_catalogue_kernels_get_what_their_swizzled_variants_have() -> None:
    families = catalog.shipped()
    swizzled = {"transpose-plain": "transpose-xor", "kernel1": "kernel2"}
    swizzled |= {f"vectors-{width}-stride": f"vectors-{width}-swizzle" for width in (4, 8, 16)}
    for name, variant in swizzled.items():
        (tile,) = tiles_of(families.target(name))
        found = suggest(tile.mapping.plain, tile.accesses, Constraints(copies=tile.copies))
        (after,) = tiles_of(families.target(variant))
        assert found.best.mapping == after.mapping, name


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(st.integers(0, 1023), min_size=2, max_size=4), min_size=1, max_size=3))
def test_the_search_finds_a_matrix_wherever_one_exists(phases: list[list[int]]) -> None:
    """Toy: laps of 8 elements, all in banks of their own; by brute force, every choice of vectors for two high bits."""
    offsets = [np.unique(np.array(phase) % 32) for phase in phases]
    pairs = {int(a ^ b) for phase in offsets for a in phase for b in phase if a != b}
    differences = Differences({0: np.array(sorted(pairs), dtype=np.int64)}, row_bits=3)
    found, complete = find_matrix(differences, 0, 5)
    possible = any(
        all((d & 7) ^ (first if d >> 3 & 1 else 0) ^ (second if d >> 4 & 1 else 0) for d in pairs)
        for first in range(8)
        for second in range(8)
    )
    assert complete
    assert (found is not None) == possible
    if found is not None:
        assert all(int(found(np.array(d))) & 7 for d in pairs)


MAPPINGS = [
    mapping.parse("(64,128):(128,1)", 2, "3,3,4"),
    mapping.parse("(32,32):(32,1)", 4, pad=1),
    mapping.parse("((8,4),32):((32,256),1)", 4, pad=4),
    mapping.parse("(8,8):(1,8)", 4, "3,2,3"),
    Mapping(layout.parse_layout("((8,4),32):((32,256),1)"), XorMatrix(((4, 0x1E), (8, 2), (9, 1))), 4),
    mapping.parse("(16,16):(16,1)", 8, "4,0,4"),
]
ONLY_CUDA = [mapping.parse("(32,32):(32,1)", 4, "sudoku"), mapping.parse("(32,32):(32,1)", 4, "add:5,0,5")]


def cute_headers() -> Path | None:
    """Return the folder of CUTLASS's headers: CUTLASS_PATH, or the package nvidia-cutlass."""
    roots = [Path(os.environ["CUTLASS_PATH"])] if "CUTLASS_PATH" in os.environ else []
    package = importlib.util.find_spec("cutlass_library")
    if package and package.origin:
        roots.append(Path(package.origin).parent / "source")
    return next((root / "include" for root in roots if (root / "include" / "cute").is_dir()), None)


def printed_by(source: str, loops: str, folder: Path, *options: str) -> list[int]:
    """Compile the code with a program around it that prints numbers; run it on the CPU."""
    file, program = folder / "paste.cu", folder / "paste"
    file.write_text(f"{source}\n#include <cstdio>\nint main() {{\n{loops}\n}}\n", encoding="utf-8")
    command = ["nvcc", "-std=c++17", "-arch=sm_90", *options, "-o", str(program), str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    printed = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    return [int(line) for line in printed.split()]


def loop(tile: Mapping, at: str) -> str:
    rows, columns = tile.shape
    cells = f"for (int r = 0; r < {rows}; ++r) for (int c = 0; c < {columns}; ++c)"
    return f'    {cells} printf("%d\\n", int({at}));'


@pytest.mark.long
@NO_NVCC
def test_the_cuda_code_is_the_mapping(tmp_path: Path) -> None:
    """The first mapping's code as it is pasted, each other one's in a namespace, and as a policy: one compilation."""
    pasted = code.cuda(MAPPINGS[0])
    included = re.findall(r"#include .*\n", pasted)
    assert f"kBytes = {MAPPINGS[0].bytes}" in pasted
    sources, loops = [pasted], [loop(MAPPINGS[0], "Tile::at(r, c)")]
    for number, tile in enumerate([*MAPPINGS[1:], *ONLY_CUDA]):
        source = code.cuda(tile)
        assert f"kBytes = {tile.bytes}" in source
        assert re.findall(r"#include .*\n", source) == included
        body = re.sub(r"#include .*\n", "", source)
        sources.append(f"namespace n{number} {{\n{body}\n}}")
        loops.append(loop(tile, f"n{number}::Tile::at(r, c)"))
    for number, tile in enumerate(MAPPINGS):
        sources.append(code.policy(tile, 1, f"Policy{number}"))
        loops.append(loop(tile, f"Policy{number}::at(r, c)"))
        assert f"return rows * {tile.bytes // tile.shape[0]};" in sources[-1]
    tiles = [*MAPPINGS, *ONLY_CUDA, *MAPPINGS]
    expected = [(tile.all_elements() * tile.element_bytes).ravel() for tile in tiles]
    options = ("--expt-relaxed-constexpr", "-Werror", "all-warnings")
    printed = printed_by("\n".join(sources), "\n".join(loops), tmp_path, *options)
    assert printed == np.concatenate(expected).tolist()


@pytest.mark.long
@NO_NVCC
@pytest.mark.skipif(cute_headers() is None, reason="needs CuTe's headers: CUTLASS_PATH, or nvidia-cutlass installed")
def test_the_cute_code_is_the_mapping(tmp_path: Path) -> None:
    include = "#include <cute/tensor.hpp>\n"
    sources, loops, expected = [include], [], []
    for number, tile in enumerate(MAPPINGS):
        source = code.cute(tile)
        sources.append(f"namespace n{number} {{\n{source.replace(include, '')}\n}}")
        element = {2: "uint16_t", 4: "uint32_t", 8: "uint64_t"}[tile.element_bytes]
        loops.append(f"    {{ static {element} tile[{tile.cosize}]; n{number}::write(tile, 3, 5, {element}{{7}});")
        loops.append(f'      printf("%d\\n", int(n{number}::read(tile, 3, 5))); }}')
        loops.append(loop(tile, f"n{number}::Tile{{}}(r, c)"))
        expected += [7, *tile.all_elements().ravel().tolist()]
    assert printed_by("\n".join(sources), "\n".join(loops), tmp_path, f"-I{cute_headers()}") == expected


def test_cute_has_no_word_for_tables_and_sums() -> None:
    assert [code.cute(tile) for tile in ONLY_CUDA] == [None, None]


def test_code_of_padding_has_no_division() -> None:
    source = code.cuda(mapping.parse("(32,32):(32,1)", 4, pad=1))
    assert "row * 33 + column" in source
    assert "/" not in source.split("at(int row")[1]
    assert replace(mapping.parse("(8,8):(1,8)"), transform=Swizzle(bits=0, base=0, shift=0)).bytes == 256


CATALOG = catalog.shipped()
OWN = {family.name: [kernel.name for kernel in family.kernels if not kernel.library] for family, _ in CATALOG.run()}


LARGE = ("attention", "gemm", "wgmma")


@pytest.mark.parametrize("family", [pytest.param(name, marks=[pytest.mark.long] * (name in LARGE)) for name in OWN])
def test_what_is_predicted_is_what_was_recorded(family: str, recorded: Recorded) -> None:
    for name in OWN[family]:
        predictions = predict.target_predictions(CATALOG.target(name))
        checks = predict.checked_against(predictions, recorded(name))
        assert {check.predicted.access for check in checks} == set(recorded(name).accesses), "no access is left out"
        unequal = [(check.predicted.access, check.verdict) for check in checks if not check.equal]
        assert unequal == [], name
        assert all(check.verdict.startswith("equal") for check in checks)


@pytest.mark.long
def test_differences_are_explained(recorded: Recorded) -> None:
    family, kernel = CATALOG.named("kernel1")
    predictions = predict.target_predictions(Target(family, kernel, family.problem()))
    by_access = {check.predicted.access: check for check in predict.checked_against(predictions, recorded("kernel1"))}
    assert {check.verdict for check in by_access.values()} == {"equal"}
    other = {check.predicted.access: check for check in predict.checked_against(predictions, recorded("kernel2"))}
    assert other["LDSM"].verdict.startswith("differs")
    assert not other["LDSM"].equal
    few = [one for one in predictions if one.access != "STS"]
    left_out = {check.predicted.access: check for check in predict.checked_against(few, recorded("kernel1"))}
    assert left_out["STS"].verdict.startswith("differs"), "an access that nobody declared is not overlooked"
    without = replace(recorded("kernel1"), instructions=())
    assert {check.verdict for check in predict.checked_against(predictions, without)} == {"not executed"}


def test_predictions_scale_with_the_problem() -> None:
    family, kernel = CATALOG.named("transpose-plain")
    small, large = (predict.target_predictions(Target(family, kernel, family.problem({"n": n}))) for n in (64, 128))
    assert [4 * (one.wavefronts or 0) for one in small] == [one.wavefronts for one in large]
    with pytest.raises(BadProblem, match="ends within a tile"):
        predict.target_predictions(Target(family, kernel, family.problem({"n": 100})))


def test_what_is_not_declared_is_refused() -> None:
    family, library = CATALOG.named("reference-attention")
    with pytest.raises(UsageError, match="library kernel"):
        tiles_of(Target(family, library, family.problem()))
    _, kernel = CATALOG.named("kernel1")
    with pytest.raises(UsageError, match="of the family other are not declared"):
        tiles_of(Target(replace(family, name="other"), kernel, family.problem()))
    with pytest.raises(UsageError, match="names no layout policy"):
        _ = catalog.KernelSource("nothing").policy
    with pytest.raises(UsageError, match="sum_rows"):
        catalog.KernelSource("nothing").argument("sum_rows")


def test_expressions() -> None:
    rows = [
        ("tid", 32, list(range(32))),
        ("tid * 4 + 128", 32, [4 * i + 128 for i in range(32)]),
        ("(lane ^ warp) << 2", 64, [(i % 32 ^ i // 32) * 4 for i in range(64)]),
        ("tid / 8 % 2", 32, [i // 8 % 2 for i in range(32)]),
        ("lane < 4", 32, [1] * 4 + [0] * 28),
        ("-(~tid)", 32, [i + 1 for i in range(32)]),
        ("7", 32, [7] * 32),
    ]
    assert [access.evaluate(text, threads).tolist() for text, threads, _ in rows] == [values for _, _, values in rows]


def test_expressions_that_are_none() -> None:
    for text in (
        "", "tid +", "tid // 0", "tid % (tid - tid)", "tid << 99", "tid << -1", "bank", "open('x')", "tid ** 9", "1.5",
        "True", "9" * 30, "tid * 99999999999 * 99999999999", "(" * 300 + "tid" + ")" * 300, "[tid]",
    ):  # fmt: skip
        with pytest.raises(UsageError) as refused:
            access.evaluate(text)
        assert refused.value.hint, text


def test_whole_warps_of_one_block() -> None:
    for threads in (0, 16, 33, 2048):
        with pytest.raises(UsageError, match=str(threads)):
            access.evaluate("tid", threads)
