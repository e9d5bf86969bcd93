"""Tells whether a folder is on a network file system, where memory maps are not used.

On a network mount a file can shrink or the server disappear while mapped; both
raise SIGBUS. Linux lists the type of every mount in ``/proc/self/mountinfo``;
on other systems the answer is no.
"""

from __future__ import annotations

import os

__all__ = ["is_network_mount", "network_devices"]

_NETWORK = frozenset(
    {
        "9p", "afs", "autofs", "beegfs", "ceph", "cifs", "coda", "drvfs", "gfs2", "glusterfs", "gpfs",
        "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "pvfs2", "smb2", "smb3", "smbfs", "vboxsf",
    }
)  # fmt: skip
_MOUNTINFO = "/proc/self/mountinfo"
_known: dict[int, bool] = {}


def is_network_mount(folder: str) -> bool:
    """Whether the folder, or the nearest parent that exists, is on a network or FUSE file system.

    Parameters
    ----------
    folder : str
        Absolute path.

    Returns
    -------
    bool
    """
    device = _device(folder)
    if os.major(device) != 0:
        return False  # a block device; file systems without one have major number 0
    known = _known.get(device)
    if known is None:
        known = _known[device] = f"0:{os.minor(device)}" in network_devices(_MOUNTINFO)
    return known


def network_devices(mountinfo: str) -> set[str]:
    """Device numbers, as "major:minor", of the network and FUSE mounts in a mountinfo file."""
    try:
        with open(mountinfo, encoding="utf-8", errors="surrogateescape") as lines:
            mounts = [line.split() for line in lines]
    except OSError:
        return set()
    found = set()
    for words in mounts:
        # "36 35 98:0 /root /mount options [optional fields] - type source options"
        if "-" not in words[:-1]:
            continue
        kind = words[words.index("-") + 1]
        if kind in _NETWORK or kind == "fuse" or kind.startswith("fuse."):
            found.add(words[2])
    return found


def _device(folder: str) -> int:
    while True:
        try:
            return os.stat(folder).st_dev
        except OSError:
            parent = os.path.dirname(folder)
            if parent == folder:
                return os.makedev(255, 0)  # nothing is accessible: reading reports why
            folder = parent
