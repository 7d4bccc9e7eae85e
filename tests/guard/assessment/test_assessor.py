"""Judgements beyond the table: who asks, what configuration says, what is saved, and what the git hooks ask."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from git_agentos.errors import ConfigurationError
from git_agentos.guard.assessment import assessor as judging
from git_agentos.guard.assessment.hook_events import RefUpdate
from git_agentos.guard.call import UNKNOWN, Call
from git_agentos.guard.decision import ALLOW, APPROVE, FORBID, Assessment, Decision, Operation, SaveScope
from git_agentos.guard.identity import PERSON, Identity
from git_agentos.guard.policy import operations, subcommands
from git_agentos.guard.policy.operations import OPERATIONS
from tests.support.confirming import set_up
from tests.support.guard import policy_repository
from tests.support.guard.table import AGENT, call_of
from tests.support.repo import ZERO, Repo


def judge(repo: Repo, command: str, who: Identity = AGENT) -> Assessment:
    return judging.assess_git(call_of(command, repo.path), who)


def decided(repo: Repo, command: str) -> tuple[str, list[str]]:
    found = judge(repo, command).decision
    return found.decision, found.operations


@pytest.fixture
def here(tmp_path: Path) -> Repo:
    return policy_repository.build(tmp_path)


# -- who ---------------------------------------------------------------------------------------------------------------


def test_persons_command_is_never_stopped(here: Repo) -> None:
    for command in ("git reset --hard", "git clean -fdx", "git push --force", "git boom", "git foo", "git status"):
        found = judge(here, command, PERSON)
        assert (found.decision.decision, found.decision.rule, found.save) == (ALLOW, None, None), command
    assert judge(here, "git reset --hard", PERSON).decision.operations == ["reset-hard"]


def test_everyone_saves_persons_losses(here: Repo) -> None:
    here.config("agentos.guard.everyone", "true")
    found = judge(here, "git reset --hard", PERSON)
    assert (found.decision.decision, found.save, found.fully_saved) == (ALLOW, SaveScope(), True)
    assert found.root == str(here.path)
    lost = judge(here, "git push --force", PERSON)
    assert (lost.decision.decision, lost.save) == (ALLOW, None)
    assert judge(here, "git status", PERSON).save is None


def test_an_ill_formed_identity_is_an_agents(here: Repo) -> None:
    assert judge(here, "git reset --hard", Identity("?", "ill-formed")).decision.decision == FORBID


# -- configuration -----------------------------------------------------------------------------------------------------


def test_policy_decides_and_the_key_is_named(here: Repo) -> None:
    set_up(here, "agentos.policy.merge", "allow")
    here.config("agentos.policy.commit", "forbid")
    here.config("agentos.policy.look", "approve")
    assert decided(here, "git merge other") == (ALLOW, ["merge"])
    found = judge(here, "git commit -m x").decision
    assert (found.decision, found.rule) == (FORBID, "agentos.policy.commit")
    assert judge(here, "git merge other").save == SaveScope()  # allowed; what it may overwrite is saved all the same


def test_policy_given_with_the_command_is_forbidden(here: Repo) -> None:
    assert decided(here, "git -c agentos.policy.reset-hard=allow reset --hard")[0] == FORBID


def test_invalid_policy_stops_agents(here: Repo) -> None:
    here.config("agentos.policy.commit", "sometimes")
    with pytest.raises(ConfigurationError, match=r"agentos\.policy\.commit"):
        judge(here, "git commit -m x")
    assert decided(here, "git status") == (ALLOW, ["look"])
    assert judge(here, "git commit -m x", PERSON) == Assessment(Decision(ALLOW, []))


def test_policy_of_other_repository_does_not_count(here: Repo, tmp_path: Path) -> None:
    lenient = Repo.init(tmp_path / "lenient")
    set_up(lenient, "agentos.policy.reset-hard", "allow")
    set_up(lenient, "agentos.policy.redirect", "allow")
    command = f"GIT_DIR={lenient.git_dir} git reset --hard"
    assert decided(here, command)[0] == FORBID
    assert decided(here, f"git --git-dir={lenient.git_dir} --work-tree=. reset --hard")[0] == FORBID
    # From the lenient one into this one, by -C or by variables.
    assert decided(lenient, f"git -C {here.path} reset --hard")[0] == FORBID
    assert decided(lenient, f"GIT_DIR={here.git_dir} GIT_WORK_TREE={here.path} git reset --hard")[0] == FORBID
    assert decided(lenient, "git reset --hard")[0] == ALLOW


def test_configured_refspecs_count(here: Repo) -> None:
    here.config("remote.origin.fetch", "+refs/heads/*:refs/heads/*")
    assert decided(here, "git fetch") == (FORBID, ["fetch-force", "fetch"])
    assert decided(here, "git fetch --all")[0] == FORBID
    assert decided(here, "git fetch origin main")[0] == ALLOW
    here.config("remote.origin.push", "+refs/heads/*:refs/heads/*")
    assert decided(here, "git push") == (FORBID, ["push-force", "push"])
    assert decided(here, "git push origin main") == (APPROVE, ["push"])
    here.config("branch.main.pushRemote", "mirror")
    assert decided(here, "git push") == (FORBID, ["push-mirror", "push"])


def test_clean_without_force_where_none_is_required(here: Repo) -> None:
    here.config("clean.requireForce", "false")
    assert decided(here, "git clean -d") == (FORBID, ["clean"])
    assert decided(here, "git -c clean.requireForce=true clean -d") == (APPROVE, ["clean-unforced"])


def test_circular_alias_is_unresolved(here: Repo) -> None:
    here.config("alias.round", "square")
    here.config("alias.square", "round")
    assert decided(here, "git round") == (APPROVE, ["unresolved"])
    here.config("alias.itself", "!git itself")
    assert decided(here, "git itself")[0] == APPROVE
    here.config("alias.broken", "commit -m 'x")
    assert decided(here, "git broken") == (APPROVE, ["unresolved"])


def test_alias_may_have_name_of_missing_program(here: Repo) -> None:
    here.config("alias.filter-repo", "reset --hard")
    assert "reset-hard" in decided(here, "git filter-repo --analyze")[1]
    here.config("alias.lfs", "clean -fd")
    assert decided(here, "git lfs ls-files")[0] == FORBID


# -- what is saved -----------------------------------------------------------------------------------------------------


def test_assessment_says_what_to_save(here: Repo) -> None:
    other = here.oid("other")
    for command, save in (
        ("git reset --hard", SaveScope()),
        ("git clean -fd", SaveScope()),
        ("git clean -fdx", SaveScope(everything_ignored=True)),
        ("git clean -fdX cache", SaveScope(ignored=frozenset({b"cache/x.o"}))),
        ("git branch -D other", SaveScope(commits=(other,))),
        ("git branch -D behind", SaveScope()),
        ("git branch -f other", SaveScope(commits=(other,))),
        ("git update-ref -d refs/heads/other", SaveScope(commits=(other,))),
        ("git stash drop", SaveScope(commits=(here.oid("stash"),))),
        ("git stash clear", SaveScope(commits=(here.oid("stash"),))),
        ("git add both.txt", SaveScope()),
        ("git add -A", SaveScope()),
        ("git stash pop", SaveScope(commits=(here.oid("stash"),))),
        ("git stash apply", SaveScope(commits=(here.oid("stash"),))),
        ("git stash -u", SaveScope()),
        ("git push --force", None),
        ("git config core.pager less", None),
        ("git worktree remove --force x", None),
        ("git add dirty.txt", None),
        ("git commit -m x", None),
        ("git status", None),
    ):
        assert judge(here, command).save == save, command


def test_losses_beyond_checkpoints_are_not_fully_saved(here: Repo) -> None:
    for command, fully_saved in (
        ("git reset --hard", True),
        ("git clean -fdx", True),
        ("git branch -D other", True),
        ("git checkout -- dirty.txt", True),
        ("git stash clear", True),
        ("git push --force", False),
        ("git filter-branch HEAD", False),
        ("git commit --no-verify -m x", False),
        ("git -c core.fsmonitor= reset --hard", False),
        ("git foo", False),
        ("git gc --prune=now", False),
    ):
        assert judge(here, command).fully_saved is fully_saved, command


def test_clean_of_nested_repository_is_not_fully_saved(here: Repo) -> None:
    assert judge(here, "git clean -ffd").fully_saved
    Repo.init(here.path / "inner").commit("x")
    assert not judge(here, "git clean -ffd").fully_saved
    assert judge(here, "git clean -fd").fully_saved


def test_ignored_files_in_the_way_are_saved(here: Repo) -> None:
    here.git("checkout", "-q", "-b", "tracks", "v1", "-f")
    here.write("cache/x.o", "tracked here\n")
    here.write("plain", "tracked here\n")
    here.git("add", "-f", "cache/x.o", "plain")
    here.git("commit", "-q", "-m", "tracks what is ignored elsewhere")
    here.git("checkout", "-q", "main")
    here.write("cache/x.o", "ignored\n")
    here.write("cache/y.o", "not in the way\n")
    here.write(".git/info/exclude", "plain/\n")
    here.write("plain/deep/file", "in the place of a file\n")
    expected = SaveScope(ignored=frozenset({b"cache/x.o", b"plain/deep/file"}))
    for command in ("git switch tracks", "git checkout tracks", "git merge tracks", "git reset --hard tracks"):
        assert judge(here, command).save == expected, command
    assert judge(here, "git switch tracks").decision.decision == ALLOW
    assert judge(here, "git switch other").save is None
    # From a folder below, too.
    assert judging.assess_git(call_of("git switch tracks", here.path / "src"), AGENT).save == expected


def test_commits_of_detached_head_are_saved(here: Repo) -> None:
    here.git("checkout", "-q", "--detach")
    here.git("commit", "-q", "-m", "of nobody")
    commit = here.oid()
    found = judge(here, "git switch other")
    assert (found.decision.decision, found.save) == (ALLOW, SaveScope(commits=(commit,)))
    assert judge(here, "git reset --hard v1").save == SaveScope(commits=(commit,))
    here.git("branch", "kept")
    assert judge(here, "git switch other").save is None


def test_rewriting_saves_the_old_commit(here: Repo) -> None:
    here.git("commit", "-q", "-m", "not pushed")
    commit = here.oid()
    for command in ("git commit --amend", "git rebase v1", "git reset HEAD~1", "git reset --soft HEAD~1", "git pull"):
        assert judge(here, command).save == SaveScope(commits=(commit,)), command


# -- states ------------------------------------------------------------------------------------------------------------


def test_a_conflict(repo: Repo) -> None:
    repo.write("readme.txt", "mine\n")
    repo.commit("mine")
    repo.try_git("merge", "other")
    assert decided(repo, "git checkout --ours readme.txt") == (APPROVE, ["checkout-conflict"])
    assert decided(repo, "git checkout --theirs -- .") == (APPROVE, ["checkout-conflict"])
    assert decided(repo, "git checkout -m -- readme.txt") == (APPROVE, ["checkout-conflict"])
    assert decided(repo, "git restore --theirs readme.txt") == (APPROVE, ["checkout-conflict"])
    assert decided(repo, "git checkout HEAD -- readme.txt") == (FORBID, ["checkout-dirty"])
    assert decided(repo, "git checkout -- readme.txt")[0] == FORBID
    assert decided(repo, "git merge --abort") == (ALLOW, ["abort"])
    assert judge(repo, "git merge --abort").save == SaveScope()
    assert decided(repo, "git merge --continue") == (ALLOW, ["continue"])
    assert decided(repo, "git add readme.txt")[0] == ALLOW
    # Resolved and staged: to make the conflict anew would overwrite that.
    repo.write("readme.txt", "resolved\n")
    repo.add("readme.txt")
    assert decided(repo, "git checkout -m -- readme.txt") == (FORBID, ["checkout-dirty"])


def test_an_unborn_branch_and_no_repository(empty_repo: Repo, tmp_path: Path) -> None:
    empty_repo.write("new.txt", "x\n")
    for command in ("git add new.txt", "git commit -m x", "git status", "git switch -c x", "git reset"):
        assert judge(empty_repo, command).decision.decision == ALLOW, command
    assert decided(empty_repo, "git reset --hard")[0] == FORBID
    nowhere = Repo(tmp_path / "nowhere")
    nowhere.path.mkdir()
    for command in ("git init", "git clone x", "git status", "git add x", "git commit -m x", "git log"):
        assert judge(nowhere, command).decision.decision == ALLOW, command
    for command in ("git reset --hard", "git clean -fd", "git push -f"):
        assert judge(nowhere, command).decision.decision == FORBID, command
    assert decided(nowhere, "git checkout -- x")[0] == APPROVE
    gone = Call(("git", "clean", "-fd"), str(tmp_path / "gone"), os.environ)
    assert judging.assess_git(gone, AGENT).decision.decision == FORBID


def test_names_that_are_options_or_patterns(here: Repo) -> None:
    here.write("-f", "a file\n")
    here.write("--hard", "a file\n")
    here.write("[a]*", "a file\n")
    here.add("-f", "--hard", "[a]*")
    assert decided(here, "git reset -- --hard") == (ALLOW, ["reset-index"])
    assert decided(here, "git checkout -- -f") == (ALLOW, ["checkout-paths"])
    assert decided(here, "git add -- -f") == (ALLOW, ["add"])
    here.write("-f", "changed\n")
    assert decided(here, "git checkout -- -f") == (FORBID, ["checkout-dirty"])


def test_a_branch_and_a_file_of_one_name(here: Repo) -> None:
    here.git("branch", "dirty.txt")
    assert decided(here, "git checkout dirty.txt") == (ALLOW, ["switch"])
    assert decided(here, "git checkout -- dirty.txt") == (FORBID, ["checkout-dirty"])


def test_a_name_that_is_not_utf8(here: Repo) -> None:
    here.write(b"odd\xff", "x\n")
    here.git("add", b"odd\xff")
    here.git("commit", "-q", "-m", "odd")
    here.write(b"odd\xff", "changed\n")
    argv = ("git", "checkout", "--", os.fsdecode(b"odd\xff"))
    assert judging.assess_git(Call(argv, str(here.path), os.environ), AGENT).decision.decision == FORBID


# -- protected branches ------------------------------------------------------------------------------------------------


def test_protected_branches(here: Repo) -> None:
    here.config("agentos.protected", "main release/*")
    for command in (
        "git commit -m x",
        "git commit --amend",
        "git merge other",
        "git push origin HEAD",
        "git push origin other:main",
        "git push origin +refs/heads/x:refs/heads/release/1",
        "git push",
        "git branch -f main other",
        "git branch -m main x",
        "git update-ref refs/heads/main HEAD",
        "git fetch origin x:release/1",
    ):
        decision, operations = decided(here, command)
        assert (decision, "protected-branch" in operations) == (FORBID, True), command
    assert decided(here, "git switch -c topic") == (ALLOW, ["branch-create"])
    assert decided(here, "git push origin HEAD:topic") == (APPROVE, ["push"])
    here.git("switch", "-q", "-c", "topic")
    assert decided(here, "git commit -m x") == (ALLOW, ["commit"])


# -- the hooks' questions ----------------------------------------------------------------------------------------------


def updates(repo: Repo, command: str, *lines: tuple[str, str, str]) -> tuple[str, list[str]]:
    found = judging.assess_ref_updates(
        [RefUpdate(*line) for line in lines], call_of(command, repo.path), AGENT
    ).decision
    return found.decision, found.operations


def test_ref_updates(here: Repo) -> None:
    first, second, other = here.oid("v1"), here.oid("main"), here.oid("other")
    main, tag = "refs/heads/main", "refs/tags/v1"
    # Forward, new, and what is nobody's branch.
    assert updates(here, "git commit -m x", (main, second, second), ("HEAD", second, second))[0] == ALLOW
    assert updates(here, "git fetch", ("refs/remotes/origin/main", second, other))[0] == ALLOW
    assert updates(here, "git branch topic", ("refs/heads/topic", ZERO, first)) == (ALLOW, ["branch-create"])
    assert updates(here, "git stash", ("refs/stash", ZERO, first))[0] == ALLOW
    assert updates(here, "git stash drop", ("refs/stash", ZERO, ZERO))[1] == ["stash-drop"]
    # The command's own doing has the command's own name.
    assert updates(here, "git commit --amend", (main, second, other)) == (APPROVE, ["commit-amend"])
    assert updates(here, "git rebase x", (main, second, other)) == (APPROVE, ["rebase"])
    assert updates(here, "git branch -D other", ("refs/heads/other", ZERO, ZERO)) == (FORBID, ["branch-delete"])
    assert updates(here, "git tag -f v1", (tag, first, second)) == (APPROVE, ["tag-move"])
    assert updates(here, "git branch -m other x", ("refs/heads/other", other, ZERO)) == (APPROVE, ["branch-rename"])
    # What a command that is not known to does.
    assert updates(here, "git status", ("refs/heads/other", ZERO, ZERO)) == (FORBID, ["branch-delete"])
    assert updates(here, "git status", (main, second, first)) == (FORBID, ["ref-rewrite"])
    assert updates(here, "git status", (main, ZERO, other)) == (FORBID, ["ref-rewrite"])
    assert updates(here, "git status", (tag, first, second)) == (APPROVE, ["tag-move"])
    assert updates(here, "git status", (tag, ZERO, ZERO)) == (APPROVE, ["tag-delete"])
    assert updates(here, "git status", ("refs/wip/x", ZERO, ZERO)) == (ALLOW, ["look"])
    assert updates(here, "git update-ref --stdin", ("refs/heads/other", other, ZERO))[0] == FORBID
    assert updates(here, "python x.py", ("refs/heads/other", other, ZERO)) == (FORBID, ["branch-delete"])


def test_ref_deletions_of_gc_and_pack_refs_are_no_operation(here: Repo) -> None:
    for command in ("git gc", "git pack-refs --all", "git maintenance run"):
        assert updates(here, command, ("refs/heads/other", here.oid("other"), ZERO))[0] == ALLOW, command


def test_checkpoints_are_not_to_be_touched(here: Repo) -> None:
    here.git("update-ref", "refs/agentos/timelines/dev", "HEAD")
    for new in (ZERO, here.oid("other")):
        assert updates(here, "git status", ("refs/agentos/timelines/dev", ZERO, new)) == (FORBID, ["agentos-refs"])


def test_updates_of_protected_branches(here: Repo) -> None:
    here.config("agentos.protected", "main")
    found = updates(here, "git commit -m x", ("refs/heads/main", here.oid("v1"), here.oid("main")))
    assert found == (FORBID, ["protected-branch", "commit"])


def push(repo: Repo, command: str, *lines: str) -> tuple[str, list[str]]:
    found = judging.assess_push(lines, "origin", call_of(command, repo.path), AGENT).decision
    return found.decision, found.operations


def test_pushes(here: Repo) -> None:
    first, second, other = here.oid("v1"), here.oid("main"), here.oid("other")
    forward = f"refs/heads/main {second} refs/heads/main {first}"
    assert push(here, "git push", forward) == (APPROVE, ["push"])
    assert push(here, "git push origin x", f"refs/heads/x {other} refs/heads/x {ZERO}") == (APPROVE, ["push"])
    assert push(here, "git push", f"refs/heads/main {other} refs/heads/main {second}")[1] == ["push-force", "push"]
    assert push(here, "git push", f"(delete) {ZERO} refs/heads/x {other}") == (FORBID, ["push-delete", "push"])
    # What the remote has is not known here, so it cannot be told that nothing of it goes.
    assert push(here, "git push", f"refs/heads/main {second} refs/heads/main {'1' * 40}")[0] == FORBID
    assert push(here, "git push --tags", f"refs/tags/v1 {first} refs/tags/v1 {second}")[0] == FORBID
    assert push(here, "git push --dry-run -f", f"refs/heads/main {other} refs/heads/main {second}") == (ALLOW, ["look"])
    assert push(here, "git push --mirror", forward)[1] == ["push-mirror", "push"]
    assert push(here, "some-tool", forward) == (APPROVE, ["push"])
    here.config("agentos.protected", "main")
    assert push(here, "git push", forward)[0] == FORBID


def test_commits(here: Repo, make_repo: Callable[[str], Repo]) -> None:
    def commit(repo: Repo, command: str = "git commit -m x") -> tuple[str, list[str]]:
        found = judging.assess_commit(call_of(command, repo.path), AGENT).decision
        return found.decision, found.operations

    assert commit(here) == (ALLOW, ["commit"])
    here.write(".agentos/workflow.db", "x\n")
    assert commit(here) == (ALLOW, ["commit"])
    here.git("add", "-f", ".agentos")
    assert commit(here) == (FORBID, ["commit-agentos", "commit"])
    here.git("commit", "-q", "-m", "somebody did")
    assert commit(here) == (ALLOW, ["commit"])
    here.git("rm", "-rq", "--cached", ".agentos")
    assert commit(here) == (ALLOW, ["commit"])
    here.config("agentos.protected", "main")
    assert commit(here) == (FORBID, ["protected-branch", "commit"])
    assert commit(here, "git cherry-pick --continue")[0] == FORBID


# -- the environment ---------------------------------------------------------------------------------------------------


def test_a_gits_own_variables_are_no_redirection(here: Repo) -> None:
    """What git sets for its hooks and children."""
    git_dir = str(here.git_dir)
    core = here.text("--exec-path")
    for environment in (f"GIT_DIR={git_dir}", "GIT_DIR=.git", f"GIT_EXEC_PATH={core}", "GIT_PREFIX=src/"):
        assert decided(here, f"{environment} git commit -m x") == (ALLOW, ["commit"]), environment
    index = f"GIT_INDEX_FILE={git_dir}/index"
    assert decided(here, f"{index} git read-tree HEAD")[0] == APPROVE


def test_commands_in_variables_are_judged(here: Repo) -> None:
    for variable in ("GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_PAGER", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF"):
        assert decided(here, f"{variable}='git reset --hard' git commit -m x")[0] == FORBID, variable
        # An editor edits the one file that git gives it; a pager, ssh or a viewer has none to edit.
        edits = decided(here, f"{variable}='sed -i s/pick/drop/' git commit -m x")[0]
        assert edits == (ALLOW if variable.endswith("EDITOR") else APPROVE), variable
    assert decided(here, "git -c core.editor='git clean -fd' commit")[0] == FORBID
    assert decided(here, "git -c core.sshCommand='ssh -i key -o IdentitiesOnly=yes' fetch")[0] == ALLOW
    assert decided(here, "git bisect run git reset --hard")[0] == FORBID
    assert decided(here, "git bisect run sh -c 'git reset --hard'")[0] == FORBID
    assert decided(here, "git rebase -x 'git push -f' main")[0] == FORBID
    assert decided(here, "git submodule foreach 'git reset --hard'")[0] == FORBID
    assert decided(here, "git submodule foreach --recursive git clean -xfd")[0] == FORBID
    assert decided(here, "git difftool -x 'git reset --hard' HEAD")[0] == FORBID
    assert decided(here, "git difftool --extcmd='git reset --hard'")[0] == FORBID
    assert decided(here, "git grep -O'git reset --hard' x")[0] == FORBID
    assert decided(here, "git agentos guard exec -- git reset --hard")[0] == FORBID


# -- any command line --------------------------------------------------------------------------------------------------

_WORDS = [
    "--", "-", "", UNKNOWN, f"a{UNKNOWN}", f"-{UNKNOWN}", "--hard", "-f", "-xfd", "HEAD", "other", "+a:b",
    ":x", "..", "a...b", "-C", "-c", "--git-dir=x", "--git-dir", "x=y", "alias.x=!x", "--force", "-n", "dirty.txt", ".",
    "*",
    ":(top)x", ":(bad)x", "stash@{0}", "@{u}", "-m", "-b", "-B", "\udcff", "drop", "remove", "set", "foreach", "run",
    "--no-", "--=", "refs/heads/*:refs/heads/*", "ext::x", "'", "\n", "--mirror", "wipe", "x" * 3000,
]  # fmt: skip
_COMMANDS = [*subcommands._HANDLERS, *subcommands._SIMPLE, "status", "no-such-command", "", UNKNOWN, "boom"]
_ENVIRONMENT = ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS", "GIT_EDITOR"]


def test_unreadable_text_for_a_folder_that_is_not_there(repo: Repo) -> None:
    environment = {**os.environ, "GIT_EDITOR": "'"}
    found = judging.assess_git(Call(("git", "-C", "nowhere", "add"), str(repo.path), environment), AGENT)
    assert "shell-error" in found.decision.operations


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    return policy_repository.build(tmp_path_factory.mktemp("any"))


@hypothesis.given(
    st.lists(st.sampled_from(_WORDS), max_size=2),
    st.sampled_from(_COMMANDS),
    st.lists(st.sampled_from(_WORDS), max_size=5),
    st.dictionaries(st.sampled_from(_ENVIRONMENT), st.sampled_from(["x", ".git", "1", "'", "\udcff"]), max_size=1),
)
@hypothesis.settings(max_examples=100, deadline=None)
def test_every_command_line_is_judged(
    shared: Repo, before: list[str], command: str, after: list[str], environment: dict[str, str]
) -> None:
    """Whatever is typed gets an answer, and one that holds together."""
    asked = Call(("git", *before, command, *after), str(shared.path), {**os.environ, **environment})
    found = judging.assess_git(asked, AGENT)
    assert found.decision.operations
    assert set(found.decision.operations) <= set(OPERATIONS)
    each = [Operation(name) for name in found.decision.operations]
    assert found.decision.decision == operations.decide(each, None).decision
    assert (found.decision.reason is None) == (found.decision.decision == ALLOW)
    assert found.save is not None or not found.fully_saved
