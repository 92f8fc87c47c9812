"""Run files in Markdown: which keys of them do not exist. What exists is what docs/run_file.md lists, which is generated."""
import re

import yaml

BLOCK = re.compile(r"^( *)```ya?ml\n(.*?)^ *```$", re.M | re.S)
# Keys whose value is a part, or a list of parts, and the kind of part in docs/run_file.md.
PARTS = {"model": "model", "optimizer": "optimizer", "schedule": "schedule", "data.train": "dataset", "data.eval": "dataset",
         "tracking.sinks": "sink", "train.hooks": "hook", "dataset.image_folder.transforms": "transform",
         "dataset.webdataset.transforms": "transform"}
REQUIRED = {"model", "data"}  # of a whole run file


def blocks(text):
    """(line, value) of each YAML block."""
    for match in BLOCK.finditer(text):
        yield text[:match.start()].count("\n") + 1, yaml.safe_load(re.sub(rf"^{match[1]}", "", match[2], flags=re.M))


def known_keys(run_file_page):
    return set(re.findall(r'<a id="([^"]+)"', run_file_page))


def sections(known):
    return {key.split(".")[0] for key in known} - {"dataset", "sink", "transform"}


def run_file_in(value, known):
    """The run file, or the sections of one, that a block is; None: it is something else."""
    if not isinstance(value, dict) or not set(value) & sections(known):
        return None
    datasets = set(value) <= {"train", "eval"} and all(isinstance(each, dict) and "name" in each for each in value.values())
    return {"data": value} if datasets else value


def has_plugins(value):
    return bool(value.get("plugins") or (value.get("tracking") or {}).get("plugins"))


def unknown_keys(value, known):
    """The keys, and the names of parts, that do not exist. A run file with plugins may name parts that only they have."""
    unknown = []

    def walk_part(place, kind, part):
        if isinstance(part, str):
            part = {"name": part}
        if not isinstance(part, dict):
            return
        name = part.get("name")
        if name is None or f"{kind}.{name}" not in known:
            if name is not None and not has_plugins(value):
                unknown.append(f"{place}: {name}")
            elif name is None and (keys := [key for key in part if not any(re.fullmatch(rf"{kind}\.\w+\.{key}", each) for each in known)]):
                unknown.extend(f"{place}.{key}" for key in keys)
            return
        walk_map(f"{kind}.{name}", {key: each for key, each in part.items() if key != "name"})

    def walk_map(place, keys):
        for key, each in keys.items():
            full = f"{place}.{key}" if place else str(key)
            if full in PARTS:
                for part in each if isinstance(each, list) else [each]:
                    walk_part(full, PARTS[full], part)
            elif not any(other == full or other.startswith(full + ".") for other in known):
                unknown.append(full)
            elif isinstance(each, dict) and f"{full}.values" in known:  # a map whose values have keys
                for values in each.values():
                    walk_map(f"{full}.values", values if isinstance(values, dict) else {})
            elif isinstance(each, dict) and any(other.startswith(full + ".") for other in known):
                walk_map(full, each)

    walk_map("", value)
    return unknown
