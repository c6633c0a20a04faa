# Tidegate: the everyday commands. `make` alone lists them.
.DEFAULT_GOAL := help
.PHONY: help build test test-all lint doc lab lab-report lab-smoke lab-fleet bench long wheel wheels dist release-check plugins-test clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

build: ## compile the release binary
	cargo build --release

test: ## run the tests that need nothing but Rust, Python and gcc, and say what passed
	@scripts/test

test-all: ## those first, then lint, documentation, and what needs root or programs of the system
	@scripts/test --all

lint: ## check formatting and run clippy, warnings denied
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

doc: ## build the API documentation, warnings denied
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

lab: build ## measure everything beside the rivals; goes on where it stopped (root, a day)
	python3 -m lab install
	python3 -m lab run all

lab-report: ## write docs/results/ and one HTML file from what is measured
	python3 -m lab report

lab-smoke: build ## a little of everything the lab does (root, two minutes)
	python3 -m lab smoke

lab-fleet: build ## many hosts, one data set: movers by Slurm on hosts that are namespaces, with faults (root)
	python3 -m lab run fleet
	python3 -m lab report fleet

bench: lab ## the lab, its report, and what needs no network: simulators, models
	python3 -m lab report
	cargo bench -p tidegate-control --bench simulators -- --write docs/results/simulators.md
	cargo run --release -p tidegate-control --example models -- --write docs/results/models.md

long: ## run the long mode of the test suite: more seeds, more kills
	TIDEGATE_LONG=1 cargo test --workspace --release -- --include-ignored

wheel: ## build the Python wheel, and try it with each Python that is here
	@scripts/wheel

plugins-test: ## test the plug-ins with real Airflow, Nextflow, Snakemake and Jupyter (ten minutes)
	@scripts/plugins-test

wheels: ## build the wheels of all platforms, and try the one for this machine
	@scripts/wheel --all

dist: ## build static programs, packages, sources, checksums and the list of parts, into target/packages
	@scripts/dist

release-check: ## check what a release needs: version, changelog, licences, tests, what is handed out
	@scripts/release

clean: ## remove what was built
	cargo clean
