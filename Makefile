# The front door. Every target can be run again at no cost.
#   make demo     train MNIST on two ranks, from a fresh machine
#   make test     everything that is tested, from a fresh machine
#   make setup    dependencies only       make build   the binaries into build/bin/
#   make unit     the quick tests         make sanitize   the tests under ASan, UBSan and TSan
#   make lint     formatting and static analysis          make clean
#   make bench    side by side with Python (BENCH=--quick: under 5 minutes)
.DEFAULT_GOAL := build
.PHONY: setup peers build demo test unit sanitize lint bench clean

GENERATOR := $(if $(shell command -v ninja),-G Ninja)
JOBS := $(shell nproc)
say = @printf '\033[1m==>\033[0m %s\n' "$(1)"

setup:
	@cmake/setup.sh

peers:
	@cmake/setup.sh --peers

build: setup
	$(call say,building lockstep and lockstep-trainer (about six minutes the first time on two cores))
	@cmake --preset release $(GENERATOR) -DLOCKSTEP_TESTS=OFF >build.log 2>&1 || { cat build.log; exit 75; }
	@cmake --build build -j $(JOBS)

demo: build
	$(call say,training an MLP on MNIST with two ranks)
	@build/bin/lockstep launch -n 2 configs/mnist.yaml tracking.ranks=all
	@if [ -t 1 ]; then printf '\033[1m==>\033[0m %s\n' 'the dashboard, until Ctrl C: open the link (again: build/bin/lockstep ui)'; build/bin/lockstep ui; \
	else printf '==> %s\n' 'the dashboard: build/bin/lockstep ui'; fi

test: peers
	$(call say,building Lockstep and its tests)
	@cmake --preset release $(GENERATOR) -DLOCKSTEP_TESTS=ON >build.log 2>&1 || { cat build.log; exit 75; }
	@cmake --build build -j $(JOBS)
	$(call say,testing)
	@ctest --preset release --progress -j $(JOBS)

unit: peers
	@cmake --preset release $(GENERATOR) -DLOCKSTEP_TESTS=ON >build.log 2>&1 || { cat build.log; exit 75; }
	@cmake --build build -j $(JOBS)
	@ctest --preset unit -j $(JOBS)

sanitize: peers
	@for preset in tsan asan; do \
	  cmake --preset $$preset $(GENERATOR) && cmake --build --preset $$preset -j $(JOBS) && ctest --preset $$preset || exit 1; \
	done

bench: peers build
	@cmake --build build -j $(JOBS) --target lockstep_bench_collectives lockstep_bench_overlap lockstep_bench_logging lockstep_bench_checkpoint
	@.venv/bin/python bench/run.py $(BENCH)

lint:
	@cmake/setup.sh --lint
	@cmake/lint.sh

clean:
	rm -rf build build-asan build-dev build-lint build-tsan build.log
