#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The first program of ours inside the machine: reads what is to be run, runs it, and tells how it ended.
# Standard input carries strings that end in NUL: a folder, a count and so many modules, a count and so many
# arguments. The port hipsnet.answer gets one line at a time: `ready`, `exit CODE`, or `failed WHY`.
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

list() { # reads a count and so many strings into the array $1
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

exec 3>"$(port hipsnet.answer)"
text folder
list modules
list arguments
for module in "${modules[@]}"; do
    why=$(modprobe -- "$module" 2>&1) || fail "modprobe $module: $why"
done
cd -- "$folder" || fail "no folder $folder"
ulimit -l unlimited # registered memory is locked memory
export HIPSNET_VM=1
echo ready >&3
"${arguments[@]}" </dev/null >"$(port hipsnet.stdout)" 2>"$(port hipsnet.stderr)" 3>&-
echo "exit $?" >&3
