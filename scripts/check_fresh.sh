#!/usr/bin/env bash
# Runs README's two commands as a new user does: in a bare root of Debian 12 (g++ 12) or Ubuntu
# 24.04 (g++ 13) that holds nothing of this machine but the tree as it is committed. No GPU is used.
# Prints how long everything takes, and how many packages and how much disk the set-up takes.
#
#   scripts/check_fresh.sh [--ubuntu] [--cuda] [FOLDER]
#       --cuda: with the CUDA toolkit of this machine ($CUDA_HOME or /usr/local/cuda), read-only;
#       without it there is none. The root is made in FOLDER (default: a temporary folder) and
#       removed at the end
#
# Needs root, debootstrap (--ubuntu: curl, too), and the distribution's packages; it takes this
# machine's settings of the network along, and for Debian those of apt. Run it whenever set-up,
# CMake or what stands in for CUDA changes, and with --ubuntu --cuda before a change of templates
# lands: one compiler takes what another refuses. JOBS=N limits compile jobs and tests side by side
# (default: all cores).
#
# Exit: 0 both commands pass, 1 one fails, 2 bad arguments, 3 no root can be made.
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"
arguments=("$@")
suite=bookworm system="Debian 12" cuda=""
while [[ ${1:-} == -* ]]; do
  case $1 in
    -h | --help) help && exit ;;
    --ubuntu) suite=noble system="Ubuntu 24.04" ;;
    --cuda) cuda=$(readlink -f "${CUDA_HOME:-/usr/local/cuda}") ;;
    *) echo "check_fresh.sh: unknown option '$1'; there are --ubuntu and --cuda" >&2 && exit 2 ;;
  esac
  shift
done
if (($# > 1)); then
  echo "check_fresh.sh: one FOLDER, behind the options, not '$*'" >&2
  exit 2
fi

scripts=/usr/share/debootstrap/scripts
if ((EUID != 0)) || ! command -v debootstrap >/dev/null; then
  echo "check_fresh.sh: it needs root and debootstrap: apt-get install debootstrap" >&2
  exit 3
fi
if [[ -n $cuda && ! -d $cuda/include ]]; then
  echo "check_fresh.sh: --cuda: $cuda: holds no CUDA toolkit: name one with CUDA_HOME" >&2
  exit 3
fi
if [[ -z ${ATTNLAB_FRESH:-} ]]; then  # mounts and processes end with this namespace
  exec env ATTNLAB_FRESH=1 unshare --mount --pid --fork --kill-child "$SCRIPT" \
    "${arguments[@]}"
fi

root=$(realpath -m "${1:-$(mktemp -d)/root}")
commit=$(git rev-parse --short=12 HEAD)
clean_up() {
  end_step
  umount --recursive --lazy "$root/proc" "$root/dev" "$root/usr/local/cuda" 2>/dev/null || true
  rm -rf --one-file-system "$root" "$root.keys"
}
trap clean_up EXIT

in_root() {
  env -i HOME=/home PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb JOBS="$JOBS" \
    ATTNLAB_COMMIT="$commit" chroot "$root" bash -c "cd /home/attnlab && $1"
}
mib() { du -sm --one-file-system "$root" | cut -f1; }
packages() { in_root "dpkg-query --show | wc -l"; }

step "a bare root of $system"
if [[ $suite == noble ]]; then
  mirror=https://archive.ubuntu.com/ubuntu
  # Debian 12 has no package of Ubuntu's keys, so they come from Ubuntu's server, by TLS.
  keys=$root.keys
  curl --silent --show-error --fail --create-dirs --output "$keys/keys.deb" \
    $mirror/pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb || exit 3
  dpkg-deb -x "$keys/keys.deb" "$keys"
  keyring=$keys/usr/share/keyrings/ubuntu-archive-keyring.gpg
  # Debian's debootstrap does not know noble; its script gutsy makes every release of Ubuntu.
  from=(--keyring="$keyring" --components=main,universe noble "$root" ${mirror/https/http}
        "$scripts/gutsy")
else
  mirror=$(sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb \(\[[^]]*\] \)\?\([^ ]*\) bookworm .*/\2/p' \
    /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null | head -n 1 || true)
  from=(bookworm "$root" $mirror)
fi
debootstrap --variant=minbase "${from[@]}" >"${root%/*}/debootstrap.log" 2>&1 || {
  tail -n 5 "${root%/*}/debootstrap.log" >&2
  exit 3
}
for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
  [[ ! -e $file ]] || install -D "$file" "$root$file"
done
if [[ $suite == bookworm ]]; then
  cp -r /etc/apt/apt.conf.d /etc/apt/auth.conf.d "$root/etc/apt/" 2>/dev/null || true
fi
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mkdir -p "$root/home/attnlab"
if [[ -n $cuda ]]; then
  mkdir "$root/usr/local/cuda"
  mount --bind --options ro "$cuda" "$root/usr/local/cuda"
fi
git archive HEAD | tar -x -C "$root/home/attnlab"
before_packages=$(packages)
before_mib=$(mib)

step "README's first command, in the bare root"
in_root ./scripts/demo.sh
step "what the set-up took"
printf '%d packages, %d MiB with the build; the points: ' \
  $(($(packages) - before_packages)) $(($(mib) - before_mib))
in_root "grep -ho '\"status\":\"[a-z_]*\"' results/*.jsonl | sort | uniq -c | xargs"
step "README's second command, in the bare root"
in_root ./scripts/test.sh
step "commit $commit: README's two commands pass in a bare root of $system"
