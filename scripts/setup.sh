#!/usr/bin/env bash
# Installs what the build needs and this machine lacks (Debian 12, Ubuntu 24.04). With nothing
# missing it touches neither the system nor the network.
#
#   scripts/setup.sh          compiler, CMake, Ninja, libraries
#   scripts/setup.sh --dev    also what scripts/lint.sh and tests/fuzz/run.sh need, Boost.Context,
#                             without which the emulated GPU is left out of the build, matplotlib
#                             for scripts/plot.py and, on Debian, Chromium, which tests pages;
#                             beside CUDA also nvdisasm (5 MB from PyPI into .cuda) for attnlab sass
#   scripts/setup.sh --cuda   also CUDA for a machine without a toolkit in $CUDA_HOME or
#                             /usr/local/cuda: NVRTC, cuBLAS, CUPTI, NVTX and the headers, from
#                             PyPI into .cuda, where the build and the program find them (1 GB; no
#                             GPU and no root needed; rm -r .cuda takes it back)
#
# What apt prints is in build/setup.log. One package, valijson (headers for tests), is unpacked into
# .packages instead of installed: it would bring Qt, X11 and Poco, of which nothing is used.
# Needs root or sudo only when something is missing. On other distributions it checks that the same
# things are there and names those that are not.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(g++ cmake ninja-build ccache git pkg-config python3 libeigen3-dev libfmt-dev
          libcli11-dev nlohmann-json3-dev libbenchmark-dev libgtest-dev libhwy-dev
          python3-numpy)
# A machine without apt is asked for the same: commands, libraries as pkg-config knows them, and
# headers of those that it does not know.
commands=(g++ cmake ninja git pkg-config python3)
modules=(eigen3 fmt CLI11 nlohmann_json benchmark gtest libhwy)
headers=(valijson/validator.hpp)

# These are of one release, which CUDA's driver 580 and newer run.
cuda_packages=(nvidia-cuda-nvrtc==13.0.88 nvidia-cuda-runtime==13.0.96 nvidia-cuda-crt==13.0.88
               nvidia-cublas==13.1.0.3 nvidia-cuda-cupti==13.0.85 nvidia-nvtx==13.0.85)
cuda_files=(include/{cuda.h,nvrtc.h,cublas_v2.h,cupti_range_profiler.h,crt/host_defines.h}
            include/nvtx3/nvToolsExt.h
            lib/{libnvrtc.so,libnvrtc-builtins.so,libcublas.so,libcublasLt.so,libcupti.so})

# It reads the code of every CUDA up to its own; PyPI has none that is older.
nvdisasm_package=nvidia-cuda-nvdisasm==13.2.86

with_cuda=
with_dev=
for argument in "$@"; do
  case $argument in
    --cuda) with_cuda=yes ;;
    --dev)
      with_dev=yes
      packages+=(clang-format-14 clang-tidy-14 clang-14 libclang-rt-14-dev libboost-context-dev
                 python3-matplotlib)
      # Ubuntu's package of this name brings a snap, which containers cannot run.
      if grep -qx 'ID=debian' /etc/os-release 2>/dev/null; then packages+=(chromium); fi
      commands+=(clang-format-14 clang-tidy-14 clang++-14)
      ;;
    -h | --help)
      sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"
      exit 0
      ;;
    *)
      echo "setup: unknown option '$argument'; there are --dev and --cuda" >&2
      exit 2
      ;;
  esac
done

is_installed() {
  [[ $(dpkg-query --show --showformat='${Status}' "$1" 2>/dev/null) == "install ok installed" ]]
}

install_with_apt() {
  local missing=() package
  for package in "${packages[@]}"; do
    is_installed "$package" || missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then
    echo "all ${#packages[@]} packages are there"
    return
  fi
  echo "missing: ${missing[*]}"
  local as_root=()
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "setup: run this as root, or install sudo, or ask your administrator for:" >&2
      echo "  apt-get install ${missing[*]}" >&2
      exit 3
    fi
    as_root=(sudo)
  fi
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq)
  logged "${apt[@]}" update
  logged "${apt[@]}" install --yes --no-install-recommends "${missing[@]}"
}

# logged COMMAND...: logs its output in build/setup.log, and shows the end of it if it fails.
logged() {
  local log=build/setup.log
  mkdir -p build
  "$@" >"$log" 2>&1 || {
    local code=$?
    tail -n 20 "$log" >&2
    echo "setup: '$*' failed; all that it printed is in $log" >&2
    exit "$code"
  }
}

has_header() { g++ -fsyntax-only -I.packages/usr/include -include "$1" -x c++ /dev/null 2>/dev/null; }

# unpack_valijson: unpacks the headers of the package, without what it depends on.
unpack_valijson() {
  if has_header valijson/validator.hpp; then return; fi
  echo "missing: libvalijson-dev; unpacking its headers into .packages"
  local folder
  folder=$(mktemp -d)
  (cd "$folder" && apt-get -qq download libvalijson-dev >/dev/null 2>"$folder/errors") || {
    cat "$folder/errors" >&2
    echo "setup: cannot download libvalijson-dev: run apt-get update, or install it" >&2
    exit 3
  }
  dpkg-deb -x "$folder"/libvalijson-dev_*.deb .packages
  rm -rf "$folder"
}

look_for_them() {
  local missing=() name
  for name in "${commands[@]}"; do
    command -v "$name" >/dev/null || missing+=("$name")
  done
  for name in "${modules[@]}"; do
    pkg-config --exists "$name" 2>/dev/null || missing+=("$name")
  done
  for name in "${headers[@]}"; do
    has_header "$name" || missing+=("$name")
  done
  echo "this is neither Debian nor Ubuntu; there the packages are called: ${packages[*]} libvalijson-dev"
  if ((${#missing[@]} != 0)); then
    echo "setup: not found here, please install: ${missing[*]}" >&2
    exit 3
  fi
  echo "all of them are there"
}

# has_cuda FOLDER: succeeds if it holds everything; libraries may have any version.
has_cuda() {
  local file
  for file in "${cuda_files[@]}"; do
    compgen -G "$1/$file*" >/dev/null || compgen -G "$1/${file/#lib/lib64}*" >/dev/null ||
      compgen -G "$1/extras/CUPTI/${file/#lib/lib64}*" >/dev/null || return 1
  done
}

need_pip() {
  if python3 -m pip --version >/dev/null 2>&1; then return; fi
  if ! command -v apt-get >/dev/null; then
    echo "setup: python3 has no pip, which brings CUDA: please install it" >&2
    exit 3
  fi
  packages=(python3-pip)
  install_with_apt
}

# unpack_wheels FOLDER PACKAGE...: has pip unpack them, without what they depend on.
unpack_wheels() {
  PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-deps \
    --only-binary :all: --target "$@"
}

toolkit=${CUDA_HOME:-/usr/local/cuda}
place=$PWD/.cuda

install_cuda() {
  if has_cuda "$toolkit"; then
    echo "CUDA is in $toolkit"
    return
  fi
  if has_cuda "$place/nvidia/cu13" && [[ $(<"$place/packages") == "${cuda_packages[*]}" ]]; then
    echo "CUDA is in $place"
    return
  fi
  need_pip
  echo "missing: CUDA; bringing ${cuda_packages[*]} into $place"
  rm -rf "$place.new"
  unpack_wheels "$place.new" "${cuda_packages[@]}"
  if ! has_cuda "$place.new/nvidia/cu13"; then
    echo "setup: the packages came, but not all of ${cuda_files[*]} are in $place.new" >&2
    exit 3
  fi
  echo "${cuda_packages[*]}" >"$place.new/packages"
  rm -rf "$place"
  mv "$place.new" "$place"
}

# Installs nvdisasm only where there is CUDA, whose kernels it shows. Nothing but the tests of
# attnlab sass needs it, which are skipped without it.
install_nvdisasm() {
  has_cuda "$toolkit" || has_cuda "$place/nvidia/cu13" || return 0
  if command -v nvdisasm >/dev/null || [[ -x $toolkit/bin/nvdisasm ]] ||
    [[ -x $place/nvidia/cu13/bin/nvdisasm ]]; then
    echo "nvdisasm is there"
    return
  fi
  need_pip
  echo "missing: nvdisasm; bringing $nvdisasm_package into $place"
  rm -rf "$place.new"
  unpack_wheels "$place.new" "$nvdisasm_package" || {
    echo "setup: no nvdisasm came; attnlab sass and its tests will do without" >&2
    return
  }
  mkdir -p "$place/nvidia/cu13/bin"
  mv "$place.new/nvidia/cu13/bin/nvdisasm" "$place/nvidia/cu13/bin/"
  rm -rf "$place.new"
}

if command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
  install_with_apt
  unpack_valijson
else
  look_for_them
fi
if [[ -n $with_cuda ]]; then install_cuda; fi
if [[ -n $with_dev ]]; then install_nvdisasm; fi
