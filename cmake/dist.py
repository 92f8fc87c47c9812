"""Release archives of a build: dist.py [--build build-dist] [--out dist] [--from-source]

Writes lockstep-VERSION-linux-x86_64.tar.gz, its debug symbols, a wheel, an SBOM (SPDX) and SHA256SUMS. The same build gives the same
bytes. --from-source: accept a build that is not a release one, whose programs keep paths of this machine, and
compress less (for tests).
"""

import argparse
import base64
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from datetime import datetime, timezone
from pathlib import Path

import sbom

SOURCE = Path(__file__).resolve().parents[1]
# Of every Linux with the versions of the wheel's tag.
SYSTEM = re.compile(r"^(libc|libm|libdl|librt|libpthread|libresolv|ld-linux-x86-64|libstdc\+\+|libgcc_s)\.so")
# Found at run time: LibTorch, and pyarrow next to it.
AT_RUN_TIME = re.compile(r"^lib(torch|c10|arrow|parquet|cudart|nccl|cuda)[\w]*\.so")
# The first glibc that comes with a libstdc++ of this version, as in the policies of manylinux.
GLIBC_OF_GLIBCXX = {22: 24, 24: 27, 25: 28, 28: 31, 29: 34, 30: 35, 31: 38, 32: 38, 33: 39}


def run(*command, **options):
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if ended.returncode != 0:
        sys.exit(f"dist: {' '.join(map(str, command))} failed:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def is_elf(path):
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def dynamic(path, tag):
    """The values of a tag of the dynamic section, such as NEEDED."""
    return re.findall(rf"\({tag}\).*\[(.*)\]", run("readelf", "-d", path))


def elf_files(tree):
    return sorted(path for path in tree.rglob("*") if is_elf(path))


def needed_libraries(tree):
    """Names of libraries that files of the tree need and the tree does not have."""
    present = {path.name for path in elf_files(tree)}
    needed = {name for path in elf_files(tree) for name in dynamic(path, "NEEDED")}
    return sorted(name for name in needed - present if not SYSTEM.match(name) and not AT_RUN_TIME.match(name))


def copy_libraries(tree):
    """Copies Debian's shared libraries, and those that they need, next to the programs; returns their origins."""
    known = dict(re.findall(r"^\s+(\S+) \(.*x86-64.*\) => (\S+)$", run("/sbin/ldconfig", "-p"), re.M))
    origins = []
    while missing := needed_libraries(tree):
        for name in missing:
            if name not in known:
                sys.exit(f"dist: the library {name} is not installed on this machine")
            origin = Path(known[name]).resolve()
            shutil.copy(origin, tree / "lib" / "lockstep" / name)
            (tree / "lib" / "lockstep" / name).chmod(0o755)
            origins.append(origin)
    return origins


def run_path(path):
    """The folders where a file looks for the libraries that it needs."""
    return [folder for tag in ("RPATH", "RUNPATH") for folder in ":".join(dynamic(path, tag)).split(":") if folder]


def set_run_paths(tree):
    """Every file gets a run path within the tree, copied libraries too: the DT_RUNPATH of a program does not apply to libraries
    that its libraries need. As DT_RPATH, which precedes LD_LIBRARY_PATH."""
    if not shutil.which("patchelf"):
        sys.exit("dist: patchelf is missing: run make setup")
    for path in elf_files(tree):
        folders = [folder for folder in run_path(path) if folder.startswith("$ORIGIN")]
        if path.parent == tree / "lib" / "lockstep" and "$ORIGIN" not in folders:
            folders.insert(0, "$ORIGIN")
        if folders:
            run("patchelf", "--force-rpath", "--set-rpath", ":".join(folders), path)


def check_libraries(tree):
    """Every file finds what it needs in the tree, by its own run path. Libraries of this machine do not count."""
    for path in elf_files(tree):
        folders = [Path(os.path.normpath(folder.replace("$ORIGIN", str(path.parent)))) for folder in run_path(path)]
        if outside := [folder for folder in folders if not folder.is_relative_to(tree)]:
            sys.exit(f"dist: {path.relative_to(tree)} has the run path {outside[0]}, outside of the release")
        for name in dynamic(path, "NEEDED"):
            if not SYSTEM.match(name) and not AT_RUN_TIME.match(name) and not any((folder / name).is_file() for folder in folders):
                sys.exit(f"dist: {path.relative_to(tree)} does not find {name} in the release")


def check_paths(tree):
    for path in elf_files(tree):
        if str(SOURCE).encode() in path.read_bytes():
            sys.exit(f"dist: {path.relative_to(tree)} contains the path {SOURCE}: build with the preset dist")


def needed_versions(tree):
    """(glibc, GLIBCXX): the minor versions that the tree needs, such as (34, 30)."""
    text = "".join(run("readelf", "-V", path) for path in elf_files(tree))
    glibc = max((int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", text)), default=17)
    glibcxx = max((int(minor) for minor in re.findall(r"GLIBCXX_3\.4\.(\d+)", text)), default=19)
    return glibc, glibcxx


def wheel_platform(versions):
    glibc, glibcxx = versions
    by_stdcxx = min(need for version, need in GLIBC_OF_GLIBCXX.items() if version >= glibcxx)
    return f"manylinux_2_{max(glibc, by_stdcxx)}_x86_64"


def separate_debug(tree, debug):
    """Moves symbols and line tables of programs and libraries into `debug`."""
    for path in elf_files(tree):
        symbols = debug / path.relative_to(tree)
        symbols = symbols.with_name(symbols.name + ".debug")
        symbols.parent.mkdir(parents=True, exist_ok=True)
        run("objcopy", "--only-keep-debug", "--compress-debug-sections", path, symbols)
        symbols.chmod(0o644)
        run("strip", "--strip-unneeded", path)
        run("objcopy", f"--add-gnu-debuglink={symbols}", path)


def merge_archives(tree):
    """Makes the static library one object without debug information and local symbols. It has every template and inline function once
    instead of in each object that uses it, which saves two fifths."""
    for path in sorted(tree.rglob("*.a")):
        merged = path.with_name(f"{path.stem}.o")
        run("strip", "-D", "--strip-debug", path)
        run("ld", "-r", "-o", merged, "--whole-archive", path)
        run("strip", "-D", "--strip-unneeded", merged)
        path.unlink()
        run("ar", "rcsD", path, merged)
        merged.unlink()


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def add_generated(tree, torch):
    """Schema, completions and man pages: what the programs print."""
    lockstep, share = tree / "bin" / "lockstep", tree / "share"
    env = {"PATH": os.environ["PATH"], "LOCKSTEP_TORCH": str(torch)}
    say = lambda *words: run(*words, env=env)
    write(share / "lockstep" / "run_file.schema.json", say(tree / "bin" / "lockstep-trainer", "--schema"))
    write(share / "bash-completion" / "completions" / "lockstep", say(lockstep, "completion", "bash"))
    write(share / "zsh" / "site-functions" / "_lockstep", say(lockstep, "completion", "zsh"))
    write(share / "fish" / "vendor_completions.d" / "lockstep.fish", say(lockstep, "completion", "fish"))
    pages = {"lockstep.1": "", "lockstep-trainer.1": "trainer", "lockstep-data.1": "data", "lockstep-run-file.5": "run-file"}
    commands = re.findall(r"^  ([a-z][a-z-]*) ", say(lockstep, "help"), re.M)
    pages |= {f"lockstep-{command}.1": command for command in commands}
    for page, name in pages.items():
        text = say(lockstep, "man", *([name] if name else []))
        write(share / "man" / f"man{page[-1]}" / f"{page}.gz", gzip.compress(text.encode(), mtime=0))
    for recipe in sorted((SOURCE / "configs").glob("*.yaml")):
        write(share / "lockstep" / "configs" / recipe.name, recipe.read_bytes())


def add_licenses(tree, packages):
    doc = tree / "share" / "doc" / "lockstep"
    write(doc / "LICENSE", (SOURCE / "LICENSE").read_bytes())
    write(doc / "CHANGELOG.md", (SOURCE / "CHANGELOG.md").read_bytes())
    for package in packages:
        for file in package.license_files:
            write(doc / "third_party" / package.name.replace("/", "-") / file.name, file.read_bytes())


def write_tar(tree, top, file, epoch, level):
    with file.open("wb") as raw, gzip.GzipFile("", "wb", level, raw, mtime=epoch) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for path in [tree, *sorted(tree.rglob("*"))]:
            info = tar.gettarinfo(path, (Path(top) / path.relative_to(tree)).as_posix())
            info.uid = info.gid = 0
            info.uname = info.gname = "root"
            info.mtime = epoch
            info.mode = 0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644
            if path.is_file():
                with path.open("rb") as content:
                    tar.addfile(info, content)
            else:
                tar.addfile(info)


def python_metadata(version, torch_version):
    """METADATA and entry_points.txt; LibTorch and what needs it are an extra."""
    project = tomllib.loads((SOURCE / "python" / "pyproject.toml").read_text())["project"]
    torch = f"torch=={'.'.join(torch_version.split('.')[:2])}.*"  # the binaries fit no other
    extras = {name: [torch if re.match(r"torch\b", need) else need for need in needs]
              for name, needs in project.get("optional-dependencies", {}).items()}
    extras["torch"] = [torch]
    lines = ["Metadata-Version: 2.1", "Name: lockstep", f"Version: {version}",
             "Summary: Distributed training in C++ on LibTorch, with experiment tracking", "License: Apache-2.0",
             f"Requires-Python: {project.get('requires-python', '>=3.10')}"]
    lines += [f"Requires-Dist: {line}" for line in project.get("dependencies", [])]
    for extra, needs in sorted(extras.items()):
        lines.append(f"Provides-Extra: {extra}")
        lines += [f"Requires-Dist: {need}; extra == '{extra}'" for need in needs]
    scripts = "".join(f"{name} = {where}\n" for name, where in sorted(project.get("scripts", {}).items()))
    return "\n".join(lines) + "\n", f"[console_scripts]\n{scripts}"


def wheel_files(tree, version, torch_version, platform):
    """(name in the wheel, content, whether it is executable). bin/ becomes scripts, the rest lies below the environment's prefix."""
    for path in sorted(path for path in tree.rglob("*") if path.is_file()):
        name = path.relative_to(tree).as_posix()
        place = f"scripts/{name.removeprefix('bin/')}" if name.startswith("bin/") else f"data/{name}"
        yield f"lockstep-{version}.data/{place}", path.read_bytes(), os.access(path, os.X_OK)
    package = SOURCE / "python" / "lockstep"
    for path in sorted(path for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc"):
        yield path.relative_to(package.parent).as_posix(), path.read_bytes(), False
    metadata, entry_points = python_metadata(version, torch_version)
    info = f"lockstep-{version}.dist-info"
    yield f"{info}/METADATA", metadata.encode(), False
    yield f"{info}/entry_points.txt", entry_points.encode(), False
    yield f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: lockstep\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n".encode(), False
    yield f"{info}/LICENSE", (SOURCE / "LICENSE").read_bytes(), False


def write_wheel(tree, file, version, torch_version, platform, epoch, level):
    record = ""
    date = datetime.fromtimestamp(max(epoch, 315532800), timezone.utc).timetuple()[:6]
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        def add(name, content, executable):
            info = zipfile.ZipInfo(name, date)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (0o100755 if executable else 0o100644) << 16
            archive.writestr(info, content)

        for name, content, executable in wheel_files(tree, version, torch_version, platform):
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(content)}\n"
            add(name, content, executable)
        name = f"lockstep-{version}.dist-info/RECORD"
        add(name, f"{record}{name},,\n".encode(), False)


def source_date():
    """SOURCE_DATE_EPOCH, or the time of the last commit."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    return int(run("git", "-C", SOURCE, "log", "-1", "--format=%ct") or 0)


def cached(build, name):
    found = re.search(rf"^{name}:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)
    return found[1] if found else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, default=SOURCE / "build-dist")
    parser.add_argument("--out", type=Path, default=SOURCE / "dist")
    parser.add_argument("--from-source", action="store_true")
    arguments = parser.parse_args()
    epoch = source_date()
    level = 1 if arguments.from_source else 9  # of compression
    version = cached(arguments.build, "CMAKE_PROJECT_VERSION")
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=arguments.out) as work:
        tree, debug = Path(work) / "tree", Path(work) / "debug"
        run("cmake", "--install", arguments.build, "--prefix", tree)
        pinned = tree / "lib" / "lockstep" / "torch-dir"
        pinned.unlink(missing_ok=True)
        copied = copy_libraries(tree)
        if not arguments.from_source:
            check_paths(tree)
        separate_debug(tree, debug)
        merge_archives(tree)
        set_run_paths(tree)
        check_libraries(tree)
        torch = run(cached(arguments.build, "LOCKSTEP_PYTHON"), "-c", "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])").strip()
        torch_version = re.search(r"__version__ = '([\d.]+)", (Path(torch) / "version.py").read_text())[1]
        add_generated(tree, torch)
        packages = sbom.find_packages(SOURCE, copied)
        add_licenses(tree, packages)
        versions = needed_versions(tree)
        platform = wheel_platform(versions)
        document = sbom.spdx(version, epoch, packages, torch_version, cached(arguments.build, "LOCKSTEP_ARROW_VERSION"))
        text = json.dumps(document, indent=1) + "\n"
        write(tree / "share" / "doc" / "lockstep" / "sbom.spdx.json", text)
        name = f"lockstep-{version}"
        write(arguments.out / f"{name}.spdx.json", text)
        write_tar(tree, name, arguments.out / f"{name}-linux-x86_64.tar.gz", epoch, level)
        write_tar(debug, f"{name}-debug", arguments.out / f"{name}-linux-x86_64-debug.tar.gz", epoch, level)
        write_wheel(tree, arguments.out / f"{name}-py3-none-{platform}.whl", version, torch_version, platform, epoch, level)
    files = sorted(path for path in arguments.out.glob(f"{name}*") if path.is_file())
    write(arguments.out / "SHA256SUMS", "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files))
    for path in files:
        print(f"{path.stat().st_size / 1e6:7.1f} MB  {path}")
    print(f"needs glibc 2.{versions[0]}, GLIBCXX_3.4.{versions[1]}; LibTorch {torch_version}")


if __name__ == "__main__":
    main()
