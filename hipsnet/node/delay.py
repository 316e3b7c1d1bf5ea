"""The delay of a cable: whether this kernel can hold frames back."""

from __future__ import annotations

from hipsnet.errors import CapabilityError
from hipsnet.node.desired import NodeConfig


def require(desired: NodeConfig) -> None:
    """Raise CapabilityError if the configuration asks for a delay, before anything is changed."""
    for link in desired.links:
        if link.delay_us > 0:
            raise CapabilityError(
                f"{desired.name} {link.name}: a delay of {link.delay_us} us wanted, but this kernel cannot "
                "hold frames back (no netem); set `link.delay: 0us`"
            )
