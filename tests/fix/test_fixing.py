"""What is offered of candidates and layout policies, and how a fix is shown; commands are in tests/data/sessions."""

import json
from dataclasses import replace
from pathlib import Path

from ncu_swizzle.cycles.simulated import Simulated, Span
from ncu_swizzle.fix import cuda, shown
from ncu_swizzle.fix.claims import About, Claim, ClaimState, Proof
from ncu_swizzle.fix.edits import BEGIN, END, edited, splice
from ncu_swizzle.fix.named import compositions, renamings
from ncu_swizzle.fix.result import KernelFix, TileFix
from ncu_swizzle.fix.sources import SourceFix
from ncu_swizzle.fix.trial import Stop, furthest, stop_of
from ncu_swizzle.gate import reporting
from ncu_swizzle.gate.verdict import MAX_DEGREE, Check, Outcome, Place, Verdict
from ncu_swizzle.reports.model import Profile
from tests.support.places import table
from tests.support.recordings import Recorded


def test_of_the_candidates_the_one_that_came_furthest_says_why_nothing_is_proved() -> None:
    rebuilt = Claim(about=About.REBUILT, state=ClaimState.HELD, reason="by nvcc")
    left = Claim(about=About.EXCESS, state=ClaimState.FAILED, reason="8 are left")
    open_ = Claim(about=About.MEANING, state=ClaimState.UNKNOWN, reason="it depends", line=("body.cuh", 9))
    unfit = Stop(stage=0, reason="p escapes", line=("k.cu", 7), mapping="the best")
    failed = stop_of(Proof(claims=(rebuilt, left)), ("k.cu", 3), "another")
    unknown = stop_of(Proof(claims=(rebuilt, open_)), ("k.cu", 3), "another")
    assert furthest(unfit, failed) is furthest(failed, unfit) is failed
    assert furthest(failed, unknown) is unknown
    assert furthest(unfit, unfit) is unfit
    assert (unfit.line, failed.line, unknown.line) == (("k.cu", 7), ("k.cu", 3), ("body.cuh", 9))
    assert (failed.unknown, unknown.unknown) == (False, True)
    # The mapping is named unless it is the best.
    assert [stop.against("the best") for stop in (unfit, failed)] == ["p escapes", "8 are left, with another"]


def test_sarif_has_the_fix_of_a_finding_and_of_no_other_in_each_file() -> None:
    source, header = Path("/p/k.cu"), Path("/p/t.cuh")
    texts = {source: b'#include "t.cuh"\nint k;\nc\n', header: b"#pragma once\nint t;\n"}
    before = splice(source, texts[source], lambda name, *_: Path("/p", name), texts.__getitem__)
    after = before.replace(b"int k;\n", b"K\nK2\n").replace(b"int t;", b"long t;")
    fix = SourceFix(source=source, before=before, after=after, kernels=())
    checks = tuple(
        Check(
            outcome=Outcome.failed, kernel=name, criterion=MAX_DEGREE, message="", place=Place("k.cu", 2), code="SW001"
        )
        for name in "kl"
    )
    offered = shown.corrected(Verdict(checks=checks), [fix])
    offered = replace(offered, corrections=(replace(offered.corrections[0], kernels=("k",)),))
    of_k, of_l = json.loads(reporting.render_sarif(offered))["runs"][0]["results"]
    assert "fixes" not in of_l
    changes = {
        change["artifactLocation"]["uri"]: change["replacements"] for change in of_k["fixes"][0]["artifactChanges"]
    }
    region = {"startLine": 2, "startColumn": 1, "endLine": 3, "endColumn": 1}
    assert changes == {
        "file:///p/k.cu": [{"deletedRegion": region, "insertedContent": {"text": "K\nK2\n"}}],
        "file:///p/t.cuh": [{"deletedRegion": region, "insertedContent": {"text": "long t;\n"}}],
    }


def test_what_is_not_proved_is_shown_and_never_applied(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_bytes(b"one\ntwo\n")
    tile = TileFix(
        name="t", line=1, excess_before=9, excess_after=0, mapping="M", offered=True, unknown=True, reason="r"
    )
    kernel = KernelFix(
        kernel="k", source=source, before=b"one\ntwo\n", after=b"one\ntwo\n", candidate=b"one\n2\n", tiles=(tile,)
    )
    fix = SourceFix(source=source, before=kernel.before, after=kernel.after, kernels=(kernel,))
    assert (fix.outcome, fix.changed) == ("unknown", False)
    told = json.loads(shown.to_json(fix, ""))
    assert (told["patch"], told["not_proved"].splitlines()[-2:]) == ("", ["-two", "+2"])
    assert any(said.startswith("t (k.cu:1): not proved: r") for said in shown.sentences(kernel))
    files = shown.write(fix, tmp_path, applied=True)
    assert (files.patch, files.applied, Path(files.not_proved).name) == ("", "", "k.cu.not-proved.patch")
    assert source.read_bytes() == fix.before
    assert "k.cu: not proved" in shown.render(fix)


def test_a_page_shows_hostile_names_harmlessly() -> None:
    fix = SourceFix(source=Path("<script>.cu"), before=b"<img src=x>\n", after=b"<b>\n", kernels=())
    page = shown.render(fix)
    assert "<img" not in page
    assert "&lt;img src=x&gt;" in page


def test_a_fix_says_what_it_saves_by_both_versions_if_both_are_simulated(recorded: Recorded) -> None:
    def taking(cycles: float) -> Profile:
        told = Span(point=cycles, low=cycles, high=cycles)
        return replace(recorded("kernel1"), simulated=Simulated(cycles=told, saved=Span(point=0.1, low=0.0, high=0.2)))

    both = taking(1000), taking(1250)
    fixed = KernelFix(kernel="k", source=Path("k.cu"), before=b"", after=b"!", profiles=both)
    assert any("k: patched, it would take an estimated 25% more cycles" in said for said in shown.sentences(fixed))
    told = shown.kernel_json(fixed)["saves"]
    assert (told["point"], told["both_simulated"]) == (-0.25, True)
    alone = replace(fixed, profiles=both[:1])
    assert any("without its excessive wavefronts it would take" in said for said in shown.sentences(alone))
    assert shown.kernel_json(alone)["saves"] == {"point": 0.1, "low": 0.0, "high": 0.2, "both_simulated": False}


FACTS = table("facts/policies.toml")
TEXTS = FACTS["texts"]


def names(kernel: str, policies: str = TEXTS["policies"]) -> list[str]:
    """Return what a kernel may name, and where: the source with the names changed."""
    text = (policies + kernel).encode()
    file = cuda.parse(text, "k.cu")
    return [edited(text, renaming.edits).decode().removeprefix(policies) for renaming in renamings(file, "k")]


def test_siblings_can_stand_in_place_of_a_policy() -> None:
    assert {kernel: names(kernel) for kernel in FACTS["siblings"]} == FACTS["siblings"]


def test_a_header_stays_as_it_is() -> None:
    begin, end = BEGIN.decode() + b"p.cuh\0#include\n".hex() + "\n", END.decode() + "\n"
    assert names("", f"{begin}{TEXTS['policies']}using L = near::A;\n{end}") == []
    assert len(names("using L = near::A;", f"{begin}{TEXTS['policies']}using L = near::A;\n{end}")) == 1


def test_a_layout_is_composed_where_it_is_declared() -> None:
    kernel = "__global__ void k() {{ {} }}"
    for declared, composed in FACTS["composed"].items():
        text = kernel.format(declared).encode()
        composed_ = compositions(cuda.parse(text, "k"), "k", ["Swizzle<3,2,3>"])
        written = [edited(text, layout.edits).decode() for layout in composed_]
        assert written == [kernel.format(layout) for layout in composed], declared
