#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The first program of ours inside the machine: reads the order, runs the command and reports its exit code.
# Standard input carries strings that end in NUL: a folder, then three lists (writable folders, modules, arguments),
# each as its length and its items. The port hipsnet.answer gets one line at a time: `ready`, `exit CODE`, or
# `failed REASON`.
set -u

port() { # the device of a virtio port, by its name
    local folder
    for folder in /sys/class/virtio-ports/*; do
        if [[ $(<"$folder/name") == "$1" ]]; then
            echo "/dev/${folder##*/}"
            return
        fi
    done
}

text() { IFS= read -r -d '' "$1"; }

list() { # reads a length and that many strings into the array $1
    local -n into=$1
    local count item
    text count
    into=()
    while ((count-- > 0)); do
        text item
        into+=("$item")
    done
}

fail() {
    echo "failed ${*//$'\n'/; }" >&3
    exit 1
}

change_root() { # makes / the host's files, cached, under an overlay in the machine's memory
    local base=/run/hipsnet-root root=/run/hipsnet-root/root folder
    mkdir $base && mount -t tmpfs tmpfs $base || return
    mkdir $base/host $base/upper $base/work $root || return
    # virtme mounts / without a cache: every import and every exec would ask the host for each file again.
    mount -t 9p -o ro,version=9p2000.L,trans=virtio,cache=loose,msize=512000 hipsnet.root $base/host &&
        mount -t overlay -o "lowerdir=$base/host,upperdir=$base/upper,workdir=$base/work" overlay $root || return
    for folder in /proc /sys /dev /run "${writable[@]}"; do
        mount --rbind "$folder" "$root$folder" || return
    done
    mkdir $root/run/hipsnet-old-root && cd $root && pivot_root . run/hipsnet-old-root && cd / &&
        umount --lazy /run/hipsnet-old-root
}

exec 3>"$(port hipsnet.answer)"
text folder
list writable
list modules
list arguments
why=$(change_root 2>&1) || fail "cannot mount the host's files: $why"
for module in "${modules[@]}"; do
    why=$(modprobe -- "$module" 2>&1) || fail "modprobe $module: $why"
done
cd -- "$folder" || fail "no folder $folder"
ulimit -l unlimited # registered memory is locked memory
export HIPSNET_VM=1
echo ready >&3
"${arguments[@]}" </dev/null >"$(port hipsnet.stdout)" 2>"$(port hipsnet.stderr)" 3>&-
echo "exit $?" >&3
