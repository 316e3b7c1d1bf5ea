# SPDX-License-Identifier: Apache-2.0
# Start-up file of `hipsnet shell`: that of the user, and the server in the prompt.
if [ -f ~/.bashrc ]; then . ~/.bashrc; fi
PS1="$HIPSNET_PROMPT$PS1"
unset HIPSNET_PROMPT PROMPT_COMMAND
