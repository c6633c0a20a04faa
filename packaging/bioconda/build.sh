#!/bin/bash
set -euo pipefail
cargo-bundle-licenses --format yaml --output THIRD-PARTY-LICENSES.yml
cargo install --locked --no-track --profile dist --root "$PREFIX" --path crates/cli
install -d "$PREFIX/share/man/man1" "$PREFIX/share/bash-completion/completions"
"$PREFIX/bin/tidegate" man --all "$PREFIX/share/man/man1"
"$PREFIX/bin/tidegate" completions bash >"$PREFIX/share/bash-completion/completions/tidegate"
