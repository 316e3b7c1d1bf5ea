# SPDX-License-Identifier: Apache-2.0
"""Proves that a schedule is the collective that it claims to be.

At the end, every rank that must have a sum has it, with every contribution exactly once. Further rules make sums
deterministic and pipelined execution safe without barriers:

- Only a complete sum may be copied, and only into a range that the receiver has given away or never had. A COPY
  is written into the receiver's array without synchronization; this is safe because the sum contains what the
  receiver has given away, so the receiver has finished all its earlier work on that range.
- A REDUCE *moves* a partial sum: the sender must not add to the range or send it again. So, without merges, a
  single rank completes each sum, and the others have the same bits.
- A range that a rank has merged must not be given away: others have the same contributions, so a sum could come
  back before it is sent. Ranks that complete a sum by merges add in the same order.
"""

from __future__ import annotations

import numpy as np

from hipsnet.collective.diagnosis import describe, explain
from hipsnet.collective.loads import Report, report
from hipsnet.collective.replay import first_fault
from hipsnet.collective.schedule import COPY, MERGE, ORDER, REDUCE, Schedule
from hipsnet.errors import ScheduleError
from hipsnet.topology import Fabric


def check(schedule: Schedule, fabric: Fabric) -> Report:
    """Return the schedule's port loads on `fabric` after verifying that it is what its collective requires.

    Raises ScheduleError naming an incorrect transfer, or the sum that a rank never receives.
    """
    _check_columns(schedule, fabric)
    element = first_fault(schedule)
    if element is not None:
        raise ScheduleError(explain(schedule, element))
    return report(schedule, fabric)


def _check_columns(schedule: Schedule, fabric: Fabric) -> None:
    """Check the columns of each transfer, and the order of the transfers."""
    t, ranks = schedule.transfers, schedule.world_size
    ports = len(fabric.servers[0].ports)
    if ranks != len(fabric.servers):
        raise ScheduleError(
            f"the schedule has {ranks} ranks, but {fabric.name} has {len(fabric.servers)} servers"
        )
    keys = np.stack([t[column].astype(np.int64) for column in ORDER])
    change = np.diff(keys, axis=1, prepend=keys[:, :1])
    first_change = np.argmax(change != 0, axis=0)
    backwards = np.take_along_axis(change, first_change[None, :], 0)[0] < 0
    for wrong, what in (
        ((t["src"] >= ranks) | (t["dst"] >= ranks), f"allowed: ranks 0 to {ranks - 1}"),
        (t["src"] == t["dst"], "the source and the destination are the same rank"),
        (t["thread"] >= schedule.threads, f"allowed: threads 0 to {schedule.threads - 1}"),
        (t["level"] >= ports, f"allowed: ports 0 to {ports - 1}"),
        (~np.isin(t["op"], (COPY, REDUCE, MERGE)), "allowed: copy (0), reduce (1) or merge (2)"),
        (t["length"] <= 0, "the transfer has no elements"),
        (
            (t["offset"] < 0) | (t["offset"] + t["length"] > schedule.count),
            f"the range exceeds the vector of {schedule.count} elements",
        ),
        (backwards, f"the transfers are not sorted by {', '.join(ORDER)}"),
    ):
        if wrong.any():
            raise ScheduleError(f"{describe(schedule, int(np.argmax(wrong)))}: {what}")
