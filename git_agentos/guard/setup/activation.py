"""The git layers of the guard (`fsmonitor` and `hook`) in one worktree: enabling and disabling them, and their state.

What is set, in `<git dir>/config.worktree`, which git reads in this worktree only:

    core.hooksPath              the placed hooks
    core.fsmonitor              the placed script; git runs it by sh where its path has characters that sh interprets
    core.fsmonitorHookVersion   2: otherwise git would call it twice

For git to read that file, extensions.worktreeConfig is set in the repository's `config`. Then git-worktree(1) requires
core.bare and core.worktree in the main worktree's own file. This shared part is removed when no guarded worktree needs
it and no other configuration relies on it. `config_edit` describes how everything is removed again.

All changes are made under the lock of the worktrees. The manifest is written before the settings are, so that the next
`enable` or `disable` completes what a kill has left.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterator, Sequence

from git_agentos.errors import GuardError
from git_agentos.git import configuration, user_hooks, worktrees
from git_agentos.git.location import Location
from git_agentos.guard import identity
from git_agentos.guard.setup import config_edit, manifest, scripts
from git_agentos.guard.setup.config_edit import ConfigEdit, Setting
from git_agentos.guard.setup.manifest import Manifest
from git_agentos.util.values import parse_boolean

_EXTENSION = "extensions.worktreeconfig"
# By these comments, blocks of git-agentos are recognized in configuration files: they must not change.
COMMENT = "git-agentos guard: `git agentos guard disable` takes these away"
REPOSITORY_COMMENT = "git-agentos hooks: `git agentos hooks uninstall` takes this away"
_SHARED_COMMENT = "for the guard of git-agentos: goes with the last guarded worktree"
_NOT_READ = "'extensions.worktreeConfig' is not set: git does not read the worktrees' own configuration"
# git starts a command with one of these by sh (run-command.c, prepare_shell_cmd).
_FOR_SHELL = re.compile(r"[|&;<>()$`\\\"' \t\n*?\[#~=%]")


def values(location: Location) -> tuple[Setting, ...]:
    """The settings of a guarded worktree."""
    script = scripts.fsmonitor(location.common_dir)
    return (
        Setting("core", "hooksPath", scripts.hooks_dir(location.common_dir)),
        Setting("core", "fsmonitor", fsmonitor_value(script)),
        Setting("core", "fsmonitorHookVersion", "2"),
    )


def fsmonitor_value(path: str) -> str:
    """A path as the value of core.fsmonitor."""
    return "'" + path.replace("'", "'\\''") + "'" if _FOR_SHELL.search(path) else path


# -- state -------------------------------------------------------------------------------------------------------------


def is_enabled(location: Location) -> bool:
    """Whether the guard was enabled for this worktree: it is in the manifest, or in the worktree's configuration (two
    small files are read; GuardError where the manifest is damaged)."""
    return bool(enabled([location]))


def enabled(worktrees: Sequence[Location]) -> list[Location]:
    """Those of these worktrees of one repository for which the guard was enabled, as `is_enabled`."""
    if not worktrees:
        return []
    record = manifest.read(worktrees[0].common_dir)  # once: it has a part for each worktree
    return [
        each for each in worktrees if _own_edit(record, each) is not None or config_edit.has_block(_path(each), COMMENT)
    ]


def is_effective(location: Location) -> bool:
    """Whether the configuration of an enabled worktree sets what `enable` has set, and git reads it. git is started
    only where a file was edited in a way that may matter."""
    record = _read_or_empty(location)
    edit = _own_edit(record, location)
    if edit is not None:
        is_set = edit.values == _current_values(location, edit) and not config_edit.missing_settings(edit)
    else:
        is_set = not config_edit.settings_not_in_force(_path(location), values(location))
    if not is_set:
        return False
    return _has_extension(location) if record.shared is None else not config_edit.missing_settings(record.shared)


def has_record(location: Location) -> bool:
    """Whether there is a manifest: the guard is enabled for some worktree of the repository."""
    return os.path.lexists(manifest.path_of(location.common_dir))


def is_set(location: Location) -> bool:
    """Whether anything of the guard is in a manifest, even a damaged one, or is set without a manifest."""
    return has_record(location) or record_problem(location) is not None


def record_problem(location: Location) -> str | None:
    """What is wrong with the manifest: it is removed, damaged, or written by somebody else. None where it is as it was
    written, or where nothing is set."""
    try:
        return _record_problem(location, manifest.read(location.common_dir))
    except GuardError as error:
        return error.message


def misdirected_files(location: Location) -> list[str]:
    """The configuration files that lead to another guard: to the repository's former path, or to the repository of
    which this one is a copy."""
    record = _read_or_empty(location)
    edits = [*record.worktrees.values(), *record.repository]
    misdirected = [each.path for each in edits if _current_values(location, each) != each.values and _exists(each)]
    recorded = {each.path for each in record.worktrees.values()}
    return misdirected + [
        path for path in _unrecorded(location, recorded) if not config_edit.has_lines(path, values(location))
    ]


def lost_settings(location: Location) -> list[str]:
    """The settings of git-agentos that configuration files no longer have, one sentence each. git is started only where
    a file was edited."""
    record = _read_or_empty(location)
    lost: list[str] = []
    for edit in record.edits:
        with _unreadable_described(lost):
            if _exists(edit) and _current_values(location, edit) == edit.values:
                lost += [_describe_lost(edit.path, each) for each in config_edit.missing_settings(edit)]
    for path in _unrecorded(location, {each.path for each in record.worktrees.values()}):
        with _unreadable_described(lost):
            if config_edit.has_lines(path, values(location)):
                settings = config_edit.settings_not_in_force(path, values(location))
                lost += [_describe_lost(path, each) for each in settings]
    if record.worktrees and record.shared is None and not _has_extension(location):
        lost.append(_NOT_READ)
    return lost


def tampered(location: Location) -> list[str]:
    """What of the guard of this worktree, and of the part that all worktrees share, is not as it was set up, one
    sentence each. git is started only where a configuration file was edited in a way that may matter."""
    record = manifest.read(location.common_dir)
    edit = _own_edit(record, location)
    problem = _record_problem(location, record)
    if record.empty and problem is None:
        return []
    sentences = [
        f"'{path}' is not what git-agentos placed there" for path in scripts.changed_files(location.common_dir)
    ]
    if problem is not None:
        sentences.append(problem)
    edits = [*record.repository]
    if edit is not None:
        edits += [each for each in (edit, record.shared, record.main) if each is not None]
    for each in edits:
        sentences += [_describe_lost(each.path, setting) for setting in config_edit.missing_settings(each)]
    if edit is not None and record.shared is None and not _has_extension(location):
        sentences.append(_NOT_READ)
    return sentences


@contextlib.contextmanager
def _unreadable_described(sentences: list[str]) -> Iterator[None]:
    """Add a sentence about a file that cannot be read, so that the others are looked at all the same."""
    try:
        yield
    except GuardError as error:
        sentences.append(f"{error.message} ({error.hint})" if error.hint else error.message)


def worktree_id_of(path: str) -> str:
    """The id of the worktree to which a config.worktree belongs."""
    git_dir = os.path.dirname(path)
    if os.path.basename(os.path.dirname(git_dir)) != "worktrees":
        from git_agentos.checkpoint import timeline  # loads pygit2, which a hook that decides does not need

        return timeline.MAIN
    return identity.worktree_agent_id(git_dir) or os.path.basename(git_dir)


# -- changes -----------------------------------------------------------------------------------------------------------


def enable(location: Location) -> None:
    """Enable the git layers in this worktree, or update them. Takes the lock of the worktrees."""
    with worktrees.lock(location):
        enable_locked(location)


def enable_locked(location: Location) -> None:
    """`enable` under the lock of the worktrees. Where the repository was moved, all worktrees are updated."""
    record = _read_or_empty(location)
    if not record.empty and record.common != location.common_dir:
        reinstall_locked(location)
        record = _read_or_empty(location)
    scripts.install(location)
    record = _share(location, record)
    key = manifest.key_of(location.common_dir, location.git_dir)
    if key is None:
        raise GuardError(f"'{location.root}' is not a worktree of the repository any more", "git worktree list")
    path = _path(location)
    edit = record.worktrees.get(key)
    if edit is not None:
        edit = _update(location, edit)
    else:
        _remove_unrecorded(location, path)
        edit = config_edit.plan(path, values(location), COMMENT)
    record = record._replace(worktrees={**record.worktrees, key: edit}, common=location.common_dir)
    manifest.write(location.common_dir, record)
    _apply(location, edit)


def reinstall(location: Location) -> None:
    """`reinstall_locked`. Takes the lock of the worktrees."""
    with worktrees.lock(location):
        reinstall_locked(location)


def reinstall_locked(location: Location) -> None:
    """Place the scripts and apply the settings again, for the path that the repository has now, in every guarded
    worktree and for `hooks install`. It must run under the lock of the worktrees, and can be repeated. A worktree's
    configuration that cannot be read is left as it is."""
    record = read_current(location)
    recorded = {each.path for each in record.worktrees.values()}
    unrecorded = [path for path in _unrecorded(location, recorded) if config_edit.is_readable(path)]
    if record.empty and not unrecorded:
        return
    scripts.install(location)
    record = _share(location, record)
    guarded = {
        key: _update(location, edit) if config_edit.is_readable(edit.path) else edit
        for key, edit in record.worktrees.items()
    }
    for path in unrecorded:
        key = manifest.key_of(location.common_dir, os.path.dirname(path))
        if key is not None:
            former = _settings_of_ours(location, path)
            guarded[key] = config_edit.plan(path, values(location), COMMENT, former=former)
    repository = tuple(_update(location, each) for each in record.repository if _exists(each))
    record = record._replace(common=location.common_dir, worktrees=guarded, repository=repository)
    manifest.write(location.common_dir, record)
    for path in unrecorded:
        _remove_unrecorded(location, path)
    unreadable = {each.path for each in record.worktrees.values() if not config_edit.is_readable(each.path)}
    for edit in record.edits:
        if edit.path not in unreadable:
            _apply(location, edit)


def disable(location: Location) -> None:
    """Remove exactly what `enable` has added to this worktree, and the shared part if it is unused. Takes the lock of
    the worktrees."""
    with worktrees.lock(location):
        record = _read_or_empty(location)
        edit = _own_edit(record, location)
        if edit is not None:
            config_edit.undo(location, edit)
        else:
            remove_copied(location)
        _remove_if_unused(location, _unregister(location, record, location.git_dir))


def unregister(location: Location, git_dir: str) -> None:
    """Remove the worktree at `git_dir` from the manifest, before it is removed with its configuration. It must run
    under the lock of the worktrees."""
    if os.path.lexists(scripts.folder(location.common_dir)):
        _unregister(location, _read_or_empty(location), git_dir)


def remove_copied(location: Location) -> None:
    """Remove the settings that git has copied to this new worktree from the guarded one in which it was created."""
    _remove_unrecorded(location, _path(location))


def remove_if_unused(location: Location) -> None:
    """Remove the shared part if no guarded worktree is left, after a worktree was removed. It must run under the lock
    of the worktrees."""
    if os.path.lexists(scripts.folder(location.common_dir)):
        _remove_if_unused(location, _read_or_empty(location))


def read_current(location: Location) -> Manifest:
    """The manifest without worktrees that are gone; an empty one where it is damaged."""
    return _drop_gone(location, _read_or_empty(location))


# -- inside ------------------------------------------------------------------------------------------------------------


def _path(location: Location) -> str:
    """The worktree's own configuration."""
    return os.path.join(location.git_dir, "config.worktree")


def config_worktrees(location: Location) -> list[str]:
    """The paths of all worktrees' own configuration, which need not exist."""
    git_dirs = (location.common_dir, *worktrees.linked_git_dirs(location.common_dir))
    return [os.path.join(git_dir, "config.worktree") for git_dir in git_dirs]


def _read_or_empty(location: Location) -> Manifest:
    """The manifest; an empty one where it is damaged: then `config_edit.plan` finds our blocks."""
    try:
        return manifest.read(location.common_dir)
    except GuardError:
        return Manifest(location.common_dir)


def _record_problem(location: Location, record: Manifest) -> str | None:
    path = manifest.path_of(location.common_dir)
    if not record.signed:
        return f"'{path}' was not written by git-agentos"
    if os.path.lexists(path):
        return None
    file = next(_unrecorded(location, ()), None)
    shared = os.path.join(location.common_dir, "config")
    if file is None and any(config_edit.has_block(shared, each) for each in (_SHARED_COMMENT, REPOSITORY_COMMENT)):
        file = shared
    return f"'{path}' is missing, and the guard is set in '{file}'" if file is not None else None


def _describe_lost(path: str, setting: Setting) -> str:
    where = f"the guard of '{worktree_id_of(path)}': " if os.path.basename(path) == "config.worktree" else ""
    return f"{where}'{setting.name}' in '{path}' is not what was set there"


def _apply(location: Location, edit: ConfigEdit) -> None:
    """Apply an edit, behind anything that overrides it in the file."""
    config_edit.apply(location, edit)
    if config_edit.missing_settings(edit):
        config_edit.move_to_end(location, edit)


def _exists(edit: ConfigEdit) -> bool:
    """Whether the folder of the file exists: a worktree may be gone."""
    return os.path.isdir(os.path.dirname(edit.path))


def _current_values(location: Location, edit: ConfigEdit) -> tuple[Setting, ...]:
    """The settings of an edit, for the path that the repository has now."""
    now = {each.name: each for each in values(location)}
    return tuple(now.get(each.name, each) for each in edit.values)


def _update(location: Location, edit: ConfigEdit) -> ConfigEdit:
    """The edit for the path that the repository has now; one for another path is undone."""
    current = _current_values(location, edit)
    if current == edit.values:
        return edit
    config_edit.undo(location, edit)
    return config_edit.plan(edit.path, current, config_edit.comment_of(edit.block))


def _unrecorded(location: Location, recorded: Collection[str]) -> Iterator[str]:
    """The worktrees' own configuration files that have a block of git-agentos and are not in the manifest."""
    for path in config_worktrees(location):
        with contextlib.suppress(OSError, GuardError):
            if path not in recorded and config_edit.has_block(path, COMMENT):
                yield path


def _remove_unrecorded(location: Location, path: str) -> None:
    """Remove a block of git-agentos that is not in the manifest, wherever it leads."""
    if config_edit.has_block(path, COMMENT):
        config_edit.remove_block(location, path, _settings_of_ours(location, path), COMMENT)


def _settings_of_ours(location: Location, path: str) -> list[Setting]:
    """The settings in the file that lead to a guard, of this repository or of another one."""
    actual = configuration.read_file(path)
    settings = [Setting("core", "hooksPath", each) for each in actual.get("core.hookspath", ())]
    settings += [Setting("core", "fsmonitor", each) for each in actual.get("core.fsmonitor", ())]
    ours = [each for each in settings if user_hooks.is_guards(each.value.strip("'"), location.common_dir)]
    return [*ours, Setting("core", "fsmonitorHookVersion", "2")]


def _own_edit(record: Manifest, location: Location) -> ConfigEdit | None:
    return record.worktrees.get(manifest.key_of(location.common_dir, location.git_dir) or "")


def _unregister(location: Location, record: Manifest, git_dir: str) -> Manifest:
    """The manifest without one worktree, written."""
    key = manifest.key_of(location.common_dir, git_dir)
    if key is not None and key in record.worktrees:
        record = record._replace(worktrees={each: edit for each, edit in record.worktrees.items() if each != key})
        manifest.write(location.common_dir, record)
    return record


def _drop_gone(location: Location, record: Manifest) -> Manifest:
    """The manifest without worktrees that are gone."""
    keys = {manifest.key_of(location.common_dir, os.path.dirname(path)) for path in config_worktrees(location)}
    return record._replace(worktrees={key: edit for key, edit in record.worktrees.items() if key in keys})


def _has_extension(location: Location) -> bool:
    actual = configuration.read_file(os.path.join(location.common_dir, "config"))
    return parse_boolean(actual.get(_EXTENSION, [""])[-1]) is True


def _share(location: Location, record: Manifest) -> Manifest:
    """Have git read each worktree's own configuration."""
    path = os.path.join(location.common_dir, "config")
    if record.shared is not None:
        shared, main = record.shared._replace(path=path), record.main
    elif _has_extension(location):
        return record
    else:
        actual = configuration.read_file(path)
        relocated = [Setting("core", "bare", "true")] if parse_boolean(actual.get("core.bare", [""])[-1]) else []
        relocated += [Setting("core", "worktree", each) for each in actual.get("core.worktree", [])[-1:]]
        extension = Setting("extensions", "worktreeConfig", "true")
        shared = config_edit.plan(path, [extension], _SHARED_COMMENT, relocated=relocated)
        of_main = os.path.join(location.common_dir, "config.worktree")
        main = config_edit.plan(of_main, relocated, _SHARED_COMMENT) if relocated else None
    record = record._replace(shared=shared, main=main)
    manifest.write(location.common_dir, record)
    if main is not None:
        _apply(location, main)
    _apply(location, shared)
    return record


def _remove_if_unused(location: Location, record: Manifest) -> None:
    record = _drop_gone(location, record)
    if not record.worktrees:
        for path in config_worktrees(location):
            _remove_unrecorded(location, path)
        if record.shared is not None:
            if not any((config_edit.read(path) or b"").strip() for path in _users_files(location, record)):
                config_edit.undo(location, record.shared)
                if record.main is not None:
                    config_edit.undo(location, record.main)
            record = record._replace(shared=None, main=None)
    manifest.write(location.common_dir, record)
    if record.empty:
        scripts.uninstall(location)


def _users_files(location: Location, record: Manifest) -> Iterator[str]:
    """The worktrees' own configuration files, without the one that holds nothing but settings that `enable` has moved
    there."""
    for path in config_worktrees(location):
        if record.main is None or record.main.path != path or record.main.after != config_edit.read(path):
            yield path
