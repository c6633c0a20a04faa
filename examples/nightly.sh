#!/usr/bin/env bash
# A job for cron: copies SRC to DST, says in one line how it went, and tries again where that helps.
#
#   examples/nightly.sh /data/run42 dtn:/incoming/
#
# The ticket of `dtn` comes from `tidegate remote add dtn`, or from TIDEGATE_REMOTE_DTN.
set -uo pipefail

tidegate=${TIDEGATE:-tidegate}
source=${1:?usage: nightly.sh SRC DST}
destination=${2:?usage: nightly.sh SRC DST}

for attempt in 1 2 3; do
    summary=$("$tidegate" copy --json "$source" "$destination")
    code=$?
    # One object, whatever happened; no other tool is needed to read it.
    python3 - "$summary" <<'PYTHON'
import json, sys
run = json.loads(sys.argv[1] or '{"status": "failed", "error": "nothing was printed"}')
files = run.get("files", {})
print(f"{run['status']}: {files.get('ok', 0)} of {files.get('total', 0)} files, "
      f"{files.get('skipped', 0)} there already, {run.get('bytes', 0) / 1e9:.2f} GB "
      f"at {run.get('goodput_bps', 0) / 1e9:.2f} Gbit/s {run.get('error', '')}".rstrip())
for failure in run.get("failures", []):
    print(f"  {failure['path']}: {failure['message']}")
PYTHON
    case $code in
        0) exit 0 ;;
        2 | 3 | 5) exit "$code" ;;          # trying again would not help
        4) exit 4 ;;                        # somebody has to make room; the next run continues
    esac
    # 1: some files failed, or the network did. 130: somebody stopped us.
    [ "$code" -eq 130 ] && exit 130
    sleep $((attempt * ${PAUSE:-60}))
done
exit "$code"
