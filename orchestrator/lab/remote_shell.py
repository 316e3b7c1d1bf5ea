# SPDX-License-Identifier: Apache-2.0
"""The remote shell of Open MPI in the lab: `python -m orchestrator.lab.remote_shell FABRIC SERVER COMMAND...`.

It takes the place of ssh between two servers: mpirun on one server starts its daemons on the others by it. The
hosts file of the server that it is called on is that of the fabric, and is passed on.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from hipsnet.errors import HipsnetError
from orchestrator.lab import identity
from orchestrator.lab.execution import enter
from orchestrator.lab.namespaces import namespace_name, require


def main(arguments: list[str]) -> NoReturn:
    """Become the shell that runs the command on the server; ends the process if that fails."""
    fabric, server, *command = arguments
    try:
        require(fabric, [server])
        enter(namespace_name(fabric, server), server, identity.HOSTS.read_text(errors="surrogateescape"))
    except HipsnetError as error:
        print(f"hipsnet: {error}", file=sys.stderr)
        sys.exit(255)  # as ssh does where it cannot connect
    os.execv("/bin/sh", ["/bin/sh", "-c", " ".join(command)])


if __name__ == "__main__":
    main(sys.argv[1:])
