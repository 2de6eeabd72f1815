"""Validates JSON objects, one a line, by the schemas that they name. Lines of files that name none come as
{"of": NAME, "line": OBJECT}.

usage: validate.py SCHEMAS-FOLDER FILE

A field that the schema does not name is a mistake here, though readers must ignore it.
"""

import json
import pathlib
import sys

from jsonschema import Draft202012Validator


def strict(part):
    """The schema, taking no field beyond those that it names."""
    if isinstance(part, list):
        return [strict(one) for one in part]
    if not isinstance(part, dict):
        return part
    part = {key: strict(value) for key, value in part.items()}
    if "properties" in part and "additionalProperties" not in part:
        part["unevaluatedProperties"] = False
    return part


def main():
    folder, lines = map(pathlib.Path, sys.argv[1:])
    wrong = 0
    for line in lines.read_text().splitlines():
        value = json.loads(line)
        if "of" in value and "line" in value:
            name, value = value["of"], value["line"]
        else:
            name = value["schema"].split("/")[1]
        schema = json.loads((folder / f"{name}.json").read_text())
        Draft202012Validator.check_schema(schema)
        for error in Draft202012Validator(strict(schema)).iter_errors(value):
            wrong += 1
            print(f"{name} at {error.json_path}: {error.message[:300]}")
    sys.exit(1 if wrong else 0)


main()
