#!/usr/bin/env bash
# Two endpoints, and a third process that has one send to the other. No byte of the data passes through
# the third. Everything lies in a scratch directory that is removed at the end.
set -euo pipefail

tidegate=$(command -v "${TIDEGATE:-tidegate}")
tidegate=$(realpath "$tidegate")
scratch=$(mktemp -d)
cd "$scratch"
# State and names of their own, so that nothing of yours is touched.
export XDG_STATE_HOME=$scratch/state XDG_CONFIG_HOME=$scratch/config

mkdir -p site-a/results site-b
for i in 1 2 3; do head -c 20000000 /dev/urandom >"site-a/results/run$i.dat"; done

# Each endpoint prints its ticket as the first line.
"$tidegate" endpoint --root site-a --state state-a --listen 127.0.0.1:0 --read-only --allow-local-targets >ticket-a &
a=$!
"$tidegate" endpoint --root site-b --state state-b --listen 127.0.0.1:0 >ticket-b &
b=$!
trap 'kill "$a" "$b" 2>/dev/null; wait; rm -rf "$scratch"' EXIT
until [ -s ticket-a ] && [ -s ticket-b ]; do sleep 0.05; done

# Tickets are secrets: they are read from standard input here and never stand in `ps`.
"$tidegate" remote add site-a <ticket-a
"$tidegate" remote add site-b <ticket-b
"$tidegate" remote list

"$tidegate" copy site-a:/results site-b:/incoming/
"$tidegate" copy site-a:/results site-b:/incoming/    # nothing is left to do
"$tidegate" verify site-a:/results site-b:/incoming/
ls -l site-b/incoming/results
