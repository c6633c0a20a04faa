"""Writes what a distribution says of others' crates in it: a list (CycloneDX 1.6) and their licences in one file.

python3 packaging/third_party.py TARGET DIRECTORY

Reads `cargo metadata`, and the licence files that the crates bring. Nothing of the machine or the time of day gets in.
"""

import hashlib
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

PROGRAM = "tidegate"
LICENCE_FILES = ("licen", "copying", "notice", "unlicense", "copyright")


def metadata(target: str) -> dict:
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def linked(data: dict) -> tuple[list[dict], dict[str, list[str]]]:
    """The packages that get into the program, sorted, and what each of them needs."""
    packages = {package["id"]: package for package in data["packages"]}
    needs = {
        node["id"]: sorted(
            dep["pkg"] for dep in node["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])
        )
        for node in data["resolve"]["nodes"]
    }
    root = next(id for id in data["workspace_members"] if packages[id]["name"] == PROGRAM)
    seen, waiting = set(), [root]
    while waiting:
        id = waiting.pop()
        if id not in seen:
            seen.add(id)
            waiting.extend(needs[id])
    found = sorted((packages[id] for id in seen), key=lambda package: (package["name"], package["version"]))
    return found, needs


def purl(package: dict) -> str:
    return f"pkg:cargo/{package['name']}@{package['version']}"


def checksums() -> dict[tuple[str, str], str]:
    lock = tomllib.loads(Path("Cargo.lock").read_text())
    return {(p["name"], p["version"]): p["checksum"] for p in lock["package"] if "checksum" in p}


def component(package: dict, sums: dict[tuple[str, str], str]) -> dict:
    described = {
        "type": "application" if package["name"] == PROGRAM else "library",
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "purl": purl(package),
    }
    if package["license"]:
        # An old way to write OR.
        described["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if checksum := sums.get((package["name"], package["version"])):
        described["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return described


def bill_of_materials(packages: list[dict], needs: dict[str, list[str]], target: str) -> dict:
    sums, by_id = checksums(), {package["id"]: package for package in packages}
    components = {package["id"]: component(package, sums) for package in packages}
    program = next(id for id, package in by_id.items() if package["name"] == PROGRAM)
    dependencies = [
        {"ref": purl(package), "dependsOn": sorted(purl(by_id[id]) for id in needs[package["id"]])}
        for package in packages
    ]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": components.pop(program),
            "properties": [{"name": "cdx:rustc:sbom:target:triple", "value": target}],
        },
        "components": list(components.values()),
        "dependencies": dependencies,
    }


def licences(packages: list[dict]) -> str:
    """Each text once, below the crates that bring it."""
    bring: dict[str, list[str]] = {}
    texts: dict[str, str] = {}
    for package in packages:
        if package["source"] is None:
            continue
        home = Path(package["manifest_path"]).parent
        files = [file for file in sorted(home.rglob("*")) if file.name.lower().startswith(LICENCE_FILES)]
        files = [file for file in files if file.is_file() and file.suffix not in (".rs", ".py", ".json")]
        name = f"{package['name']} {package['version']} ({package['license']})"
        found = [file.read_text(errors="replace").strip() + "\n" for file in files]
        for text in found or ["The crate brings no text of its licence.\n"]:
            key = hashlib.sha256(" ".join(text.split()).encode()).hexdigest()
            texts.setdefault(key, text)
            if name not in bring.setdefault(key, []):
                bring[key].append(name)
    line = "-" * 80 + "\n"
    parts = [line + "\n".join(names) + "\n" + line + texts[key] for key, names in bring.items()]
    return f"What others wrote that is part of {PROGRAM}, and under which licences.\n\n" + "\n".join(parts)


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit((__doc__ or "").strip())
    target, directory = sys.argv[1], Path(sys.argv[2])
    os.chdir(Path(__file__).parent.parent)
    packages, needs = linked(metadata(target))
    directory.mkdir(parents=True, exist_ok=True)
    bom = bill_of_materials(packages, needs, target)
    (directory / "sbom.cdx.json").write_text(json.dumps(bom, indent=1) + "\n")
    (directory / "THIRD-PARTY-LICENSES").write_text(licences(packages))


if __name__ == "__main__":
    main()
