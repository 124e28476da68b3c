#!/usr/bin/env python3
"""Writes the axes of kernels' configs into sweeps/sweep.schema.json, as the kernels declare them.

    scripts/sweep_schema.py --attnlab build/cpu/attnlab           writes the schema anew
    scripts/sweep_schema.py --attnlab build/cpu/attnlab --check   exit 1 where it is not so

They follow the axis `block` in the definition of axes, up to its end. All else in the file is
written by hand.
"""
import argparse
import json
import pathlib
import subprocess
import sys

SCHEMA = pathlib.Path(__file__).resolve().parent.parent / "sweeps" / "sweep.schema.json"
BEGIN = '''        "block": {
          "description": "Query rows x keys of a tile; 0x0: the kernel's own choice (default: the kernel's own).",
          "allOf": [{"$ref": "#/definitions/blocks"}]
        }'''
END = '''
      }
    },
    "exclusion"'''


def declared_axes(attnlab):
    """Returns the axes that `attnlab list` names; a list may hold any number of them."""
    listing = subprocess.run([attnlab, "list", "--format", "json"], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    return json.loads(listing)["config_axes"]


def property_of(axis):
    """Numbers are held to the range; what a string says is left to the reader."""
    summary = axis["summary"][0].upper() + axis["summary"][1:]
    bounds = f'"minimum": {axis["minimum"]}, "maximum": {axis["maximum"]}'
    return f"""        {json.dumps(axis["name"])}: {{
          "description": {json.dumps(summary + "; default: the kernel's own.")},
          "allOf": [{{"$ref": "#/definitions/config_values"}}],
          {bounds},
          "items": {{{bounds}}}
        }}"""


def rewritten(text, axes):
    begin = text.index(BEGIN) + len(BEGIN)
    end = text.index(END, begin)
    return text[:begin] + "".join(",\n" + property_of(axis) for axis in axes) + text[end:]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attnlab", required=True, metavar="FILE", help="the program that is asked")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    arguments = parser.parse_args()
    text = SCHEMA.read_text()
    wanted = rewritten(text, declared_axes(arguments.attnlab))
    if wanted == text:
        print(f"{SCHEMA.name}: has the axes of all kernels")
        return 0
    if arguments.check:
        print(f"{SCHEMA}: its axes are not those that the kernels declare; run "
              f"scripts/sweep_schema.py --attnlab {arguments.attnlab}", file=sys.stderr)
        return 1
    SCHEMA.write_text(wanted)
    print(f"{SCHEMA.name}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
