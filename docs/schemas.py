"""JSON Schemas of what ncu-swizzle writes; the site publishes them, tests hold real outputs against them.

The schema of a saved profile is made from its dataclasses.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Union

from ncu_swizzle.base.codes import CATALOGUE
from ncu_swizzle.gate.verdict import CRITERIA, Outcome
from ncu_swizzle.reports.model import READABLE, Profile

DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "number"}
AFTER_5 = (
    "unknowns",
    "recorded_metrics",
    "unknown_traffic",
    "timeline",
    "arrays",
    "supposed",
    "checked",
)  # fields of a saved profile since schema 6
BEFORE_7 = ("pc", "sass", "opcode", "access", "stack", "executed", "wavefronts", "ideal", "samples", "at")
COLUMNS = (*BEFORE_7, "traffic", "pattern")


ORIGIN: Schema = {"enum": ["measured", "recorded", "computed"]}
# Of the numbers in an object and below it; by key if not all come from one place, "*" being all other keys.
PROVENANCE: Schema = {
    "anyOf": [ORIGIN, {"type": "object", "additionalProperties": {"anyOf": [ORIGIN, {"type": "object"}]}}]
}
CODE: Schema = {"enum": list(CATALOGUE)}


def nullable(schema: Schema) -> Schema:
    """Return the schema of a value that may be unknown."""
    return {"anyOf": [schema, {"type": "null"}]}


def rows(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def entries(schema: Schema) -> Schema:
    """Return the schema of an object with any keys."""
    return {"type": "object", "additionalProperties": schema}


def record(optional: Mapping[str, Schema] | None = None, /, **properties: Schema) -> Schema:
    """Return the schema of an object with these properties, required unless optional, and no others."""
    return {
        "type": "object",
        "properties": {**properties, **(optional or {})},
        "required": list(properties),
        "additionalProperties": False,
    }


def published() -> dict[str, Schema]:
    """Return every schema by the name of its file."""
    titled = {
        "profile": ("A saved profile: KERNEL.json of a run", profile()),
        "comparison": ("profile and report --json, of one kernel and what it is compared with", comparison()),
        "run": ("run.json of a run's folder", run()),
        "verdict": ("check and lint --json", verdict()),
        "explain": ("explain --json", explain()),
        "doctor": ("doctor --json", doctor()),
    }
    return {name: {"$schema": DIALECT, "title": title, **schema} for name, (title, schema) in titled.items()}


def of_type(kind: Any) -> Schema:
    """Return the schema of a type annotation, as `dataclasses.asdict` and JSON write its values."""
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        return record(**{each.name: of_type(hints[each.name]) for each in dataclasses.fields(kind)})
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        least = arguments[1].least
        return {**of_type(arguments[0]), **({"minimum": 0} if least == 0 else {})}
    if origin in (Union, types.UnionType):
        return {"anyOf": [of_type(part) for part in arguments]}
    if origin is tuple:
        return rows(of_type(arguments[0]))
    if origin is not None and issubclass(origin, Mapping):
        return entries(of_type(arguments[1]))
    names = {str: "string", int: "integer", float: "number", bool: "boolean", types.NoneType: "null"}
    return {"type": names[kind]}


def profile() -> Schema:
    """Return the schema of a saved profile of the newest schema number, and of the older ones that can be read."""
    whole = of_type(Profile)["properties"]
    whole["instructions"] = record(
        columns={"enum": [list(COLUMNS), list(BEFORE_7)]},
        rows=rows({"type": "array", "minItems": len(BEFORE_7), "maxItems": len(COLUMNS)}),
        stacks=rows(rows({"type": "array", "prefixItems": [TEXT, COUNT], "minItems": 2, "maxItems": 2})),
    )
    digest = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
    whole["findings"]["items"]["required"].remove("code")
    later = {name: whole.pop(name) for name in ("launch", "notes", "requests", "beside", "commit", "sample", *AFTER_5)}
    later["provenance"] = PROVENANCE
    return record(later, schema={"enum": list(READABLE)}, digest=digest, **whole)


def counts() -> dict[str, Schema]:
    """Return the columns that tables of counts share."""
    return {
        **{name: nullable(COUNT) for name in ("executed", "wavefronts", "ideal", "excessive")},
        "degree": nullable({"type": "number", "minimum": 1}),
    }


def unknown() -> dict[str, Schema]:
    """Return the fields of a reason for something unknown."""
    return {"code": CODE, "reason": TEXT, "remedy": TEXT}


def comparison() -> Schema:
    """Return the schema of --json for one kernel."""
    by_label = {"type": "object", "additionalProperties": nullable({"type": ["number", "string"]})}
    line = record(label=TEXT, file=TEXT, line=COUNT, samples=nullable(COUNT), **counts())
    mix = record(label=TEXT, **{"class": TEXT}, opcode=nullable(TEXT), executed=nullable(COUNT))
    sectors = ("executed", "sectors", "ideal", "excessive", "excessive_bytes", "tags", "local_sectors")
    memory = record(access=TEXT, label=TEXT, **{name: nullable(COUNT) for name in sectors})
    reason = record(label=TEXT, **unknown(), offsets=rows(COUNT))
    finding = record(
        label=TEXT, rule=TEXT, code=CODE, kind=TEXT, title=TEXT, message=TEXT,
        saving=nullable(NUMBER), low=nullable(NUMBER), high=nullable(NUMBER),
        focus=rows({"type": "object"}), markers=rows({"type": "object"}), tables=rows({"type": "object"}),
    )  # fmt: skip
    return record(
        schema=COUNT,
        engine=TEXT,
        engine_reason=TEXT,
        provenance=entries(PROVENANCE),
        verdict=TEXT,
        speedup=nullable(NUMBER),
        saves=nullable(record(**dict.fromkeys(("point", "low", "high"), NUMBER))),
        warnings=rows(TEXT),
        labels=rows(TEXT),
        metrics=rows({**by_label, "required": ["metric", "unit"]}),
        accesses=rows(record(access=TEXT, label=TEXT, **counts())),
        memory=rows(memory),
        stalls=rows({**by_label, "required": ["reason"]}),
        unknowns=rows(reason),
        unknown_traffic=rows(reason),
        samples=rows(nullable(COUNT)),
        mix=rows(mix),
        lines=rows(line),
        findings=rows(finding),
        profiles=rows(profile()),
        files=rows(TEXT),
    )


def run() -> Schema:
    """Return the schema of run.json: of a kernel's run, or of a program's."""
    of_kernel = record(kernel=TEXT, profiles=rows(TEXT))
    of_program = {"type": "object", "required": ["columns", "rows"], "properties": {"columns": rows(TEXT)}}
    return {"anyOf": [of_kernel, of_program]}


def verdict() -> Schema:
    """Return the schema of the gate's answer."""
    outcome = {"enum": [each.value for each in Outcome]}
    place: Schema = record({"through": rows({"type": "object"})}, file=TEXT, line=COUNT)
    suppression = record(
        codes=rows(TEXT), reason=TEXT, place=record(file=TEXT, line=COUNT), line=COUNT, files=TEXT, kernel=TEXT
    )
    check = record(
        outcome=outcome, kernel=TEXT, criterion={"enum": list(CRITERIA)}, message=TEXT, access=TEXT,
        place=nullable(place), origin=TEXT, hint=TEXT, actual=nullable(NUMBER), limit=nullable(NUMBER),
        related=rows({"type": "object"}), code={"enum": ["", *CATALOGUE]}, more_codes=rows(CODE),
        provenance={"enum": ["", *ORIGIN["enum"]]}, suppressions=rows(suppression),
    )  # fmt: skip
    return record(
        schema=COUNT,
        outcome=outcome,
        suppressed=COUNT,
        checks=rows(check),
        notes=rows(TEXT),
        unknowns=rows(record(kernel=TEXT, **unknown())),
    )


def explain() -> Schema:
    """Return the schema of an explanation: the parts that there are, under the names that --show has for them."""
    places = rows(record(rows=rows(rows(NUMBER)), columns=rows(rows(NUMBER))))
    tiles = rows(record(title=TEXT, rows=rows(rows(NUMBER)), chunks=rows(rows(NUMBER))))
    parts = {
        "wavefronts": rows(predict()), "map": banks(), "mapping": suggest(), "phases": rows(rows({"type": "object"})),
        "bits": {"type": "object"}, "places": places, "tiles": tiles, "notes": rows(TEXT),
    }  # fmt: skip
    return {"type": "object", "properties": parts, "required": ["notes"], "additionalProperties": False}


def banks() -> Schema:
    """Return the schema of the maps: before and after, or one."""
    grid = rows(rows(COUNT))
    counted = record(requests=COUNT, known=FLAG, actual=COUNT, ideal=COUNT, excessive=COUNT)
    one = record(
        provenance=PROVENANCE, layout=TEXT, transform=TEXT, spelled=TEXT, element_bytes=COUNT, bytes=COUNT,
        bijection=FLAG,
        vector_bytes=COUNT, tma=nullable(TEXT), cell_bytes=COUNT, bank_count=COUNT, banks=grid, ways=grid,
        access=nullable(TEXT), op=nullable(TEXT), counts=nullable(counted),
    )  # fmt: skip
    return rows(one)


def predict() -> Schema:
    """Return the schema of a prediction, next to what was counted if that is known."""
    totals = {name: nullable(COUNT) for name in ("executed", "wavefronts", "ideal", "excessive")}
    counted = record(access=TEXT, counted=nullable(COUNT), equal=nullable(FLAG), verdict=TEXT, **totals)
    return record(
        provenance=PROVENANCE,
        title=TEXT,
        accesses=rows(record(name=TEXT, op=TEXT, access=TEXT, **totals)),
        counted=rows(counted),
        origin=nullable(TEXT),
        unknown=nullable(COUNT),
        unknowns=rows(record(**unknown(), offsets=rows(COUNT))),
        agrees=nullable(FLAG),
        notes=rows(TEXT),
    )


def suggest() -> Schema:
    """Return the schema of the mappings found for each tile."""
    mapping = record(
        mapping=TEXT, spelled=nullable(TEXT), element_bytes=COUNT, also=rows(TEXT), wavefronts=nullable(COUNT),
        ideal=nullable(COUNT), extra_bytes={"type": "integer"}, operations=COUNT, alignment=COUNT, tma=nullable(TEXT),
        blocks_per_sm=nullable(COUNT),
    )  # fmt: skip
    tile = record(
        provenance=PROVENANCE,
        title=TEXT,
        possible=FLAG,
        accesses=rows(record(name=TEXT, op=TEXT, writes=FLAG)),
        plain=mapping,
        clean=rows(mapping),
        closest=nullable(mapping),
        notes=rows(TEXT),
        unjudged=rows({}),
        untried=rows({}),
        complete=FLAG,
        apart=nullable(mapping),
        narrow=COUNT,
        without={"type": "object"},
        fixed=entries(TEXT),
        tried=TEXT,
        code=entries(TEXT),
    )
    return rows(tile)


def doctor() -> Schema:
    """Return the schema of the machine's examination."""
    checks = rows(record(name=TEXT, outcome=TEXT, said=TEXT, cure=TEXT))
    return record(schema=COUNT, able=FLAG, checks=checks, computes=FLAG, computing=checks)
