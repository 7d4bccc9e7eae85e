"""Commands that need approval, by their operations. They are judged in the
state of `tests.support.guard.policy_repository`."""

OPERATIONS = """
approve merge
    git merge other
    git merge --no-ff other
    git merge --ff-only origin/main
    git merge --squash other
    git merge -m "reset --hard" other
    git merge -Xours other
    git merge -s ours other
    git merge
    git merge -n other
    git merge --verify other
    git -C src merge other
    git merge-recursive HEAD -- HEAD other
    git merge-file a b c
    git subtree add --prefix=x other

approve merge unresolved
    git merge ␀

approve rebase
    git rebase main
    git rebase -i HEAD~1
    git rebase --onto main v1 other
    git rebase --root
    git rebase --autostash origin/main
    git rebase --force-rebase main
    git rebase -f main
    git rebase --no-ff main
    git rebase
    git rebase -x "make test" main
    git rebase --exec "npm run lint" main
    git rebase --exec=true main
    git rebase --update-refs main
    git replay --onto main main..other
    git replay --contained --onto v1 main..other
    git replay --onto=v1 --author=me v1..HEAD
    git replay --onto main nothing..other
    git history reword HEAD
    git history fixup HEAD~1
    git history fixup --reedit-message --empty=keep v1
    git history split v1 -- clean.txt
    git history reword --update-refs=head HEAD~1

approve cherry-pick
    git cherry-pick other
    git cherry-pick -x other
    git cherry-pick -n other
    git cherry-pick main..other
    git cherry-pick --strategy=ort -X theirs other
    git cherry-pick --allow-empty other

approve skip
    git rebase --skip
    git cherry-pick --skip
    git am --skip
    git revert --skip

approve pull
    git pull
    git pull origin main
    git pull --rebase
    git pull --rebase=merges origin main
    git pull -r
    git pull --ff-only
    git pull --no-rebase --no-edit
    git pull -q --autostash
    git pull --tags
    git pull -f
    git up

approve am
    git am x.patch
    git am -3 x.patch
    git am < /dev/null
    git am --signoff ␀
    git quiltimport

approve push
    git push
    git push origin
    git push origin main
    git push origin HEAD
    git push origin main:main
    git push origin HEAD:refs/heads/topic
    git push -u origin main
    git push --set-upstream origin topic
    git push --tags
    git push --all
    git push --follow-tags
    git push origin v1
    git push origin tag v1
    git push origin :
    git push --atomic origin main other
    git push -o ci.skip origin main
    git push --no-force origin main
    git push --force-if-includes origin main
    git push -f --no-force origin main
    git push --no-prune origin main
    git push -q
    git push ../origin.git main
    git push . HEAD:topic
    git push --verify
    git push --no-verify --verify
    git send-pack ../origin.git main
    git lfs push origin main
    git svn dcommit
    git agentos worktree complete --push
    git agentos worktree complete dev --push

approve push unresolved
    git push origin ␀
    git push ␀
    git push origin HEAD:refs/heads/x ␀

approve commit-amend
    git commit --amend
    git commit --amend --no-edit
    git commit --amend -m x
    git commit --am
    git commit --ame -m x
    git commit -a --amend
    git commit --amend --reset-author
    git commit --amend --verify
    git commit --no-amend --amend
    git ci --amend

approve reset-soft
    git reset --soft HEAD~1
    git reset --soft HEAD~
    git reset --so HEAD^
    git reset -q --soft v1
    git reset --soft
    git reset --soft origin/main

approve reset-soft unresolved
    git reset --soft ␀

approve reset-mixed
    git reset HEAD~1
    git reset HEAD^
    git reset --mixed
    git reset --mixed HEAD~1
    git reset --mix HEAD~1
    git reset main~1
    git reset v1
    git reset -q HEAD~1
    git reset -N HEAD~1
    git reset HEAD~1 --
    git reset ORIG_HEAD
    git reset @{1}

approve reset-mixed unresolved
    git reset ␀

approve stash-drop
    git stash drop
    git stash drop stash@{0}
    git stash drop 0
    git stash drop -q
    git stash drop no-such-entry

approve stash-clear
    git stash clear

approve tag-move
    git tag -f v1
    git tag -f v1 HEAD
    git tag --force v1
    git tag -fa v1 -m x
    git tag -af v1 -m x
    git tag --forc v1

approve tag-move fetch
    git fetch --tags --force
    git fetch -tf
    git fetch origin +refs/tags/v1:refs/tags/v1
    git fetch --force --tags origin

approve tag-delete
    git tag -d v1
    git tag --delete v1
    git tag --del v1
    git tag -d v1 v2
    git tag -d -- v1

approve tag-delete fetch
    git fetch --prune-tags
    git fetch --prune --prune-tags
    git fetch -pP

approve branch-move
    git replay --advance main main..other
    git replay --advance=refs/heads/main main..other
    git replay --revert other main..other
    git update-ref refs/heads/behind main
    git update-ref refs/heads/other other

approve branch-move fetch
    git fetch origin main:main
    git fetch origin main:other
    git fetch origin "refs/heads/*:refs/heads/*"

approve branch-rename
    git branch -m other topic
    git branch -m topic
    git branch --move other topic
    git branch --mov other topic
    git branch -qm other topic

approve worktree-remove
    git worktree remove ../elsewhere
    git worktree remove -- ../elsewhere

approve worktree-move
    git worktree move ../elsewhere ../there
    git worktree move -f ../elsewhere ../there
    git worktree unlock ../elsewhere

approve rerere-change gc
    git -c gc.rerereUnresolved=0.days.ago gc

approve branch-create redirect
    GIT_REFERENCE_BACKEND=files:///tmp/elsewhere git branch new

approve refs-migrate
    git refs migrate --ref-format=reftable
    git refs migrate --ref-format files

approve worktree-prune
    git worktree prune
    git worktree prune -v
    git worktree prune --expire now

approve remove-force
    git rm -f dirty.txt
    git rm --force clean.txt
    git rm -rf src
    git rm -fr .
    git rm --cached -f both.txt
    git rm --forc dirty.txt
    git rm -qf -- dirty.txt

approve move-force
    git mv -f clean.txt dirty.txt
    git mv --force clean.txt new.txt
    git mv -kf clean.txt dirty.txt

approve clean-interactive
    git clean -i
    git clean --interactive
    git clean -id
    git clean --inter -d
    git clean -fdi

approve clean-unforced
    git clean
    git clean -d
    git clean -x

approve checkout-merge switch
    git checkout -m other
    git checkout --merge other
    git checkout --mer other
    git switch -m other
    git switch --merge other

approve checkout-interactive
    git checkout -p
    git checkout --patch dirty.txt
    git checkout -p HEAD -- dirty.txt
    git restore -p
    git restore --patch dirty.txt

approve switch-shared switch
    git checkout --ignore-other-worktrees other
    git switch --ignore-other-worktrees other

approve switch-shared
    git worktree add -f ../elsewhere other
    git worktree add --force ../elsewhere

approve index-rewrite
    git read-tree HEAD
    git read-tree -m HEAD
    git read-tree --reset HEAD
    git read-tree --empty
    git read-tree --prefix=x/ v1
    git update-index --force-remove dirty.txt
    git update-index --index-info
    git update-index --cacheinfo 100644,abc,x
    git update-index --remove gone.txt

approve index-flags
    git update-index --assume-unchanged dirty.txt
    git update-index --skip-worktree dirty.txt
    git update-index --assume dirty.txt

approve config-alias
    git config alias.x status
    git config alias.st "!git reset --hard"
    git config --local alias.x status
    git config --add alias.x status
    git config set alias.x status
    git config --worktree alias.x status

approve config-alias config-global
    git config --global alias.x status

approve config-unset
    git config --unset user.name
    git config --unset alias.st
    git config --unset-all remote.origin.fetch
    git config --remove-section alias
    git config --rename-section branch.x branch.y
    git config unset user.name
    git config remove-section user

approve config-command
    git config diff.external /tmp/x
    git config core.sshCommand "ssh -i key"
    git config core.editor "git reset --hard"
    git config core.pager "sh -c 'git clean -f'"
    git config filter.x.clean true
    git config filter.x.smudge "cat"
    git config merge.x.driver true
    git config credential.helper store
    git config diff.x.textconv cat
    git config gpg.program gpg2
    git config sequence.editor ./edit
    git lfs install

approve config-risky
    git config remote.origin.url ../elsewhere
    git config remote.origin.pushurl ../elsewhere
    git config remote.origin.push refs/heads/main
    git config remote.origin.fetch refs/heads/main:refs/remotes/origin/main
    git config url.x.insteadOf y
    git config gc.pruneExpire never
    git config gc.auto 0
    git config receive.denyCurrentBranch ignore
    git config clean.requireForce false
    git config core.logAllRefUpdates false
    git config branch.main.pushRemote x
    git config core.ignoreStat true
    git config submodule.x.update none

approve config-edit
    git config -e
    git config --edit
    git config edit

approve config-edit config-global
    git config --global --edit

approve config-global config-set
    git config --global user.name x
    git config --system user.name x
    git config --global pull.rebase true
    git config set --global user.name x

approve config-global config-unset
    git config --global --unset user.name

approve remote-change
    git remote remove origin
    git remote rm origin
    git remote rename origin upstream
    git remote set-url origin ../elsewhere
    git remote set-url --push origin no
    git remote -v rename origin upstream

approve submodule-change
    git submodule update --force
    git submodule update -f --init
    git submodule update --rebase
    git submodule update --merge
    git submodule deinit sub
    git submodule--helper update --force --init --
    git submodule--helper deinit -- sub
    git submodule deinit --all
    git submodule absorbgitdirs

approve notes-change
    git notes remove HEAD
    git notes prune
    git notes merge other
    git notes add -f -m x
    git notes add --force -m x
    git notes copy -f v1 HEAD
    git notes --ref=x remove HEAD

approve repack-delete
    git repack -d
    git repack -ad
    git repack -Ad
    git repack -a -d -f
    git repack -adq
    git multi-pack-index expire

approve rerere-change
    git rerere clear
    git rerere forget x
    git rerere gc

approve maintenance-schedule
    git maintenance start
    git maintenance stop
    git maintenance register
    git maintenance unregister

approve import
    git fast-import
    git fast-import --quiet

approve write-file
    git archive -o clean.txt HEAD
    git archive --output=dirty.txt HEAD
    git checkout-index -f -a --prefix=/tmp/export/
    git checkout-index -af --prefix=../export/

approve write-file
    git diff --output=dirty.txt
    git log --output clean.txt
    git show --output=new.txt HEAD

approve write-file objects
    git bundle create new.txt HEAD

approve init-redirect init
    git init --separate-git-dir=../x
    git init --template=../hooks

approve init-redirect clone
    git clone --template=../hooks ../origin.git x

approve foreign
    git svn reset -r 5
    git svn rebase
    git p4 rebase
    git lfs prune
    git lfs checkout
    git cvsimport x

approve send
    git send-email x.patch
    git imap-send
    git instaweb
    git daemon

approve tool
    git mergetool
    git gui
    git citool

approve run-command fetch
    git fetch "ext::sh -c x"
    git fetch --upload-pack=/tmp/x origin
    git fetch --upload-pack /tmp/x origin

approve run-command clone
    git clone "ext::sh -c x" x
    git clone -u /tmp/x ../origin.git y

approve run-command push
    git push --receive-pack=/tmp/x origin main
    git push --exec=/tmp/x origin main

approve run-command
    git ls-remote --upload-pack=/tmp/x origin
    git archive --remote=../origin.git --exec=/tmp/x HEAD
    git hook run pre-commit

approve config-command clone
    git clone -c core.hooksPath=/tmp/x ../origin.git y
    git clone --config core.fsmonitor=/tmp/x ../origin.git y
    git clone -c "core.sshCommand=sh -c x" ../origin.git y

approve credential
    git credential reject
    git credential approve
    git credential-store erase

approve agentos-change
    git agentos worktree remove dev
    git agentos worktree archive dev
    git agentos worktree merge dev
    git agentos doctor --fix
    git agentos rollback
    git agentos run start -- make
    git agentos run accept 1
    git agentos tdd abort 1
    git-agentos worktree remove dev
    git agentos-worktree remove dev
    git-agentos-worktree remove dev
    git agentos -C .. worktree remove dev
    git agentos --json worktree remove dev
    git agentos --as main worktree remove dev

approve guard-change
    git agentos guard disable
    git agentos guard disable dev
    git agentos guard integrate claude-code
    git agentos hooks uninstall
    git agentos hooks install
    git agentos worktree create x --no-guard
    git-agentos guard disable
    git agentos -q guard disable

approve approvals
    git agentos approvals grant 1
    git agentos approvals deny 1
    git agentos --as main approvals grant 1
    git agentos tdd approve 1

approve unknown-command
    git history drop HEAD
    git repo rename x
    git refs delete x
    git foo
    git no-such-command --help-me
    git rest --hard
    git undo
    git sync
    git commmit -m x
    git stash frobnicate
    git worktree frobnicate
    git remote frobnicate
    git submodule frobnicate
    git agentos frobnicate
    git agentos guard frobnicate

approve unknown-option reset-index
    git reset --no-such-option

approve unknown-option commit
    git commit --no-such-option -m x
    git commit -Q -m x

approve unknown-option
    git --no-such-option status

approve unresolved
    git ␀
    git ␀ reset
    git ␀ --hard
    git update-ref --stdin
    git stash ␀
    git remote ␀ x
    git worktree ␀

approve unresolved switch
    git checkout ␀
    git checkout feature/␀
    git switch ␀

approve unresolved branch-create
    git branch ␀
    git checkout -b topic ␀

approve unresolved checkout-paths
    git checkout ␀ -- clean.txt
    git restore -s ␀ clean.txt

approve unresolved
    git restore ␀
    git checkout -- ␀
    git -C no-such-folder checkout -- x
    git -C no-such-folder restore x
    git checkout HEAD -- ␀

approve unresolved commit
    git commit ␀ -m x
    git commit -␀ -m x
    git commit --␀

approve unresolved commit
    git -C ␀ commit -m x

approve redirect unresolved commit
    git --git-dir ␀ commit -m x

approve unresolved tag-create
    git tag ␀

approve unresolved fetch
    git fetch origin ␀
    git fetch ␀ main
    git fetch origin ␀:refs/remotes/origin/x

approve unresolved add
    git add -␀

approve redirect commit
    GIT_DIR=../main/.git git commit -m x
    git --git-dir=../main/.git commit -m x
    git --git-dir ../main/.git --work-tree ../main commit -m x
    git --work-tree=../main commit -m x
    GIT_WORK_TREE=../main git commit -m x
    GIT_DIR=../main/.git GIT_WORK_TREE=../main git commit -m x
"""
