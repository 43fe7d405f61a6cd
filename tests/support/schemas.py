"""Public schemas, and the program that holds files against them."""

from check_jsonschema.cli import main
from click.testing import CliRunner

from tests.support.places import DATA

SARIF_SCHEMA = DATA / "schemas" / "sarif-2.1.0-rtm.5.json"


def complaints(*arguments: str) -> str:
    """Return what check-jsonschema says of files that are not valid; nothing if all are."""
    done = CliRunner().invoke(main, arguments)
    return done.output if done.exit_code else ""
