"""Where numbers of a profile come from, and why some are unknown: kept in its file."""

import json
from dataclasses import replace

from ncu_swizzle.base import codes
from ncu_swizzle.engines.profiles import with_recording
from ncu_swizzle.reports import model, reader
from ncu_swizzle.reports.model import DURATION, EXECUTED, Instruction, Profile, UnknownCounts, Violation
from ncu_swizzle.reports.options import EMULATED
from tests.support.places import ROOT
from tests.support.recordings import Recorded


def test_a_profile_says_what_was_measured_recorded_and_computed(recorded: Recorded) -> None:
    shipped = recorded("kernel2")
    known = {name: shipped.metrics[name] for name in (EXECUTED, model.WAVEFRONTS, model.IDEAL)}
    computed = replace(shipped, engine=EMULATED, metrics=known)
    assert [replace(shipped, engine="ncu").provenance, shipped.provenance, computed.provenance] == [
        "measured", "recorded", "computed",
    ]  # fmt: skip
    mixed = with_recording(computed, shipped)
    origin = json.loads(mixed.to_json())["provenance"]
    assert (origin["*"], origin["samples"]) == ("computed", "recorded")
    assert {origin["metrics"].get(name, origin["metrics"]["*"]) for name in known} == {"computed"}
    assert origin["metrics"][DURATION] == "recorded"
    assert Profile.from_json(mixed.to_json()) == mixed


def test_reasons_and_codes_are_kept(recorded: Recorded) -> None:
    first, second = recorded("kernel2").instructions[:2]
    why = UnknownCounts.of(codes.DATA, "its address depends on data", [first.pc])
    found = model.finding(Violation("unlike rows", None, model.TILES_RULE, codes.ALONG_K))
    profile = replace(recorded("kernel2"), unknowns=(why,), findings=(found,))
    loaded = Profile.from_json(profile.to_json())
    assert loaded == profile
    assert loaded.unknowns[0].remedy == codes.CATALOGUE[codes.DATA].remedy
    assert [violation.code for violation in model.violations(loaded)] == ["SW011"]
    uncounted: list[Instruction] = [second, first, first]
    assert model.codes_of_unknown(loaded, uncounted) == (codes.NOT_RUN, codes.DATA)


def test_a_report_that_lacks_metrics_says_so_with_a_code() -> None:
    profiles = reader.read(ROOT / "tests" / "data" / "programs" / "several.ncu-rep")
    for profile in profiles:
        assert [why.reason for why in profile.unknowns] == [f"the report lacks {name}" for name in profile.missing]
        assert {why.code for why in profile.unknowns} <= {codes.NOT_COLLECTED}
