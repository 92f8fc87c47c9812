"""Rules of the code: layers, owners of restricted functions, and size limits.

Every checker takes a path relative to the root and the text, and yields "path:line: problem". They parse C++
by line and by brace, which is sufficient for formatted code, and fast.
"""
import collections
import re

LAYERS = {
    "core": set(),
    "formats": {"core"},
    "launch": {"core"},
    "tracking": {"core", "formats/store/object_folder.h", "formats/store/object_store.h", "formats/store/store_environment.h",
                 "formats/store/store_path.h"},
    "data": {"core", "formats"},
    "models": {"core", "formats", "lockstep/batch.h"},
    "distributed": {"core"},
    "catalog": {"core", "tracking"},
    "sweep": {"core"},
    "trainer": {"core", "formats", "launch", "tracking", "data", "models", "distributed", "catalog/run_list.h"},
    "dashboard": {"core", "tracking", "catalog", "sweep"},
    "cli": {"core", "launch", "tracking", "catalog", "dashboard", "sweep", "formats/store/object_store.h"},
}
FOLDERS = set(LAYERS) | {"include", "configs", "tests", "bench", "examples", "docs", "cmake", "python", "packaging"}

# The public headers, include/lockstep/NAME.h, by the folder that implements them. Files that may include that folder may
# include them; they include each other, LibTorch and nlohmann_json only.
PUBLIC = {
    "core": {"error", "config_node", "config_value", "config_fields", "registry", "part", "version"},
    "formats": {"image"},
    "launch": {"rank_env"},
    "tracking": {"record", "run_info", "sink", "tracker"},
    "data": {"batch", "dataset", "sample_random", "image_transform"},
    "models": {"model"},
    "distributed": {"named_tensors", "world", "data_parallel"},
    "trainer": {"optimizer", "schedule", "session", "hook"},
}
C_HEADER = "lockstep.h"  # the C interface, include/lockstep.h: includes the C library only
OWNER_OF_PUBLIC = {f"lockstep/{name}.h": folder for folder, names in PUBLIC.items() for name in names} | {C_HEADER: "trainer"}
PUBLIC_HEADERS = 25  # besides the one in C
PUBLIC_COMMENT = (0.30, 0.45)  # of the lines of all public headers in total, not of each: short ones have a higher share

# Sub-folders whose headers are seen by their own top folder only. The rest of a folder may use them through its other headers.
PRIVATE_FOLDERS = (
    "distributed/backends", "distributed/shm", "formats/parquet", "models/compiled", "models/package", "data/images",
    "data/tokenize", "dashboard/curves", "dashboard/filter", "tracking/sinks/wandb", "tracking/sinks/mlflow",
    "tracking/sinks/otlp", "tracking/sinks/prometheus", "tracking/sinks/tensorboard",
)
# Single headers outside of these folders are marked private by their first comment.
PRIVATE_MARK = re.compile(r"Only files of (\w+)/ include this\.")

# Named exceptions: (file, rule) and the reason. Rules: those of OWNED, "file size", "function size".
EXCEPTIONS = {}

TORCH = re.compile(r"^(torch|ATen|c10|caffe2)/")
TORCH_FREE = re.compile(r"^(core|formats|launch|tracking|catalog|sweep|dashboard|cli|distributed/shm)/|"
                        r"^(data/(images|transforms|tokenize)|models/package)/")
PUBLIC_WITH_TORCH = {"batch", "dataset", "model", "named_tensors", "world", "data_parallel", "optimizer", "hook"}

# rule: (pattern on code without comments and strings, files that may, what to say)
OWNED = {
    "getenv": (r"\b(secure_)?getenv\s*\(", r"^(launch/environment/(rank_env|torch_folder)|distributed/cuda/cuda)\.cpp$",
               "the environment is read in launch/environment/rank_env.cpp only, CUDA_VISIBLE_DEVICES where GPUs are found"),
    "environ": (r"\b(environ|setenv|unsetenv|putenv)\b",
                r"^launch/(environment/(rank_env|torch_folder|worker_env))\.cpp$|^tracking/agent/agent_process\.cpp$|^distributed/cuda/cuda\.cpp$",
                "the environment of ranks is made in launch/environment/worker_env.cpp, the agent gets its parent's, cuBLAS a setting"),
    "sleep": (r"\b(sleep_for|sleep_until|u?sleep|nanosleep)\s*\(", r"^$",
              "sleeping is not synchronization: wait for the event, with a timeout"),
    "mutex": (r"\bstd::(recursive_|shared_|timed_|recursive_timed_|shared_timed_)?mutex\b", r"^core/system/mutex\.h$",
              "use Mutex of core/system/mutex.h, which lets `make lint` find accesses without the lock"),
    "printing": (r"\bstd::(cout|cerr|clog)\b|\b(std::)?(f?printf|f?puts|v?printf)\s*\(|\b(fmt|std)::print(ln)?\s*\(",
                 r"^(launch/|cli/|tracking/sinks/console[^/]*\.(h|cpp)$|trainer/commands/(trainer_)?main\.cpp$|data/tokenize/main\.cpp$)",
                 "printing belongs to launch, cli, the console sink and main"),
    "rank": (r"\brank(\(\)|_)?\s*[!=]=|[!=]=\s*(\w+(\.|->))*rank(\(\)|_)?(?![\w.(\[])",
             r"^(tracking/runs/on_ranks\.|trainer/(checkpoint/training_state|loop/stop_controller|state/optimizer_shard|session)\.cpp$|distributed/|launch/)",
             "which rank does it is decided by tracking/runs/on_ranks, the checkpoint and roots in distributed"),
}

FILES_PER_FOLDER = 30
SIZES = {".h": 150, ".cpp": 400}
PUBLIC_HEADER_LINES = 220  # with their comments and examples
FUNCTION_LINES = 80
MAIN_LINES = 60
README_LINES = 20


def is_excepted(path, rule):
    return (path, rule) in EXCEPTIONS


def blank(match):
    """Keeps the line breaks of what is removed, so that line numbers stay."""
    return re.sub(r"[^\n]", " ", match.group(0))


def code_of(text):
    """The text without comments and without what strings say; line numbers stay."""
    raw = r'R"(\w*)\((?:.|\n)*?\)\1"'
    pattern = re.compile(raw + r"""|//[^\n]*|/\*(?:.|\n)*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9a-zA-Z])'(?:\\.|[^'\\\n])*'""")
    return pattern.sub(lambda m: m.group(0)[0] + blank(m)[1:-1] + m.group(0)[-1]
                       if m.group(0)[0] in "\"'" else blank(m), text)


def includes_of(text):
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if match:
            yield number, match.group(1), match.group(2)


def check_layers(path, text):
    """Edges between the folders are those of the table."""
    folder = OWNER_OF_PUBLIC.get(path.removeprefix("include/").removesuffix(".in"), path.split("/")[0])
    for number, bracket, target in includes_of(text):
        if folder == "examples":
            if target.split("/")[0] in LAYERS or (target.startswith("lockstep/") and target not in OWNER_OF_PUBLIC):
                yield f"{path}:{number}: {target} is private: an example includes <lockstep/...> as any user does"
            continue
        if target.startswith(".."):
            yield f"{path}:{number}: '{target}': includes are written from the root"
        if target.startswith("lockstep/") and target not in OWNER_OF_PUBLIC:
            yield f"{path}:{number}: {target} is not in the table of public headers"
        if path == f"include/{C_HEADER}" and not re.fullmatch(r"std\w+\.h", target):
            yield f"{path}:{number}: {target}: the C interface includes headers of the C library only"
        if path.startswith("include/") and target.split("/")[0] in LAYERS:
            yield f"{path}:{number}: {target} is private: a public header includes public headers only"
        other = OWNER_OF_PUBLIC.get(target, target.split("/")[0])
        if folder not in LAYERS or other not in LAYERS or ("/" not in target and target != C_HEADER):
            continue
        if other != folder and other not in LAYERS[folder] and target not in LAYERS[folder]:
            yield f"{path}:{number}: {folder}/ may not include {target}"
        if bracket == "<":
            yield f"{path}:{number}: our own '{target}' is included with quotes"


def check_private(path, text):
    """Headers of private sub-folders are included only by files of the same top folder."""
    for number, _, target in includes_of(text):
        if target.startswith(tuple(f"{folder}/" for folder in PRIVATE_FOLDERS)) and not in_folder_of(target, path):
            yield f"{path}:{number}: {target} is private to {target.split('/')[0]}/"


def in_folder_of(target, path):
    return path.split("/")[0] == target.split("/")[0]


def marked_private(texts):
    """Paths of the headers that say that only files of the same folder include them; texts: {path: text}."""
    marks = {path: PRIVATE_MARK.search(re.sub(r"\n// ?", " ", text.split("#pragma once")[0])) for path, text in texts.items()
             if path.endswith(".h")}
    return {path for path, mark in marks.items() if mark and mark[1] == path.split("/")[0]}


def includes_of_marked(texts):
    """Includes of the headers that say so, from other folders."""
    private = marked_private(texts)
    return [f"{path}:{number}: {target} is private to {target.split('/')[0]}/" for path, text in sorted(texts.items())
            for number, _, target in includes_of(text) if target in private and not in_folder_of(target, path)]


def check_torch(path, text):
    """LibTorch is not seen by the torch-free half, c10d by distributed/ alone, gloo by one file."""
    for number, _, target in includes_of(text):
        sees_torch = TORCH.match(target) or re.sub(r"^lockstep/(.*)\.h$", r"\1", target) in PUBLIC_WITH_TORCH
        public = re.match(r"include/lockstep/(\w+)\.h", path)
        torch_free = TORCH_FREE.search(path) or (public and public[1] not in PUBLIC_WITH_TORCH)
        if torch_free and sees_torch:
            yield f"{path}:{number}: {target}: this file is torch-free"
        if "torch/csrc/distributed" in target and not path.startswith("distributed/"):
            yield f"{path}:{number}: {target}: c10d is included in distributed/ only"
        gloo = target.startswith("gloo/") or target.endswith("ProcessGroupGloo.hpp")
        if gloo and path != "distributed/backends/gloo_backend.cpp":
            yield f"{path}:{number}: {target}: gloo is seen by distributed/backends/gloo_backend.cpp only"


def check_owned(path, text):
    """Special things happen in the files that own them. Examples are programs of users, who own everything."""
    if path.startswith("examples/"):
        return
    code = code_of(text)
    for rule, (pattern, owners, reason) in OWNED.items():
        if re.search(owners, path) or is_excepted(path, rule):
            continue
        for number, line in enumerate(code.splitlines(), 1):
            if re.search(pattern, line):
                yield f"{path}:{number}: {rule}: {reason}"


def check_namespaces(path, text):
    """A folder's namespace is lockstep::FOLDER. core and the public headers are in lockstep, and so are the sources that begin
    with a public header: they implement it."""
    folder = path.split("/")[0]
    opened = re.findall(r"^namespace (lockstep[\w:]*) \{", code_of(text), re.M)
    if folder not in LAYERS or not opened:
        return
    own = "lockstep" if folder == "core" else f"lockstep::{folder}"
    first = next((target for _, _, target in includes_of(text)), "")
    if path.endswith(".cpp") and first.startswith("lockstep/"):
        own = "lockstep"
    if not any(name == own or name.startswith(own + "::") for name in opened):
        yield f"{path}: namespace {opened[0]}, expected {own}"


def check_words(path, text):
    """No open ends, no namespaces forced on users, headers guarded."""
    for number, line in enumerate(text.splitlines(), 1):
        if re.search(r"\b(TODO|FIXME|XXX)\b", line):
            yield f"{path}:{number}: an open end belongs into an issue"
        if path.endswith(".h") and re.match(r"\s*using\s+namespace\b", line):
            yield f"{path}:{number}: 'using namespace' in a header"
    if path.endswith(".h") and not re.search(r"^#pragma once$", text, re.M):
        yield f"{path}:1: no #pragma once"


def functions_of(code):
    """(line, number of lines, text before the brace) of every outermost function body."""
    code = re.sub(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", blank, code, flags=re.M)
    depth, inside, head_at, line = 0, None, 0, 1
    for at, char in enumerate(code):
        if char == "\n":
            line += 1
        elif char == "{":
            head = code[head_at:at].strip()
            if inside is None and is_function(head):
                inside = (depth, line, head)
            depth += 1
            head_at = at + 1
        elif char == "}":
            depth -= 1
            head_at = at + 1
            if inside and inside[0] == depth:
                yield inside[1], line - inside[1] + 1, inside[2]
                inside = None
        elif char == ";":
            head_at = at + 1


def is_function(head):
    if re.match(r"(inline\s+)?namespace\b|(class|struct|union|enum)\b|extern\s*\"", head):
        return False
    head = re.sub(r"^template\s*<[^{;]*?>\s*(?=\w)", "", head)
    if re.match(r"(class|struct|union)\b", head) and not re.search(r"\)\s*(const)?$", head):
        return False
    return "(" in head and not re.search(r"=\s*$", head)


def check_sizes(path, text):
    """Small files, small functions."""
    limit = PUBLIC_HEADER_LINES if path.startswith("include/") else SIZES.get("." + path.rsplit(".", 1)[-1])
    lines = text.count("\n")
    if limit and lines > limit and not is_excepted(path, "file size"):
        yield f"{path}:{limit}: {lines} lines, at most {limit}"
    for line, size, head in functions_of(code_of(text)):
        allowed = MAIN_LINES if re.search(r"\bint main\s*\(", head) else FUNCTION_LINES
        if size > allowed and not is_excepted(path, "function size"):
            yield f"{path}:{line}: a function of {size} lines, at most {allowed}"


def comment_share(texts):
    """Lines of comment per line that is not empty, over all texts."""
    lines = [line.strip() for text in texts for line in text.splitlines() if line.strip()]
    return sum(line.startswith("//") for line in lines) / len(lines)


def folder_of(path):
    return path.rsplit("/", 1)[0]


def readme_problems(texts):
    """The README of a folder is a page that is read in a minute; texts: {path: text, or None if there is no such file}."""
    return [f"{path}: no such file" if text is None else f"{path}: {text.count(chr(10))} lines, at most {README_LINES}"
            for path, text in sorted(texts.items()) if text is None or text.count("\n") > README_LINES]


def crowded_folders(paths):
    """Folders with more files than a listing shows at a glance."""
    counts = collections.Counter(folder_of(path) for path in paths)
    return [f"{folder}/: {count} files, at most {FILES_PER_FOLDER}" for folder, count in sorted(counts.items())
            if count > FILES_PER_FOLDER]


def folder_edges(texts):
    """{folder: {folder it includes: an include of that}} of the folders below one top folder; texts: {path: text}."""
    edges = collections.defaultdict(dict)
    for path, text in texts.items():
        for number, _, target in includes_of(text):
            source, other = folder_of(path), folder_of(target)
            if target in texts and source != other and source.split("/")[0] == other.split("/")[0]:
                edges[source].setdefault(other, f"{path}:{number}: {target}")
    return edges


def folder_cycles(texts):
    """Folders that include each other, directly or through others."""
    edges = folder_edges(texts)

    def reachable(start):
        seen, todo = set(), [start]
        while todo:
            new = set(edges.get(todo.pop(), ())) - seen
            seen |= new
            todo += new
        return seen

    reach = {folder: reachable(folder) for folder in edges}
    return [f"{include}: a cycle of {source}/ and {other}/" for source in sorted(edges)
            for other, include in sorted(edges[source].items()) if source in reach.get(other, ())]


CHECKERS = [check_layers, check_private, check_torch, check_owned, check_namespaces, check_words, check_sizes]


def problems(path, text, checkers=None):
    return [problem for checker in checkers or CHECKERS for problem in checker(path, text)]
