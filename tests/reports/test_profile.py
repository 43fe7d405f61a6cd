"""A profile survives being saved, and says so where it did not."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ncu_swizzle.base.errors import BadFile, DamagedFile
from ncu_swizzle.reports.counts import Instruction, Total
from ncu_swizzle.reports.model import Finding, KernelId, MachineInfo, Metric, Profile
from tests.support.recordings import Recorded

counts = st.none() | st.integers(0, 2**63)
instructions = st.builds(
    Instruction,
    pc=st.integers(0, 2**63),
    sass=st.text(),
    opcode=st.text(),
    access=st.sampled_from(["", "LDS", "LDSM", "STS"]),
    stack=st.lists(st.tuples(st.text(), st.integers(1, 9999)), max_size=3).map(tuple),
    executed=counts,
    wavefronts=counts,
    ideal=counts,
    samples=st.dictionaries(st.text(), st.integers(1, 10**9), max_size=3),
)
profiles = st.builds(
    Profile,
    engine=st.sampled_from(["ncu", "recorded"]),
    kernel=st.builds(KernelId, name=st.text(), family=st.text(), title=st.text(), function=st.text()),
    problem=st.dictionaries(st.text(), st.integers(), max_size=3),
    machine=st.builds(MachineInfo, gpu=st.text(), sm_count=st.integers(0, 200)),
    when=st.text(),
    command=st.text(),
    report=st.text(),
    report_sha256=st.text(),
    errors=st.dictionaries(st.text(), st.floats(allow_nan=False), max_size=2),
    metrics=st.dictionaries(
        st.text(),
        st.builds(Metric, st.integers() | st.floats(allow_nan=False) | st.text(), st.text()),
        max_size=3,
    ),
    instructions=st.lists(instructions, max_size=5).map(tuple),
    findings=st.lists(
        st.builds(Finding, rule=st.text(), kind=st.text(), title=st.text(), message=st.text()), max_size=2
    ).map(tuple),
    sources=st.dictionaries(st.text(), st.text(), max_size=2),
    commit=st.text(),
)


@given(profiles)
def test_a_saved_profile_loads_back_equal(profile: Profile) -> None:
    assert Profile.from_json(profile.to_json()) == profile


def test_a_recorded_profile_loads_back_equal(recorded: Recorded) -> None:
    for name in ("kernel1", "kernel2", "reference-attention"):
        profile = recorded(name)
        assert Profile.from_json(profile.to_json()) == profile


def test_every_altered_count_is_noticed(recorded: Recorded) -> None:
    text = recorded("kernel1").to_json()
    assert text.count("1073741824") == 0, "counts are stored per instruction"
    with pytest.raises(DamagedFile, match="was changed after it was written"):
        Profile.from_json(text.replace("33554432", "33554433", 1))


@pytest.mark.parametrize("size", [0, 1, 1000, -2])
def test_a_truncated_profile_is_noticed(size: int, recorded: Recorded) -> None:
    with pytest.raises(DamagedFile, match="is damaged"):
        Profile.from_json(recorded("kernel1").to_json()[:size])


def test_foreign_json_and_other_schemas_are_refused(recorded: Recorded) -> None:
    for text in ("[]", "{}", '{"schema": 1}', "3"):
        with pytest.raises(BadFile, match="is not a saved profile"):
            Profile.from_json(text)
    content = json.loads(recorded("kernel1").to_json())
    with pytest.raises(BadFile, match="has schema 99"):
        Profile.from_json(json.dumps({**content, "schema": 99}))


def test_ratios_are_unknown_where_counts_are() -> None:
    unknown = Total(executed=1, wavefronts=None, ideal=None)
    assert unknown.excessive is None
    assert unknown.degree is None
    idle = Total(executed=1, wavefronts=0, ideal=0)
    assert idle.excessive == 0
    assert idle.degree is None


def test_what_is_missing_is_named(recorded: Recorded) -> None:
    profile = recorded("kernel1")
    assert profile.missing == ()
    without = {name: metric for name, metric in profile.metrics.items() if name != "memory_l1_wavefronts_shared"}
    assert dataclasses.replace(profile, metrics=without).missing == ("memory_l1_wavefronts_shared",)


def test_a_line_counts_what_is_inlined_there(recorded: Recorded) -> None:
    profile = recorded("kernel1")
    file = "kernels/attention/1_plain.cu"
    call = next(n for n, text in enumerate(profile.sources[file].splitlines(), 1) if "attention::forward" in text)
    assert profile.lines[file, call].wavefronts == profile.total.wavefronts
