"""Commands that are allowed, by their operations: agents' daily work, and forms of the others that only look.

The state they are judged in is `tests.support.guard.policy_repository`.
"""

OPERATIONS = """
allow look
    git repo info --all
    git repo structure
    git refs list
    git refs exists refs/heads/main
    git refs migrate --ref-format=reftable --dry-run
    git stash import -h
    git
    git --version
    git -v
    git --help
    git -h
    git --exec-path
    git --html-path
    git help
    git help reset
    git version
    git status
    git status -s
    git status -sb
    git status --porcelain
    git status --porcelain=v2 -z --branch
    git status --short --untracked-files=all
    git status --ignored
    git status ␀
    git -C src status
    git -C .. status
    git -C ../main status
    git -C ␀ status
    git -C no-such-folder status
    git --git-dir=␀ log -1
    git -C "␀/src" rev-parse HEAD
    git --git-dir=.git status
    git --git-dir=../main/.git log
    git --no-pager status
    git --no-optional-locks status --porcelain
    git -c color.ui=never status
    git -c core.quotePath=false status
    git -c core.quotepath=off ls-files
    git -c core.pager=cat log -1
    git -c core.pager= log
    git -c safe.directory=* status
    git -c advice.detachedHead=false log
    git diff
    git diff --cached
    git diff --staged
    git diff --stat
    git diff HEAD
    git diff HEAD~1
    git diff main...HEAD
    git diff --name-only HEAD~1 HEAD
    git diff -- dirty.txt
    git diff --no-index a b
    git diff -U5
    git diff --output=patch.diff
    git diff --output ../patch.diff HEAD
    git diff ␀
    git diff "␀...HEAD"
    git --no-pager diff
    git log
    git log --oneline -5
    git log -n 3 --oneline
    git log -p -- clean.txt
    git log --all --graph --decorate
    git log --grep="reset --hard"
    git log --grep --output=x
    git log -S "git push --force"
    git log --since=yesterday --author=x
    git log --format=%H -1
    git log main..HEAD
    git log ␀..HEAD
    git show
    git show HEAD
    git show HEAD:clean.txt
    git show --stat HEAD~1
    git show ␀
    git shortlog -sn
    git describe --tags --always
    git rev-parse HEAD
    git rev-parse --show-toplevel
    git rev-parse --abbrev-ref HEAD
    git rev-list --count HEAD
    git ls-files
    git ls-files -o --exclude-standard
    git ls-files --deleted -z
    git ls-tree -r HEAD
    git ls-remote
    git ls-remote --heads origin
    git ls-remote --exit-code origin main
    git cat-file -p HEAD
    git cat-file --batch
    git blame clean.txt
    git blame -L 1,2 -- clean.txt
    git annotate clean.txt
    git grep TODO
    git grep -n "reset --hard"
    git grep -e --force
    git grep -c x -- src
    git whatchanged
    git name-rev HEAD
    git merge-base main HEAD
    git merge-base --is-ancestor main HEAD
    git for-each-ref
    git for-each-ref --format="%(refname)" refs/heads
    git show-ref
    git show-branch
    git cherry -v main
    git count-objects -vH
    git fsck
    git fsck --full --no-dangling
    git check-ignore -v cache/x.o
    git check-attr -a clean.txt
    git diff-tree --no-commit-id --name-only -r HEAD
    git diff-index HEAD
    git diff-files
    git range-diff main~1..main other~1..other
    git patch-id
    git var GIT_AUTHOR_IDENT
    git verify-commit HEAD
    git format-patch -1
    git format-patch -o patches main
    git format-patch --stdout HEAD~1
    git request-pull main ../origin.git
    git interpret-trailers --parse
    git bugreport
    git column
    git branch
    git branch -a
    git branch -r
    git branch -v
    git branch -vv
    git branch -av
    git branch --list
    git branch --list "agent/*"
    git branch -l "agent/*"
    git branch --show-current
    git branch --contains HEAD
    git branch --merged
    git branch --merged main
    git branch --no-merged main
    git branch --sort=-committerdate
    git branch --format="%(refname:short)"
    git branch -a --contains v1
    git branch --points-at HEAD
    git tag
    git tag -l
    git tag -l "v*"
    git tag --list
    git tag -n
    git tag -n5
    git tag --contains HEAD
    git tag --points-at HEAD
    git tag --sort=-version:refname
    git tag -v v1
    git tag --merged main
    git stash list
    git stash show
    git stash show -p stash@{0}
    git remote
    git remote -v
    git remote show origin
    git remote get-url origin
    git remote show
    git worktree list
    git worktree list --porcelain
    git worktree list -v
    git worktree prune -n
    git worktree prune --dry-run
    git notes
    git notes list
    git notes show HEAD
    git notes prune -n
    git reflog
    git reflog show
    git reflog show --all
    git reflog -5
    git reflog HEAD
    git reflog exists HEAD
    git reflog expire --dry-run --all
    git reflog expire -n --expire=now --all
    git reflog delete --dry-run HEAD@{1}
    git symbolic-ref HEAD
    git symbolic-ref --short HEAD
    git symbolic-ref -q HEAD
    git symbolic-ref refs/remotes/origin/HEAD
    git replace
    git replace -l
    git replace --list
    git submodule
    git submodule status
    git submodule status --recursive
    git submodule summary
    git submodule--helper status --quiet --recursive --
    git submodule--helper list
    git bisect log
    git bisect view
    git sparse-checkout list
    git bundle verify x.bundle
    git bundle list-heads x.bundle
    git rerere status
    git rerere diff
    git lfs ls-files
    git lfs status
    git lfs env
    git lfs migrate info
    git lfs prune --dry-run
    git svn log
    git svn info
    git credential fill
    git config user.name
    git config --get user.name
    git config --get-all remote.origin.fetch
    git config --get-regexp "^core"
    git config --list
    git config -l
    git config --list --show-origin
    git config -l --global
    git config --global user.name
    git config --global --get user.email
    git config list
    git config get user.name
    git config --get core.hooksPath
    git config core.hooksPath
    git config --get alias.x
    git hook list
    git maintenance run -h
    git filter-repo --analyze
    git send-email --dry-run x.patch
    git multi-pack-index -h
    git reset -h
    git reset --help
    git reset --help --hard
    git reset --hard -h
    git reset --hard --help
    git push --help
    git push -f --help
    git push -h
    git clean --help
    git clean -h
    git clean -n
    git clean -nd
    git clean -nfd
    git clean -ndx
    git clean --dry-run
    git clean -fdx --dry-run
    git clean -f --dry -d
    git branch --help
    git branch -h
    git stash -h
    git stash drop -h
    git stash drop --help
    git stash clear -h
    git worktree remove -h
    git worktree -h
    git filter-branch -h
    git filter-branch --help
    git checkout -h
    git checkout --
    git rebase --help
    git gc -h
    git prune -h
    git no-such-command --help
    git push -n
    git push --dry-run
    git push --dry-run --force
    git push -n --force origin main
    git push -nf
    git push -fn origin
    git push --force --dry origin main
    git push --dry-run --delete origin main
    git push -n origin :main
    git push --mirror --dry-run
    git fetch --dry-run
    git fetch --dry-run origin +main:main
    git pull --dry-run
    git add -n .
    git add --dry-run -A
    git rm -n clean.txt
    git rm --dry-run -rf src
    git mv -n clean.txt x
    git mv -nf clean.txt dirty.txt
    git commit --dry-run
    git commit --dry-run --amend
    git commit --short
    git commit --porcelain
    git prune -n
    git prune --dry-run
    git apply --check x.patch
    git apply --stat x.patch
    git apply --numstat --summary x.patch
    git read-tree -n -u --reset HEAD
    git read-tree --dry-run -m HEAD
    git rebase --show-current-patch
    git am --show-current-patch
    git am --show-current-patch=diff
    git checkout-index --temp -a
    git remote prune --dry-run origin
    git restore
    git st
    git st -s
    git lg
    git lg -5
    git -c alias.x=status x
    git -c "alias.x=log --oneline" x -5
    GIT_PAGER=cat git log
    GIT_EDITOR=true git status
    GIT_TRACE=1 git status
    GIT_CONFIG_NOSYSTEM=1 git status
    GIT_CONFIG_GLOBAL=/dev/null git status
    GIT_CONFIG_COUNT=0 git status
    GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=x git status
    GIT_CONFIG_PARAMETERS="'user.name'='x'" git status
    GIT_DIR=../main/.git git log
    LC_ALL=C git status
    git agentos
    git agentos --version
    git agentos --help
    git agentos status
    git agentos status --json
    git agentos --json status
    git agentos doctor
    git agentos db path
    git agentos worktree list
    git agentos worktree show dev
    git agentos worktree path dev
    git agentos worktree env dev
    git agentos worktree conflicts
    git agentos approvals list
    git agentos approvals show 1
    git agentos guard status
    git agentos guard check -- reset --hard
    git agentos guard check --shell "git reset --hard"
    git agentos guard harness claude-code
    git agentos guard integrate claude-code --print
    git agentos guard disable --help
    git agentos hooks status
    git agentos run list
    git agentos run diff 1
    git agentos tdd status
    git-agentos status

allow agentos
    git agentos checkpoint
    git agentos checkpoint -m "before reset --hard"
    git agentos checkpoint list
    git agentos checkpoint diff latest
    git agentos restore latest
    git agentos restore latest clean.txt --dry-run
    git agentos undo
    git agentos recover
    git agentos pick other
    git agentos log add decision "use git reset --hard"
    git agentos log list
    git agentos memory list
    git agentos worktree create x
    git agentos worktree create x --guard
    git agentos worktree complete
    git agentos guard enable
    git agentos guard exec
    git agentos hook post-commit
    git agentos --as dev checkpoint
    git agentos-checkpoint -m x
    git-agentos-checkpoint
    git-agentos-restore latest

allow add
    git add .
    git add -A
    git add --all
    git add -u
    git add clean.txt
    git add -- dirty.txt
    git add -f cache/x.o
    git add -N new.txt
    git add -p
    git add -i
    git add src/ new.txt
    git add ␀
    git add -- ␀
    git add -A ␀
    git add --chmod=+x clean.txt
    git add --renormalize .
    git stage new.txt
    git -C src add .
    git update-index --refresh
    git update-index -q --refresh
    git update-index --add new.txt
    git update-index --chmod=+x clean.txt
    git rerere
    git --literal-pathspecs add -A
    GIT_AUTHOR_NAME=x git add .

allow commit
    git commit -m x
    git commit -am x
    git commit -a -m x
    git commit -m "reset --hard"
    git commit -m "git push --force"
    git commit -m --amend
    git commit -m --no-verify
    git commit -am --no-verify
    git commit -m -n
    git commit -mn
    git commit -F msg.txt
    git commit -F -
    git commit --message="--amend"
    git commit --message --amend
    git commit --fixup HEAD
    git commit --fixup=HEAD~1
    git commit --fixup amend:HEAD
    git commit --squash HEAD
    git commit --squash=HEAD -m x
    git commit -C HEAD
    git commit -c HEAD
    git commit --allow-empty -m x
    git commit -S -m x
    git commit -s -m x
    git commit -v
    git commit -q -m x
    git commit --author="A <a@b>" -m x
    git commit --date=now -m x
    git commit -m x clean.txt
    git commit -m x -- clean.txt
    git commit -o clean.txt -m x
    git commit -i clean.txt -m x
    git commit --no-edit
    git commit -m ␀
    git commit -m "fix ␀"
    git commit --message=␀
    git commit -am ␀
    git commit -F ␀
    git commit --trailer "Signed: x" -m y
    git commit --no-verify --verify -m x
    git commit --no-amend -m x
    git commit --amend --no-amend -m x
    git -c user.name=x -c user.email=y commit -m z
    git -c commit.gpgsign=false commit -m x
    git -c core.editor=true commit
    git -c core.editor="code --wait" commit
    git -C src commit -m x
    git -c alias.x=status commit -m x
    GIT_COMMITTER_DATE=now git commit -m x
    GIT_EDITOR=true git commit
    GIT_EDITOR="vim -f" git commit
    EDITOR=nano git commit
    GIT_INDEX_FILE=/tmp/private git commit -m x
    GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=user.email GIT_CONFIG_VALUE_0=x git commit -m y
    git ci -m x
    git ci -m --amend

allow objects
    git history reword --dry-run HEAD~1
    git history fixup --dry-r v1
    git replay --ref-action=print --onto main main..other
    git -c replay.refAction=print replay --onto main main..other
    git stash export --print
    git hash-object -w clean.txt
    git hash-object --stdin
    git write-tree
    git commit-tree -m x HEAD^{tree}
    git mktree
    git merge-tree --write-tree main other
    git commit-graph write
    git bundle create ../x.bundle --all
    git bundle unbundle x.bundle
    GIT_INDEX_FILE=/tmp/private git read-tree HEAD
    git read-tree --index-output=/tmp/x HEAD
    GIT_INDEX_FILE=/tmp/private git update-index --remove gone.txt

allow stash
    git stash import refs/stashes/x
    git stash
    git stash -u
    git stash push
    git stash push -m "wip: reset --hard"
    git stash push -u -m x
    git stash push -- dirty.txt
    git stash -- dirty.txt
    git stash push -p
    git stash save x
    git stash -k
    git stash --include-untracked
    git stash --all
    git stash -a
    git stash create
    git stash push -m ␀
    git stash -q

allow stash-apply
    git stash pop
    git stash pop --index
    git stash pop stash@{0}
    git stash apply
    git stash apply 0
    git stash apply -q stash@{0}
    git stash branch topic

allow fetch
    git backfill
    git backfill --min-batch-size=10 --sparse HEAD
    git fetch
    git fetch origin
    git fetch origin main
    git fetch --all
    git fetch --all --prune
    git fetch -p
    git fetch --prune origin
    git fetch --tags
    git fetch -t
    git fetch --depth 1 origin main
    git fetch --unshallow
    git fetch -q origin
    git fetch -f origin
    git fetch --force
    git fetch origin main other
    git fetch origin tag v1
    git fetch origin +refs/heads/*:refs/remotes/origin/*
    git fetch origin refs/heads/main:refs/remotes/origin/main
    git fetch ../origin.git main
    git fetch --recurse-submodules
    git fetch --no-tags origin
    git fetch origin release/␀
    git remote update
    git remote update --prune
    git remote prune origin
    git fetch-pack ../origin.git
    git lfs fetch
    git lfs track "*.bin"

allow branch-create fetch
    git fetch origin main:topic
    git fetch origin pull/1/head:pr-1

allow switch
    git checkout other
    git checkout main
    git checkout -q other
    git checkout v1
    git checkout HEAD~1
    git checkout --detach
    git checkout --detach other
    git checkout -d v1
    git checkout other --
    git checkout remote-only
    git checkout -t origin/remote-only
    git checkout --track origin/remote-only
    git checkout @{-1}
    git checkout refs/heads/other
    git checkout --recurse-submodules other
    git checkout --no-force other
    git switch other
    git switch main
    git switch -
    git switch -d v1
    git switch --detach HEAD~1
    git switch remote-only
    git switch --guess remote-only
    git switch no-such-branch
    git co other
    git -c advice.detachedHead=false checkout v1

allow branch-create
    git stash export --to-ref refs/stashes/new
    git stash export --to-ref=refs/stashes/new 0
    git replay --ref=refs/heads/new --onto main main..other
    git checkout -b topic
    git checkout -b topic v1
    git checkout -qb topic
    git checkout -b topic origin/main
    git checkout -b ␀
    git checkout -b feature/␀
    git checkout --orphan topic
    git checkout -b topic --track origin/main
    git switch -c topic
    git switch -c topic v1
    git switch --create topic
    git switch -c ␀
    git switch --orphan topic
    git branch topic
    git branch topic v1
    git branch --track topic origin/main
    git branch --no-track topic
    git branch -q topic
    git branch feature/␀
    git branch -c other topic
    git branch --copy other topic
    git update-ref refs/heads/topic HEAD
    git update-ref refs/wip/x HEAD
    git co -b topic

allow branch-configure
    git branch -u origin/main
    git branch --set-upstream-to=origin/main
    git branch --unset-upstream
    git branch --edit-description

allow tag-create
    git tag v2
    git tag v2 HEAD~1
    git tag -a v2 -m x
    git tag -a v2 -m "delete -d"
    git tag -am x v2
    git tag -s v2 -m x
    git tag v␀
    git tag --no-force v2

allow revert
    git revert HEAD
    git revert --no-edit HEAD
    git revert -n HEAD
    git revert HEAD~1..HEAD
    git revert -m 1 HEAD

allow apply
    git apply x.patch
    git apply --index x.patch
    git apply -3 x.patch
    git apply -R x.patch
    git apply ␀
    git apply --whitespace=fix < x

allow reset-index
    git reset
    git reset -q
    git reset HEAD
    git reset -- dirty.txt
    git reset dirty.txt
    git reset HEAD dirty.txt
    git reset HEAD -- dirty.txt
    git reset -q -- .
    git reset .
    git reset "*.txt"
    git reset HEAD~1 -- clean.txt
    git reset v1 clean.txt
    git reset -p
    git reset --patch HEAD
    git reset -- ␀
    git reset HEAD -- ␀
    git reset @
    git reset src
    git restore --staged dirty.txt
    git restore --staged .
    git restore -S staged.txt
    git restore --staged -s HEAD~1 clean.txt
    git restore --staged ␀
    git restore --stag .
    git unstage dirty.txt

allow checkout-paths
    git checkout -- clean.txt
    git checkout clean.txt
    git checkout HEAD -- clean.txt
    git checkout HEAD~1 -- clean.txt
    git checkout v1 -- clean.txt
    git checkout src
    git checkout -- src
    git checkout src/
    git checkout -- staged.txt
    git checkout gone.txt
    git checkout -- gone.txt
    git checkout HEAD -- gone.txt
    git checkout -- no-such-file
    git checkout other -- other.txt
    git checkout other other.txt
    git checkout other -- added.txt
    git restore clean.txt
    git restore gone.txt
    git restore src
    git restore staged.txt
    git restore -s HEAD~1 clean.txt
    git restore --source=HEAD -SW clean.txt
    git restore --source=other other.txt
    git restore -- clean.txt src
    git checkout-index -a
    git checkout-index clean.txt
    git co clean.txt

allow remove
    git rm clean.txt
    git rm -r src
    git rm --cached clean.txt
    git rm -r --cached .
    git rm --ignore-unmatch x
    git rm -q -- clean.txt
    git rm ␀

allow move
    git mv clean.txt x.txt
    git mv src lib
    git mv -v clean.txt src/

allow abort
    git merge --abort
    git merge --quit
    git rebase --abort
    git rebase --abo
    git cherry-pick --abort
    git cherry-pick --quit
    git revert --abort
    git am --abort
    git bisect reset
    git bisect--helper --bisect-reset
    git notes merge --abort

allow continue
    git merge --continue
    git rebase --continue
    git rebase --cont
    git rebase --edit-todo
    git cherry-pick --continue
    git revert --continue
    git am --continue
    git am -r
    git am --resolved
    git -c core.editor=true rebase --continue
    GIT_EDITOR=true git rebase --continue
    GIT_EDITOR=: git merge --continue
    GIT_SEQUENCE_EDITOR=: git rebase --continue

allow bisect
    git bisect start
    git bisect start HEAD v1
    git bisect good
    git bisect bad HEAD
    git bisect skip
    git bisect--helper --bisect-start HEAD v1
    git bisect--helper --bisect-state good
    git bisect--helper --bisect-run make test
    git bisect run make test

allow worktree-add
    git worktree add ../elsewhere
    git worktree add ../elsewhere other
    git worktree add -b topic ../elsewhere
    git worktree add --detach ../elsewhere HEAD
    git worktree lock ../elsewhere
    git worktree repair

allow remote-add
    git remote add upstream ../origin.git
    git remote add -f upstream ../origin.git
    git remote set-branches origin main
    git remote set-head origin -a

allow submodule-update
    git submodule init
    git submodule update
    git submodule update --init --recursive
    git submodule add ../origin.git sub
    git submodule sync
    git submodule--helper update --quiet --init --
    git submodule--helper clone --path sub --name sub --url ../origin.git
    git submodule--helper foreach --quiet -- git status
    git submodule foreach "git status"
    git submodule foreach git status

allow sparse-widen
    git sparse-checkout add src
    git sparse-checkout disable

allow notes-add
    git notes add -m x
    git notes append -m x HEAD
    git notes edit
    git notes --ref=x add -m y

allow config-set
    git config user.name x
    git config user.email x@y
    git config --local user.name "reset --hard"
    git config user.name --unset
    git config core.autocrlf input
    git config pull.rebase true
    git config merge.conflictStyle zdiff3
    git config init.defaultBranch main
    git config push.autoSetupRemote true
    git config core.editor true
    git config core.editor vim
    git config core.pager cat
    git config pager.log false
    git config rerere.enabled true
    git config commit.gpgsign false
    git config branch.topic.remote origin
    git config diff.algorithm histogram
    git config set user.name x
    git config --add user.name x
    git config mytool.key value
    git config user.name ␀
    git config -f .gitmodules submodule.x.branch main
    git config --file settings.ini a.b c

allow gc
    git refs optimize
    git refs optimize --all --no-prune
    git maintenance run --task=reflog-expire
    git -c gc.worktreePruneExpire=1.year.ago gc
    git gc
    git gc --auto
    git gc --aggressive
    git gc --quiet
    git gc --prune
    git gc --prune=2.weeks.ago
    git gc --prune=1.month.ago
    git gc --prune=never
    git gc --no-prune
    git maintenance run
    git maintenance run --auto
    git maintenance run --task=gc
    git pack-refs --all
    git repack
    git repack -a
    git prune-packed

allow init
    git -C no-such-folder init
    git init
    git init -b main ../new
    git init --bare ../new.git

allow clone
    git clone ../origin.git x
    git clone --depth 1 ../origin.git x
    git clone -b main ../origin.git x
    git clone -c user.name=x ../origin.git y
    git clone https://example.com/x.git
    git clone ␀
"""
