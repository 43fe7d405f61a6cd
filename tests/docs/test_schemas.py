"""The published JSON Schemas, held against what the commands write."""

import json
from typing import Any

import pytest

from docs import schemas
from tests.support.places import RECORDINGS, ROOT
from tests.support.process import Typed

jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema")

RECORDED = ("--engine", "recorded")
CHECKED = (*RECORDED, "--allow-recorded", "--config", "none", "--baseline", "none")
SCHEMAS = schemas.published()
LAYOUT = "(8,8):(1,8)"
OUTPUTS: dict[str, list[tuple[str, ...]]] = {
    "comparison": [
        ("report", "transpose-plain", "transpose-xor", *RECORDED),
        ("report", str(RECORDINGS / "transpose" / "transpose-xor.ncu-rep")),
    ],
    "verdict": [("check", "kernel1", *CHECKED), ("check", "kernel2", *CHECKED)],
    "explain": [
        ("explain", LAYOUT, "--swizzle", "3,2,3"),
        ("explain", LAYOUT, "--access", "none"),
        ("explain", LAYOUT, "--show", "places"),
        ("explain", LAYOUT, "--show", "bits"),
        ("explain", LAYOUT, "--show", "phases"),
        ("explain", "box(8,64)", "--swizzle", "128B"),
        ("explain", "kernel2"),
        ("explain", "tid * 128", "--op", "ld.shared.v4.b32"),
        ("explain", "(64,64):(64,1)", "--elem", "2", "--write", "cp.async", "--read", "ldmatrix"),
    ],
    "doctor": [("doctor",)],
}


def broken(value: Any) -> Any:
    """Return the output with one field renamed."""
    if isinstance(value, list):
        return [broken(value[0]), *value[1:]]
    name = next(iter(value))
    return {f"{name}_": value[name], **{key: part for key, part in value.items() if key != name}}


@pytest.mark.parametrize(("name", "arguments"), [(n, a) for n, all_ in OUTPUTS.items() for a in all_])
def test_what_commands_print_fits_its_schema(name: str, arguments: tuple[str, ...], typed: Typed) -> None:
    validator = jsonschema.Draft202012Validator(SCHEMAS[name])
    printed = json.loads(typed("", *arguments, "--json", "-").stdout)
    validator.validate(printed)
    assert not validator.is_valid(broken(printed))


@pytest.mark.long
def test_the_files_of_a_run_fit_their_schemas(typed: Typed) -> None:
    folder = typed.folder / "run"
    printed = json.loads(typed("profile kernel2 -o run --json -", *RECORDED).stdout)
    jsonschema.validate(printed, SCHEMAS["comparison"])
    jsonschema.validate(json.loads((folder / "run.json").read_text(encoding="utf-8")), SCHEMAS["run"])
    for name in ("kernel1", "kernel2", "reference-attention"):
        saved = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        jsonschema.validate(saved, SCHEMAS["profile"])
        saved["machine"]["sm_count"] = -1
        assert not jsonschema.Draft202012Validator(SCHEMAS["profile"]).is_valid(saved)


def test_every_schema_is_a_schema_and_is_described() -> None:
    page = (ROOT / "docs" / "reference" / "schemas.md").read_text(encoding="utf-8")
    for name, schema in SCHEMAS.items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert f"(../schemas/{name}.json)" in page
