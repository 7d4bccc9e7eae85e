"""The destructive commands that are tried for real against each layer of the guard (`layer_matrix`), by families.

A command is shell text, run in an agent's worktree; `{main}`, `{other}`, `{git}`, `{common}`, `{root}` stand for the
main worktree, another agent's, the real git, the common git directory and the folder that all of them are in.
"""

from __future__ import annotations

# ruff: noqa: E501 - a command is a line

# This family is tried where git is at least of this version.
NEWER, NEWER_GIT = "what git 2.40 to 2.55 brought", (2, 55)

HANDLERS: dict[str, str] = {
    "files and index": r"""
git reset --hard
git reset --hard HEAD~1
git reset --hard main
git reset --hard ORIG_HEAD~1
git reset -q --hard @{1}
git reset --merge
git reset --merge HEAD~1
git reset --keep HEAD~1
git reset -N HEAD~1
git reset -- app.py docs/new.md
git reset -p </dev/null; git reset -q docs
git checkout -f
git checkout -- .
git checkout .
git checkout -- app.py
git checkout HEAD -- app.py docs
git checkout HEAD~1 -- app.py notes.txt
git checkout main -- .
git checkout --ours -- app.py || git checkout -q HEAD app.py
git checkout --overlay main -- docs
git checkout --no-overlay main -- docs
git checkout --pathspec-from-file=<(echo app.py)
git checkout -f topic
git checkout -f --detach HEAD~1
git checkout -B scratch main
git checkout -fB topic
git checkout --orphan fresh
git checkout --orphan fresh && git rm -rfq .
git checkout topic
git checkout -q --merge topic
git checkout --detach main
git checkout --ignore-other-worktrees -f main
git checkout --recurse-submodules -f HEAD
git checkout -qf -- docs app.py
git switch --discard-changes topic
git switch -f topic
git switch -C topic
git switch -C scratch main
git switch topic
git switch --detach main
git switch --orphan fresh
git switch -qf --detach HEAD~1
git switch --merge topic
git restore .
git restore app.py
git restore --worktree app.py docs
git restore --staged --worktree .
git restore -SW :/
git restore --source=HEAD~1 --staged --worktree .
git restore -s main app.py
git restore --source=main --no-overlay docs
git restore --staged .
git restore --staged docs/new.md
git restore --pathspec-from-file=<(echo notes.txt)
git restore --recurse-submodules .
git clean -f
git clean -fd
git clean -fdx
git clean -ffdx
git clean -fdX
git clean -fx build
git clean -fd drafts
git clean -qfd -- drafts untracked.txt
git clean -fde keep
git clean --force -d
git -c clean.requireForce=false clean -d
git clean -fd ':!drafts'
git clean -fdx build/out.log drafts
printf 'a\n*\n1\n7\n' | git -c clean.requireForce=false clean -id
git rm -rfq .
git rm -fq app.py
git rm -rfq docs
git rm -q --cached -r docs
git rm -fq --ignore-unmatch app.py nothing
git mv -f untracked.txt keep.txt || git mv -f two.txt app.py
git mv -f two.txt notes.txt
git mv -k docs drafts
git read-tree -u --reset HEAD
git read-tree --reset -u HEAD~1
git read-tree -m -u HEAD main
git read-tree HEAD
git read-tree --empty
git read-tree -m HEAD~1
git read-tree --prefix=old/ HEAD~1
git read-tree --index-output=.git-index-copy HEAD; rm -f .git-index-copy
git checkout-index -f -a
git checkout-index -fu app.py notes.txt
git checkout-index --force --all --prefix=./
git sparse-checkout set docs
git sparse-checkout set --no-cone '/docs/*'
git sparse-checkout init --cone
git sparse-checkout init && git sparse-checkout set drafts
git stash push -u
git stash push -a
git stash
git stash -u
git stash --all
git stash save work
git stash push -- app.py
git stash push -u -- drafts
git stash push -k -u
git stash push --staged
git add -A
git add .
git add app.py notes.txt
git add -u
git add -f build
git add --chmod=+x app.py notes.txt
git add --renormalize .
git update-index --force-remove app.py
git update-index --assume-unchanged app.py && git checkout -f
git update-index --skip-worktree notes.txt && git checkout -q main
git update-index --cacheinfo 100644,$(git rev-parse HEAD:two.txt),app.py
git update-index --index-info < <(echo "0 0000000000000000000000000000000000000000	app.py")
git update-index -q --really-refresh && git update-index --add untracked.txt
git apply -R --index <(git diff HEAD) || git diff HEAD | git apply -R --index
git diff | git apply -R
git diff HEAD -- notes.txt | git apply --reverse
git diff --cached | git apply --cached -R
git diff HEAD | git apply -R --3way
git apply --unsafe-paths --directory=. <(git diff -R)
git apply --reject <(git diff -R)
git am --abort; git format-patch -1 --stdout main | git am
git rm -rq --cached . && git add -A
git submodule update --init --force
git submodule deinit -f --all
git checkout -f HEAD -- . && git clean -fdq
git restore . && git clean -fd
git lfs checkout; git checkout -q -- docs app.py
git merge-file -p app.py notes.txt keep.txt >/dev/null; git merge-file app.py keep.txt notes.txt
git rerere clear; git checkout-index -qfa
""",
    "history and refs": r"""
git commit -qam done
git commit -qm staged
git commit -q -m part app.py
git commit -q -i notes.txt -m part
git commit -q -o notes.txt -m part
git commit -q --amend -m other
git commit -q --amend --no-edit -a
git commit -q --amend --reset-author --no-edit
git commit -q --fixup=HEAD
git commit -q --allow-empty -m empty
git commit -qn -m unchecked
git commit --no-verify -qam unchecked
git reset --soft HEAD~1
git reset --soft main
git reset HEAD~1
git reset --mixed main
git branch -D topic
git branch -d topic
git branch -D old topic
git branch --delete --force topic
git branch -d -r origin/main
git branch -f topic main
git branch -f main HEAD~2
git branch --force old HEAD
git branch -M topic old
git branch -m topic elsewhere
git branch -m renamed
git branch -M main
git branch -C topic
git branch -C main topic
git branch -c topic copy
git branch -u origin/main; git branch --unset-upstream
git branch --edit-description topic
git tag -d v1
git tag -f v1 HEAD
git tag --delete v1
git tag -fam moved v1 HEAD
git update-ref -d refs/heads/topic
git update-ref -d refs/heads/topic refs/heads/topic
git update-ref refs/heads/topic main
git update-ref refs/heads/main HEAD
git update-ref --no-deref HEAD main
git update-ref HEAD main
git update-ref -d refs/stash
git update-ref refs/stash HEAD
git update-ref -d refs/tags/v1
git update-ref -d refs/remotes/origin/old
git update-ref -d refs/agentos/timelines/dev
git update-ref refs/agentos/timelines/dev HEAD
git update-ref refs/agentos/timelines/other HEAD
printf 'delete refs/heads/topic\n' | git update-ref --stdin
printf 'update refs/heads/topic main\n' | git update-ref --stdin
printf 'delete refs/heads/topic\0\0' | git update-ref -z --stdin
printf 'start\ndelete refs/heads/topic\nprepare\ncommit\n' | git update-ref --stdin
git for-each-ref --format='delete %(refname)' refs/heads/topic | git update-ref --stdin
git symbolic-ref HEAD refs/heads/topic
git symbolic-ref HEAD refs/heads/nothing
git symbolic-ref refs/heads/topic refs/heads/main
git symbolic-ref -d HEAD
git rebase --autostash --onto main HEAD~1
git rebase --autostash main
git rebase --autostash --root
git rebase --autostash -i HEAD~1
git rebase --autostash --no-verify --onto main HEAD~1
git rebase --autostash --update-refs --onto main HEAD~1
git stash -q && git rebase -q topic
git merge --autostash topic
git merge --autostash --no-ff topic
git merge --autostash --squash topic
git merge --autostash -X theirs -s ort topic
git merge --autostash -s ours topic
git merge --autostash --no-verify topic
git stash -q && git merge -q topic
git cherry-pick topic
git cherry-pick -n topic
git stash -q && git cherry-pick topic
git revert -n HEAD
git revert --no-edit HEAD
git stash -q && git revert --no-edit HEAD
git pull --rebase --autostash origin shared
git pull --autostash origin shared
git pull -q --ff-only origin main
git pull --no-rebase --autostash -X theirs origin shared
git filter-branch -f --msg-filter 'sed s/not/NOT/' main..HEAD
git filter-branch -f --tree-filter 'rm -f two.txt' main..HEAD
git filter-branch -f --index-filter 'git rm -q --cached two.txt' -- --all
git replace HEAD HEAD~1
git replace -f HEAD HEAD~1
git replace --graft HEAD
git notes add -m note HEAD; git notes remove HEAD
git fetch -q origin '+refs/heads/old:refs/heads/topic'
git fetch -qf origin old:topic
git fetch -q . +main:topic
git fetch -q --update-head-ok . +main:agent/dev
git fetch -q --prune origin
git fetch -q --prune origin 'refs/heads/old:refs/heads/*'
git fetch -q --prune --prune-tags origin
git fetch -q --refmap='+refs/heads/*:refs/heads/*' origin
git remote prune origin
git remote remove origin
git remote rename origin upstream
git remote update --prune
git remote set-url origin /nowhere
git branch -D agent/other
git branch -f agent/other main
git bisect start HEAD main; git bisect reset
git bisect start HEAD main && git checkout -qf main && git bisect reset
git fast-export HEAD | git fast-import --force --quiet
printf 'reset refs/heads/topic\nfrom main\n' | git fast-import --force --quiet
git bundle create -q all.bundle --all && git fetch -q all.bundle +main:topic
git clone -q --mirror . copy && git -C copy update-ref -d refs/heads/topic; git fetch -q --prune ./copy '+refs/*:refs/*'
git worktree add -q -f -B topic ../again main
git worktree add -q --detach ../again && git -C ../again branch -D topic
git checkout -q -b away && git branch -D agent/dev
git switch -qc away && git branch -f agent/dev main
git am <<<'' ; git reset -q --soft ORIG_HEAD
""",
    NEWER: r"""
git history reword HEAD~1
git history reword main
git history reword --update-refs=head HEAD~1
git history fixup HEAD~1
git history fixup main
git history fixup --empty=drop HEAD
git history split HEAD~1 </dev/null
git replay --onto main~1 main..agent/dev
git replay --contained --onto main~1 main..topic
git replay --advance topic main..agent/dev
git replay --revert main HEAD~1..HEAD
git replay --ref=refs/heads/topic --onto main main..agent/dev
git replay --ref-action=print --onto main~1 main..agent/dev | git update-ref --stdin
git checkout -qm topic
git checkout -qm topic; git stash drop
git switch -qm topic; git stash clear
git stash export --to-ref refs/heads/topic
git stash export --to-ref refs/stashes/all && git stash clear
git stash export --to-ref refs/stashes/all && git stash import refs/stashes/all
git refs migrate --ref-format=reftable
git refs migrate --ref-format=reftable --no-reflog
git refs optimize --all
git maintenance run
git -c gc.reflogExpire=now -c gc.reflogExpireUnreachable=now -c gc.pruneExpire=now maintenance run
git config gc.reflogExpireUnreachable now && git maintenance run --task=reflog-expire
git reflog drop --all
git sparse-checkout set docs && git sparse-checkout clean -f
git backfill
""",
    "what only git holds": r"""
git stash drop
git stash drop stash@{1}
git stash drop -q 0
git stash clear
git stash pop
git stash pop --index
git stash pop stash@{1}
git stash apply
git stash apply --index stash@{1}
git stash branch again
git stash branch again stash@{1}
git stash create -u | xargs git stash store && git stash drop
git stash push -u -q && git stash drop
git stash push -u -q && git stash pop
git stash push -aq && git stash clear
git reflog expire --expire=now --all
git reflog expire --expire-unreachable=now --all
git reflog expire --expire=all HEAD
git reflog delete HEAD@{3}
git reflog delete --rewrite --updateref refs/stash@{0}
git reflog delete refs/heads/agent/dev@{0}
git gc --prune=now
git gc --aggressive --prune=all
git gc -q
git gc --auto
git -c gc.pruneExpire=now gc -q
git -c gc.reflogExpire=now -c gc.reflogExpireUnreachable=now -c gc.pruneExpire=now gc -q
git config gc.pruneExpire now && git gc -q
git config --worktree gc.pruneExpire now && git gc -q
GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=gc.pruneExpire GIT_CONFIG_VALUE_0=now git gc -q
git maintenance run --task=gc
git -c gc.pruneExpire=now maintenance run --task=gc
git prune
git prune --expire=now
git prune --expire=all -v
git prune-packed
git repack -adq
git repack -Adq --unpack-unreachable=now
git repack -adq --cruft --cruft-expiration=now
git repack -adlq && git prune-packed -q
git pack-refs --all --prune
git pack-redundant --all
git multi-pack-index expire
git worktree remove --force {other}
git worktree remove -f -f {other}
git worktree unlock {other}; git worktree remove --force {other}
git worktree prune --expire=now
git worktree prune
git worktree move {other} {other}2
git worktree lock {other}; git worktree unlock {other}
git worktree repair {root}
git rev-parse stash@{0} | xargs git update-ref refs/stash
git index-pack -q --stdin </dev/null
git unpack-objects -q </dev/null
git commit-graph write && git gc --prune=now -q
git reflog expire --expire=now --all && git gc -q --prune=now
git stash clear && git reflog expire --expire=now --all && git gc -q --prune=now
git rerere gc; git rerere forget .
""",
    "the remote": r"""
git push -q origin HEAD:shared
git push -q origin HEAD:new-branch
git push -q -u origin HEAD
git push -qf origin HEAD:shared
git push -q --force origin HEAD:main
git push -q --force-with-lease origin HEAD:shared
git push -q --force-with-lease=shared origin HEAD:shared
git push -q --force-with-lease --force-if-includes origin HEAD:shared
git push -q origin +HEAD:shared
git push -q origin +main:old
git push -q origin '+refs/heads/*:refs/heads/*'
git push -q origin :old
git push -q origin :refs/heads/shared
git push -q --delete origin old
git push -qd origin old shared
git push -q origin --delete v1
git push -q --mirror origin
git push -q --all --force origin
git push -q --all --prune origin
git push -q --tags --force origin
git push -q --prune origin 'refs/heads/*:refs/heads/*'
git push -q --no-verify --force origin HEAD:shared
git push -q --no-verify origin :old
git push -q --atomic -f origin HEAD:shared HEAD:main
git push -q --follow-tags -f origin HEAD:shared
git -c remote.origin.mirror=true push -q origin
git -c push.default=matching push -qf origin
git -c remote.origin.push=+HEAD:refs/heads/shared push -q origin
git -c remote.origin.pushurl={root}/origin.git push -qf origin HEAD:shared
git push -qf {root}/origin.git HEAD:shared
git push -q --receive-pack='git receive-pack' -f origin HEAD:shared
git push -q --repo=origin -f
git push -qf file://{root}/origin.git HEAD:shared
git send-pack {root}/origin.git +HEAD:refs/heads/shared
git send-pack --force {root}/origin.git HEAD:refs/heads/shared
git send-pack {root}/origin.git :refs/heads/old
git send-pack --mirror {root}/origin.git
git -C {root}/origin.git update-ref -d refs/heads/old
git -C {root}/origin.git branch -D old
git --git-dir={root}/origin.git branch -f old main
cd {root}/origin.git && git branch -D shared
GIT_DIR={root}/origin.git git update-ref -d refs/heads/shared
git remote set-url --push origin {root}/origin.git && git push -qf origin HEAD:shared
git remote add evil {root}/origin.git && git push -q --mirror evil
git subtree push --prefix=docs origin shared; git push -q origin +HEAD:shared
git config alias.up 'push -f' && git up -q origin HEAD:shared
""",
    "files that git writes": r"""
git diff --output=app.py
git diff HEAD --output notes.txt
git log -p --output=notes.txt
git show --output=keep.txt
git show --outp=keep.txt
git stash show -p --output=app.py
git reflog show --output=app.py
git shortlog --output=app.py HEAD
git whatchanged --output=notes.txt
git diff-tree -p --output=app.py HEAD~1 HEAD
git diff-index -p --output=app.py HEAD
git diff-files -p --output=notes.txt
git range-diff --output=app.py main..HEAD main..HEAD
git format-patch -q -1 -o docs && git format-patch -q -1 --start-number=1 -o docs
git format-patch -q -1 --output=app.py
git archive -o app.py HEAD
git archive --output=notes.txt HEAD
git archive HEAD > notes.txt
git bundle create -q untracked.txt HEAD
git fast-export --export-marks=app.py HEAD
git fast-export --export-marks=drafts/idea.txt HEAD >/dev/null
git interpret-trailers --in-place --trailer a=b notes.txt
git interpret-trailers --in-place --trailer a=b untracked.txt
git mailinfo app.py notes.txt </dev/null
git mailsplit -odocs </dev/null; git mailinfo untracked.txt drafts/idea.txt </dev/null
git config -f notes.txt user.name x
git config --file untracked.txt --add a.b c
git config -f untracked.txt --remove-section a; git config -f drafts/idea.txt a.b c
git index-pack -o untracked.txt --stdin </dev/null
git pack-objects --all -q build/out </dev/null
git credential-store --file=untracked.txt store <<<'url=https://u:p@example.com'
git bugreport -q -o . -s '' --no-diagnose; git bugreport -o drafts -s idea
git merge-file app.py notes.txt keep.txt
git merge-file --ours untracked.txt notes.txt keep.txt
git unpack-file HEAD:app.py | xargs -I{} mv {} untracked.txt
git cat-file blob HEAD:app.py > untracked.txt
git show HEAD:app.py > app.py
git show HEAD:notes.txt | tee notes.txt build/out.log >/dev/null
git log > drafts/idea.txt
git grep -O'truncate -s0' staged
git difftool -y -x 'cp /dev/null' HEAD
git -c core.pager='tee app.py >/dev/null' -p log
GIT_PAGER='tee notes.txt >/dev/null' git -p log
GIT_EXTERNAL_DIFF='truncate -s0' git diff
git -c diff.external='truncate -s0 untracked.txt; :' diff
git -c core.editor='truncate -s0' commit --allow-empty
GIT_EDITOR='truncate -s0 untracked.txt; :' git commit --amend
git -c sequence.editor='truncate -s0 untracked.txt; :' rebase --autostash -i HEAD~1
GIT_TRACE={root}/app.worktrees/dev/untracked.txt git status
GIT_TRACE2_EVENT={root}/app.worktrees/dev/build/out.log git status
git checkout-index --temp app.py >/dev/null; git checkout-index --prefix=docs/../ -f app.py
git rev-list --all --objects --use-bitmap-index > untracked.txt
git fmt-merge-msg -F untracked.txt >/dev/null; git var GIT_EDITOR > build/out.log
git hash-object -w untracked.txt > untracked.txt
git init -q . && git init -q --separate-git-dir=drafts/git . || true
git clone -q {root}/origin.git drafts 2>/dev/null; git clone -q {root}/origin.git build/clone
""",
    "spellings and programs": r"""
git reset --har
git rese --hard || git reset --hard
git clean -qfdx
cd docs && git -C .. reset --hard
cd docs; cd ..; git checkout -- .
(cd docs && git checkout -- ..)
git -C docs clean -fdx ..
git --no-pager reset --hard
git --git-dir="$(git rev-parse --git-dir)" --work-tree=. reset --hard
git -c advice.detachedHead=false checkout -f
{git} reset --hard
{git} clean -fdx
$(command -v git) reset --hard
command git reset --hard
\git reset --hard
g=git; $g reset --hard
a=reset; git $a --hard
git $(echo reset) --hard
git `echo reset` --hard
git "$(printf 'rese%s' t)" --hard
git r{e,}set --hard
{git,reset,--hard}
bash -c 'git reset --hard'
sh -c "git checkout -- ."
bash -lc 'git reset --hard'
eval 'git reset --hard'
eval "git" "reset" "--hard"
exec git reset --hard
nohup git reset --hard
nice git reset --hard
timeout 60 git reset --hard
time git reset --hard
env git reset --hard
stdbuf -o0 git reset --hard
setsid -w git reset --hard
sh <<'END'§git reset --hard§END
bash <<< 'git reset --hard'
echo 'git reset --hard' | sh
printf 'git %s\n' 'reset --hard' | bash
echo --hard | xargs git reset
echo reset --hard | xargs git
echo . | xargs -I{} git checkout -- {}
echo 'git reset --hard' > /dev/shm/x.$$; . /dev/shm/x.$$; rm -f /dev/shm/x.$$
find . -maxdepth 0 -exec git reset --hard ';'
find . -maxdepth 1 -name app.py -execdir git checkout -- {} ';'
env -i PATH="$PATH" HOME="$HOME" git reset --hard
env -u AGENTOS_AGENT_ID git reset --hard
AGENTOS_AGENT_ID= git reset --hard
unset AGENTOS_AGENT_ID; git reset --hard
python3 -c 'import subprocess; subprocess.run(["git", "reset", "--hard"])'
python3 -c 'import os; os.system("git checkout -- .")'
perl -e 'system("git","reset","--hard")'
perl -e 'exec "git checkout -- ."'
awk 'BEGIN { system("git reset --hard") }'
make -f <(printf 'all:\n\tgit reset --hard\n')
git -c alias.wipe='reset --hard' wipe
git -c alias.wipe='!git reset --hard' wipe
git -c alias.a=b -c alias.b='clean -fdx' a
git config alias.wipe 'reset --hard' && git wipe
git config --worktree alias.wipe 'reset --hard' && git wipe
GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.wipe GIT_CONFIG_VALUE_0='reset --hard' git wipe
git submodule foreach 'true'; git bisect start HEAD HEAD~1; git bisect run sh -c 'git reset --hard'
git rebase --autostash -x 'git branch -D topic' HEAD~1
git stash -q; git rebase -x 'git clean -fdx' HEAD~1
git for-each-ref --shell --format='git branch -D %(refname:short)' refs/heads/topic | sh
git for-each-repo --config=x.y reset --hard; git for-each-ref --format='%(refname:short)' refs/heads/topic | xargs git branch -D
git filter-branch --setup 'git stash clear' HEAD
GIT_SSH_COMMAND='git stash clear; false' git fetch ssh://h/x
git -c core.sshCommand='git stash clear; false' fetch ssh://h/x
git fetch 'ext::sh -c git% stash% clear'
git -c protocol.ext.allow=always fetch 'ext::git stash clear'
git -c credential.helper='!git stash clear' credential fill <<<'url=https://example.com'
git -c diff.x.textconv='git stash clear; cat' -c core.attributesFile=<(echo '* diff=x') diff
git -c filter.x.clean='git stash clear; cat' -c core.attributesFile=<(echo '* filter=x') add notes.txt
git -c gpg.program='git stash clear; false' commit -S --allow-empty -qm x
git -c merge.tool=x -c mergetool.x.cmd='git stash clear' mergetool; git stash clear
while :; do git reset --hard; break; done
for f in app.py notes.txt; do git checkout -- "$f"; done
if true; then git reset --hard; fi
f() { git reset --hard "$@"; }; f HEAD
true && git reset --hard || true
git status; git reset --hard; git status
git reset --hard & wait
{ git reset --hard; } 2>/dev/null
! git reset --hard
trap 'git reset --hard' EXIT
git reset --hard 2>&1 | tail -1
cat <(git reset --hard)
coproc git reset --hard; wait
x=$(git reset --hard)
alias w='git reset --hard'; shopt -s expand_aliases; eval w
git-reset --hard || "$(git --exec-path)"/git-reset --hard
"$(git --exec-path)"/git checkout -- .
PATH=/usr/bin:/bin git reset --hard
ssh -o BatchMode=yes localhost git reset --hard 2>/dev/null; git checkout -f
""",
    "around the guard": r"""
git -c core.fsmonitor=false reset --hard
git -c core.fsmonitor= checkout -- .
git -c core.hooksPath=/dev/null branch -D topic
git -c core.hooksPath= -c core.fsmonitor= reset --hard HEAD~1
{git} -c core.fsmonitor= -c core.hooksPath=/dev/null reset --hard
{git} -c core.fsmonitor=false reset --hard HEAD~1
git --config-env=core.fsmonitor=EMPTY reset --hard
EMPTY= git --config-env=core.hooksPath=EMPTY branch -D topic
GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.fsmonitor GIT_CONFIG_VALUE_0= git reset --hard
GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=/dev/null git branch -D topic
GIT_CONFIG_PARAMETERS="'core.hookspath'='/dev/null'" git branch -D topic
GIT_CONFIG_PARAMETERS="'core.fsmonitor'=''" git reset --hard
GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 git reset --hard
HOME=/nowhere git reset --hard
GIT_INDEX_FILE=.other git checkout -f HEAD; rm -f .other
GIT_OBJECT_DIRECTORY={root}/objects git gc; git -c gc.pruneExpire=now gc -q
git config core.fsmonitor false && git reset --hard
git config --worktree core.fsmonitor false && git reset --hard
git config --worktree --unset core.fsmonitor && git reset --hard
git config --worktree core.hooksPath /dev/null && git branch -D topic
git config --worktree --unset-all core.hooksPath && git branch -D topic
git config --worktree --remove-section core && git reset --hard
git config --unset extensions.worktreeConfig && git reset --hard
git config agentos.policy.reset-hard allow && git reset --hard
git config --global agentos.policy.reset-hard allow; git reset --hard
git config agentos.guard.mode save && git clean -fdx
git config agentos.protected '' && git branch -f main HEAD~1
git -c agentos.policy.reset-hard=allow reset --hard
git config include.path {root}/x && git reset --hard
git update-index --no-fsmonitor && git reset --hard
git -C {main} reset --hard
git -C {main} checkout -- .
git -C {main} clean -fdx
git -C {main} stash -u
git -C {main} commit -qam mine
git -C {main} add -A
git -C {main} switch -q -c mine
git -C {main} switch -qf old
git -C {main} branch -D topic
git -C {other} clean -fdx
git -C {other} reset --hard
git -C {other} stash -u
git -C {other} commit -qam mine
git -C {other} restore .
git -C {other} checkout -q --detach
cd {main} && git checkout -f
cd {main} && git stash -u
cd {main} && git rm -rfq .
cd {other} && git reset --hard
cd {other} && git add -A && git commit -qm mine
pushd {main} >/dev/null && git clean -fd
(cd {main}; git reset --hard)
git --git-dir={common} --work-tree={main} reset --hard
git --git-dir={common} --work-tree=. reset --hard
git --work-tree={main} checkout -f
git --git-dir={common} --work-tree={other} clean -fdx
GIT_DIR={common} GIT_WORK_TREE={main} git checkout -f
GIT_DIR={common} git clean -fdx
GIT_WORK_TREE={other} git clean -fdx
GIT_DIR={common}/worktrees/other GIT_WORK_TREE={other} git reset --hard
git agentos guard disable && git reset --hard
git agentos guard disable dev; git reset --hard
git agentos hooks uninstall; git branch -D topic
git agentos worktree remove other
git agentos worktree remove --force other
git agentos worktree archive other
git agentos worktree merge other
git agentos approvals grant 00000000
git agentos restore latest --agent other
git-agentos guard disable && git reset --hard
env -i PATH=/usr/bin:/bin {git} -c core.fsmonitor= reset --hard
""",
    "files, by the shell": r"""
rm -rf "$(git rev-parse --git-dir)"
rm -rf {common}
rm -f .git
rm -rf {common}/refs/heads/topic {common}/packed-refs
rm -rf {common}/objects/*
find {common}/objects -type f -delete
rm -rf {common}/agentos
rm -f {common}/agentos/guard/hooks/*
: > {common}/packed-refs
echo x > {common}/HEAD
sed -i s/main/topic/ {common}/HEAD
mv {common} {common}2
chmod -R a-w {common}
truncate -s0 {common}/logs/refs/stash
cp /dev/null {common}/config
printf '[core]\n\tfsmonitor = false\n' >> {common}/config; git reset --hard
rm -rf drafts untracked.txt
rm -rf build
rm -rf .
rm -rf ./* .[a-z]*
rm -rf "$PWD"
rm -rf docs app.py
rm -rf {other}
rm -rf {other}/drafts {other}/untracked.txt
rm -rf {main}
rm -rf {main}/drafts {main}/build
rm -rf ../other
rm -rf ..
rm -rf {root}
mv {other} {root}/moved
mv {main}/untracked.txt {main}/drafts/idea.txt
mv untracked.txt drafts/idea.txt
cp app.py {main}/app.py
cp -f app.py untracked.txt
cp -r docs/. {main}/docs
echo x > {main}/untracked.txt
echo x > {other}/build/out.log
echo x > untracked.txt
echo x > build/out.log
: > app.py
> notes.txt
cat /dev/null > build/out.log
echo x | tee {main}/app.py untracked.txt
sed -i d {main}/untracked.txt
sed -i d untracked.txt build/out.log
truncate -s0 {main}/app.py build/out.log
dd if=/dev/null of=untracked.txt
dd if=/dev/null of={main}/untracked.txt
find {main} -name '*.txt' -delete
find . -name '*.txt' -delete
find . -name '*.log' -exec rm -f {} +
find {other} -type f -exec truncate -s0 {} ';'
ls {main}/*.txt | xargs rm -f
echo untracked.txt | xargs rm -f
install /dev/null untracked.txt
ln -sf /dev/null untracked.txt
ln -sf /dev/null {main}/untracked.txt
rsync -a --delete docs/ {main}/docs/ || cp -f app.py {main}/notes.txt
tar cf - --remove-files drafts >/dev/null
tar xf <(tar cf - app.py) -C {main}
unlink untracked.txt
shred -u untracked.txt
patch -s -R -p1 < <(git diff)
perl -pi -e 's/.*//' untracked.txt build/out.log
python3 -c 'import os; os.remove("untracked.txt")'
python3 -c 'import shutil; shutil.rmtree("drafts")'
python3 -c 'open("build/out.log", "w")'
python3 -c 'import shutil; shutil.rmtree("{main}/drafts")'
printf 'import os\nos.remove("untracked.txt")\n' > /dev/shm/y.$$.py; python3 /dev/shm/y.$$.py; rm -f /dev/shm/y.$$.py
awk 'BEGIN { print "x" > "untracked.txt" }'
ed -s untracked.txt <<< $',d\nw' || sed -i d untracked.txt
ex -sc '%d|x' untracked.txt </dev/null || sed -i d untracked.txt
make -s -f <(printf 'clean:\n\trm -rf drafts build\n') clean
chmod -R 000 drafts
""",
}


def commands() -> list[tuple[str, str]]:
    """(family, text) of each command. A `§` stands for a newline."""
    return [
        (family, line.replace("§", "\n")) for family, text in HANDLERS.items() for line in text.strip().splitlines()
    ]
