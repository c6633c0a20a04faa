# Tidegate: the everyday commands. `make` alone lists them.
.DEFAULT_GOAL := help
.PHONY: help build test lint doc bench bench-smoke long clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

build: ## compile the release binary
	cargo build --release

test: ## run every check and test, and say what passed
	@scripts/test

lint: ## check formatting and run clippy, warnings denied
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

doc: ## build the API documentation, warnings denied
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

bench: build ## measure beside the rivals, then write docs/results/ (root, hours)
	python3 -m lab run --level all --sets ABCD --n 5
	python3 -m lab run --level all --sets ABCD --n 5 --scenario long
	python3 -m lab report
	python3 -m lab controllers --n 5
	python3 -m lab live --n 5
	python3 -m lab get --n 5
	cargo bench -p tidegate-control --bench simulators -- --write docs/results/simulators.md
	cargo run --release -p tidegate-control --example models -- --write docs/results/models.md

bench-smoke: build ## move tiny sets once with every contender (root, a minute)
	python3 -m lab smoke

long: ## run the long mode of the test suite: more seeds, more kills
	TIDEGATE_LONG=1 cargo test --workspace --release -- --include-ignored

clean: ## remove what was built
	cargo clean
