"""Layers 1 and 2 for one worktree: switched on and off, and looked at.

What is set, in `<git dir>/config.worktree`, which only this worktree reads:

    core.hooksPath              the placed hooks
    core.fsmonitor              the placed script; git runs it through sh where the path has characters that sh knows
    core.fsmonitorHookVersion   2: git would ask twice else

So that git reads that file at all, extensions.worktreeConfig is set in the repository's `config`; git-worktree(1) has
core.bare and core.worktree moved to the main worktree's own file then. This shared part goes when no guarded worktree
needs it any more, and nobody else relies on it. `configfile` says how all of it is taken away again.

Everything happens while the worktrees' turn is held; the manifest is written before what it tells of, so that what a
kill leaves is finished by the next `enable` or `disable`.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterator

from git_agentos.errors import GuardError
from git_agentos.git import chained, worktrees
from git_agentos.git.location import Location
from git_agentos.guard import identity
from git_agentos.guard.setup import configfile, manifest, place
from git_agentos.guard.setup.configfile import Added, Value
from git_agentos.guard.setup.manifest import Manifest

_TRUE = ("true", "yes", "on", "1")
_EXTENSION = "extensions.worktreeconfig"
COMMENT = "git-agentos guard: `git agentos guard disable` takes these away"
PEOPLE_COMMENT = "git-agentos hooks: `git agentos hooks uninstall` takes this away"
_NOT_READ = "'extensions.worktreeConfig' is not set: git does not read the worktrees' own configuration"
_SHARED_COMMENT = "for the guard of git-agentos: goes with the last guarded worktree"
# What git hands a command with, it starts by way of sh (run-command.c, prepare_shell_cmd).
_FOR_SHELL = re.compile(r"[|&;<>()$`\\\"' \t\n*?\[#~=%]")


def is_enabled(location: Location) -> bool:
    """Whether the guard was switched on for this worktree: it is on record, or set in the worktree's configuration (two
    small files are read; GuardError where the record is damaged)."""
    found = manifest.read(location.common_dir)
    return _added(found, location) is not None or configfile.mentions(_path(location), COMMENT)


def is_in_force(location: Location) -> bool:
    """Whether the configuration files of an enabled worktree say what `enable` has set, and git reads them. git is
    started only where one was edited in a way that may matter."""
    known = _readable(location)
    added = _added(known, location)
    if added is not None:
        set_here = added.values == _values_now(location, added) and not configfile.lost(added)
    else:
        set_here = not configfile.not_last(_path(location), values(location))
    return set_here and _is_read(location, known)


def is_shared(location: Location) -> bool:
    """Whether the guard is there for any worktree of the repository."""
    return os.path.lexists(manifest.path_of(location.common_dir))


def is_set(location: Location) -> bool:
    """Whether anything of the guard is on record, whole or damaged, or set without a record."""
    return not _readable(location).empty or is_shared(location) or wrong_record(location) is not None


def enable(location: Location) -> None:
    """Switch layers 1 and 2 on for this worktree, or bring them up to date. Takes the worktrees' turn."""
    with worktrees.turn(location):
        enable_in_turn(location)


def enable_in_turn(location: Location) -> None:
    """`enable`, for who holds the turn. Where the repository was moved, the guard of all worktrees is placed again."""
    known = _readable(location)
    if not known.empty and known.common != location.common_dir:
        place_again_in_turn(location)
        known = _readable(location)
    place.put(location)
    known = _share(location, known)
    key = manifest.key_of(location.common_dir, location.git_dir)
    assert key is not None
    path = _path(location)
    added = known.worktrees.get(key)
    if added is not None:
        added = _updated(location, added)
    else:
        _strip(location, path)
        added = configfile.plan(path, values(location), COMMENT)
    known = known._replace(worktrees={**known.worktrees, key: added})
    manifest.write(location.common_dir, known._replace(common=location.common_dir))
    _set(location, added)


def misplaced(location: Location) -> list[str]:
    """The configuration files in which the guard leads elsewhere: to where the repository was before, or to the one
    that it is a copy of."""
    known = _readable(location)
    parts = [*known.worktrees.values(), *known.people]
    found = [each.path for each in parts if _values_now(location, each) != each.values and _exists(each)]
    recorded = {each.path for each in known.worktrees.values()}
    return found + [path for path in _unrecorded(location, recorded) if not configfile.says(path, values(location))]


def edited(location: Location) -> list[str]:
    """What the configuration files do not say any more of what was set, one sentence each. git is asked only where a
    file has been edited."""
    known = _readable(location)
    found: list[str] = []
    for added in (known.main, known.shared, *known.worktrees.values(), *known.people):
        with _unreadable_is_told(found):
            if added is not None and _exists(added) and _values_now(location, added) == added.values:
                found += [_lost_words(added.path, each) for each in configfile.lost(added)]
    for path in _unrecorded(location, {each.path for each in known.worktrees.values()}):
        with _unreadable_is_told(found):
            if configfile.says(path, values(location)):
                found += [_lost_words(path, each) for each in configfile.not_last(path, values(location))]
    if known.worktrees and known.shared is None and not _has_extension(location):
        found.append(_NOT_READ)
    return found


@contextlib.contextmanager
def _unreadable_is_told(found: list[str]) -> Iterator[None]:
    """A file that cannot be read is one sentence in `found`, and keeps nobody from looking at the others."""
    try:
        yield
    except GuardError as error:
        found.append(f"{error.message} ({error.hint})" if error.hint else error.message)


def whose(path: str) -> str:
    """The id of the worktree whose configuration file this is."""
    git_dir = os.path.dirname(path)
    if os.path.basename(os.path.dirname(git_dir)) != "worktrees":
        from git_agentos.checkpoint import timeline  # loads pygit2, which a hook that decides does not need

        return timeline.MAIN
    return identity.recorded(git_dir) or os.path.basename(git_dir)


def wrong_record(location: Location) -> str | None:
    """What is wrong with the record of what was set: it is gone, damaged, or somebody else wrote it. None where it is
    as it was written, or there is none because nothing is set."""
    try:
        return _wrong_record(location, manifest.read(location.common_dir))
    except GuardError as error:
        return error.message


def _wrong_record(location: Location, known: Manifest) -> str | None:
    record = manifest.path_of(location.common_dir)
    if not known.signed:
        return f"'{record}' was not written by git-agentos"
    if os.path.lexists(record):
        return None
    path = next(_unrecorded(location, ()), None)
    shared = os.path.join(location.common_dir, "config")
    if path is None and any(configfile.mentions(shared, each) for each in (_SHARED_COMMENT, PEOPLE_COMMENT)):
        path = shared
    return f"'{record}' is gone, and the guard is set in '{path}'" if path is not None else None


def place_again(location: Location) -> None:
    """`place_again_in_turn`. Takes the worktrees' turn."""
    with worktrees.turn(location):
        place_again_in_turn(location)


def place_again_in_turn(location: Location) -> None:
    """Place the scripts and set what leads to them again, in every worktree that is guarded and for everybody where
    that was installed, as the repository lies now. The worktrees' turn must be held.

    It can be repeated: the manifest says what is set before it is. A worktree's configuration that cannot be read is
    left as it is.
    """
    known = _swept(location, _readable(location))
    recorded = {each.path for each in known.worktrees.values()}
    unrecorded = [path for path in _unrecorded(location, recorded) if configfile.is_readable(path)]
    if known.empty and not unrecorded:
        return
    place.put(location)
    known = _share(location, known)
    guarded = {
        key: _updated(location, added) if configfile.is_readable(added.path) else added
        for key, added in known.worktrees.items()
    }
    for path in unrecorded:
        key = manifest.key_of(location.common_dir, os.path.dirname(path))
        if key is not None:
            former = _set_without_record(location, path)
            guarded[key] = configfile.plan(path, values(location), COMMENT, former=former)
    people = tuple(_updated(location, each) for each in known.people if _exists(each))
    known = known._replace(common=location.common_dir, worktrees=guarded, people=people)
    manifest.write(location.common_dir, known)
    for path in unrecorded:
        _strip(location, path)
    readable = (each for each in known.worktrees.values() if configfile.is_readable(each.path))
    for added in (known.main, known.shared, *readable, *known.people):
        if added is not None:
            _set(location, added)


def disable(location: Location) -> None:
    """Take away exactly what `enable` added to this worktree, and the shared part when nobody needs it any more. Takes
    the worktrees' turn."""
    with worktrees.turn(location):
        known = _readable(location)
        added = _added(known, location)
        if added is not None:
            configfile.take_away(location, added)
        else:
            _strip(location, _path(location))
        _tidy(location, _without(location, known, location.git_dir))


def withdraw(location: Location, git_dir: str) -> None:
    """Forget the worktree at `git_dir`, which is about to be removed with all that is set in it; the worktrees' turn
    must be held."""
    if os.path.lexists(place.folder(location.common_dir)):
        _without(location, _readable(location), git_dir)


def forget(location: Location) -> None:
    """Take away what git has copied into this new worktree from a guarded one in which it was made."""
    _strip(location, _path(location))


def tidy(location: Location) -> None:
    """Take the shared part away where no guarded worktree is left; the worktrees' turn must be held.

    For who has ended a worktree: its own configuration went with it.
    """
    if os.path.lexists(place.folder(location.common_dir)):
        _tidy(location, _readable(location))


def tampered(location: Location) -> list[str]:
    """What of the guard of this worktree, and of what all guarded worktrees share, is not as it was set up, one
    sentence each; empty where all is in place, or nothing is set. git is started only where a configuration file was
    edited in a way that may matter."""
    known = manifest.read(location.common_dir)
    entry = _added(known, location)
    record = _wrong_record(location, known)
    if known.empty and record is None:
        return []
    found = [f"'{path}' is not what git-agentos placed there" for path in place.changed(location.common_dir)]
    if record is not None:
        found.append(record)
    parts = [*known.people]
    if entry is not None:
        parts += [each for each in (entry, known.shared, known.main) if each is not None]
    for added in parts:
        found += [_lost_words(added.path, each) for each in configfile.lost(added)]
    if entry is not None and known.shared is None and not _has_extension(location):
        found.append(_NOT_READ)
    return found


def values(location: Location) -> tuple[Value, ...]:
    """What is set for a guarded worktree."""
    script = place.fsmonitor(location.common_dir)
    return (
        Value("core", "hooksPath", place.hooks_dir(location.common_dir)),
        Value("core", "fsmonitor", quoted(script)),
        Value("core", "fsmonitorHookVersion", "2"),
    )


def quoted(path: str) -> str:
    """A path as the value of core.fsmonitor."""
    return "'" + path.replace("'", "'\\''") + "'" if _FOR_SHELL.search(path) else path


# -- inside ------------------------------------------------------------------------------------------------------------


def _path(location: Location) -> str:
    """The worktree's own configuration."""
    return os.path.join(location.git_dir, "config.worktree")


def _readable(location: Location) -> Manifest:
    """The manifest; where it is damaged, nothing is known, and `configfile.plan` finds what is ours."""
    try:
        return manifest.read(location.common_dir)
    except GuardError:
        return Manifest(location.common_dir)


def _lost_words(path: str, value: Value) -> str:
    where = f"the guard of '{whose(path)}': " if os.path.basename(path) == "config.worktree" else ""
    return f"{where}'{value.name}' in '{path}' is not what was set there"


def _set(location: Location, added: Added) -> None:
    """Have the file say what was planned, also where something behind it in the file says otherwise."""
    configfile.add(location, added)
    if configfile.lost(added):
        configfile.move_to_end(location, added)


def _is_read(location: Location, known: Manifest) -> bool:
    """Whether git reads the worktrees' own configuration."""
    return _has_extension(location) if known.shared is None else not configfile.lost(known.shared)


def _exists(added: Added) -> bool:
    """Whether what the file belongs to is there: a worktree may be gone."""
    return os.path.isdir(os.path.dirname(added.path))


def _values_now(location: Location, added: Added) -> tuple[Value, ...]:
    """What was set, as it is to be set where the repository lies now."""
    now = {each.name: each for each in values(location)}
    return tuple(now.get(each.name, each) for each in added.values)


def _updated(location: Location, added: Added) -> Added:
    """What to add instead of what was set where the repository was before; that is taken away."""
    wanted = _values_now(location, added)
    if wanted == added.values:
        return added
    configfile.take_away(location, added)
    return configfile.plan(added.path, wanted, configfile.comment_of(added.block))


def _unrecorded(location: Location, recorded: Collection[str]) -> Iterator[str]:
    """The worktrees' own configuration files that have a block of ours which the manifest does not know."""
    for git_dir in (location.common_dir, *worktrees.entries(location.common_dir)):
        path = os.path.join(git_dir, "config.worktree")
        with contextlib.suppress(OSError, GuardError):
            if path not in recorded and configfile.mentions(path, COMMENT):
                yield path


def _strip(location: Location, path: str) -> None:
    """Take out a block of ours that the manifest does not know, wherever it leads."""
    if configfile.mentions(path, COMMENT):
        configfile.strip(location, path, _set_without_record(location, path), COMMENT)


def _set_without_record(location: Location, path: str) -> list[Value]:
    """The values of ours that the file sets, wherever they lead."""
    said = configfile.values_of(path)
    found = [Value("core", "hooksPath", each) for each in said.get("core.hookspath", ())]
    found += [Value("core", "fsmonitor", each) for each in said.get("core.fsmonitor", ())]
    ours = [each for each in found if chained.is_guards(each.value.strip("'"), location.common_dir)]
    return [*ours, Value("core", "fsmonitorHookVersion", "2")]


def _added(known: Manifest, location: Location) -> Added | None:
    return known.worktrees.get(manifest.key_of(location.common_dir, location.git_dir) or "")


def _without(location: Location, known: Manifest, git_dir: str) -> Manifest:
    """The manifest without one worktree, written."""
    key = manifest.key_of(location.common_dir, git_dir)
    if key is not None and key in known.worktrees:
        known = known._replace(worktrees={each: added for each, added in known.worktrees.items() if each != key})
        manifest.write(location.common_dir, known)
    return known


def _swept(location: Location, known: Manifest) -> Manifest:
    """Without worktrees that are gone."""
    folders = (location.common_dir, *worktrees.entries(location.common_dir))
    living = {manifest.key_of(location.common_dir, each) for each in folders}
    return known._replace(worktrees={key: added for key, added in known.worktrees.items() if key in living})


def _has_extension(location: Location) -> bool:
    said = configfile.values_of(os.path.join(location.common_dir, "config"))
    return said.get(_EXTENSION, ["false"])[-1].lower() in _TRUE


def _share(location: Location, known: Manifest) -> Manifest:
    """Have git read each worktree's own configuration."""
    path = os.path.join(location.common_dir, "config")
    if known.shared is not None:
        shared, main = known.shared._replace(path=path), known.main
    elif _has_extension(location):
        return known
    else:
        said = configfile.values_of(path)
        moved = [Value("core", "bare", "true")] if said.get("core.bare", [""])[-1].lower() in _TRUE else []
        moved += [Value("core", "worktree", each) for each in said.get("core.worktree", [])[-1:]]
        extension = Value("extensions", "worktreeConfig", "true")
        shared = configfile.plan(path, [extension], _SHARED_COMMENT, moved=moved)
        of_main = os.path.join(location.common_dir, "config.worktree")
        main = configfile.plan(of_main, moved, _SHARED_COMMENT) if moved else None
    known = known._replace(shared=shared, main=main)
    manifest.write(location.common_dir, known)
    if main is not None:
        _set(location, main)
    _set(location, shared)
    return known


def _tidy(location: Location, known: Manifest) -> None:
    known = _swept(location, known)
    if not known.worktrees:
        for git_dir in (location.common_dir, *worktrees.entries(location.common_dir)):
            forget(location._replace(git_dir=git_dir))
    if not known.worktrees and known.shared is not None:
        if not any(_relies(path) for path in _own_files(location, known)):
            configfile.take_away(location, known.shared)
            if known.main is not None:
                configfile.take_away(location, known.main)
        known = known._replace(shared=None, main=None)
    manifest.write(location.common_dir, known)
    if known.empty:
        place.take_away(location)


def sweep(location: Location) -> Manifest:
    """What is set, without what is gone: for who adds to it. The worktrees' turn must be held."""
    return _swept(location, _readable(location))


def _own_files(location: Location, known: Manifest) -> Iterator[str]:
    """The worktrees' own configuration files, but for the one that was made to move something there."""
    for git_dir in (location.common_dir, *worktrees.entries(location.common_dir)):
        path = os.path.join(git_dir, "config.worktree")
        if known.main is None or known.main.path != path or known.main.after != configfile.read(path):
            yield path


def _relies(path: str) -> bool:
    """Whether a worktree's own configuration says anything."""
    return bool((configfile.read(path) or b"").strip())
