#!/usr/bin/env bash
# Installs what the build needs and this machine lacks (Debian 12, Ubuntu 24.04). With nothing
# missing it touches neither the system nor the network.
#
#   scripts/setup.sh          compiler, CMake, Ninja, libraries
#   scripts/setup.sh --dev    also what scripts/lint.sh and tests/fuzz/run.sh need, and NumPy,
#                             without which some tests are skipped
#
# Needs root or sudo only when something is missing. On other distributions it checks that the same
# things are there and names those that are not.
set -euo pipefail

packages=(g++ cmake ninja-build ccache git pkg-config python3 libeigen3-dev libfmt-dev
          libcli11-dev nlohmann-json3-dev libbenchmark-dev libgtest-dev libhwy-dev
          libvalijson-dev)
# The same for a machine without apt: commands, libraries as pkg-config knows them, and headers of
# those that it does not know.
commands=(g++ cmake ninja git pkg-config python3)
modules=(eigen3 fmt CLI11 nlohmann_json benchmark gtest libhwy)
headers=(valijson/validator.hpp)

for argument in "$@"; do
  case $argument in
    --dev)
      packages+=(clang-format-14 clang-tidy-14 clang-14 libclang-rt-14-dev python3-numpy)
      commands+=(clang-format-14 clang-tidy-14 clang++-14)
      ;;
    -h | --help)
      sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"
      exit 0
      ;;
    *)
      echo "setup: unknown option '$argument'; there is --dev" >&2
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
  "${apt[@]}" update
  "${apt[@]}" install --yes --no-install-recommends "${missing[@]}"
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
    g++ -fsyntax-only -include "$name" -x c++ /dev/null 2>/dev/null || missing+=("$name")
  done
  echo "this is neither Debian nor Ubuntu; there the packages are called: ${packages[*]}"
  if ((${#missing[@]} != 0)); then
    echo "setup: not found here, please install: ${missing[*]}" >&2
    exit 3
  fi
  echo "all of them are there"
}

if command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
  install_with_apt
else
  look_for_them
fi
