"""A verdict in every format: terminal, JUnit, SARIF, JSON, GitHub's commands; and the error that sets the exit code."""

from __future__ import annotations

import dataclasses
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any
from urllib.parse import quote
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from rich.console import Console

from ncu_swizzle.base import cache, codes
from ncu_swizzle.base.codes import RuleCode
from ncu_swizzle.base.errors import GateFailed, Hint, NcuSwizzleError, NotComparable, Typed, UsageError, as_word
from ncu_swizzle.base.files import not_writable, note_finished
from ncu_swizzle.base.texts import beneath, in_json, in_words, one_line
from ncu_swizzle.gate.baseline import Baseline
from ncu_swizzle.gate.verdict import (
    WORST_FIRST,
    Check,
    CorrectedFile,
    Correction,
    Outcome,
    Place,
    Suppression,
    Verdict,
)
from ncu_swizzle.render.listing import table_line
from ncu_swizzle.reports.options import Outputs

# A verdict as JUnit XML: a suite per kernel, a test case per check. Inconclusive is an error, never a pass.

KINDS = {Outcome.failed: "failure", Outcome.inconclusive: "error", Outcome.error: "error"}


def render_junit(verdict: Verdict) -> str:
    """Return the XML document; characters that XML cannot represent become U+FFFD."""
    root = Element("testsuites", {"name": "ncu-swizzle check", **_counts(verdict.checks)})
    for kernel in dict.fromkeys(check.kernel for check in verdict.checks):
        checks = tuple(check for check in verdict.checks if check.kernel == kernel)
        suite = _element(root, "testsuite", {"name": kernel, **_counts(checks)})
        for check in checks:
            _case(suite, check)
    indent(root, " ")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _counts(checks: tuple[Check, ...]) -> dict[str, str]:
    outcomes = [check.outcome for check in checks if not check.suppressions]
    hidden = len(checks) - len(outcomes)
    return {
        "tests": str(len(checks)),
        "failures": str(outcomes.count(Outcome.failed)),
        "errors": str(outcomes.count(Outcome.inconclusive) + outcomes.count(Outcome.error)),
        **({"skipped": str(hidden)} if hidden else {}),
    }


def _case(suite: Element, check: Check) -> None:
    where = {"file": check.place.file, "line": str(check.place.line)} if check.place else {}
    name = f"{check.criterion}, {check.access}" if check.access else check.criterion
    case = _element(suite, "testcase", {"classname": check.kernel, "name": name, **where})
    if check.suppressions:
        _element(case, "skipped", {"message": f"suppressed: {check}"})
    elif kind := KINDS.get(check.outcome):
        result = _element(case, kind, {"type": check.criterion, "message": str(check)})
        result.text = "\n".join(
            one_line(part) for part in (check.place.in_full if check.place else "", check.hint) if part
        )
    else:
        _element(case, "system-out").text = one_line(str(check))


def _element(parent: Element, name: str, attributes: Mapping[str, str] = MappingProxyType({})) -> Element:
    return SubElement(parent, name, {key: one_line(value) for key, value in attributes.items()})


# A verdict for GitHub Actions: workflow commands, which become annotations, and the step summary.

LEVELS = {
    Outcome.error: "error",
    Outcome.failed: "error",
    Outcome.inconclusive: "warning",
    Outcome.warning: "warning",
}


def commands(verdict: Verdict) -> list[str]:
    """Return one workflow command per check that did not pass and is not suppressed, the worst first."""
    lines = []
    for outcome, level in LEVELS.items():
        for check in (check for check in verdict.checks if check.outcome is outcome and not check.suppressions):
            place = check.place or Place("")
            properties = {
                "file": place.file,
                "line": str(place.line or ""),
                "title": f"{check.code} {check.title}".strip(),
            }
            # In a property, a comma or a colon would end it; everywhere, % starts an escape.
            escaped = {name: _data(value).replace(":", "%3A").replace(",", "%2C") for name, value in properties.items()}
            attributes = ",".join(f"{name}={value}" for name, value in escaped.items() if value)
            header = f" ({place.in_full})" if place.through else ""  # where the line's access comes from
            lines.append(f"::{level} {attributes}::{_data(f'{check}{header}.')}")
    return lines


def _data(text: str) -> str:
    return one_line(text).replace("%", "%25")


def github_summary(verdict: Verdict) -> str:
    """Return the verdict as Markdown: a heading, a table (what did not pass comes first), changes, notes."""
    from ncu_swizzle.render.templates import markdown

    checks = sorted(verdict.checks, key=lambda check: WORST_FIRST.index(check.outcome))
    return markdown("verdict", verdict=verdict, checks=checks, figures=_excess_and_degree).rstrip() + "\n\n"


def _excess_and_degree(wavefronts: int | None, ideal: int | None) -> tuple[str, str]:
    if wavefronts is None or ideal is None:
        return "unknown", "unknown"
    return f"{wavefronts - ideal:,}", f"{wavefronts / ideal:.4g}" if ideal else "-"


# A verdict as SARIF 2.1.0: failures and errors at their source lines, inconclusive checks as open; no passes.

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render_sarif(verdict: Verdict) -> str:
    """Return the log as JSON. A check without a location is a notification: code scanning rejects such results."""
    from ncu_swizzle.engines.machine import System

    reported = [check for check in verdict.checks if check.outcome is not Outcome.passed]
    version = System().package_version("ncu-swizzle")  # unknown in a checkout that is not installed
    rules = sorted({check.code for check in reported})
    driver = {
        "name": "ncu-swizzle",
        **({"semanticVersion": version} if version else {}),
        "rules": [_rule(codes.CATALOGUE[code]) for code in rules],
    }
    notifications = [
        {
            "level": "warning" if check.suppressions or LEVELS[check.outcome] == "warning" else "error",
            "message": {"text": _escaped(f"{check}.")},
            "associatedRule": {"id": check.code},
        }
        for check in reported
        if not check.place
    ] + [
        {
            "level": "note",
            "message": {"text": _escaped(f"{unknown.kernel}: {unknown.reason}; {unknown.remedy}.")},
            "associatedRule": {"id": unknown.code},
        }
        for unknown in verdict.unknowns
    ]
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notifications}],
        "results": [_result(check, check.place, verdict.corrections, rules) for check in reported if check.place],
    }
    return in_json({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1)


SARIF_LEVELS = {"error": "error", "warning": "warning", "note": "note", "unknown": "none"}


def _rule(code: RuleCode) -> dict[str, Any]:
    """Return a rule with its page: in full, for viewers that show it, and as an address if others can open it."""
    page, address = codes.page(code.id), codes.web(code.id)
    return {
        "id": code.id,
        "name": code.name,
        "shortDescription": {"text": code.meaning},
        **({"helpUri": address} if address else {}),
        "help": {"text": page, "markdown": page},
        "defaultConfiguration": {"level": SARIF_LEVELS[code.severity]},
    }


def _hidden(suppression: Suppression) -> dict[str, Any]:
    kind = "inSource" if suppression.in_source else "external"
    reason = {"justification": suppression.reason} if suppression.reason else {}
    return {"kind": kind, "status": "accepted", **reason, "location": _location(suppression.place)}


def _result(check: Check, place: Place, corrections: Sequence[Correction], rules: Sequence[str]) -> dict[str, Any]:
    failed = check.outcome is not Outcome.inconclusive
    fixes = [
        {
            "description": {"text": _escaped(correction.description)},
            "artifactChanges": [_change(file) for file in correction.files],
        }
        for correction in corrections
        if correction.corrects(check)
    ]
    related = [
        {"id": number, **_location(other), "message": {"text": text}}
        for number, (other, text) in enumerate(
            (
                *((other, "inlined from here") for other in place.through),
                *((other, "takes part") for other in check.related),
            ),
            1,
        )
    ]
    return {
        "ruleId": check.code,
        "ruleIndex": rules.index(check.code),
        "kind": "fail" if failed else "open",
        "level": LEVELS[check.outcome] if failed else "none",
        "message": {"text": _escaped(f"{check}.")},
        "locations": [_location(place)],
        **({"relatedLocations": related} if related else {}),
        **({"fixes": fixes} if fixes else {}),
        **(
            {"suppressions": [_hidden(suppression) for suppression in check.suppressions]} if check.suppressions else {}
        ),
        # Identifies the finding in later runs, even if its line moves.
        "partialFingerprints": {"check/v1": cache.sha256_of_texts(check.title)},
    }


def _change(corrected: CorrectedFile) -> dict[str, Any]:
    """Return the change of a file: whole lines are deleted, or others inserted before one."""
    replacements = []
    for lines in corrected.replacements:
        region = {"startLine": lines.first, "startColumn": 1, "endLine": lines.first + lines.count, "endColumn": 1}
        inserted = {"insertedContent": {"text": lines.text}} if lines.text else {}
        replacements.append({"deletedRegion": region, **inserted})
    return {"artifactLocation": _artifact(corrected.file), "replacements": replacements}


def _escaped(message: str) -> str:
    """Return a message escaped: in SARIF text, brackets make links and braces placeholders."""
    text = one_line(message).replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
    return text.replace("{", "{{").replace("}", "}}")


def _location(place: Place) -> dict[str, Any]:
    region = {"region": {"startLine": place.line}} if place.line else {}
    return {"physicalLocation": {"artifactLocation": _artifact(place.file), **region}}


def _artifact(file: str) -> dict[str, str]:
    uri = quote(file.encode("utf-8", "replace"))
    if PurePosixPath(file).is_absolute():
        return {"uri": f"file://{uri}"}
    return {"uri": uri, "uriBaseId": "%SRCROOT%"}


SCHEMA = 1
NOTHING = "nothing was judged: no rule applies to these profiles"
STYLES: Mapping[str, str] = {
    Outcome.passed: "green",
    Outcome.failed: "bold red",
    Outcome.inconclusive: "yellow",
    Outcome.error: "bold red",
    Outcome.warning: "yellow",
    "suppressed": "dim",
}
ERRORS: Mapping[Outcome, type[NcuSwizzleError]] = {
    Outcome.error: UsageError,
    Outcome.failed: GateFailed,
    Outcome.inconclusive: NotComparable,
}


def show(verdict: Verdict, outputs: Outputs, console: Console) -> None:
    """Write the requested files, then print each check once: as a line, as a workflow command, or in JSON."""
    makers = {
        "json": lambda: to_json(verdict),
        "sarif": lambda: render_sarif(verdict),
        "junit": lambda: render_junit(verdict),
    }
    if outputs.github and (summary := os.environ.get("GITHUB_STEP_SUMMARY")):
        _append(Path(summary), github_summary(verdict))
    on_stdout = outputs.write(makers)
    if not on_stdout:
        _print(verdict, console, annotated=outputs.github)
    if outputs.github:
        log = beneath(sys.stderr) if on_stdout else console.file
        for command in commands(verdict):
            print(command, file=log)


def _append(file: Path, text: str) -> None:
    try:
        with file.open("a", encoding="utf-8") as stream:
            stream.write(text)
        note_finished(file)
    except OSError as error:
        raise not_writable(file, error) from error


def _print(verdict: Verdict, console: Console, annotated: bool) -> None:
    """Print a line per check, except those that an annotation will show."""
    for check in verdict.checks:
        if annotated and check.outcome in LEVELS and not check.suppressions:
            continue
        place = f" ({check.place.in_full})" if check.place else ""
        code = "" if check.outcome is Outcome.passed else f"{check.code} "
        console.print(table_line((f"{check.state:<13}", STYLES[check.state]), f"{code}{check}{place}"), soft_wrap=True)
    for note in verdict.notes:
        console.print(table_line(note), soft_wrap=True)
    console.print()
    console.print(table_line("The gate: ", (verdict.outcome, STYLES[verdict.outcome]), f" ({verdict.summary})"))


def to_json(verdict: Verdict) -> str:
    """Return the verdict as one JSON object; ``docs/ci.md`` describes it."""
    checks = []
    for check in verdict.checks:
        plain = dataclasses.asdict(check)
        through = plain["place"].pop("through") if check.place else ()  # the headers' lines, apart from the place
        for suppression in plain["suppressions"]:
            del suppression["place"]["through"]
        related = [{"file": place["file"], "line": place["line"]} for place in (*through, *plain["related"])]
        checks.append({**plain, "related": related})
    content = {
        "schema": SCHEMA,
        "outcome": verdict.outcome,
        "suppressed": len(verdict.suppressed),
        "checks": checks,
        "notes": list(verdict.notes),
        "unknowns": [dataclasses.asdict(unknown) for unknown in verdict.unknowns],
    }
    if verdict.changes:
        content["changes"] = [dataclasses.asdict(change) for change in verdict.changes]
    return in_json(content, indent=1)


def conclude(verdict: Verdict, listed: bool = False, judged: Sequence[str] = ()) -> None:
    """Raise UsageError, GateFailed or NotComparable unless everything passed.

    `listed`: the checks were printed, so the error only counts those that decided. `judged`: the words that were typed
    for the profiles; files are shown by the command that the hint names.
    """
    if verdict.outcome is Outcome.passed:
        return
    deciding = verdict.deciding
    count, plural = len(deciding), "s" if len(deciding) > 1 else ""
    if not deciding:
        message = NOTHING
    elif listed:
        message = {
            Outcome.error: f"{count} kernel{plural} not judged: wrong source, launch or arguments",
            Outcome.failed: f"{count} check{plural} failed",
            Outcome.inconclusive: f"{count} check{plural} inconclusive",
        }[verdict.outcome]
    else:
        message = one_line(str(deciding[0])) + (f" (and {count - 1} more)" if count > 1 else "")
    raise ERRORS[verdict.outcome](
        message, next((check.hint for check in deciding if check.hint), _next(deciding, judged))
    )


def _next(deciding: Sequence[Check], judged: Sequence[str]) -> Hint:
    """Return what to type to see more: the saved profiles that were judged, else what the first finding means."""
    if judged and all(Path(word).is_dir() or word.endswith((".ncu-rep", ".json")) for word in judged):
        return Hint(
            Typed(shlex.join(["ncu-swizzle", "report", *map(as_word, judged)])), " shows them, and writes a page"
        )
    code = next((check.code for check in deciding if check.code), codes.LIST)
    return Hint(Typed(f"ncu-swizzle explain {code}"), " says what that means, and how to fix it")


def show_saved(baseline: Baseline, console: Console) -> None:
    """Print what a baseline holds: a line per kernel."""
    for entry in baseline.entries:
        excess = "unknown" if entry.excessive is None else f"{entry.excessive:,}"
        size = in_words(entry.problem) or f"grid {entry.grid}"
        line = f"{baseline.file}: {entry.kernel}, {size}, {entry.engine}: {excess} excessive wavefronts"
        console.print(table_line(line), soft_wrap=True)
