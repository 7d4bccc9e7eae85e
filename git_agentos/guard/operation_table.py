"""The table of operations: one row a line, by what is decided about them unless configuration says otherwise.

    name | saved | covers | reason | instead

The second column says what a checkpoint does for work that such a command may lose: `y` it holds all of it, so that
mode `save` may let the command run; `s` it is taken, and may not be all; `n` there is nothing here that could be saved.
"""

# ruff: noqa: E501 - a row is a line

from __future__ import annotations

ALLOWED = """
look | y | status, diff, log, show, `--dry-run`, `-h`, `--list` … | only reads |
add | y | add, stage, update-index of paths | changes the index only |
commit | y | commit, commit --fixup | makes a new commit |
objects | y | hash-object, commit-tree, write-tree, pack-objects, index-pack, stash export --print, history --dry-run, replay --ref-action=print … | adds objects |
stash | y | stash, stash push, create, store, import | saves changes to the stash |
stash-apply | y | stash apply, pop, branch of an entry of one's own | applies stashed changes |
fetch | y | fetch, fetch --prune, remote update, backfill | gets commits from a remote |
switch | y | switch, checkout BRANCH | switches branches |
branch-create | y | branch NEW, switch -c, checkout -b | makes a branch |
branch-configure | y | branch -u, --unset-upstream, --edit-description | changes the configuration of a branch |
tag-create | y | tag NEW | makes a tag |
revert | y | revert | makes a commit that reverts one |
apply | y | apply | edits files by a patch |
reset-index | y | reset, reset PATH, restore --staged | unstages |
checkout-paths | y | checkout PATH, restore PATH over clean files | restores files |
remove | y | rm, rm --cached | removes files that are committed as they are |
move | y | mv | renames files |
abort | y | --abort, --quit of merge, rebase, cherry-pick, revert, am; bisect reset | ends an operation in progress |
continue | y | --continue, --edit-todo | continues an operation in progress |
bisect | y | bisect start, good, bad, skip | checks out commits to test |
worktree-add | y | worktree add, lock, repair | makes a worktree |
remote-add | y | remote add, set-branches, set-head | adds a remote |
submodule-update | y | submodule add, init, update, sync | checks out submodules |
sparse-widen | y | sparse-checkout add, disable | brings files into a sparse checkout |
notes-add | y | notes add, append, edit, copy | adds a note |
config-set | y | config KEY VALUE | sets a key that neither runs commands nor weakens the guard |
gc | y | gc, maintenance run, pack-refs, refs optimize, repack | packs objects and refs |
init | y | init | makes a repository |
clone | y | clone | makes a repository |
agentos | y | git agentos checkpoint, restore, undo, pick, log, memory … | saves first |
"""

APPROVED = """
merge | y | merge, merge-file, merge-recursive, subtree | merges into the branch | git merge-tree --write-tree to look; git agentos worktree merge
rebase | y | rebase, replay, history | rewrites the branch's commits | git merge-tree --write-tree to look; new commits on top
cherry-pick | y | cherry-pick | copies commits from elsewhere to the branch | git agentos pick COMMIT
pull | y | pull | merges or rebases onto commits of a remote | git fetch, and look at it
am | y | am, quiltimport | makes commits from mails | git apply --check, git apply
push | n | push, send-pack, svn dcommit; git agentos sync | publishes commits | git push --dry-run
commit-amend | y | commit --amend | replaces the last commit | git commit --fixup=HEAD
reset-soft | y | reset --soft | moves the branch | git revert, or a new branch there: git branch NAME COMMIT
reset-mixed | y | reset COMMIT, reset --mixed | moves the branch | git revert, or a new branch there: git branch NAME COMMIT
stash-drop | y | stash drop | deletes an entry of the stash that all worktrees share | git stash apply, which keeps the entry
stash-other | s | stash pop, apply, branch, drop, clear of an entry that another worktree or the person made | takes or deletes work that another worktree put into the stash | git stash list, git stash show -p; git stash push makes an entry of your own
stash-clear | y | stash clear | deletes the stash that all worktrees share | git stash apply, which keeps it
tag-move | y | tag -f, fetch --tags --force | moves a tag | git tag NEW-NAME
tag-delete | y | tag -d | deletes a tag | keep the tag
branch-move | y | update-ref, fetch of a branch into a branch, replay --advance | moves a branch | git branch NEW-NAME COMMIT
branch-rename | y | branch -m | renames a branch | git branch NEW-NAME
worktree-remove | n | worktree remove | deletes a worktree with its ignored files | git agentos worktree archive ID
worktree-move | n | worktree move, unlock | moves or unlocks a worktree | keep it where it is
worktree-prune | n | worktree prune; gc, maintenance run with gc.worktreePruneExpire=now | removes the entries of worktrees whose folder does not exist now | git worktree list
skip | y | --skip of rebase, cherry-pick, revert, am | skips a commit | resolve it, and --continue
remove-force | y | rm -f | removes files with changes that are not committed | git rm, which refuses where something would be lost
move-force | y | mv -f | overwrites a file | git mv to a free name
clean-interactive | y | clean -i | deletes untracked files | git clean -n to look
clean-unforced | y | clean without -f, -n or -i | deletes untracked files where clean.requireForce is off | git clean -n to look
checkout-merge | y | checkout -m, switch -m (since git 2.55 with an entry of the stash if they conflict) | merges changes that are not committed into another branch | git commit or git stash first
checkout-conflict | y | checkout --ours, --theirs, -m PATH in a conflict | overwrites a file in conflict | edit the file, git add
checkout-interactive | y | checkout -p, restore -p | discards parts of files | git stash push -p
switch-shared | y | checkout, switch --ignore-other-worktrees | checks out a branch that another worktree works on | git switch -c NEW
index-rewrite | y | read-tree without -u, update-index --force-remove, --index-info, --cacheinfo | overwrites the index | GIT_INDEX_FILE of your own
index-flags | y | update-index --assume-unchanged, --skip-worktree | hides changes from git | .git/info/exclude
config-alias | n | config alias.* | sets an alias, which may change others' commands | write the command out
config-command | n | config of keys that hold commands; clone -c of such | sets a command that git will run | GIT_EDITOR=true and the like for one command
config-risky | n | config of remotes' URLs and refspecs, gc, receive.*, protocol.* | changes what later commands do | the option on the command itself
config-global | n | config --global, --system | changes the user's own configuration | git config without --global
config-shared | n | config KEY VALUE without --worktree in a linked worktree | changes the configuration of all worktrees, the person's too | git -c KEY=VALUE COMMAND, or git config --worktree KEY VALUE
config-unset | n | config --unset, --remove-section, --rename-section | deletes configuration | keep the setting
config-edit | n | config --edit | edits configuration in any way | git config KEY VALUE
remote-change | n | remote remove, rename, set-url | changes or removes a remote | git remote add
submodule-change | y | submodule update --force, --rebase, --merge, deinit, absorbgitdirs | overwrites or removes submodules | git submodule update
notes-change | y | notes add -f, copy -f, remove, prune, merge | overwrites or deletes notes | git notes append
refs-migrate | s | refs migrate | stores all refs in another format, while other commands may change them | git refs migrate --dry-run to look
repack-delete | s | repack -d, multi-pack-index expire | deletes packs | git repack, git gc
rerere-change | n | rerere clear, forget, gc | forgets recorded resolutions | keep the resolutions
maintenance-schedule | n | maintenance start, stop, register, unregister | changes the user's schedule | git maintenance run
import | s | fast-import | writes refs from a stream | git fetch, git am
write-file | y | --output=FILE, archive -o, bundle create, mailinfo, interpret-trailers --in-place, --export-marks and the like over a file | overwrites a file | give a new file's name
redirect | s | GIT_DIR, --git-dir, --work-tree to another repository | works in another repository | cd there
other-worktree | s | what changes the files, the index or HEAD of another worktree: -C, cd, --git-dir, --work-tree, GIT_DIR, GIT_WORK_TREE, GIT_INDEX_FILE | changes a worktree that is not this agent's | the same command in the agent's own worktree; git -C FOLDER log, status and diff look
init-redirect | s | init --separate-git-dir, --template, clone --template | moves a git directory or brings hooks | git init
foreign | s | svn, p4, cvs*, lfs push, prune … | works on another system's store | its commands that only look
send | n | send-email, imap-send, instaweb, daemon | sends or serves work elsewhere | git format-patch
tool | s | mergetool, gui, citool, cat-file of filters | opens a tool that may do anything | edit the files, git add
run-command | s | rebase -x, bisect run, difftool -x, grep -O, `--upload-pack`, ext:: URLs; what `-c core.pager=…`, GIT_EDITOR, GIT_EXTERNAL_DIFF and the like name, unless it is known to change nothing | runs a command | run the command itself
credential | n | credential approve, reject | changes stored credentials | keep the credentials
agentos-change | n | git agentos worktree remove, archive, merge; rollback; doctor --fix; run accept … | only the person or the orchestrator may run it | ask the person or orchestrator that runs you to run it
guard-change | n | git agentos guard disable, guard integrate, hooks install, uninstall; init; worktree create --no-guard | changes the guard | ask the person or orchestrator that runs you to do it
approvals | n | git agentos approvals grant, deny; tdd approve | decides about approvals | ask the person or orchestrator that runs you to do it
unknown-command | s | any other subcommand | is not known to the guard | a command of git itself
unknown-option | s | any option that the guard does not know | has an option that the guard does not know | the option's long name, written out
unresolved | s | a subcommand, option or ref known only at run time | depends on a value known only at run time | write the value out
interpreter | s | python -c, perl -e, node -e … with git in it | may run any git command | run the git command itself
shell-error | s | shell text with a syntax error | cannot be read | correct it
file-outside | n | an edit of a file outside of the worktree; shell text that writes in another repository, or deletes a folder with one, a home or the system in it | changes files that are not the agent's | files in the worktree
"""

FORBIDDEN = """
push-force | n | push -f, --force, --force-with-lease, +ref | overwrites branches or tags of a remote | git push to a new branch: git push origin HEAD:NEW-NAME
push-delete | n | push --delete, :ref | deletes branches or tags of a remote | keep it on the remote
push-mirror | n | push --mirror, remote.*.mirror | makes a remote the same as this repository, deletions included | git push origin BRANCH
push-prune | n | push --prune | deletes branches or tags of a remote | git push origin BRANCH
reset-hard | y | reset --hard | discards all changes that are not committed | git stash push -u, or git agentos checkpoint and git agentos restore
reset-merge | y | reset --merge | discards staged changes | git stash push; git merge --abort to end a merge
reset-keep | y | reset --keep | moves the branch and the files with it | git stash push; git switch -c NEW-NAME COMMIT
clean | y | clean -f | deletes untracked files | git clean -n to look; git stash push -u keeps them
branch-delete | y | branch -d, -D | deletes a branch | git tag it first, and ask
branch-force | y | branch -f, -M, -C | overwrites a branch | git branch NEW-NAME COMMIT
branch-reset | y | checkout -B, switch -C, worktree add -B | overwrites a branch | git switch -c NEW-NAME
checkout-force | y | checkout -f, switch -f, --discard-changes | discards changes that are not committed | git stash push, then git switch
checkout-dirty | y | checkout PATH, restore PATH over changes that are not committed | discards changes that are not committed | git stash push -- PATH
ref-delete | y | update-ref -d | deletes a ref | keep the ref
ref-rewrite | y | update-ref to what is no descendant, replay --ref, stash export --to-ref over a ref | moves a ref away from its commits | git branch NEW-NAME COMMIT
symbolic-ref | y | symbolic-ref NAME REF, -d | points a ref elsewhere and leaves the files as they are | git switch
reflog-expire | n | reflog expire, delete, drop, write; refs migrate --no-reflog | deletes the record of where refs were | keep the reflog
gc-prune | n | gc --prune=now, gc.pruneExpire=now | deletes objects that nothing reaches | git gc
prune | n | prune | deletes objects that nothing reaches | git prune -n, git gc
filter | s | filter-branch, filter-repo, lfs migrate | rewrites all history | new commits on top
read-tree | y | read-tree -u | overwrites files | GIT_INDEX_FILE=… git read-tree, without -u
checkout-index | y | checkout-index -f | overwrites files | git checkout-index --prefix=FOLDER/ into a new folder
sparse-checkout | y | sparse-checkout set, init, reapply, clean | removes files from the worktree | git sparse-checkout add
worktree-remove-force | n | worktree remove --force | deletes a worktree with what is not committed in it | git agentos worktree archive ID
submodule-force | y | submodule deinit -f | deletes a submodule's files with their changes | git submodule deinit
replace | n | replace | makes git show other objects in place of some | git log and git show as they are
fetch-force | y | fetch +REF:BRANCH, --update-head-ok, pull -f with such | overwrites branches | git fetch REMOTE, git branch NEW-NAME FETCH_HEAD
agentos-refs | n | any change of refs/agentos/ | overwrites checkpoints | git agentos checkpoint
import-force | s | fast-import --force | overwrites branches | git fetch
protected-branch | n | a commit on, a move of, a push to agentos.protected | the branch is protected (agentos.protected) | git switch -c NEW-NAME
commit-agentos | n | a commit of .agentos/ | .agentos/ is never committed | git rm -r --cached .agentos
no-verify | n | --no-verify of commit, merge, rebase, push, am | skips the hooks | the command without --no-verify
config-guard | s | -c, GIT_CONFIG_*, config of core.hooksPath, core.fsmonitor, hook.*, agentos.*, include.* … | bypasses the guard | the command without it
exec-path | s | --exec-path, GIT_EXEC_PATH | runs other programs in git's place | the command without it
git-dir-write | s | rm -rf .git, writes into .git | damages the repository | git commands
"""

# What each operation changes, and so what it could lose (`policy.operations`): one effect each, the widest.
EFFECT_ROWS = """
nothing      look add objects fetch branch-create tag-create worktree-add remote-add notes-add init clone agentos gc
files        write-file apply reset-index checkout-paths remove move remove-force move-force sparse-widen index-rewrite index-flags
files        checkout-dirty checkout-conflict checkout-interactive checkout-merge checkout-force read-tree checkout-index
files        switch
ignored      clean clean-interactive clean-unforced sparse-checkout
own-history  commit commit-amend revert abort continue bisect skip merge rebase cherry-pick pull am
own-history  reset-soft reset-mixed reset-hard reset-merge reset-keep
shared-refs  branch-configure branch-move branch-rename branch-delete branch-force branch-reset tag-move tag-delete
shared-refs  ref-delete ref-rewrite refs-migrate symbolic-ref notes-change replace reflog-expire fetch-force agentos-refs
shared-refs  protected-branch gc-prune prune repack-delete filter import import-force
stash        stash stash-apply stash-drop stash-clear stash-other
remote       push push-force push-delete push-mirror push-prune send
config       config-set config-shared config-alias config-command config-risky config-global config-unset config-edit config-guard
config       remote-change rerere-change maintenance-schedule credential guard-change no-verify
elsewhere    worktree-remove worktree-remove-force worktree-move worktree-prune switch-shared file-outside other-worktree
elsewhere    redirect init-redirect foreign git-dir-write submodule-update submodule-change submodule-force
elsewhere    agentos-change approvals commit-agentos
unknown      tool run-command interpreter unknown-command unknown-option unresolved shell-error exec-path
"""
