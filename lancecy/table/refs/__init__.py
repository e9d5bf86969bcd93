"""Tags and branches: small JSON files in ``_refs/`` of the main table. They name versions, and protect them from cleanups.

::

    _refs/tags/{tag}.json          a version of the main table or of a branch
    _refs/branches/{branch}.json   the version a branch starts from; "/" of its name is written as %2F
    tree/{branch}/                 the table of a branch

``names``      rules of names, and the paths for them
``contents``   :class:`Tag` and :class:`Branch`, the contents of these files
``files``      lists, reads, creates, replaces and removes the files
``readable``   lists those that can be read, and says why others cannot
``places``     the locations of the main table and its branches
``reference``  the location, branch and version that users name by number, tag or branch
``opening``    the versions that tags name, and the errors for what does not exist

``files`` has generators over ``requests``, as commits are.

Sources: branch and tag specification; table sheet, section 6.
"""

from lancecy.table.refs.contents import Branch, Pin, Tag, decode_branch, decode_pin, decode_tag
from lancecy.table.refs.names import (
    BRANCHES,
    MAIN,
    REFS,
    TAGS,
    TREE,
    branch_folder,
    check_branch_name,
    check_tag_name,
)

__all__ = [
    "BRANCHES",
    "MAIN",
    "REFS",
    "TAGS",
    "TREE",
    "Branch",
    "Pin",
    "Tag",
    "branch_folder",
    "check_branch_name",
    "check_tag_name",
    "decode_branch",
    "decode_pin",
    "decode_tag",
]
