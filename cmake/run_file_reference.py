"""Writes the tables of docs/run_file.md from the JSON Schema that the trainer prints.

run_file_reference.py TRAINER PAGE [--check] replaces what is between the markers of PAGE; --check only compares, and exits
with 1 if the page is out of date. Each key has an anchor: its dotted name, with the name of the part where there is one
(train.epochs, optimizer.sgd.lr, dataset.csv.path).
"""
import json
import re
import subprocess
import sys
from pathlib import Path

BEGIN = "<!-- reference: begin (cmake/run_file_reference.py) -->\n"
END = "<!-- reference: end -->\n"
TIME = r"^[0-9]+ ?(ms|s|sec|seconds?|min|mins|minutes?|h|hours?|d|days?)$"
# Parts that several keys select from are described once, after the sections.
SHARED = {"data.train": ("dataset", "Datasets"), "data.eval": ("dataset", "Datasets"),
          "dataset.image_folder.transforms": ("transform", "Image transforms"),
          "dataset.webdataset.transforms": ("transform", "Image transforms"), "tracking.sinks": ("sink", "Sinks")}


def cell(text):
    return re.sub(r"([|<>*\[\]])", r"\\\1", text).replace("\n", " ")


def code(value):
    text = value if isinstance(value, str) else json.dumps(value)
    return f"`{text}`".replace("|", "\\|") if text else '`""`'


def number(value):
    return str(int(value)) if value == int(value) else str(value)


def alternatives(schema):
    """The schemas that a value may have, without null."""
    if "anyOf" in schema and "x-parts" not in schema:
        return [inner for each in schema["anyOf"] for inner in alternatives(each)]
    return [] if schema.get("type") == "null" else [schema]


def type_name(schema):
    if "x-parts" in schema:
        return "list of parts" if schema.get("type") == "array" else "part"
    names = []
    for each in alternatives(schema):
        kind = each.get("type")
        if "enum" in each:
            names.append(" or ".join(code(value) for value in each["enum"]))
        elif kind == "array":
            names.append("list of " + type_name(each["items"]) if isinstance(each.get("items"), dict) else "list")
        elif kind == "object":
            names.append("map")
        elif "pattern" in each and each["pattern"] == TIME:
            names.append("time")
        elif "pattern" in each and "steps?" in each["pattern"]:
            names.append("period")
        elif "pattern" in each and each["pattern"].startswith("^top_"):
            names.append("`top_K`")
        elif "pattern" in each and each["pattern"].startswith("^[0-9]"):
            names.append("`N-M`")
        elif "pattern" in each:
            names.append("URL")
        else:
            names.append(kind)
    return ", or ".join(dict.fromkeys(names)) + (", or `null`" if has_null(schema) and schema.get("default") is not None else "")


def has_null(schema):
    return any(each.get("type") == "null" for each in schema.get("anyOf", []))


def constraint(schema):
    found = []
    for each in alternatives(schema):
        if each.get("type") == "array" and isinstance(each.get("items"), dict):
            each = each["items"]
        low, high = each.get("minimum"), each.get("maximum")
        found += [f"≥ {number(low)}"] if low is not None else []
        found += [f"> {number(each['exclusiveMinimum'])}"] if "exclusiveMinimum" in each else []
        found += [f"≤ {number(high)}"] if high is not None else []
        found += [f"< {number(each['exclusiveMaximum'])}"] if "exclusiveMaximum" in each else []
    return ", ".join(found)


def split_help(text):
    """The description, and the settings that it needs."""
    parts = text.split("; needs ")
    return parts[0], [f"needs {part}" for part in parts[1:]]


class Reference:
    def __init__(self, schema):
        self.lines, self.parts_of = [], {}
        sections = {name: each for name, each in schema["properties"].items() if each.get("type") == "object"}
        for name, section in sections.items():
            self.section(name, section)
        for kind, title, parts in self.shared():
            self.parts(kind, title, parts, level=3)
        rest = {name: each for name, each in schema["properties"].items() if name not in sections}
        self.lines = ["### Top level", "", *self.table("", rest, set()), "| section | description |", "|---|---|",
                      *(f"| [`{name}`](#{name}) | {cell(each['description'])} |" for name, each in sections.items()), "",
                      *self.lines]

    def shared(self):
        """In the order in which they are found; a shared part may use another."""
        done = set()
        while True:
            waiting = [each for each in self.parts_of.items() if each[0] not in done]
            if not waiting:
                return
            (kind, (title, parts)) = waiting[0]
            done.add(kind)
            yield kind, title, parts

    def section(self, path, schema, level=3):
        anchor = f'<a id="{path}"></a>' if "." in path else ""  # without a dot, the heading has it already
        self.lines += [f"{'#' * level} {anchor}`{path}`", "", self.sentence(schema["description"]), ""]
        if "x-parts" in schema:
            self.parts(path, None, schema["x-parts"], level)
            return
        self.keys(path, schema, level)

    def keys(self, path, schema, level):
        properties = schema.get("properties", {})
        self.lines += self.table(path, properties, set(schema.get("required", [])))
        for name, each in properties.items():
            values = each.get("additionalProperties")
            if each.get("type") == "object" and "properties" in each and "x-parts" not in each:
                self.section(f"{path}.{name}", each, level + 1)
            elif isinstance(values, dict) and "properties" in values:
                self.lines += [f'{"#" * (level + 1)} <a id="{path}.{name}.values"></a>`{path}.{name}`: each value', ""]
                self.keys(f"{path}.{name}.values", values, level + 1)
            elif "anyOf" in each and "x-parts" not in each:
                for form in alternatives(each):
                    if "properties" in form:
                        self.lines += [f'{"#" * (level + 1)} <a id="{path}.{name}.map"></a>`{path}.{name}` as a map', ""]
                        self.keys(f"{path}.{name}.map", form, level + 1)

    def parts(self, kind, title, parts, level):
        if title:
            self.lines += [f'{"#" * level} <a id="{kind}"></a>{title}', ""]
        for part in parts:
            name = part["properties"]["name"]["const"]
            default = "" if "name" in part.get("required", []) or kind not in ("optimizer", "schedule") else " (the default)"
            self.lines += [f'{"#" * (level + 1)} <a id="{kind}.{name}"></a>{kind} `{name}`', "",
                           self.sentence(part["description"] + default), ""]
            keys = {key: each for key, each in part["properties"].items() if key != "name"}
            self.keys(f"{kind}.{name}", part | {"properties": keys}, level + 1)

    def table(self, path, properties, required):
        if not properties:
            return []
        lines = ["| key | type | default | constraint | description |", "|---|---|---|---|---|"]
        for name, schema in properties.items():
            full = f"{path}.{name}" if path else name
            help_text, needs = split_help(schema.get("description", ""))
            kind, default = type_name(schema), code(schema["default"]) if schema.get("default") is not None else ""
            link = f"#{full}"
            if "x-parts" in schema:
                group, title = SHARED.get(full, (full, None))
                if schema["x-parts"] and title:
                    self.parts_of.setdefault(group, (title, schema["x-parts"]))
                    kind, link = f"[{kind}](#{group})", f"#{full}"
                kind = kind if schema["x-parts"] else "list of parts of plugins"
            elif schema.get("type") == "object" and "properties" in schema:
                lines.append(f"| [`{name}`](#{full}) | section |  |  | {cell(help_text)} |")
                continue
            default = "**required**" if name in required else default
            limits = "; ".join(filter(None, [constraint(schema), *map(cell, needs)]))
            lines.append(f'| <a id="{full}"></a>[`{name}`]({link}) | {kind} | {default} | {limits} | {cell(help_text)} |')
        return lines + [""]

    @staticmethod
    def sentence(text):
        help_text, needs = split_help(text)
        text = cell("; ".join([help_text, *needs]))
        return text[0].upper() + text[1:] + "."


def render(schema):
    return "\n".join(Reference(schema).lines).rstrip() + "\n"


def updated(page, schema):
    head, rest = page.split(BEGIN, 1)
    return head + BEGIN + "\n" + render(schema) + "\n" + END + rest.split(END, 1)[1]


def main(trainer, page, check):
    schema = json.loads(subprocess.run([trainer, "--schema"], capture_output=True, text=True, check=True).stdout)
    page = Path(page)
    text = updated(page.read_text(), schema)
    if check:
        return int(text != page.read_text())
    page.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], "--check" in sys.argv[3:]))
