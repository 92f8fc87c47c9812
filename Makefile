# Build, test and demo targets. All of them are idempotent.
#   make demo     train MNIST on two ranks, from a fresh machine
#   make test     the tests, from a fresh machine         make test-all   with those that take long
#   make setup    dependencies only       make build   all binaries, into build/bin/
#   make unit     the quick tests         make sanitize   the tests under ASan, UBSan and TSan
#   make fuzz     the fuzz targets                        make clean
#   make lint     formatting and static analysis
#   make bench    side by side with Python (BENCH=--quick: under 5 minutes)
#   make dist     release archives for other machines, into dist/
#   make docs     the documentation site, into build/site/ (offline after the first time)
#   make run-file-reference   the tables of docs/run_file.md, from the trainer in build/bin/
.DEFAULT_GOAL := build
.PHONY: setup peers build demo tests test test-all unit fuzz sanitize lint bench dist docs run-file-reference clean

GENERATOR := $(if $(shell command -v ninja),-G Ninja)
JOBS := $(shell nproc)
TEST_JOBS := $(shell expr $(JOBS) + 1)  # tests mostly wait
say = @printf '\033[1m==>\033[0m %s\n' "$(1)"

setup:
	@cmake/setup.sh

peers:
	@cmake/setup.sh --peers

build: setup
	$(call say,building the binaries (about six minutes the first time on two cores))
	@cmake --preset release $(GENERATOR) -DLOCKSTEP_TESTS=OFF >build.log 2>&1 || { cat build.log; exit 75; }
	@cmake --build build -j $(JOBS)
	@build/bin/lockstep schema >run_file.schema.json

demo: build
	$(call say,training an MLP on MNIST with two ranks)
	@build/bin/lockstep launch -n 2 configs/mnist.yaml tracking.ranks=all
	@if [ -t 1 ]; then printf '\033[1m==>\033[0m %s\n' 'starting the dashboard: open the link; stop with Ctrl-C (start again with: build/bin/lockstep ui)'; build/bin/lockstep ui; \
	else printf '==> %s\n' 'start the dashboard with: build/bin/lockstep ui'; fi

test: tests
	$(call say,testing (make test-all also runs what takes long: $$(ctest --preset all -N -L '^long$$' | tail -1)))
	@ctest --preset release --progress -j $(TEST_JOBS)

test-all: tests
	$(call say,testing)
	@ctest --preset all --progress -j $(TEST_JOBS)

tests: peers
	$(call say,building Lockstep and its tests)
	@cmake --preset release $(GENERATOR) -DLOCKSTEP_TESTS=ON >build.log 2>&1 || { cat build.log; exit 75; }
	@cmake --build build -j $(JOBS)

unit: tests
	@ctest --preset unit -j $(TEST_JOBS)

fuzz: peers
	@cmake --preset fuzz $(GENERATOR) >build.log 2>&1 || { cat build.log; exit 75; }
	@cmake --build --preset fuzz -j $(JOBS)
	@ctest --preset fuzz -j $(JOBS)

sanitize: peers fuzz
	@for preset in tsan asan; do \
	  cmake --preset $$preset $(GENERATOR) && cmake --build --preset $$preset -j $(JOBS) && ctest --preset $$preset || exit 1; \
	done

bench: peers build
	@cmake --build build -j $(JOBS) --target lockstep_bench_collectives lockstep_bench_overlap lockstep_bench_logging lockstep_bench_checkpoint
	@PYTHONDONTWRITEBYTECODE= .venv/bin/python bench/run.py $(BENCH)

dist: setup
	$(call say,building a release for other machines)
	@cmake --preset dist $(GENERATOR) >build.log 2>&1 || { cat build.log; exit 75; }
	@cmake --build build-dist -j $(JOBS)
	@python3 cmake/dist.py

docs:
	@cmake/setup.sh --docs
	$(call say,building the documentation site into build/site)
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict
	$(call say,open build/site/index.html)

run-file-reference:
	@python3 cmake/run_file_reference.py build/bin/lockstep-trainer docs/run_file.md

lint:
	@cmake/setup.sh --lint
	@cmake/lint.sh

clean:
	rm -rf build build-asan build-dev build-dist build-fuzz build-lint build-tsan dist build.log
