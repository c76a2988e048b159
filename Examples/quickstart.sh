#!/usr/bin/env bash
# Builds protectfs and shows what it does, on real files with a throw-away keybag. Leaves no files and no keys behind.
#
#   Examples/quickstart.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null

say() { printf '== %s\n' "$*"; }
fail() {
    printf 'quickstart: error: %s\n' "$*" >&2
    exit 1
}

say "what building needs"
./bootstrap

# .ci/run names a directory with the program, which it has built to be tested.
directory=${PROTECTFS_BUILT:-}
if [[ ! $directory ]]; then
    say "release build"
    build=(swift build --configuration release --static-swift-stdlib --product protectfs)
    directory=$("${build[@]}" --show-bin-path)
    log=$(mktemp)
    "${build[@]}" >"$log" 2>&1 || { cat "$log" >&2; rm -f "$log"; fail "the build failed"; }
    rm -f "$log"
fi

# The keybag, the device key and the configuration of this script alone.
scratch=$(mktemp -d)
export XDG_DATA_HOME=$scratch/data XDG_STATE_HOME=$scratch/state XDG_CONFIG_HOME=$scratch/config
unset PROTECTFS_KEYBAG
keybag=$scratch/keybag
protectfs() { "$directory/protectfs" "$@" --keybag "$keybag"; }
passcode=$(head -c 18 /dev/urandom | base64)

# `lock` would leave the key of class first-unlock in the keyring until the machine restarts; `erase` leaves none.
forget_keys() { [[ ! -d $keybag ]] || protectfs erase --yes || true; }
trap 'forget_keys; rm -rf "$scratch"' EXIT

# A command that must fail, with its reason shown.
refused() {
    local status=0 said
    said=$("$@" 2>&1 >/dev/null) || status=$?
    ((status == 75)) || fail "expected status 75 (locked), got $status from: $*"
    sed 's/^/   /' <<<"${said//"$scratch"\//}"
}

say "a keybag with a passcode, and files to protect"
protectfs init --passcode-fd 3 3<<<"$passcode"
mkdir -p "$scratch/letters/drafts"
echo "dear diary" >"$scratch/letters/diary"
head -c 3000000 /dev/urandom >"$scratch/letters/photo"
: >"$scratch/letters/drafts/empty"
head -c 65536 /dev/urandom >"$scratch/letters/drafts/scan"
before=$(cd "$scratch/letters" && find . -type f -print0 | sort -z | xargs -0 sha256sum)

say "protectfs protect --recursive letters"
protectfs protect --recursive --yes "$scratch/letters"
(cd "$scratch" && protectfs ls -R letters)
! grep -rqF "dear diary" "$scratch/letters" || fail "plaintext is still there"

say "protectfs lock: reads are refused, with their reason"
protectfs lock
refused protectfs cat "$scratch/letters/diary"
refused protectfs cat "$scratch/letters/photo"

say "an unless-open file can be created while locked, but not read"
echo "came while locked" | protectfs write --class unless-open "$scratch/letters/inbox"
refused protectfs cat "$scratch/letters/inbox"

say "protectfs unlock: every file is what it was"
protectfs unlock --passcode-fd 3 3<<<"$passcode"
after=$(cd "$scratch/letters" && find . -type f ! -name inbox -print0 | sort -z |
    while IFS= read -r -d '' file; do
        printf '%s  %s\n' "$(protectfs cat "$file" | sha256sum | cut -d' ' -f1)" "$file"
    done)
[[ $before == "$after" ]] || fail "the checksums differ"
[[ $(protectfs cat "$scratch/letters/inbox") == "came while locked" ]] || fail "the file made while locked differs"
printf '%s\n' "$after"

say "protectfs unprotect --recursive letters: the way back"
protectfs unprotect --recursive "$scratch/letters"
grep -qF "dear diary" "$scratch/letters/diary" || fail "the file is not plaintext again"

say "protectfs erase: the throw-away keybag goes"
protectfs erase --yes
[[ ! -e $keybag ]] || fail "the keybag is still there"

echo "quickstart: done"
