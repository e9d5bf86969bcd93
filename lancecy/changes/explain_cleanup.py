"""What a cleanup would remove, with the names that pylance has for it."""

from __future__ import annotations

from lancecy.records import dataclass
from lancecy.table.cleanup.plan import Kind
from lancecy.table.cleanup.run import CleanupPlan, CleanupStats
from lancecy.table.refs.names import branch_of

__all__ = [
    "CleanupCandidateFile",
    "CleanupExplanation",
    "CleanupReferencedBranch",
    "explained_cleanup",
]

_KINDS = {kind: kind.name.lower() for kind in Kind}


@dataclass(frozen=True, slots=True)
class CleanupCandidateFile:
    """A file that a cleanup would remove.

    Attributes
    ----------
    path : str
        Below the root of the main table.
    kind : str
        "manifest", "data", "deletion", "index", "transaction" or "temporary".
    unverified : bool
        Whether no version names it: it is left of a commit that failed.
    size_bytes : int
    """

    path: str
    kind: str
    unverified: bool
    size_bytes: int


@dataclass(frozen=True, slots=True)
class CleanupReferencedBranch:
    """A branch that begins at a version of the table, which therefore stays.

    Attributes
    ----------
    name : str
    referenced_version : int
    cleanup_candidate : bool
        Always False: a branch is cleaned up by itself, or with ``all_branches=True``.
    """

    name: str
    referenced_version: int
    cleanup_candidate: bool = False


@dataclass(frozen=True, slots=True)
class CleanupExplanation:
    """What a cleanup would remove.

    Attributes
    ----------
    read_version : int
        The newest version of the table.
    stats : CleanupStats
        Counts over all files.
    candidate_files : list of CleanupCandidateFile
        Versions first, oldest first; empty unless asked for.
    candidate_files_truncated : bool
        Whether there are more files than are listed.
    candidate_file_limit : int
    referenced_branches : list of CleanupReferencedBranch
    warnings : list of str
        Empty: what would make a cleanup fail is raised.
    """

    read_version: int
    stats: CleanupStats
    candidate_files: list[CleanupCandidateFile]
    candidate_files_truncated: bool
    candidate_file_limit: int
    referenced_branches: list[CleanupReferencedBranch]
    warnings: list[str]


def explained_cleanup(plan: CleanupPlan, read_version: int, shown: int, limit: int) -> CleanupExplanation:
    """The explanation of a plan.

    Parameters
    ----------
    plan : CleanupPlan
    read_version : int
    shown : int
        Number of files to list.
    limit : int
        What ``candidate_file_limit`` says.
    """
    removal = plan.removal
    files = [*((Kind.MANIFEST, meta) for meta in removal.manifests), *removal.files]
    listed = [
        CleanupCandidateFile(
            meta.path, _KINDS[kind], kind is not Kind.MANIFEST and meta.path not in plan.known, meta.size
        )
        for kind, meta in files[:shown]
    ]
    branches = [
        CleanupReferencedBranch(name, pin.version)
        for pin in sorted(plan.pins, key=lambda pin: pin.path)
        if (name := branch_of(pin.path)) is not None
    ]
    return CleanupExplanation(
        read_version, removal.stats, listed, bool(shown) and len(files) > shown, limit, branches, []
    )
