#!/bin/bash
# Tests an installed attnlab in its own folder, where nobody can look into the source tree: what it
# finds beside itself, what shells complete, what man shows. Skips where nothing can be hidden.
#   tests/install_test.sh BUILD_FOLDER SOURCE_FOLDER
set -euo pipefail

fail() {
  echo "FAILED: $*" >&2
  exit 1
}
# expect WHAT GOT PART checks that the text holds the part.
expect() { [[ $2 == *"$3"* ]] || fail "$1: no '$3' in: $2"; }

# --- with the tree: install, and begin again where there is none ---------------------------------
if [[ $1 != --installed ]]; then
  build=$1 tree=$2
  prefix=$(mktemp -d)
  trap 'rm -rf "$prefix"' EXIT
  cmake --install "$build" --prefix "$prefix" >/dev/null
  cp "$0" "$prefix/install_test.sh"
  mkdir "$prefix/work"
  cd "$prefix/work"
  hide='mount -t tmpfs none "$0" && exec bash "$1/install_test.sh" --installed "$1"'
  # A chroot refuses user namespaces; root has a mount namespace without one.
  for namespace in '--user --map-root-user --mount' --mount; do
    unshare $namespace mount -t tmpfs none "$tree" 2>/dev/null || continue
    unshare $namespace bash -c "$hide" "$tree" "$prefix"
    exit
  done
  echo "skipped: no mount namespaces here, so the source tree cannot be hidden"
  exit
fi

# --- without: the program -------------------------------------------------------------------------
prefix=$2
export PATH=$prefix/bin:$PATH CUDA_VISIBLE_DEVICES= COLUMNS=
data=$prefix/share/attnlab
expect sweeps "$(attnlab list)" "$data/sweeps/quick.json: 150 points"
expect dry-run "$(attnlab run "$data/sweeps/quick.json" --dry-run)" '30 cases, 150 points'
small='--heads 1 --seqlen 32 --rounds 3 --no-progress'
saved=$(attnlab run --kernel v2 $small --out r.jsonl --save r.st)
expect 'a saved point' "$saved" "python3 $data/scripts/check_saved.py r.st"
[[ -f $data/scripts/check_saved.py ]] || fail "no check_saved.py"
attnlab run --peer torch:eager --kernel naive $small --out p.jsonl >/dev/null || true
[[ $(<p.jsonl) != *'is not there'* ]] || fail "the peer's script is not found: $(<p.jsonl)"
chmod o+w "$data/scripts/peers/peer.py"
attnlab run --peer torch:eager --kernel naive $small --out o.jsonl >/dev/null || true
expect 'a script that others can write' "$(<o.jsonl)" 'can be written by others (mode 0646)'
chmod o-w "$data/scripts/peers/peer.py"

for page in README.md HACKING.md docs/tour.md kernels/v1/TUNING.md results/nvidia-h200/dram.md; do
  [[ -f $prefix/share/doc/attnlab/$page ]] || fail "no $page among the documents"
done

# Files above the program's folder are somebody else's, and are not run.
mkdir -p deep/er scripts/peers
cp "$prefix/bin/attnlab" deep/er/
echo 'open("ran", "w")' >scripts/peers/peer.py
deep/er/attnlab doctor >/dev/null || true
deep/er/attnlab run --peer torch:eager --kernel naive $small --out d.jsonl >/dev/null || true
[[ ! -e ran ]] || fail "a stranger's script was run"
expect 'a script above the program' "$(<d.jsonl)" 'is not there: set ATTNLAB_PEER_DIR'
expect 'a check' "$(attnlab verify --only '*/shapes/lengths/65/none/f32/fwd' --no-progress)" 'v2'

# --- the manual page ------------------------------------------------------------------------------
page=$prefix/share/man/man1/attnlab.1
for part in 'attnlab run' '\-\-seqlen' '\-\-peer' 'compulsory_intensity'; do
  expect 'the manual page' "$(<"$page")" "$part"
done
[[ $(<"$page") != *compile-worker* ]] || fail "the manual page names a hidden verb"
if command -v groff >/dev/null; then
  words=$(groff -man -Tutf8 -ww -z "$page" 2>&1)
  [[ -z $words ]] || fail "groff says of the manual page: $words"
fi

# --- completion -----------------------------------------------------------------------------------
bash_script=$prefix/share/bash-completion/completions/attnlab
zsh_script=$prefix/share/zsh/site-functions/_attnlab
fish_script=$prefix/share/fish/vendor_completions.d/attnlab.fish
bash -n "$bash_script"
source "$bash_script"
# Prints what bash offers behind a line.
offers() {
  local COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDBREAKS=$' \t\n"\'><=;|&(:'
  _attnlab
  echo "${COMPREPLY[*]}"
}
completes() { [[ $(offers "$1") == "$2" ]] || fail "bash: '$1' gives '$(offers "$1")', not '$2'"; }
completes 'attnlab ver' verify
completes 'attnlab --ver' --version
completes 'attnlab compile' compile
completes 'attnlab run --head' '--heads --heads-kv --head-dim'
completes 'attnlab run --kernel na' naive
completes 'attnlab run --kernel=v' 'v1 v2 v3'
completes 'attnlab run --kernel naive,v3,mi' naive,v3,minimal
completes 'attnlab run --peer torch:c' cudnn
completes 'attnlab run --peer torch' 'torch:eager torch:flash torch:math torch:efficient torch:cudnn'
completes 'attnlab verify --backend c' 'cpu cuda'
completes 'attnlab list --format ' 'table json'
completes 'attnlab table r.jsonl --rows seqlen,head_' seqlen,head_dim
completes 'attnlab completion ' 'bash zsh fish'
completes 'attnlab profile --tool n' 'ncu nsys'
completes 'attnlab doctor --json --back' --backend
completes 'attnlab run --seqlen ' ''
completes 'attnlab run swe' ''  # files: bash's own
# It offers every flag of a help text, and every verb but those that are hidden.
for verb in $(offers 'attnlab '); do
  [[ $verb == --* ]] && continue
  for flag in $(attnlab "$verb" --help | grep -oE '^  (-h,)?--[a-z0-9-]+' | sed 's/.*--/--/'); do
    [[ " $(offers "attnlab $verb -") " == *" $flag "* ]] || fail "bash: $verb lacks $flag"
    for script in "$zsh_script" "$fish_script"; do
      [[ $(<"$script") == *"${flag#--}"* ]] || fail "$script: $verb lacks $flag"
    done
  done
done
[[ $(<"$bash_script") != *compile-worker* ]] || fail "bash: a hidden verb is offered"
# Every value that it offers is one that is taken; those that end with a colon go on.
for flag in --pass --dtype --layout --mask --input-kind --kernel --backend --format --counters \
  --peer; do
  values=$(offers "attnlab run $flag ")
  [[ -n $values ]] || fail "bash: no values of $flag"
  for value in $values; do
    [[ $value == *: ]] && continue
    code=0
    attnlab run --dry-run --seqlen 16 "$flag" "$value" >/dev/null 2>words || code=$?
    [[ $code != 2 ]] || fail "bash: '$value' is offered behind $flag: $(<words)"
  done
done
attnlab model --seqlen 16 --gpu "$(offers 'attnlab model --gpu ' | tr ' ' ,)" >/dev/null
for shell in zsh fish; do
  command -v $shell >/dev/null || { echo "note: no $shell here"; continue; }
  script=${shell}_script
  $shell -n "${!script}"
done
if command -v fish >/dev/null; then
  fish_offers() { fish --no-config -c "source $fish_script; complete -C '$1'" | cut -f1; }
  expect fish "$(fish_offers 'attnlab run --kernel na')" naive
  expect fish "$(fish_offers 'attnlab ver')" verify
fi
echo "installed: all is well"
