"""The packages of a release and their SBOM in SPDX 2.3, from what was copied and included."""

import json
import re
import subprocess
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path


@dataclass
class Package:
    name: str
    version: str
    supplier: str
    license: str = "NOASSERTION"
    purl: str = ""
    license_files: list = field(default_factory=list)


def output(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout


def debian_package(file):
    """The package that owns a file; its name may begin with the link /lib."""
    for path in (file, Path(str(file).removeprefix("/usr"))):
        ended = subprocess.run(["dpkg", "-S", str(path)], capture_output=True, text=True)
        if ended.returncode == 0:
            name = ended.stdout.split(":")[0]
            break
    else:
        raise SystemExit(f"dist: no Debian package owns {file}")
    version = output("dpkg-query", "-W", "-f=${Version}\n", name).splitlines()[0]
    license_file = Path("/usr/share/doc") / name / "copyright"
    return Package(name, version, "Organization: Debian", purl=f"pkg:deb/debian/{name}@{version}",
                   license_files=[license_file] if license_file.exists() else [])


def npm_packages(folder):
    """What the dashboard's page is bundled from: the packages of the lock file that are not only for building. Of a package in several
    versions, each is listed once."""
    lock = json.loads((folder / "package-lock.json").read_text())
    listed = set()
    for path, entry in sorted(lock["packages"].items()):
        name = path.split("node_modules/")[-1]
        if not path or entry.get("dev") or (name, entry["version"]) in listed:
            continue
        listed.add((name, entry["version"]))
        licenses = sorted(file for file in (folder / path).glob("LICEN[CS]E*"))
        yield Package(name, entry["version"], "NOASSERTION", entry.get("license", "NOASSERTION"),
                      f"pkg:npm/{name.replace('@', '%40')}@{entry['version']}", licenses)


def find_packages(source, copied):
    """Debian's libraries, copied and header-only; npm packages."""
    headers = ["/usr/include/nlohmann/json.hpp", "/usr/include/cxxopts.hpp", "/usr/include/gloo/context.h"]
    files = [*copied, *(Path(header) for header in headers if Path(header).exists())]
    found = {package.name: package for package in map(debian_package, files)}
    return [*(found[name] for name in sorted(found)), *npm_packages(source / "dashboard" / "web")]


def spdx(version, epoch, packages, torch_version, arrow_version):
    at_run_time = [Package("torch", torch_version, "NOASSERTION", purl=f"pkg:pypi/torch@{torch_version}")]
    if arrow_version:
        at_run_time.append(Package("pyarrow", arrow_version, "NOASSERTION", purl=f"pkg:pypi/pyarrow@{arrow_version}"))
    identifier = lambda package: "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", package.purl)

    def entry(package):
        described = {"name": package.name, "SPDXID": identifier(package), "versionInfo": package.version, "supplier": package.supplier,
                     "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
                     "licenseDeclared": package.license, "copyrightText": "NOASSERTION"}
        if package.purl:
            described["externalRefs"] = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": package.purl}]
        return described

    own = Package("lockstep", version, "NOASSERTION", "Apache-2.0", purl=f"pkg:generic/lockstep@{version}")
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", identifier(own))]
    relations += [(identifier(own), "CONTAINS", identifier(package)) for package in packages]
    relations += [(identifier(package), "RUNTIME_DEPENDENCY_OF", identifier(own)) for package in at_run_time]
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"lockstep-{version}",
        "documentNamespace": f"https://spdx.org/spdxdocs/lockstep-{version}-{epoch}",
        "creationInfo": {"created": datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: lockstep-dist"]},
        "packages": [entry(package) for package in (own, *packages, *at_run_time)],
        "relationships": [{"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b} for a, kind, b in relations],
    }
