#!/usr/bin/env bash
# Installs the peers cudnn and fa4, in the versions of requirements-*.txt, into a folder of their
# own; PyTorch stays as it is. The folder may be moved, also to a machine without a network.
#
#   scripts/peers/install.sh FOLDER [cudnn] [fa4]
#       downloads the wheels of both peers or of the one named (a minute, up to 620 MB), checks
#       their hashes and unpacks them; of cuDNN's libraries those stay that attention needs
#   source FOLDER/env.sh
#       tells attnlab which Python has which peer
#
# The wheels are those for Python 3.12 on x86-64 Linux; the pip of any Python unpacks them.
#
# Exit: 0 installed, 1 pip failed, 2 the arguments are wrong.
set -euo pipefail
script=$(realpath "$0")
case ${1:-} in -h | --help | "") sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$script" && exit ;; esac

folder=$(realpath -m "$1")
peers=("${@:2}")
((${#peers[@]})) || peers=(cudnn fa4)
cd "$(dirname "$script")"
for peer in "${peers[@]}"; do
  [[ -f requirements-$peer.txt ]] || {
    echo "install.sh: '$peer' is no peer to install: name cudnn or fa4, or none for both" >&2
    exit 2
  }
done
mkdir -p "$folder"
for peer in "${peers[@]}"; do
  echo "-- $peer: pip unpacks its wheels into $folder/$peer"
  python3 -m pip install --quiet --no-deps --require-hashes --only-binary :all: --no-compile \
    --python-version 3.12 --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 \
    --platform manylinux2014_x86_64 --upgrade --target "$folder/$peer" \
    -r "requirements-$peer.txt" || exit 1
  # The peer's Python looks into its folder before its own packages.
  cat >"$folder/python-$peer" <<'PYTHON'
#!/bin/sh
peer=$(dirname "$(realpath "$0")")/${0##*python-}
export PYTHONPATH="$peer:$peer/nvidia_cutlass_dsl/dsl_packages"
exec python3 "$@"
PYTHON
  chmod +x "$folder/python-$peer"
done
if [[ -d $folder/cudnn/nvidia/cudnn/lib ]]; then
  find "$folder/cudnn/nvidia/cudnn/lib" -name '*.so*' ! -name 'libcudnn.so.*' \
    ! -name 'libcudnn_graph.so.*' ! -name 'libcudnn_engines_runtime_compiled.so.*' -delete
fi
cat >"$folder/env.sh" <<'ENV'
# Tells attnlab which Python has which peer.
peers=$(cd "$(dirname "${BASH_SOURCE[0]:-$0}")" && pwd)
[ ! -x "$peers/python-cudnn" ] || export ATTNLAB_PYTHON_CUDNN="$peers/python-cudnn"
[ ! -x "$peers/python-fa4" ] || export ATTNLAB_PYTHON_FA4="$peers/python-fa4"
unset peers
ENV
echo "-- now: source $folder/env.sh"
