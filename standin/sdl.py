"""NCBI's locator of data, SDL 2: where a run's files are, in full quality or without it."""

import json

from standin.answer import Answer, text
from standin.catalogue import Catalogue

MOST = 200


class Sdl:
    """Answers as SDL does."""

    def __init__(self, catalogue: Catalogue, place: str) -> None:
        self.catalogue, self.place = catalogue, place

    def location(self, service: str, region: str, path: str, **more) -> dict:
        """Where a file is."""
        return {"service": service, "region": region, "link": f"{self.place}/{path}", **more}

    def file(self, run: dict, entry: dict, kind: str, locations: list[dict], **more) -> dict:
        """One file of a run."""
        name = run["columns"]["run_accession"]
        return {"object": f"{'srapub' if kind == 'sra' else 'remote'}|{name}", "accession": name, "type": kind,
                "name": entry["name"], "size": entry["bytes"], "md5": entry["md5"],
                "modificationDate": "2026-01-02T03:04:05Z", **more, "locations": locations}

    def files(self, run: dict, lite: bool, only_run: bool) -> list[dict]:
        """What there is of a run. Without its qualities where asked for, or where nothing else is left."""
        made, name = [], run["columns"]["run_accession"]
        if not only_run:
            for entry in run["submitted"]:
                kind = entry["name"].rsplit(".", 1)[-1]
                locations = [self.location("s3", "us-east-1", entry["path"]),
                             self.location("gs", "us-east1", entry["path"], payRequired=True)]
                made.append(self.file(run, entry, kind, locations))
        if lite or not run["sra"]:
            for entry in run["sralite"]:
                locations = [self.location("sra-ncbi", "public", entry["path"])]
                made.append(self.file(run, {**entry, "name": f"{name}.lite"}, "sra", locations, noqual=True))
        else:
            for entry in run["sra"]:
                locations = [self.location("s3", "us-east-1", entry["path"]),
                             self.location("gs", "us-east1", "nowhere", payRequired=True),
                             self.location("s3-cold", "us-east-1", "nowhere", rehydrationRequired=True)]
                made.append(self.file(run, entry, "sra", locations))
        return made

    def retrieve(self, arguments: dict[str, str]) -> Answer:
        """Every accession that was asked for, each with a status of its own."""
        names = [name for name in arguments.get("acc", "").split(",") if name]
        if not names or len(names) > MOST:
            return text(json.dumps({"status": 400, "message": "bad number of accessions"}), "application/json")
        lite = "zqa:z" in arguments.get("capability", "").split(",")
        only_run = arguments.get("filetype") == "run"
        result = []
        for name in names:
            runs = self.catalogue.named(name, ["run_accession"])
            if not runs:
                result.append({"bundle": name, "status": 404, "msg": "Cannot resolve accession"})
            elif runs[0]["shape"] == "controlled":
                result.append({"bundle": name, "status": "403", "msg": "Access denied - please request permission"})
            else:
                files = self.files(runs[0], lite, only_run)
                result.append({"bundle": name, "status": 200, "msg": "ok", "files": files})
        return text(json.dumps({"version": "2", "result": result}), "application/json")
