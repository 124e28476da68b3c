#!/usr/bin/env bash
# Runs README's two commands as a machine without CUDA would: demo.sh must end with 0 and leave no
# invalid point among at least 129 that are ok, and the whole test suite must pass. Builds in
# build/no-cuda.
#
#   scripts/test_without_cuda.sh           CUDA's headers and libraries are hidden: an empty folder
#                                          is mounted over each place where they can be, in a mount
#                                          namespace of this script's own (needs root)
#   scripts/test_without_cuda.sh --option  where namespaces are refused: they stay in sight, and the
#                                          build is told to leave CUDA out
#
# JOBS=N limits compile jobs and tests side by side (default: all cores).
#
# Exit: 0 all is well, 1 something failed, 3 CUDA cannot be hidden here.
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"
case ${1:-} in -h | --help) help && exit ;; esac

# Prints the folders where scripts/find_cuda.cmake and the program look for CUDA.
cuda_folders() {
  local folder
  for folder in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda* .cuda \
    "$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/nvidia"; do
    [[ -z $folder || ! -d $folder ]] || realpath "$folder"
  done | sort -u
}

if [[ ${1:-} == --option ]]; then
  echo "CUDA's files stay in sight: the build is told to leave CUDA out (-DATTNLAB_CUDA=OFF)"
  cmake --preset no-cuda -DATTNLAB_CUDA=OFF >/dev/null
elif [[ ${1:-} == --hidden ]]; then  # inside the namespace
  for folder in $(cuda_folders); do mount -t tmpfs -o ro,size=4k none "$folder"; done
  unset CUDA_HOME CUDA_PATH CONDA_PREFIX LD_LIBRARY_PATH LIBRARY_PATH PYTHONPATH
  cmake --preset no-cuda -DATTNLAB_CUDA=AUTO | grep '^-- CUDA: left out' || {
    echo "test_without_cuda.sh: CUDA is still found, hidden were: $(cuda_folders | xargs)" >&2
    exit 3
  }
elif unshare --mount true 2>/dev/null; then
  exec unshare --mount "$SCRIPT" --hidden
else
  echo "test_without_cuda.sh: no mount namespace is allowed here (it needs root), so CUDA's files" \
    "cannot be hidden; scripts/test_without_cuda.sh --option leaves CUDA out by the build's option" >&2
  exit 3
fi

export PRESET=no-cuda
records=build/no-cuda/demo.jsonl
rm -f "$records"
step "README's first command"
./scripts/demo.sh --out "$records"
step "count the points"
python3 - "$records" <<'PYTHON'
import collections, json, sys
count = collections.Counter(json.loads(line)["status"] for line in open(sys.argv[1]))
print(dict(count))
sys.exit(not (count["ok"] >= 129 and set(count) <= {"ok", "unsupported"}))
PYTHON
step "README's second command"
./scripts/test.sh
