"""Writes what a release consists of, in SPDX 2.3:

    spdx.py VERSION BUILD_FOLDER FILES_FOLDER    where FILES_FOLDER was built

makes FILES_FOLDER/ucudnn-VERSION.spdx.json from the packages and wheels in it. Of
each it tells Debian packages whose headers were compiled in, libraries that it
links or brings, and packages of npm in the coordinator's page. Debian's packages tell
their licences by names of their own, which are comments.
"""

import hashlib
import json
import re
import subprocess
import sys
import time
import zipfile
from pathlib import Path


def run(*command):
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def identifier(name):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


class Document:
    def __init__(self, version):
        self.packages, self.relations = {}, []
        self.version = version

    def add(self, name, version, **more):
        key = identifier(name)
        self.packages[key] = {
            "SPDXID": key, "name": name, "versionInfo": version,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
            "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION",
            "copyrightText": "NOASSERTION", **more,
        }  # fmt: skip
        return key

    def debian(self, name):
        version = run("dpkg-query", "-W", "-f", "${Version}", name)
        copyright_file = Path(f"/usr/share/doc/{name.split(':')[0]}/copyright")
        text = copyright_file.read_text() if copyright_file.exists() else ""
        licences = sorted(set(re.findall(r"^License: *(\S.*)$", text, re.MULTILINE)))
        purl = f"pkg:deb/debian/{name.split(':')[0]}@{version}"
        return self.add(
            name.split(":")[0], version,
            licenseComments="Debian's names: " + ("; ".join(licences) or "in " + str(copyright_file)),
            externalRefs=[{"referenceCategory": "PACKAGE-MANAGER",
                           "referenceType": "purl", "referenceLocator": purl}],
        )  # fmt: skip

    def relate(self, one, how, other):
        self.relations.append({"spdxElementId": one, "relationshipType": how,
                               "relatedSpdxElement": other})  # fmt: skip


def owners(files):
    """The installed packages that the files are of."""
    wanted = {str(Path(file).resolve()) for file in files}
    found = set()
    for listed in Path("/var/lib/dpkg/info").glob("*.list"):
        if not wanted.isdisjoint(listed.read_text().splitlines()):
            found.add(listed.stem)
    return sorted(found)


def providers():
    """The installed package behind each name that one depends on."""
    found = {}
    for line in run("dpkg-query", "-W", "-f", "${Package}|${Provides}\\n").splitlines():
        package, provided = line.split("|")
        for name in re.findall(r"(?:^|, )([a-z0-9.+-]+)", provided):
            found[name] = package
        found[package] = package
    return found


def main(version, build, folder):
    document = Document(version)
    compiled = set()
    for line in run("ninja", "-C", build, "-t", "deps").splitlines():
        if line.startswith("    /usr/include/"):
            compiled.add(line.strip())
    headers = [document.debian(name) for name in owners(sorted(compiled))]
    page = [
        document.add(about["name"], about["version"], licenseDeclared=about["license"],
                     licenseConcluded=about["license"])
        for name in ("echarts", "zrender", "tslib")
        for file in Path(build).glob(f"**/node_modules/{name}/package.json")
        for about in [json.loads(file.read_text())]
    ]  # fmt: skip
    provided = providers()
    for file in sorted(Path(folder).iterdir()):
        is_glpk = file.name.startswith("ucudnn-glpk")
        licence = "GPL-3.0-or-later" if is_glpk else "Apache-2.0"
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        one = document.add(
            file.name, version, packageFileName=file.name, licenseDeclared=licence,
            licenseConcluded=licence,
            checksums=[{"algorithm": "SHA256", "checksumValue": digest}],
        )  # fmt: skip
        document.relate("SPDXRef-DOCUMENT", "DESCRIBES", one)
        linked = []
        if file.suffix == ".deb":
            depends = run("dpkg-deb", "-f", file, "Depends")
            names = re.findall(r"(?:^|, )([a-z0-9.+-]+)", depends)
            linked = [provided[name] for name in names if name in provided]
        elif file.suffix == ".whl":
            brought = [
                re.sub(r"-[0-9a-f]{8}(?=[.-])", "", Path(name).name).split(".so")[0]
                for name in zipfile.ZipFile(file).namelist() if ".libs/" in name
            ]  # fmt: skip
            linked = owners(
                path for name in brought for path in Path("/usr/lib").glob(f"*/{name}.so*")
            )
        how = "CONTAINS" if file.suffix == ".whl" else "DYNAMIC_LINK"
        for name in linked:
            document.relate(one, how, document.debian(name))
        if file.suffix in (".deb", ".whl"):
            for header in headers:
                document.relate(header, "BUILD_DEPENDENCY_OF", one)
        if file.name.startswith("ucudnn-coord_"):
            for part in page:
                document.relate(one, "CONTAINS", part)
    name = f"ucudnn-{version}"
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    digest = hashlib.sha256(json.dumps(document.packages).encode()).hexdigest()
    text = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT", "name": name,
        "documentNamespace": f"https://spdx.org/spdxdocs/{name}-{digest}",
        "creationInfo": {"created": now, "creators": ["Tool: ucudnn-deploy-spdx"]},
        "packages": list(document.packages.values()),
        "relationships": document.relations,
    }  # fmt: skip
    (Path(folder) / f"{name}.spdx.json").write_text(json.dumps(text, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
