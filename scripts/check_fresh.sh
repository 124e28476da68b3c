#!/usr/bin/env bash
# Runs README's two commands as a new user does: in a bare root of Debian 12 that holds nothing of
# this machine but the tree as it is committed. No CUDA, no GPU. Minutes: what takes how long is
# printed, and how many packages and how much disk the set-up took.
#
#   scripts/check_fresh.sh [FOLDER]   the root is made in FOLDER (default: a temporary folder) and
#                                     removed at the end
#
# Needs root, debootstrap, and Debian's packages; it takes this machine's settings of apt and of the
# network along. Run it whenever set-up, CMake or what stands in for CUDA changes. JOBS=N limits
# compile jobs and tests side by side (default: all cores).
#
# Exit: 0 both commands pass, 1 one fails, 3 no root can be made.
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"
case ${1:-} in -h | --help) help && exit ;; esac

if ((EUID != 0)) || ! command -v debootstrap >/dev/null; then
  echo "check_fresh.sh: it needs root and debootstrap: apt-get install debootstrap" >&2
  exit 3
fi
if [[ -z ${ATTNLAB_FRESH:-} ]]; then  # mounts and processes end with this namespace
  exec env ATTNLAB_FRESH=1 unshare --mount --pid --fork --kill-child "$SCRIPT" "$@"
fi

root=${1:-$(mktemp -d)/root}
commit=$(git rev-parse --short=12 HEAD)
clean_up() {
  end_step
  umount --recursive --lazy "$root/proc" "$root/dev" 2>/dev/null || true
  rm -rf --one-file-system "$root"
}
trap clean_up EXIT

in_root() {
  env -i HOME=/home PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb JOBS="$JOBS" \
    ATTNLAB_COMMIT="$commit" chroot "$root" bash -c "cd /home/attnlab && $1"
}
mib() { du -sm --one-file-system "$root" | cut -f1; }
packages() { in_root "dpkg-query --show | wc -l"; }

step "a bare root of Debian 12"
mirror=$(sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb \(\[[^]]*\] \)\?\([^ ]*\) bookworm .*/\2/p' \
  /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null | head -n 1 || true)
debootstrap --variant=minbase bookworm "$root" $mirror >"${root%/*}/debootstrap.log" 2>&1 || {
  tail -n 5 "${root%/*}/debootstrap.log" >&2
  exit 3
}
for file in /etc/resolv.conf /etc/hosts /etc/ssl/certs/ca-certificates.crt; do
  [[ ! -e $file ]] || install -D "$file" "$root$file"
done
cp -r /etc/apt/apt.conf.d /etc/apt/auth.conf.d "$root/etc/apt/" 2>/dev/null || true
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mkdir -p "$root/home/attnlab"
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
step "commit $commit: README's two commands pass in a bare root of Debian 12"
