# Sourced by ncu.sh and nsys.sh with their name in `me`: splits the arguments into of_attnlab and
# of_tool, finds the program (attnlab) and the tool (nsight), and compiles the kernels.

# find_tool NAME: its path, from PATH, $CUDA_HOME, /usr/local/cuda or /opt/nvidia; newest first.
find_tool() {
  local name=$1 tool
  if command -v "$name"; then return; fi
  for tool in ${CUDA_HOME:+"$CUDA_HOME/bin/$name"} "/usr/local/cuda/bin/$name" \
    $(printf '%s\n' /opt/nvidia/nsight-*/*/"$name" /opt/nvidia/nsight-*/*/bin/"$name" | sort -rV); do
    if [[ -x $tool ]]; then
      echo "$tool"
      return
    fi
  done
  echo "$me: $name is not on PATH, nor in \$CUDA_HOME, /usr/local/cuda or /opt/nvidia: install" \
    "NVIDIA Nsight" "$([[ $name == ncu ]] && echo Compute || echo Systems)" >&2
  exit 3
}

# What is before "--" is attnlab's, what is behind it the tool's.
of_attnlab=()
of_tool=()
while (($# > 0)) && [[ $1 != -- ]]; do
  of_attnlab+=("$1")
  shift
done
if (($# > 0)); then
  shift
  of_tool=("$@")
fi
if ((${#of_attnlab[@]} == 0)) || [[ ${of_attnlab[0]} == -h || ${of_attnlab[0]} == --help ]]; then
  sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"
  exit "$((${#of_attnlab[@]} == 0 ? 2 : 0))"
fi
root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
attnlab=${ATTNLAB:-$root/build/cpu/attnlab}
if [[ ! -x $attnlab ]]; then
  echo "$me: there is no $attnlab: build it (README.md), or name it in \$ATTNLAB" >&2
  exit 3
fi
nsight=$(find_tool "${me%.sh}")
# Compiled before, so that the tool watches kernels and no compiler.
"$attnlab" run --backend cuda "${of_attnlab[@]}" --profile 1 --no-progress >/dev/null
