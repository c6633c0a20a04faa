#!/usr/bin/env bash
# `tidegate get` without any network: a stand-in for ENA and NCBI on this host serves runs that were made up,
# over connections of 4 MB/s each.
set -euo pipefail

tidegate=$(realpath "$(command -v "${TIDEGATE:-tidegate}")")
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'kill "$archive" 2>/dev/null; rm -rf "$scratch"' EXIT

echo "== a data set of twelve runs, and an archive that serves it"
python3 -m standin make --root "$scratch/archive" --runs 12 --mb "${MB:-4}" --seed 1
python3 -m standin --root "$scratch/archive" --connection-rate 4000000 >"$scratch/urls" &
archive=$!
until [ -s "$scratch/urls" ]; do sleep 0.1; done
url() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$scratch/urls" "$1_url"; }
TIDEGATE_ENA_URL=$(url ena) TIDEGATE_EUTILS_URL=$(url eutils) TIDEGATE_SDL_URL=$(url sdl) TIDEGATE_AWS_URL=$(url aws)
export TIDEGATE_ENA_URL TIDEGATE_EUTILS_URL TIDEGATE_SDL_URL TIDEGATE_AWS_URL
export XDG_STATE_HOME=$scratch/state

echo "== what there is"
"$tidegate" get SRR9000001 ERR9000003 --dry-run

echo "== got, with a sheet for nf-core/rnaseq"
"$tidegate" get SRR9000001 ERR9000003 -o "$scratch/out" --samplesheet rnaseq
(cd "$scratch/out" && md5sum -c md5sums.txt && cut -d, -f 1-4 samplesheet.csv)

echo "== once more: nothing to do"
"$tidegate" get SRR9000001 ERR9000003 -o "$scratch/out" --samplesheet rnaseq

echo "== a whole project, of which two runs have no FASTQ"
code=0
"$tidegate" get PRJNA900001 -o "$scratch/project" || code=$?
echo "exit code $code; $scratch/project/failed.txt is a list of what is missing:"
cat "$scratch/project/failed.txt"
"$tidegate" get "$scratch/project/failed.txt" -o "$scratch/project" --format sra
