"""The pages of codes: complete, and each minimal kernel has its finding, which is gone with the fix applied."""

import json
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import pytest

from ncu_swizzle.base import codes
from ncu_swizzle.emulate.boxes import Boxes
from ncu_swizzle.reports import model
from ncu_swizzle.reports.model import DURATION, WAVEFRONTS
from tests.support import typed_lines
from tests.support.gate_profiles import lasting, measured, named, scattered
from tests.support.marks import NEEDS_ALL, without_gpu
from tests.support.places import DATA, PROGRAMS, RECORDINGS, ROOT
from tests.support.process import Typed
from tests.support.recordings import Recorded
from tests.support.shown import sampled, with_metrics
from tests.support.typed_lines import TypedLine

RULES = ROOT / "docs" / "rules"
FINDING = re.compile(r"^(?:error|fail|inconclusive|warning|suppressed) +([A-Z]+\d+) ", re.MULTILINE)
PACKED = re.compile(r"\((SW\d+)\): ")  # as `report` prints what the rule pack says
# What a finding leads to: the emulation ends where threads wait for ever; the pack says several things of an excess.
ALSO = {
    "RACE008": {"UN005"}, "RACE010": {"UN008"}, "RACE012": {"RACE010", "UN008"}, "SW040": {"SW041", "SW042"},
    "SW042": {"SW040", "SW041"},
    "SW043": {"SW040", "SW042"}, "TC002": {"TC006"}, "TC006": {"RACE002"},
}  # fmt: skip
# What is left when it is fixed: no rule is known for the wavefronts of tcgen05.mma.
LEFT = {code: {"UN006"} for code in ("TC001", "TC002", "TC006")}
MEMORY = tuple(code for code in codes.CATALOGUE if code.startswith("MEM"))
# Said beside the verdict, of other examples too.
NOTED = (codes.NOT_LAUNCHED, codes.UNCHECKED_BOUNDS, codes.UNFOLLOWED, codes.UNCHECKED_ORDER)
QUICK = {"SW001", "SW020", "MEM001", "RACE001", "UN001", "UN005"}  # one of each kind; each takes half a second
MARKS = {**{code: pytest.mark.long for code in codes.CATALOGUE if code not in QUICK}, codes.COMPILER: pytest.mark.slow}
WRONG = model.violation("wrong", None, model.OUTPUT_RULE, codes.WRONG_OUTPUT)
SAVED = "check good.json --save-baseline"  # what `check` compares with


@dataclass(frozen=True)
class Example:
    """The kernel of a page, as it is and once it is fixed, and what is typed for it."""

    source: str
    fixed: str
    lines: tuple[TypedLine, ...]

    @classmethod
    def of(cls, code: str) -> Self | None:
        page = codes.page(code)
        if not (block := re.search(r"```(?:cuda|python)\n(.*?)```", page, re.DOTALL)):
            return None
        fixed, lines = block[1], tuple(typed_lines.lines(RULES / f"{code}.md"))
        for changes in re.findall(r"```diff\n(.*?)```", page, re.DOTALL):
            removed, added = ([line[1:] for line in changes.splitlines() if line[0] == sign] for sign in "-+")
            for old, new in zip(removed, added, strict=True):
                assert fixed.count(f"{old}\n") == 1, old
                fixed = fixed.replace(f"{old}\n", f"{new}\n")
        assert (fixed, lines[-1]) != (block[1], lines[0]), "a page with an example says how to fix it"
        assert {line.words[0] for line in lines} in ({"lint"}, {"report"})
        return cls(block[1], fixed, lines)


EXAMPLES = {code: example for code in codes.CATALOGUE if (example := Example.of(code))}
# The pages whose commands are about reports, saved profiles, a kernel of the catalogue.
GATED = [
    code for code in codes.CATALOGUE
    if code not in EXAMPLES and any("lint" not in line.words for line in typed_lines.lines(RULES / f"{code}.md"))
]  # fmt: skip


def found(source: str, line: TypedLine, code: str, typed: Typed) -> list[str]:
    """Return the codes that a command prints for a source; for a note's page, of notes too."""
    (typed.folder / line.words[1].partition("::")[0]).write_text(source, encoding="utf-8")
    # How an example reads global memory is another matter, but for the pages about that.
    aside = () if line.words[1].startswith("mem") else MEMORY
    fresh = ["--no-cache"] * (code == codes.BLOCKS_DIFFER)  # counted by an emulator that is not itself
    printed = typed("", *line.words, *fresh, "--json", "found.json").stdout
    if line.words[0] == "report":
        assert "Written to " in printed, printed
        return PACKED.findall(printed) or ["pass"]
    assert "The gate: " in printed, printed
    noted = json.loads((typed.folder / "found.json").read_text("utf-8"))["unknowns"]
    return [
        *(each for each in FINDING.findall(printed) if each not in aside),
        *(note["code"] for note in noted if code in NOTED),
        *(["pass"] if "The gate: pass" in printed else []),
    ]


@NEEDS_ALL
@pytest.mark.parametrize("code", [pytest.param(code, marks=MARKS.get(code, ())) for code in EXAMPLES])
def test_the_example_has_the_finding_and_the_fix_has_none(
    code: str, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    if code == codes.COMPILER:
        pytest.importorskip("triton")
    if code == codes.BLOCKS_DIFFER:  # no kernel is known to do it: the emulator overlooks what hangs on the parity
        monkeypatch.setattr(Boxes, "_refine", lambda *_: None)
    example = EXAMPLES[code]
    left = LEFT.get(code, set())
    findings = set(found(example.source, example.lines[0], code, typed)) - {"pass"} - ALSO.get(code, set()) - left
    assert findings == {code}
    assert set(found(example.fixed, example.lines[-1], code, typed)) == (left or {"pass"})


@without_gpu
@pytest.mark.parametrize("code", [pytest.param(code, marks=MARKS.get(code, ())) for code in GATED])
def test_what_is_typed_for_reports_finds_the_code(code: str, typed: Typed, tmp_path: Path, recorded: Recorded) -> None:
    """Each as printed, with a report and a baseline that were made of recordings."""
    for name in ("mine", "good"):
        shutil.copy(RECORDINGS / "attention" / "kernel1.ncu-rep", tmp_path / f"{name}.ncu-rep")
    shutil.copy(DATA / "launches" / "shapes.launches", tmp_path / "app.launches")
    (tmp_path / "app").write_text("#!/bin/sh\n")
    (tmp_path / "app").chmod(0o755)
    good = named(measured(recorded("kernel2")), "kernel1")
    good.save(tmp_path / "good.json")
    if code == codes.NOT_COLLECTED:
        shutil.copy(PROGRAMS / "basic.ncu-rep", tmp_path / "mine.ncu-rep")
    worse = {
        codes.TIME_LIMIT: lasting(good, 1e9),
        codes.SECTOR_LIMIT: scattered(good),
        codes.WRONG_OUTPUT: replace(good, findings=(WRONG,)),
        codes.IMPLAUSIBLE: with_metrics(good, {WAVEFRONTS: 1}),
        codes.ABSENT: named(good, "kernel9"),
        codes.INCOMPARABLE: measured(good, gpu="NVIDIA A100-SXM4-80GB"),
        codes.UNTIMED: with_metrics(good, {DURATION: None}),
        codes.FEW_SAMPLES: sampled(measured(recorded("kernel1")), wait=99),
    }
    worse.get(code, measured(recorded("kernel1"))).save(tmp_path / "mine.json")
    if "baseline" in codes.page(code):
        assert typed(SAVED).returncode == 0
    (tmp_path / "recordings").symlink_to(RECORDINGS.parent)
    for number, line in enumerate(typed_lines.lines(RULES / f"{code}.md")):
        if code in (codes.FEW_SAMPLES, codes.UNLIKE):  # of the pack, which has no verdict
            assert code in in_json("findings", line.words, typed)
            assert code not in in_json("findings", mended(line.words), typed)
            continue
        done = typed("", *line.words)
        if line.words[0] == "rules":  # a second line is about a launch that has none
            assert done.returncode == 0, done.stderr
            assert (f"({code} " in done.stdout) == (number == 0)
        elif line.needs_gpu:
            assert done.returncode == 4, done.stderr
        elif line.words[0] == "lint":  # of any program's launches: none was captured that has the finding
            assert FINDING.findall(done.stdout), done.stderr
        else:
            assert done.returncode == (5 if codes.CATALOGUE[code].unknown else 1), done.stderr
            assert code in FINDING.findall(done.stdout)
            if code.startswith("UN") and code != codes.NOT_MEASURED:
                assert code not in in_json("checks", mended(line.words), typed)


def mended(words: list[str]) -> list[str]:
    """Return the same command about a profile, or a kernel, that has no such finding."""
    return [word.replace("mine.", "good.").replace("tma-none", "kernel2") for word in words]


def in_json(key: str, words: list[str], typed: Typed) -> set[str]:
    """Return the codes that a command's JSON has of these."""
    return {each["code"] for each in json.loads(typed("", *words, "--json", "-").stdout)[key]}


def test_every_line_of_a_page_is_typed() -> None:
    lines = {page.stem: len(list(typed_lines.lines(page))) for page in RULES.glob("*.md")}
    assert {page for page, count in lines.items() if count} == {*EXAMPLES, *GATED}
    assert all(len(example.lines) <= 2 for example in EXAMPLES.values()), "the first one, and the last one when fixed"


def test_every_code_has_its_page_and_its_row() -> None:
    index = codes.page("codes")
    for code in codes.CATALOGUE.values():
        title, meaning, facts, *_ = codes.page(code.id).split("\n\n")
        assert (title, meaning) == (f"# {code.id}: {code.name}", code.meaning)
        assert facts.startswith(f"Severity {code.severity}, about a {code.about}; from `{code.commands[0]}`")
        assert f"| [{code.id}]({code.id}.md) | {code.name} | {code.meaning} | {code.severity} | " in index
        assert bool(code.remedy) == code.unknown
    assert sorted(path.stem for path in RULES.glob("*.md")) == sorted([*codes.CATALOGUE, "index"])
    schemas = (ROOT / "docs" / "reference" / "schemas.md").read_text(encoding="utf-8")
    for code in codes.CATALOGUE.values():
        row = f"| [{code.id}](../rules/{code.id}.md) | {code.meaning} | {code.remedy} |\n"
        assert (row in schemas) == code.unknown


@pytest.mark.parametrize(
    ("named", "metadata", "origin", "address"),
    [
        ("", "", {}, ""),
        ("", "", {"url": "file:///home/me/ncu-swizzle", "dir_info": {}}, ""),
        ("", "", {"url": "https://host/me/it.git", "vcs_info": {"vcs": "git", "commit_id": "ab12"}},
         "https://host/me/it/blob/ab12/docs/rules/SW001.md"),
        ("", "", {"url": "ssh://git@host/me/it.git", "vcs_info": {"vcs": "git", "commit_id": "ab12"}}, ""),
        ("", "Project-URL: Documentation, https://site.org/\n", {}, "https://site.org/rules/SW001.html"),
        ("https://host/my/it/blob/v1/docs", "", {}, "https://host/my/it/blob/v1/docs/rules/SW001.md"),
        ("javascript:alert(1)", "", {}, ""),
    ],
)  # fmt: skip
def test_a_link_leads_to_where_others_can_read_the_page(
    named: str, metadata: str, origin: dict[str, object], address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pip records where a package came from, and as the action says it."""
    installed = tmp_path / "ncu_swizzle-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: ncu-swizzle\nVersion: 1\n{metadata}")
    (installed / "direct_url.json").write_text(json.dumps(origin))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(codes.DOCS, named)
    codes._stated.cache_clear()
    assert codes.web("SW001") == address
    assert codes.uri("SW001") == (address or (RULES / "SW001.md").as_uri())
    codes._stated.cache_clear()


def test_kernels_may_be_called_like_codes_in_small_letters() -> None:
    assert [codes.is_code(word) for word in ("sw128", "un1", "turn", "kernel1", "codes")] == [False] * 4 + [True]
