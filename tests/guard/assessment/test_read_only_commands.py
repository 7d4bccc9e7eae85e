"""Commands that only look, and what they are told to run or to write: everything that git takes for that is known."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from git_agentos.guard.assessment.assessor import assess_git
from git_agentos.guard.call import Call
from git_agentos.guard.decision import ALLOW, FORBID
from git_agentos.guard.identity import Identity
from git_agentos.guard.paths import is_device
from git_agentos.guard.policy import config_keys, harmless_programs, option_table, subcommands
from tests.support import tool
from tests.support.guard import policy_repository
from tests.support.guard.guarded_worktree import guarded
from tests.support.repo import Repo, blob_id

AGENT = Identity("dev", "environment")
CANARY = "work that is nowhere else\n"

# All other commands of git: they write into the git directory, into the worktree (`commands` says what), or nothing.
_WRITES_NOTHING_NAMED = frozenset(
    """
    add add--interactive am annotate archimport backfill bisect bisect--helper blame branch cat-file check-attr
    check-ignore check-mailmap check-ref-format checkout checkout--worker checkout-index cherry cherry-pick citool
    clean clone column commit commit-graph commit-tree config count-objects credential credential-cache
    credential-cache--daemon cvsexportcommit cvsimport cvsserver describe diff diff-files diff-index diff-pairs
    diff-tree difftool difftool--helper env--helper fetch fetch-pack filter-branch fmt-merge-msg for-each-ref
    for-each-repo format-rev fsck fsck-objects fsmonitor--daemon gc get-tar-commit-id gitk gitweb grep gui
    gui--askpass gui--askyesno hash-object help history hook http-backend http-fetch http-push imap-send init init-db
    instaweb last-modified log ls-files ls-remote ls-tree maintenance merge merge-base merge-index merge-octopus
    merge-one-file merge-ours merge-recursive merge-recursive-ours merge-recursive-theirs merge-resolve merge-subtree
    merge-tree mergetool mergetool--lib mktag mktree multi-pack-index mv name-rev notes p4 pack-objects pack-redundant
    pack-refs patch-id pickaxe prune prune-packed pull push quiltimport range-diff rebase receive-pack reflog refs
    remote remote-ext remote-fd remote-ftp remote-ftps remote-http remote-https repack replace replay repo
    request-pull rerere reset restore rev-list rev-parse revert rm scalar send-email send-pack sh-i18n
    sh-i18n--envsubst sh-setup shell shortlog show show-branch show-index show-ref sparse-checkout stage stash status
    stripspace submodule submodule--helper subtree svn switch symbolic-ref tag unpack-file unpack-objects update-index
    update-ref update-server-info upload-archive upload-archive--writer upload-pack url-parse var verify-commit
    verify-pack verify-tag version web--browse whatchanged worktree write-tree
    """.split()
)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    return policy_repository.build(tmp_path_factory.mktemp("lookers"))


def call(repo: Repo, text: str, program: str = "") -> Call:
    words = [word.replace("PROGRAM", program) for word in shlex.split(text)]
    environment = dict(os.environ)
    while "=" in words[0]:
        key, _, value = words.pop(0).partition("=")
        environment[key] = value
    return Call(tuple(words), str(repo.path), environment)


def decided(repo: Repo, text: str) -> tuple[str, frozenset[str]]:
    found = assess_git(call(repo, text), AGENT).decision
    return found.decision, frozenset(found.operations)


def run(repo: Repo, text: str) -> None:
    """Do it, whatever comes of it."""
    asked = call(repo, text)
    subprocess.run(asked.argv, cwd=asked.cwd, env=dict(asked.environment), input=b"", capture_output=True, check=False)


# -- which commands there are ------------------------------------------------------------------------------------------


def test_every_command_of_git_is_known(here: Repo) -> None:
    """`git help -a`, and what lies in git's own folder. What is new in a git is classified before it is supported."""
    listed = re.findall(
        r"^   ([a-z][\w-]*)", here.text("help", "-a", "--no-external-commands", "--no-aliases"), re.MULTILINE
    )
    builtin = here.text("--list-cmds=main").split()
    assert len(listed) > 100 and len(builtin) > 100
    concepts = set(here.text("--list-cmds=list-guide").split())
    others = {"sh-i18n", "sh-setup"}  # text that scripts read in, not commands
    missing = {name for name in (*listed, *builtin) if not subcommands.is_known(name)} - concepts - others
    interfaces = set(re.findall(r"^   (\S+)", here.text("help", "-a").partition("User-facing")[2], re.MULTILINE))
    assert missing - interfaces == set()


# What ends the names of keys whose value is run, or names what is run; and keys in which it says something else.
_RUNS = re.compile(
    r"(cmd|command|program|helper|textconv|\.driver|editor|pager|hook|\.clean|\.smudge|\.process|askpass|gitproxy|"
    r"tunnel|difffilter|external|\.vcs|uploadpack|receivepack|httpd|sendmail)$",
    re.IGNORECASE,
)
_DO_NOT = {
    "advice.ignoredHook",
    "advice.waitingForEditor",
    "column.clean",
    "color.pager",
    "diff.<driver>.cachetextconv",
}


def test_keys_holding_commands_are_known(here: Repo) -> None:
    keys = here.text("help", "-c").split()
    found = [key for key in keys if _RUNS.search(key) and key not in _DO_NOT]
    assert len(found) > 25
    plain = [
        key for key in found if config_keys.category(re.sub("<.*?>", "x", key)) not in ("command", "guard", "alias")
    ]
    assert plain == []


# -- files that are written --------------------------------------------------------------------------------------------

# What each of git's commands that look is given, so that it gets to its options. FILE is written, if it takes it.
_OPERANDS = {
    "annotate": "clean.txt", "archive": "HEAD", "blame": "clean.txt", "bundle": "create ../other.bundle HEAD",
    "cat-file": "-p HEAD", "check-attr": "-a clean.txt", "check-ignore": "clean.txt", "cherry": "main HEAD",
    "describe": "--always", "diff-index": "HEAD", "diff-tree": "HEAD~1 HEAD", "fast-export": "HEAD",
    "format-patch": "-1 --stdout", "grep": "line", "index-pack": "--stdin", "ls-remote": ".", "ls-tree": "HEAD",
    "merge-base": "HEAD HEAD~1", "name-rev": "HEAD", "range-diff": "HEAD~1..HEAD HEAD~1..HEAD", "reflog": "show",
    "request-pull": "HEAD~1 .", "rev-list": "HEAD", "shortlog": "HEAD", "show-branch": "main", "stash": "list",
    "verify-commit": "HEAD",
}  # fmt: skip
_FORMS = (
    "--output=FILE", "--output FILE", "--outpu=FILE", "--export-marks=FILE", "--export-marks FILE", "-oFILE", "-o FILE",
)  # fmt: skip


def _lookers() -> list[str]:
    others = (
        "archive bundle diff diff-files diff-index diff-tree fast-export format-patch grep index-pack log ls-remote "
    )
    others += "range-diff reflog request-pull show stash difftool"
    servers = {"upload-pack", "upload-archive", "gitk", "gitweb", "help", "unpack-file", "fsck", "fsck-objects"}
    return sorted({*subcommands._READ_ONLY, *others.split()} - servers)


def test_reading_commands_write_no_file(tmp_path: Path) -> None:
    """Every command that counts as looking is run with every option that names a file to write: where the file is
    another afterwards, it did not count as looking."""
    here = policy_repository.build(tmp_path)
    canary = here.path / "canary.txt"
    written = set()
    for command in _lookers():
        operands = _OPERANDS.get(command, "")
        first = operands.split()[:1] if command in ("stash", "reflog", "bundle") else []
        rest = operands.split()[len(first) :]
        for form in _FORMS:
            words = ["git", command, *first, *form.replace("FILE", "canary.txt").split(), *rest]
            text = shlex.join(words)
            canary.write_text(CANARY)
            found = decided(here, text)
            run(here, text)
            if not canary.exists() or canary.read_text() != CANARY:
                written.add(command)
                assert found[0] != ALLOW and found[1] & {"write-file", "unknown-option"}, (text, found)
    assert {"log", "shortlog", "blame", "rev-list", "fast-export", "diff-index", "stash", "reflog"} <= written


WRITES = [
    "git mailinfo canary.txt other.txt",
    "git mailinfo message.txt canary.txt",
    "git interpret-trailers --in-place --trailer a:b canary.txt",
    "git interpret-trailers --in-pl canary.txt",
    "git bundle create canary.txt HEAD",
    "git archive -o canary.txt HEAD",
    "git diagnose -s /../canary",
    "git index-pack -o canary.txt x.pack",
    "git apply --build-fake-ancestor=canary.txt x.patch",
    "git read-tree --index-output=canary.txt HEAD",
    "git log --output=/proc/self/cwd/canary.txt",
    "git -c http.cookieFile=canary.txt -c http.saveCookies=true ls-remote https://localhost:1/x",
    "git fast-import --export-marks=canary.txt",
]


@pytest.mark.parametrize("text", WRITES)
def test_options_naming_written_files(here: Repo, text: str) -> None:
    (here.path / "canary.txt").write_text(CANARY)
    decision, operations = decided(here, text)
    assert decision != ALLOW and "write-file" in operations, (decision, operations)


IN_GIT_DIR = [
    "git shortlog --output=.git/config HEAD",
    "git mailsplit -o.git/hooks mbox",
    "git bugreport -o .git/hooks -s x",
    "git -C .git/hooks format-patch -1",
    "git -c format.outputDirectory=.git/hooks format-patch -1",
    "git interpret-trailers --in-place .git/config",
    "git checkout-index --prefix=.git/hooks/ -a",
    "git fast-export --export-marks .git/HEAD HEAD",
    "GIT_TRACE=$PWD/.git/HEAD git status",
    "GIT_TRACE2_EVENT=$PWD/.git/config git log",
    "GIT_TRACE_PACKFILE=$PWD/.git/index git fetch",
]


@pytest.mark.parametrize("text", IN_GIT_DIR)
def test_writes_into_git_directory_are_forbidden(here: Repo, text: str) -> None:
    decision, operations = decided(here, text.replace("$PWD", str(here.path)))
    assert decision == FORBID and "git-dir-write" in operations, (decision, operations)


SAVED = [
    "GIT_TRACE=$PWD/canary.txt git status",
    "GIT_TRACE2_PERF=$PWD/canary.txt git diff",
    "git config -f canary.txt a.b c",
    "git format-patch -1",
    "git format-patch --numbered-files -1",
]


@pytest.mark.parametrize("text", SAVED)
def test_changed_file_of_worktree_is_saved_first(here: Repo, text: str) -> None:
    for name in ("canary.txt", "0001-mine.patch"):
        (here.path / name).write_text(CANARY)
    found = assess_git(call(here, text.replace("$PWD", str(here.path))), AGENT)
    assert found.decision.decision == ALLOW
    assert found.save is not None, found
    # Assessing the command runs git, which must not append its trace to the file before the checkpoint.
    assert here.read("canary.txt") == here.read("0001-mine.patch") == CANARY.encode()
    (here.path / "0001-mine.patch").unlink()


def test_every_command_says_which_files_it_writes(here: Repo) -> None:
    """`git help -a`, git's own folder, and its interfaces for people: a command that is new is looked at for what it
    writes before it is supported."""
    listed = set(here.text("--list-cmds=main,nohelpers,others").split()) | set(here.text("--list-cmds=main").split())
    listed |= set(re.findall(r"^   ([a-z][\w-]*) ", here.text("help", "-a", "--no-aliases"), re.MULTILINE))
    pages = set(here.text("--list-cmds=list-guide").split())
    pages |= set(re.findall(r"^   (\S+)", here.text("help", "-a").partition("User-facing")[2], re.MULTILINE))
    told = {name.split()[0] for name in option_table.WRITES} | _WRITES_NOTHING_NAMED
    assert len(listed) > 150
    assert {
        each for each in listed - told - pages if not each.startswith("agentos") and subcommands.is_known(each)
    } == set()
    assert {each.split()[0] for each in option_table.WRITES} & _WRITES_NOTHING_NAMED == set()
    assert all(subcommands.is_known(each.split()[0]) for each in option_table.WRITES)


# What these options of git's are given is read, or is no file name of this machine's.
_READ = set(
    """
    pathspec-from-file ignore-revs-file contents add-file add-virtual-file path template file pathspec exclude-from
    exclude-per-directory include exclude signature-file import-marks import-marks-if-exists recurse-submodules
    recursive upload-pack separate-git-dir object-dir socket prefix src-prefix dst-prefix line-prefix relative
    rotate-to skip-to
    subject-prefix error-unmatch cacheinfo strict expire-to filter-to description-file mailmap-file folder
    """.split()
)


def test_options_taking_files_are_known(here: Repo) -> None:
    """By git's own tables of options, as `git COMMAND -h` shows them."""
    takes = re.compile(
        r"^ +(?:-\w, )?--(?:\[no-\])?([\w-]+)(?:\[?=| )<[^>]*(?:file|path|dir|folder)[^>]*>", re.MULTILINE
    )
    found = set()
    for command in here.text("--list-cmds=main,nohelpers").split():
        said = subprocess.run(["git", command, "-h"], cwd=here.path, capture_output=True, text=True, check=False)
        found |= {(command, name) for name in takes.findall(said.stdout + said.stderr)}
    assert len(found) > 30
    written = {
        (command.split()[0], token[:-1])
        for command, tokens in option_table.WRITES.items()
        for token in tokens.split()
        if token[-1] in "=/"
    }
    unknown = {(command, name) for command, name in found - written if name not in _READ and name != "output"}
    assert unknown == set()


OUTSIDE = [
    "git diff --output=../main/precious.txt",
    "git -C src log --outp ../../main/precious.txt",
    "git archive -o ../main/precious.txt HEAD",
    "git archive -vo ../main/precious.txt HEAD",
    "git bundle create ../main/precious.txt HEAD",
    "git mailinfo ../main/precious.txt x",
    "git mailinfo x ../main/precious.txt",
    "git interpret-trailers --in-place ../main/precious.txt",
    "git config -f ../main/precious.txt a.b c",
    "git format-patch -1 -o ../main",
    "git index-pack -o ../main/precious.txt x.pack",
    "git index-pack ../main/precious.pack",
    "git fast-export --export-marks=../main/precious.txt HEAD",
    "git merge-file ../main/precious.txt clean.txt dirty.txt",
    "git credential-store --file=../main/precious.txt erase",
    "git stash show --output=../main/precious.txt",
    "git bisect view --output=../main/precious.txt",
    "git read-tree --index-output=../main/precious.txt HEAD",
    "git mailsplit -o../main mbox",
    "git daemon --pid-file=../main/precious.txt",
]


@pytest.mark.parametrize("text", OUTSIDE)
def test_files_outside_of_the_worktree_are_not_overwritten(here: Repo, text: str) -> None:
    folder = here.path.parent / "main"
    for name in ("precious.txt", "precious.idx", "0001-mine.patch", "0001"):
        (folder / name).write_text(CANARY)
    decision, operations = decided(here, text)
    assert decision != ALLOW and "file-outside" in operations, (decision, operations)
    # What is new there is nobody's loss.
    for name in ("precious.txt", "precious.idx", "0001-mine.patch", "0001"):
        (folder / name).unlink()
    assert "file-outside" not in decided(here, text)[1]


def test_overwritten_file_of_own_worktree_is_saved_first(tmp_path: Path) -> None:
    dev = guarded(policy_repository.build(tmp_path))
    commands = {
        "dirty.txt": "git diff --output=dirty.txt HEAD",
        "old.bundle": "git bundle create -q old.bundle HEAD",
        "cache/x.o": "git archive -o cache/x.o HEAD",
        "marks": "git -C src fast-export --export-marks=marks HEAD",
        "0001-second.patch": "git format-patch -q -1",
    }
    before = {}
    for name in commands:
        dev.write(name, f"{CANARY}{name}\n")
        before[name] = blob_id(dev.read(name))
    done = tool.run(dev.path, "guard", "exec", "--", "sh", "-ec", "; ".join(commands.values()))
    assert done.code == 0, done
    held = dev.text("rev-list", "--objects", "refs/agentos/timelines/dev").split()
    for name, oid in before.items():
        assert blob_id(dev.read(name)) != oid, name
        assert oid in held, name


# -- programs that are run ---------------------------------------------------------------------------------------------

# PROGRAM would delete the work in it. What runs it, of all that only looks.
RUNS = [
    "git difftool -y -x PROGRAM HEAD",
    "git difftool -yx PROGRAM HEAD",
    "git difftool -dx PROGRAM HEAD",
    "git difftool --extcmd=PROGRAM -y",
    "git difftool --ext PROGRAM -y",
    "git difftool --diff-filter M -y -x PROGRAM",
    "git difftool -y -t /tmp/tool HEAD",
    "git difftool -y --tool=../../../tmp/tool HEAD",
    "git grep -OPROGRAM line",
    "git grep -nOPROGRAM line",
    "git grep -h -OPROGRAM line",
    "git grep --open-files-in-pager=PROGRAM line",
    "git grep --open=PROGRAM line",
    "git grep -e x -OPROGRAM",
    "GIT_PAGER=PROGRAM git grep -O line",
    "GIT_EXTERNAL_DIFF=PROGRAM git diff",
    "GIT_EXTERNAL_DIFF=PROGRAM git log -p --ext-diff",
    "GIT_DIFFTOOL_EXTCMD=PROGRAM git difftool -y",
    "GIT_DIFF_TOOL=../../../tmp/tool git difftool -y",
    "GIT_PAGER=PROGRAM git log",
    "GIT_SSH=PROGRAM git ls-remote host:x",
    "GIT_SSH_COMMAND=PROGRAM git ls-remote host:x",
    "GIT_ASKPASS=PROGRAM git ls-remote https://x",
    "GIT_PROXY_COMMAND=PROGRAM git ls-remote git://x",
    "GIT_ALLOW_PROTOCOL=ext git ls-remote x",
    "git -c diff.external=PROGRAM diff",
    "git -c diff.x.command=PROGRAM diff",
    "git -c diff.x.textconv=PROGRAM log -p",
    "git -c difftool.x.cmd=PROGRAM difftool -t x",
    "git -c difftool.meld.path=PROGRAM difftool -t meld",
    "git -c mergetool.x.path=PROGRAM difftool -t x",
    "git -c diff.tool=/tmp/tool difftool",
    "git -c core.pager=PROGRAM log",
    "git -c pager.log=PROGRAM log",
    "git -c pager.status=PROGRAM -p status",
    "git -c man.x.cmd=PROGRAM help log",
    "git -c man.man.path=PROGRAM help log",
    "git -c browser.x.cmd=PROGRAM help -w log",
    "git -c help.browser=/tmp/tool help -w log",
    "git -c core.sshCommand=PROGRAM ls-remote host:x",
    "git -c core.gitProxy=PROGRAM ls-remote git://x",
    "git -c core.alternateRefsCommand=PROGRAM ls-remote",
    "git -c credential.helper=PROGRAM credential fill",
    "git -c credential.https://x.helper=PROGRAM ls-remote https://x",
    "git -c filter.x.clean=PROGRAM status",
    "git -c filter.x.process=PROGRAM diff",
    "git -c filter.x.smudge=PROGRAM cat-file --filters HEAD:clean.txt",
    "git -c gpg.program=PROGRAM verify-commit HEAD",
    "git -c gpg.ssh.program=PROGRAM log --show-signature",
    "git -c gpg.ssh.defaultKeyCommand=PROGRAM log",
    "git -c trailer.x.cmd=PROGRAM interpret-trailers",
    "git -c tar.x.command=PROGRAM archive --format=x HEAD",
    "git -c uploadpack.packObjectsHook=PROGRAM upload-pack .",
    "git -c remote.origin.uploadpack=PROGRAM ls-remote",
    "git -c interactive.diffFilter=PROGRAM status",
    "git -c instaweb.httpd=PROGRAM status",
    "git --config-env=diff.external=VALUE diff",
    "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=diff.external GIT_CONFIG_VALUE_0=PROGRAM git diff",
    "GIT_CONFIG_PARAMETERS=\"'diff.external'='PROGRAM'\" git diff",
    "git ls-remote --upload-pack=PROGRAM .",
    "git ls-remote --upl PROGRAM .",
    "git ls-remote --exec=PROGRAM .",
    "git ls-remote 'ext::PROGRAM'",
    "git archive --remote=. --exec=PROGRAM HEAD",
    "git archive --remote='ext::PROGRAM' HEAD",
    "git request-pull HEAD 'ext::PROGRAM'",
    "git push --dry-run --receive-pack=PROGRAM .",
    "git push -n 'ext::PROGRAM'",
    "git fetch --dry-run --upload-pack PROGRAM .",
    "git send-email --dry-run --to-cmd=PROGRAM x.patch",
    "git -c instaweb.browser=/tmp/tool instaweb",
    "git bisect run git reset --hard",
]
PROGRAMS = ["cp clean.txt", "truncate -s0", "tee dirty.txt", "rm -f dirty.txt", "/bin/cp"]


@pytest.mark.parametrize("text", RUNS)
def test_program_run_by_git_needs_approval(here: Repo, text: str) -> None:
    for program in PROGRAMS if "PROGRAM" in text or "VALUE" in text else PROGRAMS[:1]:
        asked = call(here, text, program)
        found = assess_git(asked._replace(environment={**asked.environment, "VALUE": program}), AGENT).decision
        assert found.decision != ALLOW, (asked.argv, found)
        assert "look" not in found.operations, (asked.argv, found)


SHOWS = [
    "GIT_PAGER='less -FRX' git log",
    "GIT_PAGER='head -n 10000 | cat' git log",
    "PAGER=/usr/bin/less git log",
    "GIT_PAGER='delta --side-by-side' git diff",
    "GIT_EXTERNAL_DIFF=difft git diff",
    "GIT_EXTERNAL_DIFF='difft --display=inline' git log -p --ext-diff",
    "GIT_SSH_COMMAND='ssh -i ~/.ssh/key -o IdentitiesOnly=yes -p 2222' git ls-remote host:x",
    "GIT_SSH=/usr/bin/ssh git ls-remote host:x",
    "GIT_ASKPASS=/bin/true git ls-remote https://x",
    "git -c core.pager='less -R' log",
    "git -c pager.log=false log",
    "git -c pager.branch=cat branch",
    "git -c filter.lfs.smudge= -c filter.lfs.required=false status",
    "git -c filter.lfs.smudge='git-lfs smudge --skip -- %f' status",
    "git -c credential.helper= ls-remote https://x",
    "git -c credential.helper='!gh auth git-credential' ls-remote https://x",
    "git -c credential.helper='cache --timeout=60' ls-remote https://x",
    'git -c difftool.x.cmd=\'diff -u "$LOCAL" "$REMOTE"\' difftool -y -t x',
    "git -c diff.tool=vimdiff status",
    "git difftool -y -x 'diff -u' HEAD",
    "git difftool -y -x cat HEAD",
    "git difftool -t meld HEAD",
    "git grep -Oless line",
    "git grep -O line",
    "git grep -hn -e -O line",
    "git grep --or -e a -e b",
    "git -c gpg.program=gpg2 log --show-signature",
    "git push --dry-run --receive-pack=/usr/bin/git-receive-pack origin",
    "GIT_TRACE=1 git status",
    "GIT_TRACE=/dev/null git status",
    "GIT_TRACE=/tmp/no-such-trace git status",
    "git interpret-trailers --in-place .git/COMMIT_EDITMSG",
    "git log --output=/dev/stdout",
    "git shortlog --output=no-such-file HEAD",
    "git bugreport -o .. -s new",
]


@pytest.mark.parametrize("text", SHOWS)
def test_program_that_only_shows_is_allowed(here: Repo, text: str) -> None:
    assert decided(here, text)[0] == ALLOW, decided(here, text)


def test_users_own_setting_needs_no_approval(here: Repo) -> None:
    asked = call(here, "GIT_PAGER='my-pager --fancy' GIT_EXTERNAL_DIFF=my-diff git log -p")
    users = {**os.environ, "GIT_PAGER": "my-pager --fancy", "GIT_EXTERNAL_DIFF": "my-diff"}
    assert assess_git(asked, AGENT, trusted=users).decision.decision == ALLOW
    assert assess_git(asked, AGENT, trusted={**users, "GIT_PAGER": "my-pager"}).decision.decision != ALLOW
    assert assess_git(asked, AGENT).decision.decision != ALLOW


def test_an_editors_own_helper(here: Repo, tmp_path: Path) -> None:
    """IDEs set GIT_ASKPASS and GIT_EDITOR to scripts of theirs."""
    helper = tmp_path / "askpass.sh"
    helper.write_text("#!/bin/sh\n")
    assert decided(here, f"GIT_ASKPASS={helper} git fetch")[0] == ALLOW
    assert decided(here, f"GIT_EDITOR={helper} git commit")[0] == ALLOW
    link = tmp_path / "cp"
    link.symlink_to("/bin/cp")
    for text in (f"GIT_EXTERNAL_DIFF={helper} git diff", f"GIT_EDITOR='{helper} x' git commit"):
        assert decided(here, text)[0] != ALLOW
    assert decided(here, f"GIT_PAGER={link} git log")[0] != ALLOW


@pytest.mark.parametrize(
    ("text", "role"),
    [
        ("less -o clean.txt", harmless_programs.PAGER),
        ("less +!rm", harmless_programs.PAGER),
        ("sh", harmless_programs.PAGER),
        ("vim", harmless_programs.PAGER),
        ("ed", harmless_programs.PAGER),
        ("cat > x", harmless_programs.PAGER),
        ("cat; rm x", harmless_programs.PAGER),
        ("cat `x`", harmless_programs.PAGER),
        ("cat $(x)", harmless_programs.PAGER),
        ("cat\nrm x", harmless_programs.PAGER),
        ("cat | tee x", harmless_programs.PAGER),
        ("cat | sh", harmless_programs.PAGER),
        ("./less", harmless_programs.PAGER),
        ("/tmp/less", harmless_programs.PAGER),
        ("/usr/bin/../../tmp/less", harmless_programs.PAGER),
        ("vim -c :!x", harmless_programs.EDITOR),
        ("vim +!x", harmless_programs.EDITOR),
        ("emacs --eval x", harmless_programs.EDITOR),
        ("sed -i s/a/b/w/tmp/x", harmless_programs.EDITOR),
        ("sed -i s/a/b/e", harmless_programs.EDITOR),
        ("sed -i s/a/b/ other.txt", harmless_programs.EDITOR),
        ("sed -i s/$x/b/", harmless_programs.EDITOR),
        ("ssh -o ProxyCommand=x", harmless_programs.SSH),
        ("ssh -oLocalCommand=x", harmless_programs.SSH),
        ("ssh -F x", harmless_programs.SSH),
        ("ssh -E x", harmless_programs.SSH),
        ("bat --pager=x", harmless_programs.PAGER),
        ("store --file x", harmless_programs.CREDENTIAL),
        ("delta --pager x", harmless_programs.PAGER),
        ("cat", harmless_programs.OTHER),
    ],
)
def test_known_program_with_writing_argument_needs_approval(text: str, role: str) -> None:
    assert not harmless_programs.is_harmless(text, role)


def test_paths_that_lead_through_a_device(here: Repo) -> None:
    for path in ("/dev/null", "/dev/fd/3", "/proc/self/fd/1", "/dev/stdout"):
        assert is_device(path), path
    for path in ("/dev/../etc/x", "/dev/shm/x", "/proc/self/cwd/x", "/proc/1/root/x", "/proc/self/fd/3/x", "/tmp/x"):
        assert not is_device(path), path


def test_configuration_of_chosen_home_needs_approval(here: Repo, tmp_path: Path) -> None:
    """What it brings is given with the command, like `-c`."""
    users = dict(os.environ)
    for name, text in (("evil", "[diff]\n\texternal = cp\n"), ("plain", "[color]\n\tui = never\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".gitconfig").write_text(text)
        for given in (f"HOME={tmp_path / name}", f"GIT_CONFIG_GLOBAL={tmp_path / name}/.gitconfig",
                      f"GIT_CONFIG_SYSTEM={tmp_path / name}/.gitconfig GIT_CONFIG_NOSYSTEM=0"):  # fmt: skip
            asked = call(here, f"{given} git diff")
            if "HOME" in given:
                environment = {key: value for key, value in asked.environment.items() if key != "GIT_CONFIG_GLOBAL"}
                asked = asked._replace(environment=environment)
            found = assess_git(asked, AGENT, trusted=users).decision
            assert (found.decision == ALLOW) == (name == "plain"), (given, found)
    asked = call(here, f"GIT_CONFIG_GLOBAL={tmp_path}/plain/.gitconfig git status")
    assert assess_git(asked, AGENT, trusted=users).decision.decision == ALLOW
