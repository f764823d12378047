"""Who can change what a path leads to. Code is loaded only from where nobody but this user and root can.

Each folder and link on the way must belong to this user or to root, and must not be writable by others. A folder with
the sticky bit, such as /tmp, may be writable: nobody removes or renames the entries of other users there. A group may
write if it is its owner's own, with nobody else in it (umask 002 of Debian and Fedora).

A file that the user names (:func:`check_named`) may belong to somebody else, whom he trusts by naming it.
"""

from __future__ import annotations

import errno
import functools
import grp
import os
import pwd
import shutil
import stat
import warnings
from dataclasses import dataclass
from pathlib import Path

from .errors import BuildError

_MOST_LINKS = 40
_UID_MAP = Path("/proc/self/uid_map")
_OVERFLOW = Path("/proc/sys/kernel/overflowuid")


class UntrustedPathError(BuildError, PermissionError):
    """Code or a recipe that everybody on this machine can change."""


@dataclass(frozen=True)
class Weakness:
    """A place that others can write to. everyone: not only its owner or a group."""

    path: str
    reason: str
    everyone: bool = False

    def __str__(self) -> str:
        return f"{printable(self.path)} {self.reason}"


def printable(path: str | Path) -> str:
    """A path for a message: bytes that are not UTF-8, and control characters, as escapes."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def weakness(path: str | Path, *, any_owner: bool = False) -> Weakness | None:
    """The first place on the way to `path` that others can change; None if only trusted users can.

    What does not exist has no weakness. any_owner: others may own it, unless anybody could have put it there.
    """
    text = os.fspath(path)
    if not os.path.isabs(text):
        text = os.path.join(os.getcwd(), text)
    waiting = [part for part in reversed(text.split("/")) if part not in ("", ".")]
    at, shared, links = "/", False, 0
    try:
        found = _judge("/", os.lstat("/"), shared, any_owner)
        while waiting and found is None:
            part = waiting.pop()
            if part == "..":
                at = os.path.dirname(at)
                shared = bool(os.lstat(at).st_mode & stat.S_IWOTH)
                continue
            entry = os.path.join(at, part)
            status = os.lstat(entry)
            found = _judge(entry, status, shared, any_owner)
            if stat.S_ISLNK(status.st_mode):
                links += 1
                if links > _MOST_LINKS:
                    return Weakness(entry, "is a symbolic link to itself")
                target = os.readlink(entry)
                waiting += [part for part in reversed(target.split("/")) if part not in ("", ".")]
                at = "/" if target.startswith("/") else at
            else:
                at = entry
            shared = bool(os.lstat(at).st_mode & stat.S_IWOTH)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
            return None  # whoever opens it gets this error
        raise
    return found


def check_named(path: str | Path, what: str) -> None:
    """Looks at code that the user names. what: "xclbin", "recipe", for messages.

    Raises UntrustedPathError for one that everybody can change, warns of one that a group or another user can.
    """
    found = weakness(path, any_owner=True)
    if found is not None and found.everyone:
        raise UntrustedPathError(
            f"{what} {printable(path)} is not used, because {found}: any user of this machine could put code into "
            f"this process; run 'chmod go-w' on it, or copy the file to a folder of your own."
        )
    found = found or weakness(path)
    if found is not None:
        warnings.warn(
            f"{what} {printable(path)} can be changed by others: {found}; copy it to a folder of your own if you do "
            "not trust them.",
            RuntimeWarning,
            stacklevel=3,
        )


def remove_untrusted(directory: Path) -> None:
    """Deletes whatever in a folder of this user's belongs to somebody else or can be written by others.

    Raises UntrustedPathError for folders that are nested deeper than Python can follow.
    """
    waiting = [str(directory)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                untrusted = _judge(entry.path, status, False, False) is not None
                if not stat.S_ISDIR(status.st_mode):
                    if untrusted:
                        os.unlink(entry.path)
                elif untrusted:
                    _remove_tree(entry.path)
                else:
                    waiting.append(entry.path)


def _remove_tree(path: str) -> None:
    try:
        shutil.rmtree(path)
    except RecursionError as error:
        raise UntrustedPathError(
            f"folder {printable(path)} can be changed by others and is nested too deeply; delete it with 'rm -r'."
        ) from error


def is_own(status: os.stat_result) -> bool:
    """Whether a file or folder belongs to this user or to root."""
    return status.st_uid in (0, os.geteuid())


def _judge(path: str, status: os.stat_result, shared: bool, any_owner: bool) -> Weakness | None:
    """shared: `path` lies in a folder in which everybody can make files."""
    mode, owner = status.st_mode, status.st_uid
    if not is_own(status) and not (stat.S_ISDIR(mode) and _is_outside(owner)) and (shared or not any_owner):
        return Weakness(path, f"belongs to {_user(owner)}", everyone=shared)
    if stat.S_ISLNK(mode) or (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
        return None  # the mode of a link has no meaning
    if mode & stat.S_IWOTH:
        return Weakness(path, f"can be written by everyone (mode {stat.S_IMODE(mode):o})", everyone=True)
    if mode & stat.S_IWGRP and not _is_private(status.st_gid, owner):
        return Weakness(path, f"can be written by {_group(status.st_gid)} (mode {stat.S_IMODE(mode):o})")
    return None


def _is_private(group: int, owner: int) -> bool:
    """Whether a group is its owner's own: of his name, his primary one, with no other member."""
    try:
        user, entry = pwd.getpwuid(owner), grp.getgrgid(group)
    except KeyError:
        return False
    return user.pw_gid == group and entry.gr_name == user.pw_name and set(entry.gr_mem) <= {user.pw_name}


@functools.cache
def _outside_user() -> int | None:
    """In a user namespace the number that stands for users outside of it, to whom `/` and `/home` may belong there."""
    try:
        ranges = [tuple(map(int, line.split())) for line in _UID_MAP.read_text().splitlines()]
        number = int(_OVERFLOW.read_text())
    except (OSError, ValueError):
        return None
    return None if any(first <= number < first + count for first, _, count in ranges) else number


def _is_outside(user: int) -> bool:
    return user == _outside_user()


def _user(number: int) -> str:
    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"


def _group(number: int) -> str:
    try:
        return f"group {grp.getgrgid(number).gr_name}"
    except KeyError:
        return f"group {number}"
