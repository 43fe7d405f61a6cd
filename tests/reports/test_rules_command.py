"""`ncu-swizzle rules`: findings of finished reports."""

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from ncu_swizzle.cli import app
from ncu_swizzle.reports import pack
from tests.support.recordings import Recorded


def rules(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["rules", *map(str, arguments)])


def test_apply_prints_what_the_pack_says_of_a_profile(recorded: Recorded, tmp_path: Path) -> None:
    saved, profile = tmp_path / "kernel1.json", recorded("kernel1")
    profile.save(saved)
    expected = pack.findings(profile)
    printed = rules("apply", saved).output
    assert [finding.title for finding in expected if finding.title not in printed] == []
    content = json.loads(rules("apply", saved, "--json", "-").output)["findings"]
    assert [one["rule"] for one in content] == [one.rule for one in expected]
    assert next(one["saving"] for one in content if one["rule"] == "ConflictCost") > 70
