"""``lint``, and ``lint --against``: what got worse, what it says of memory and branches, and what is suppressed."""

import dataclasses
import gc
import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ncu_swizzle.base.errors import EnvironmentLacking, TimeLimit, UsageError
from ncu_swizzle.base.traffic import Pattern, Traffic
from ncu_swizzle.cycles.simulated import Simulated, Span
from ncu_swizzle.emulate import run
from ncu_swizzle.emulate.counts import GlobalAccesses
from ncu_swizzle.engines.settings import Request
from ncu_swizzle.gate import against, linting, reporting, suppressions
from ncu_swizzle.gate.against import Base
from ncu_swizzle.gate.baseline import Policy
from ncu_swizzle.gate.judge import LineAccesses, judge, judge_lines
from ncu_swizzle.gate.linting import KernelLint
from ncu_swizzle.gate.memory import judge_memory
from ncu_swizzle.gate.suppressions import Coverage, Suppressions
from ncu_swizzle.gate.verdict import BOUNDS, Change, Check, Outcome, Place, Verdict
from ncu_swizzle.kernels.nvcc_options import readable
from ncu_swizzle.kernels.options import KernelDescription
from ncu_swizzle.kernels.project import project_in
from ncu_swizzle.reports import memory
from ncu_swizzle.reports.counts import Instruction
from ncu_swizzle.reports.memory import MemoryLine
from ncu_swizzle.reports.model import Profile, UnknownCounts
from ncu_swizzle.reports.options import LintOptions
from tests.support.marks import NEEDS_ALL
from tests.support.own_kernel import description
from tests.support.places import table
from tests.support.recordings import Recorded
from tests.support.refusals import refused, unlike
from tests.support.reports import EMPTY
from tests.support.repositories import TURN

FAIL, PASS, OPEN = Outcome.failed, Outcome.passed, Outcome.inconclusive
MOVED = f"// moved down\n\n{TURN}"
OTHER_LINE = TURN.replace("tile[c][r] =", "tile[c][r + 0] =")
WORSE = TURN.replace("tile[r][c]", "tile[c][r]")


def linted(text: str, STS: int | None = 32, LDS: int | None = 32, n: int = 32) -> KernelLint:  # noqa: N803
    """Return the lint of a version of TURN: the wavefronts of its store and of its load; `n` are ideal."""
    lines = text.splitlines()
    accesses = []
    for pc, (access, words, wavefronts) in enumerate((("STS", "= x[", STS), ("LDS", "= tile[", LDS))):
        place = Place("turn.cu", next(number for number, line in enumerate(lines, 1) if words in line))
        counted = Instruction(pc, access, access, access, executed=n, wavefronts=wavefronts, ideal=n)
        off = Instruction(16 + pc, access, access, access, executed=0, wavefronts=0, ideal=0)  # predicated off
        accesses.append(LineAccesses(access, place, (counted, off)))
    profile = replace(EMPTY, kernel=replace(EMPTY.kernel, name="turn"), problem={"n": n})
    checks = tuple(judge_lines(profile, accesses, linting.policy(LintOptions()), "", {}))
    return KernelLint(name="turn", checks=checks, lines=tuple(accesses), profile=profile)


def test_a_line_without_wavefronts_has_no_conflict_and_one_without_an_ideal_has_no_limit() -> None:
    for wavefronts, degree in ((0, 1.0), (3, float("inf"))):
        access = Instruction(0, "LDS", "LDS", "LDS", executed=1, wavefronts=wavefronts, ideal=0)
        assert LineAccesses("LDS", None, (access,)).degree == degree


def judged(now: str, kernel: KernelLint, then: str, *kernels: KernelLint, unknown: tuple[str, ...] = ()) -> Verdict:
    """Return the verdict on a kernel whose source, now in the current folder, was another text in ``main``."""
    Path("turn.cu").write_text(now, encoding="utf-8")
    return against.verdict(
        [kernel], Base(name="main", kernels=kernels, unknown=unknown, texts={"turn.cu": then.splitlines()})
    )


# The source and its lint in main, those now, the outcome and what is said.
COMPARED = {
    "the same": (TURN, linted(TURN, 1024), TURN, linted(TURN, 1024), PASS, "no worse: degree 32"),
    "fixed": (TURN, linted(TURN, 1024), TURN, linted(TURN), PASS, "none over its limit"),
    "new": (TURN, linted(TURN), TURN, linted(TURN, 1024), FAIL, "992 excessive wavefronts; in main, 0 excessive"),
    "better": (TURN, linted(TURN, 1024), TURN, linted(TURN, 64), PASS, "no worse: degree 2"),
    "one more": (TURN, linted(TURN, 1024), TURN, linted(TURN, 1025), FAIL, "degree 32.03"),
    "moved": (TURN, linted(TURN, 1024), MOVED, linted(MOVED, 1024), PASS, "no worse: degree 32"),
    "another line": (TURN, linted(TURN, 1024), OTHER_LINE, linted(OTHER_LINE, 1024), PASS, "no worse: degree 32"),
    "one more line": (TURN, linted(TURN, 1024), WORSE, linted(WORSE, 1024, 1024), FAIL, "turn, LDS: degree 32"),
    "unknown": (TURN, linted(TURN, None), TURN, linted(TURN, 1024), OPEN, "unknown in main: its wavefronts are"),
    "another size": (TURN, linted(TURN, 1024), TURN, linted(TURN, 2048, 64, n=64), PASS, "no worse: degree 32"),
    "worse at it": (TURN, linted(TURN, 1024), TURN, linted(TURN, 2049, 64, n=64), FAIL, "degree 32.02"),
}  # fmt: skip


def test_what_got_worse_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, (then, before, now, kernel, outcome, said) in COMPARED.items():
        verdict = judged(now, kernel, then, before)
        assert verdict.outcome is outcome, name
        assert any(said in f"{check.kernel}, {check.access}: {check.message}" for check in verdict.checks), name
    assert judged(TURN, linted(TURN), TURN, linted(TURN, 1024, None)).changes == (
        Change("turn", "LDS", None, None, 32, 32), Change("turn", "STS", 1024, 32, 32, 32),
    )  # fmt: skip


def test_of_the_same_launch_it_is_said_what_a_change_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def taking(cycles: float, kernel: KernelLint) -> KernelLint:
        exact = Span(point=cycles, low=cycles, high=cycles)
        assert kernel.profile is not None
        return replace(kernel, profile=replace(kernel.profile, simulated=Simulated(cycles=exact, saved=exact)))

    before = taking(1000, linted(TURN))
    (said,) = judged(TURN, taking(1200, linted(TURN, 1024)), TURN, before).notes
    assert said.startswith("turn would take an estimated 20% more cycles on an H100 (")
    assert "than in main" in said
    for other in (taking(1000, linted(TURN)), taking(1200, linted(TURN, n=64)), linted(TURN)):
        assert judged(TURN, other, TURN, before).notes == ()


def test_a_kernel_that_was_not_there_is_judged_as_a_whole_and_of_one_that_was_not_run_nothing_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    now = linted(TURN, 1024)
    assert judged(TURN, now, "").checks == now.checks
    assert judged(TURN, now, "", linted(TURN, 1024), replace(now, name="other")).outcome is PASS
    (check,) = judged(TURN, now, "", unknown=("turn.cu of main was not judged",)).checks
    assert (check.outcome, check.message.rpartition("; ")[2]) == (
        OPEN,
        "unknown in main: turn.cu of main was not judged",
    )
    broken = KernelLint(name="turn", checks=(replace(now.checks[0], message="could not compile turn.cu"),))
    (check,) = judged(TURN, now, "", broken).checks
    assert (check.outcome, check.message.rpartition("; ")[2]) == (OPEN, "unknown in main: could not compile turn.cu")


def test_bounds_that_were_left_before_are_no_news(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def leaving(line: int) -> KernelLint:
        check = Check(outcome=FAIL, kernel="turn", criterion=BOUNDS, message="outside", place=Place("turn.cu", line))
        return replace(linted(TURN), checks=(check,))

    for now, then, outcome in ((6, 4, PASS), (6, 6, FAIL), (1, 4, FAIL)):
        (check,) = judged(MOVED, leaving(now), TURN, leaving(then)).checks
        assert check.outcome is outcome, (now, then)
        assert check.message == ("as in main: outside" if outcome is PASS else "outside")


def test_without_a_compiler_nothing_is_judged(sources: Path) -> None:
    with pytest.raises(EnvironmentLacking, match="nothing can be compiled here"):
        list(linting.lint_kernels(["own.cu"], KernelDescription(), Request(nvcc=sources / "nowhere")))


def test_a_limit_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(UsageError, match=r"max-degree is 0\.5"):
        linting.policy(LintOptions(max_degree=("0.5",)))
    with pytest.raises(UsageError, match="unknown access kind 'LDX'"):
        linting.policy(LintOptions(max_degree=("LDX=2",)))


@pytest.mark.usefixtures("sources")
@NEEDS_ALL
def test_no_note_is_lost_for_the_words_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known of a launch is said, whatever the kernel is called and whatever the reason says."""
    launch = description(grid="1", block="32", args=("y=float32[32]:out",))
    for why in ("the block at (0, 0, 0) ended", "a branch on an unknown value"):
        monkeypatch.setattr(run, "global_accesses", lambda *_, why=why: GlobalAccesses(lacking=why))
        (kernel,) = linting.lint_kernels(["known.cu"], launch, Request(no_cache=True))
        assert f"sum_unknown: the bounds of global accesses were not checked: {why}." in kernel.notes


def line(*patterns: Pattern, **fields: object) -> MemoryLine:
    """Return accesses with so many sectors, of 10 warps each."""
    counts = Traffic(sectors=320, ideal=40)
    accesses = tuple(
        Instruction(16 * n, "LDG.E R0, [R2.64]", "LDG.E", executed=10, traffic=counts, pattern=pattern)
        for n, pattern in enumerate(patterns)
    )
    return MemoryLine(**{"access": "LDG", "line": ("my.cu", 1), "instructions": accesses, **fields})


def test_advice_follows_from_how_threads_lie() -> None:
    for fact in table("facts/memory.toml")["advised"]:
        patterns = [Pattern(**each) for each in fact["patterns"]]
        block = {"block": tuple(fact["block"])} if "block" in fact else {}
        assert fact["said"] in memory.advice(line(*patterns, **block)), fact
    for width, side in ((8, 8), (32, 32), (0, 32)):
        far = line(Pattern(width=4, x=-4096, gaps=True), block=(width, 1, 1))
        assert f"'({side},{side}):({side},1)'" in memory.staging(far)


def test_what_is_said_of_requests_is_of_the_known_ones() -> None:
    known = line(Pattern(width=4, x=512, block_y=128, loop=-64, gaps=True))
    lost = Instruction(64, "LDG.E R0, [R2.64]", "LDG.E", executed=1000)
    both = dataclasses.replace(known, instructions=(*known.instructions, lost))
    said = "32 sectors per request, ideally 4: 8,960 excessive bytes"
    apart = "; neighbours along threadIdx.x are 512 bytes apart (128 bytes per blockIdx.y, -64 bytes per iteration"
    apart += " of the loop)"
    assert memory.in_sectors(known) == said + apart
    assert memory.in_sectors(both) == f"{said}, of 1 of 2 accesses: the others' are unknown{apart}"
    assert (both.ratio, both.executed) == (8, 1010)
    assert dataclasses.replace(both, instructions=(dataclasses.replace(lost, executed=None),)).executed is None


@pytest.mark.parametrize(
    ("sectors", "said"), [((4, 8), "384 bytes"), ((4, None), "at least 128 bytes"), ((None, None), "unknown bytes")]
)
def test_local_memory_of_which_a_part_is_unknown_is_not_said_to_be_all(
    sectors: tuple[int | None, ...], said: str
) -> None:
    accesses = tuple(
        Instruction(16 * n, "LDL R0, [R2]", "LDL", executed=64, traffic=Traffic(local_sectors=count))
        for n, count in enumerate(sectors)
    )
    lost = tuple(each.pc for each in accesses if each.traffic.local_sectors is None)
    why = (UnknownCounts(code="UN001", reason="its address", remedy="", offsets=lost),)
    (check,) = judge_memory(dataclasses.replace(EMPTY, instructions=accesses, unknown_traffic=why), Policy())
    assert (check.code, said in check.message) == ("MEM004", True)


FACTS = table("facts/suppressions.toml")


def test_what_a_comment_says(tmp_path: Path) -> None:
    for suffix, texts in ((".cu", FACTS["cuda"]), (".cuh", FACTS["cuda"]), (".py", FACTS["python"])):
        file = tmp_path / f"k{suffix}"
        said = {}
        for text in texts:
            file.write_text(f"{text}\n", encoding="utf-8")
            found = suppressions.in_source(str(file), readable([file]))
            said[text] = [list(found[0].codes), found[0].reason, found[0].line] if found else []
        assert said == texts
    assert suppressions.in_source(str(tmp_path / "absent.cu"), readable([tmp_path / "k.cu"])) == ()


MANY = {
    "spaces": (".cu", "// ncu-swizzle: ignore", " ", "!"),
    "comments": (".cu", "", "/**/ // ncu-swizzle: ignore SW001\n", "x"),
    "suppressions in a row": (".cu", "", "// ncu-swizzle: ignore SW001\n", ""),
    "unclosed": (".cu", '// ncu-swizzle: ignore SW001\nR"(', "/*", ""),
    "delimiters": (".cu", "// ncu-swizzle: ignore SW001\n", 'R"a(', ""),
    "quotes": (".cu", "// ncu-swizzle: ignore SW001\n", "'\\\"", ""),
    "escapes": (".cu", '// ncu-swizzle: ignore SW001\n"', "\\\\", ""),
    "of Python": (".py", "", "# ncu-swizzle: ignore SW001\n", ""),
    "unclosed in Python": (".py", '# ncu-swizzle: ignore SW001\n"""', "'\n", ""),
}


@pytest.mark.long
@pytest.mark.parametrize("name", MANY)
def test_comments_are_read_in_linear_time(tmp_path: Path, name: str) -> None:
    suffix, start, repeated, end = MANY[name]
    file = tmp_path / f"k{suffix}"

    def seconds(count: int) -> float:
        file.write_text(f"{start}{repeated * count}{end}\n", encoding="utf-8")
        spent = []
        for _ in range(3):
            begin = time.process_time()
            suppressions.in_source(str(file), readable([file]))
            spent.append(time.process_time() - begin)
        return min(spent)

    count, tick = 1 << 13, 0.02  # some clocks of processes tick in hundredths of a second
    assert seconds(8 * count) < 24 * max(seconds(count), tick), "linear: 8; quadratic: 64"


def test_reading_comments_ends_with_its_time(tmp_path: Path) -> None:
    file = tmp_path / "k.cu"
    file.write_text("// ncu-swizzle: ignore SW001\n" * (1 << 16), encoding="utf-8")
    gc.disable()  # hypothesis has a function called at each collection: what is raised in that is lost
    try:
        with pytest.raises(TimeLimit, match="its comments were not read within") as error:
            suppressions.in_source(str(file), readable([file]), 0.01)
    finally:
        gc.enable()
    assert "--timeout" in error.value.hint


def test_files_that_line_tables_name_are_read_in_the_checkout_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "t[x] = v;  // ncu-swizzle: ignore SW001\n"
    here, outside = tmp_path / "here", tmp_path / "secret.h"
    (here / "sub").mkdir(parents=True)
    for file in (outside, here / "k.cu", here / "sub" / "k.cuh", here / "large.cu"):
        file.write_text(text, encoding="utf-8")
    os.truncate(here / "large.cu", 3 << 30)  # sparse
    os.mkfifo(here / "pipe.cu")
    (here / "out.cu").symlink_to(outside)
    (here / "in.cu").symlink_to("k.cu")
    monkeypatch.chdir(here)
    named = ["k.cu", "in.cu", "sub/k.cuh", str(here / "k.cu"), "large.cu", "pipe.cu", "out.cu", "../secret.h",
             str(outside), "/dev/zero", "sub", "a\0b", "x" * 5000]  # fmt: skip
    hiding = Suppressions(checkouts=readable())
    assert [file for file in named if hiding.of(file)] == named[:4]
    assert [file for file in named if against.lines_of(file)] == named[:4]
    assert Suppressions(checkouts=readable([outside])).of(str(outside)), "its folder was named"
    monkeypatch.setenv("HOME", str(here / "sub"))
    assert not Suppressions(checkouts=readable()).of("k.cu"), "above one's home, nothing is a checkout"


def finding(codes: Sequence[str] = ("SW001",), line: int = 1, outcome: str = "fail") -> Check:
    """Return what is found in a line of k.cu, or in none."""
    return Check(
        outcome=Outcome(outcome),
        kernel="turn",
        criterion="max-degree",
        message="degree 32",
        place=Place("k.cu", line) if line else None,
        code=codes[0],
        more_codes=tuple(codes[1:]),
    )


UNKNOWN = finding(("UN001",), outcome="inconclusive")


def test_what_a_comment_hides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for fact in FACTS["comments"]:
        text = f"t[x] = v;  // ncu-swizzle: ignore {fact['comment']} — tested\n"
        Path("k.cu").write_text(text, encoding="utf-8")
        check = finding(**fact["finding"])
        (marked,) = Suppressions(checkouts=readable()).marked([check])
        assert bool(marked.suppressions) == fact["hidden"], fact
        assert dataclasses.replace(marked, suppressions=()) == check, "nothing else changes"


def settings(folder: Path, text: str) -> Suppressions:
    (folder / "ncu-swizzle.toml").write_text(f"{text}\n", encoding="utf-8")
    return Suppressions(suppressions.in_settings(project_in(folder / "ncu-swizzle.toml")), readable())


def test_what_an_entry_hides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for entry, hidden in FACTS["entries"].items():
        (marked,) = settings(tmp_path, f"[[ignore]]\n{entry}").marked([finding()])
        assert bool(marked.suppressions) == hidden, entry
    assert not unlike(FACTS["wrong"], lambda text: refused(settings, tmp_path, text))


LEFT = """t[x] = v;  // ncu-swizzle: ignore SW001, SW002 — one of them is used
f();  // ncu-swizzle: ignore SW001, SW090 — needed elsewhere
g();  // ncu-swizzle: ignore SW0001
h();  // ncu-swizzle: ignore
i();  // ncu-swizzle: ignore SW030
j();  // ncu-swizzle: ignore SW001 — not a line of what was run
"""


def test_suppressions_that_hide_nothing_are_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.cu").write_text(LEFT, encoding="utf-8")
    entries = "".join(f'[[ignore]]\ncodes = ["SW004"]\nkernel = "{name}"\n' for name in ("turn", "other"))
    hiding = settings(tmp_path, entries)
    (_,) = hiding.marked([finding()])
    judged = Coverage(lines=frozenset(("k.cu", n) for n in range(1, 6)), kernels=frozenset(["turn"]))
    left = list(hiding.leftover("lint", judged))
    assert [(each.code, each.place and each.place.line) for each in left] == [
        ("SW090", 1), ("SW091", 3), ("SW091", 4), ("SW090", 5), ("SW090", 0),
    ]  # fmt: skip
    assert "did you mean 'SW001'?" in left[1].message
    assert {each.outcome for each in left} == {Outcome.warning}
    unsure = list(hiding.leftover("lint", dataclasses.replace(judged, complete=False)))
    assert [each.place and each.place.line for each in unsure] == [3, 4, 5, 0], "a kernel that was not run may need it"


@pytest.fixture
def hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Verdict:
    """Return a verdict with a failure and an unknown that are hidden, a warning, and a check that passed."""
    monkeypatch.chdir(tmp_path)
    Path("k.cu").write_text("t[x] = v;  // ncu-swizzle: ignore SW001, UN001 — <b>why\n", encoding="utf-8")
    warning = finding(("SW090",), line=3, outcome="warning")
    passed = finding(("",), line=0, outcome="pass")
    checks = [finding(), UNKNOWN, warning, passed]
    return Verdict(checks=tuple(Suppressions(checkouts=readable()).marked(checks)))


def test_hidden_findings_are_listed_and_count_for_nothing(hidden: Verdict) -> None:
    assert hidden.outcome is Outcome.passed
    assert hidden.summary == "1 warning, 1 pass, 2 suppressed (1 of them not judged)"
    content = json.loads(reporting.to_json(hidden))
    assert (content["outcome"], content["suppressed"]) == ("pass", 2)
    assert [(check["outcome"], len(check["suppressions"])) for check in content["checks"]] == [
        ("fail", 1), ("inconclusive", 1), ("warning", 0), ("pass", 0),
    ]  # fmt: skip
    (run,) = json.loads(reporting.render_sarif(hidden))["runs"]
    assert [(each["ruleId"], len(each.get("suppressions", ()))) for each in run["results"]] == [
        ("SW001", 1), ("UN001", 1), ("SW090", 0),
    ]  # fmt: skip
    assert run["results"][0]["suppressions"][0]["kind"] == "inSource"
    assert run["results"][0]["suppressions"][0]["justification"] == "<b>why"
    rule = next(rule for rule in run["tool"]["driver"]["rules"] if rule["id"] == "SW001")
    assert "helpUri" not in rule, "what others cannot open is no link"
    assert rule["help"]["markdown"].startswith("# SW001: bank-conflict")
    assert [line.partition(" ")[0] for line in reporting.commands(hidden)] == ["::warning"]
    assert reporting.github_summary(hidden).count("| suppressed |") == 2
    suites = ElementTree.fromstring(reporting.render_junit(hidden).encode())
    assert (suites.get("failures"), suites.get("errors"), suites.get("skipped")) == ("0", "0", "2")
    reporting.conclude(hidden)  # raises nothing


def test_everything_hidden_passes_and_one_finding_more_does_not(hidden: Verdict) -> None:
    alone = dataclasses.replace(hidden, checks=hidden.suppressed)
    assert alone.outcome is Outcome.passed
    assert dataclasses.replace(alone, checks=(*alone.checks, finding(line=2))).outcome is Outcome.failed
    assert Verdict(checks=(finding(("SW090",), outcome="warning"),)).outcome is Outcome.inconclusive


def test_every_finding_of_check_has_a_code_and_provenance(kernel1: Profile, recorded: Recorded) -> None:
    kernels = [kernel1, recorded("transpose-plain")]
    verdict = judge(kernels, Policy())
    assert {check.kernel: (check.code, check.provenance) for check in verdict.checks} == {
        "kernel1": ("SW030", "measured"),
        "transpose-plain": ("UN022", "recorded"),
    }
