"""Commands that are forbidden, by their operations. The state they are judged in is `tests.support.guard.policy_repository`."""

# ruff: noqa: E501 - a command is a line

OPERATIONS = """
forbid reset-hard
    git reset --hard
    git reset --hard HEAD
    git reset --hard HEAD~1
    git reset --hard origin/main
    git reset --hard @{upstream}
    git reset -q --hard
    git reset --quiet --hard v1
    git reset --hard -q
    git reset --har
    git reset --ha HEAD
    git reset --h
    git reset HEAD~1 --hard
    git reset --soft --hard
    git reset --no-refresh --hard
    git reset --hard --recurse-submodules
    git reset --recurse-submodules --hard
    git reset --hard no-such-commit
    git-reset --hard
    /usr/bin/git reset --hard
    /usr/lib/git-core/git reset --hard
    /usr/lib/git-core/git-reset --hard
    git -C . reset --hard
    git -C src reset --hard
    git -C no-such-folder reset --hard
    git -C src -C .. reset --hard
    git --git-dir=.git reset --hard
    git --git-dir .git --work-tree . reset --hard
    git -c user.name=x reset --hard
    git -c color.ui=never -c core.pager=cat reset --hard
    git --no-pager reset --hard
    git -p reset --hard
    git -P reset --hard
    git --no-optional-locks reset --hard
    git --literal-pathspecs reset --hard
    git --config-env=user.name=HOME reset --hard
    git --config-env user.name=HOME reset --hard
    GIT_DIR=.git git reset --hard
    GIT_PAGER=cat git reset --hard
    git wipe
    git wipe HEAD~1
    git WIPE
    git -C src wipe
    git again
    git -c alias.x=reset x --hard
    git -c "alias.x=reset --hard" x
    git -c alias.x=wipe x
    git -c "alias.X=reset --hard" x
    git quoted

forbid reset-hard unresolved
    git reset --hard ␀

forbid push-force push unresolved
    git push -f ␀

forbid reset-merge
    git reset --merge
    git reset --merge HEAD~1
    git reset --mer
    git reset -q --merge ORIG_HEAD

forbid reset-keep
    git reset --keep HEAD~1
    git reset --kee HEAD~1
    git reset --keep

forbid clean
    git clean -f
    git clean -fd
    git clean -df
    git clean -xfd
    git clean -dfx
    git clean -fdX
    git clean -ffdx
    git clean -qfd
    git clean -fq
    git clean -f -d -x
    git clean --force
    git clean --force -d
    git clean --forc
    git clean --fo -x
    git clean -d --for -- src
    git clean -f new.txt
    git clean -f -- new.txt
    git clean -f "*.txt"
    git clean -fe keep.txt
    git clean -fd -e keep.txt
    git clean -fdekeep.txt
    git clean -f --exclude=keep.txt
    git clean --no-dry-run -f
    git clean -n --no-dry-run -f
    git -c clean.requireForce=true clean -f
    git-clean -fdx
    git -C src clean -fd
    git scrub

forbid clean
    git boom

forbid checkout-force
    git checkout -f other
    git checkout -f main
    git checkout --force other
    git checkout --forc other
    git checkout -qf other
    git checkout -fq other
    git checkout other -f
    git checkout -f -
    git checkout --detach -f v1
    git checkout -f HEAD~1
    git checkout -f no-such-name-is-taken-as-given --
    git switch -f other
    git switch --force other
    git switch --discard-changes other
    git switch --discard other
    git switch --disc other
    git switch -qf other
    git switch -fd v1
    git switch --no-guess -f other

forbid checkout-force
    git checkout -f

forbid checkout-force branch-create
    git checkout -fb topic
    git checkout -f -b topic v1
    git switch -fc topic
    git switch --discard-changes -c topic

forbid checkout-force checkout-dirty
    git checkout -f -- dirty.txt
    git checkout -f .

forbid branch-reset switch
    git checkout -B other
    git checkout -B topic v1
    git checkout -qB other
    git checkout -Bother
    git checkout -B other origin/main
    git switch -C other
    git switch --force-create other
    git switch --force-c other v1
    git switch -Cother
    git switch -qC other main

forbid branch-reset
    git worktree add -B other ../elsewhere
    git worktree add -f -B other ../elsewhere
    git worktree add -Bother ../elsewhere v1

forbid checkout-dirty
    git checkout dirty.txt
    git checkout -- dirty.txt
    git checkout --ours dirty.txt
    git checkout --theirs -- dirty.txt
    git checkout -2 -- dirty.txt
    git checkout -3 -- dirty.txt
    git checkout -m -- staged.txt
    git checkout --conflict=merge -- staged.txt
    git restore --ours dirty.txt
    git restore --theirs .
    git restore -m dirty.txt
    git checkout ./dirty.txt
    git checkout -q -- dirty.txt
    git checkout .
    git checkout -- .
    git checkout ./
    git checkout :/
    git checkout -- :/
    git checkout "*.txt"
    git checkout -- "*.txt"
    git checkout -- ":(glob)*.txt"
    git checkout -- clean.txt dirty.txt
    git checkout clean.txt dirty.txt
    git checkout -- both.txt
    git checkout HEAD dirty.txt
    git checkout HEAD -- dirty.txt
    git checkout HEAD .
    git checkout HEAD -- .
    git checkout @ -- .
    git checkout HEAD -- staged.txt
    git checkout HEAD staged.txt
    git checkout HEAD~0 -- both.txt
    git checkout v1 -- dirty.txt
    git checkout v1 -- staged.txt
    git checkout other -- .
    git checkout other -- new.txt
    git checkout other new.txt
    git checkout --no-overlay HEAD -- .
    git checkout --no-overlay HEAD -- added.txt
    git checkout stash@{0} -- dirty.txt
    git checkout -- src/../dirty.txt
    git checkout -- work
    git checkout work/
    git checkout -- work/dirty.py
    git checkout -- hidden.txt
    git checkout hidden.txt
    git -C work checkout -- dirty.py
    git -C work checkout .
    git -C src checkout -- ../dirty.txt
    git-checkout -- dirty.txt
    git restore dirty.txt
    git restore -- dirty.txt
    git restore .
    git restore -- .
    git restore :/
    git restore "*.txt"
    git restore --worktree dirty.txt
    git restore -W dirty.txt
    git restore --work dirty.txt
    git restore -q dirty.txt
    git restore --source=HEAD dirty.txt
    git restore --source HEAD dirty.txt
    git restore --sour=HEAD dirty.txt
    git restore -s HEAD dirty.txt
    git restore -sHEAD dirty.txt
    git restore -s v1 staged.txt
    git restore --source=HEAD~1 .
    git restore -s other new.txt
    git restore -SW dirty.txt
    git restore -WS staged.txt
    git restore --staged --worktree staged.txt
    git restore --staged --worktree .
    git restore -s HEAD -S -W .
    git restore --source=HEAD --staged --worktree -- both.txt
    git restore -s@ -SW added.txt
    git restore clean.txt dirty.txt
    git restore work
    git restore hidden.txt
    git restore --ignore-unmerged dirty.txt
    git restore --no-overlay dirty.txt
    git co dirty.txt
    git co -- .
    git -c alias.x=checkout x .

forbid branch-delete
    git branch -d other
    git branch -D other
    git branch -D no-such-branch
    git branch --delete other
    git branch --delete --force other
    git branch --del other
    git branch -df other
    git branch -fd other
    git branch -d -f other
    git branch -qD other
    git branch -Dq other
    git branch -rd origin/main
    git branch -dr origin/main
    git branch -D other main
    git branch -D -- other
    git branch other -D
    git-branch -D other

forbid branch-delete unresolved
    git branch -D ␀
    git branch ␀ -D other

forbid branch-force
    git branch -f other
    git branch -f other v1
    git branch --force other HEAD~1
    git branch --forc other
    git branch -M topic
    git branch -M other topic
    git branch -m -f other
    git branch -mf other
    git branch --move --force other topic
    git branch -C other
    git branch -C main other
    git branch -c -f main other
    git branch --copy --force main other
    git branch other v1 -f
    git branch -qf other

forbid push-force push
    git push -f
    git push --force
    git push origin -f
    git push -f origin main
    git push origin main -f
    git push origin main --force
    git push --forc origin
    git push -uf origin main
    git push -fu origin main
    git push -qf
    git push -vf origin
    git push --force-with-lease
    git push --force-with-lease origin main
    git push --force-with-lease=main origin main
    git push --force-with-lease=main:abc origin main
    git push --force-w
    git push --force-with-lease --force-if-includes
    git push --force --no-progress
    git push --no-force --force
    git push -f --tags
    git push origin +main
    git push origin +main:main
    git push origin +HEAD
    git push origin +HEAD:refs/heads/x
    git push origin main +other
    git push origin "+refs/heads/*:refs/heads/*"
    git push origin +:
    git push -- origin +main
    git push ../origin.git +main
    git push forced
    git push --all -f
    git push --repo=origin -f
    git push --no-dry-run -f
    git send-pack --force ../origin.git main
    git send-pack ../origin.git +main
    git -c push.default=current push -f
    git -C src push -f
    git shove

forbid push-force push
    git -c remote.origin.push=+main push

forbid push-delete push
    git push origin :main
    git push origin :refs/heads/main
    git push origin --delete main
    git push --delete origin main
    git push -d origin main
    git push origin -d main
    git push --del origin main
    git push -qd origin v1
    git push origin :v1 main
    git push -- origin :main
    git push ../origin.git :main

forbid push-mirror push
    git push --mirror
    git push --mirror origin
    git push --mir origin
    git push mirror
    git send-pack --mirror ../origin.git

forbid push-mirror push
    git -c remote.origin.mirror=true push
    git -c remote.origin.mirror push origin

forbid push-prune push
    git push --prune origin
    git push --prune origin "refs/heads/*"
    git push --prun origin

forbid push-force push-prune push
    git push --prune --force origin

forbid no-verify push
    git push --no-verify
    git push --no-verify origin main
    git push --no-ver origin main

forbid push-force no-verify push
    git push --no-verify --force
    git push -f --no-verify origin main

forbid no-verify commit
    git commit --no-verify -m x
    git commit -n -m x
    git commit -nm x
    git commit -anm x
    git commit -am x --no-verify
    git commit --no-ver -m x
    git commit --no-verif -m x
    git commit -qn -m x
    git commit -m x -n
    git commit --fixup HEAD --no-verify
    git commit --verify --no-verify -m x
    git-commit -n -m x
    git ci-quick

forbid no-verify commit-amend
    git commit --amend --no-edit --no-verify
    git commit --amend -n

forbid no-verify merge
    git merge --no-verify other

forbid no-verify rebase
    git rebase --no-verify main

forbid no-verify am
    git am --no-verify x.patch
    git am -n x.patch

forbid no-verify pull
    git pull --no-verify

forbid config-guard commit
    git -c core.hooksPath=/dev/null commit -m x
    git -c core.hookspath=/dev/null commit -m x
    git -c CORE.HOOKSPATH=/dev/null commit -m x
    git -c core.hooksPath= commit -m x
    git -c core.hooksPath commit -m x
    git -c core.fsmonitor=false commit -m x
    git -c core.fsmonitor= commit -m x
    git -c core.fsmonitor commit -m x
    git -c core.fsmonitorHookVersion=1 commit -m x
    git -c hook.x.command=true commit -m x
    git -c hook.x.event=pre-commit commit -m x
    git -c agentos.guard.mode=save commit -m x
    git -c agentos.policy.commit=allow commit -m x
    git -c include.path=x commit -m x
    git -c includeIf.gitdir:/.path=x commit -m x
    git -c core.worktree=/tmp commit -m x
    git -c extensions.worktreeConfig=false commit -m x
    git -c user.name=x -c core.hooksPath=/tmp commit -m x
    git -C . -c core.hooksPath=/dev/null commit -m x
    git --config-env=core.hooksPath=HOME commit -m x
    git --config-env core.hooksPath=HOME commit -m x
    git -c alias.x=commit -c core.hooksPath=/dev/null x -m y
    GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=/dev/null git commit -m x
    GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.fsmonitor GIT_CONFIG_VALUE_0=false git commit -m x
    GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=x GIT_CONFIG_KEY_1=Core.HooksPath GIT_CONFIG_VALUE_1=y git commit -m x
    GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0=status git commit -m x
    GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=agentos.guard.mode GIT_CONFIG_VALUE_0=save git commit -m x
    GIT_CONFIG_COUNT=1 git commit -m x
    GIT_CONFIG_COUNT=many git commit -m x
    GIT_CONFIG_PARAMETERS='core.hooksPath=/dev/null' git commit -m x
    GIT_CONFIG_PARAMETERS="'core.hooksPath'='/dev/null'" git commit -m x
    GIT_CONFIG_PARAMETERS="'core.hookspath=/dev/null' 'user.name=x'" git commit -m x
    GIT_CONFIG_PARAMETERS="'unclosed" git commit -m x

forbid config-guard commit
    git evade -m x
    GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=remote.origin.push GIT_CONFIG_VALUE_0=main git commit -m x
    GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=remote.origin.mirror GIT_CONFIG_VALUE_0=false git commit -m x
    GIT_CONFIG_PARAMETERS="'remote.origin.push'='+main'" git commit -m x

forbid config-guard reset-hard
    git -c core.fsmonitor=false reset --hard
    git -c core.fsmonitor= reset --hard

forbid config-guard push-force push
    git -c core.hooksPath=/dev/null push -f

forbid config-guard
    git -c core.fsmonitor=/tmp/script status
    git -c core.fsmonitor=false status
    git -c core.fsmonitor= diff
    git -c core.hooksPath=/dev/null log
    git -ccore.hooksPath=/dev/null log
    git -c core.hooksPath=/tmp/hooks status
    GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0=status git status

forbid config-guard
    git config core.hooksPath /dev/null
    git config core.hookspath ""
    git config --unset core.hooksPath
    git config --unset-all core.fsmonitor
    git config --worktree core.fsmonitor false
    git config --local core.fsmonitor true
    git config --add core.hooksPath x
    git config --replace-all core.hooksPath x
    git config --file .git/config core.hooksPath x
    git config -f .git/config core.hooksPath x
    git config set core.hooksPath /dev/null
    git config unset core.hooksPath
    git config set --worktree core.fsmonitor false
    git config agentos.guard.mode save
    git config agentos.policy.reset-hard allow
    git config --unset agentos.protected
    git config hook.x.command true
    git config include.path ../evil
    git config includeIf.gitdir:/.path ../evil
    git config core.worktree /tmp
    git config core.bare true
    git config extensions.worktreeConfig false
    git config --remove-section core
    git config --rename-section core x
    git config --remove-section extensions
    git config --remove-section agentos.guard
    git config remove-section core
    git config --rename-section x hook.y
    git update-index --no-fsmonitor
    git fsmonitor--daemon start

forbid config-guard config-global
    git config --global core.hooksPath /dev/null
    git config --global agentos.policy.clean allow
    git config --system core.fsmonitor false

forbid push-mirror
    git config remote.origin.mirror true

forbid push-force
    git config remote.origin.push +refs/heads/*:refs/heads/*

forbid fetch-force
    git config remote.origin.fetch +refs/heads/*:refs/heads/*

forbid gc-prune
    git config gc.pruneExpire now
    git config gc.reflogExpire now
    git config gc.reflogExpireUnreachable 0

forbid ref-delete
    git update-ref -d refs/heads/other
    git update-ref -d refs/tags/v1
    git update-ref -d HEAD
    git update-ref -d refs/heads/other abc
    git update-ref --no-deref -d HEAD
    git update-ref refs/heads/other 0000000000000000000000000000000000000000
    git update-ref refs/heads/other ""

forbid ref-rewrite
    git stash export --to-ref refs/heads/other
    git replay --ref=refs/heads/other --onto main main..other
    git update-ref refs/heads/main v1
    git update-ref HEAD HEAD~1
    git update-ref -m why refs/heads/main HEAD~1
    git update-ref --no-deref HEAD v1
    git update-ref refs/heads/main other

forbid agentos-refs
    git update-ref -d refs/agentos/timelines/dev
    git update-ref refs/agentos/timelines/dev HEAD

forbid agentos-refs fetch
    git fetch origin +main:refs/agentos/timelines/dev
    git fetch origin main:refs/stash

forbid symbolic-ref
    git symbolic-ref HEAD refs/heads/other
    git symbolic-ref -m why HEAD refs/heads/other
    git symbolic-ref -d HEAD
    git symbolic-ref --delete refs/remotes/origin/HEAD
    git symbolic-ref --del HEAD

forbid reflog-expire refs-migrate
    git refs migrate --ref-format=reftable --no-reflog

forbid reflog-expire
    git reflog expire --expire=now --all
    git reflog expire --all
    git reflog expire HEAD
    git reflog expire --expire-unreachable=now HEAD
    git reflog delete HEAD@{1}
    git reflog delete --rewrite stash@{0}
    git reflog drop --all
    git reflog drop main

forbid gc-prune worktree-prune gc
    git -c gc.worktreePruneExpire=now gc
    git -c gc.worktreePruneExpire=now maintenance run --task=worktree-prune

forbid gc-prune gc
    git gc --prune=now
    git gc --prune=all
    git gc --prune=1.hour.ago
    git gc --prune=yesterday
    git gc --aggressive --prune=now
    git gc --pru=now
    git gc --quiet --prune=now
    git gc --prune=0
    git -c gc.pruneExpire=now gc
    git -c gc.pruneExpire=1.day.ago gc
    git -c gc.reflogExpire=now gc
    git -c gc.pruneExpire=now maintenance run

forbid gc-prune add
    git -c gc.pruneExpire=now add clean.txt

forbid prune
    git prune
    git prune --expire=now
    git prune -v
    git prune --expire 2.weeks.ago
    git prune -- HEAD

forbid filter
    git filter-branch --tree-filter "rm -f x" HEAD
    git filter-branch -f --index-filter true -- --all
    git filter-repo --path src
    git filter-repo --invert-paths --path x --force
    git lfs migrate import --everything

forbid read-tree
    git read-tree -u -m HEAD
    git read-tree -um HEAD
    git read-tree -mu HEAD other
    git read-tree --reset -u HEAD
    git read-tree -u --reset v1
    git read-tree -vu --reset HEAD

forbid checkout-index
    git checkout-index -f -a
    git checkout-index -fa
    git checkout-index -af
    git checkout-index --force dirty.txt
    git checkout-index -f -- dirty.txt
    git checkout-index -qfu -a
    git checkout-index --forc --all

forbid sparse-checkout
    git sparse-checkout set src
    git sparse-checkout set --cone src
    git sparse-checkout set --no-cone "/*"
    git sparse-checkout init --cone
    git sparse-checkout init
    git sparse-checkout reapply
    git sparse-checkout clean -f

forbid worktree-remove-force
    git worktree remove --force ../elsewhere
    git worktree remove -f ../elsewhere
    git worktree remove -ff ../elsewhere
    git worktree remove ../elsewhere --force
    git worktree remove --forc ../elsewhere

forbid submodule-force
    git submodule deinit -f sub
    git submodule--helper deinit --force -- sub
    git submodule deinit --force --all
    git submodule deinit --all -f

forbid replace
    git replace HEAD HEAD~1
    git replace -f HEAD HEAD~1
    git replace -d abc
    git replace --graft HEAD
    git replace --edit HEAD
    git replace --convert-graft-file
    git update-ref refs/replace/0123456789012345678901234567890123456789 HEAD

forbid fetch-force fetch
    git fetch origin +main:main
    git fetch origin +main:other
    git fetch origin "+refs/heads/*:refs/heads/*"
    git fetch -f origin main:main
    git fetch --force origin other:other
    git fetch --forc origin other:other
    git fetch origin main:other --force
    git fetch --update-head-ok origin main:main
    git fetch -u origin main:main
    git fetch --prune origin "refs/heads/*:refs/heads/*"
    git -c remote.origin.fetch=+refs/heads/*:refs/heads/* fetch
    git -c remote.origin.fetch=+refs/heads/*:refs/heads/* fetch --all
    git -c remote.new.fetch=+refs/heads/*:refs/heads/* remote update
    git fetch --refmap=+refs/heads/*:refs/heads/* origin main

forbid fetch-force pull
    git pull -f origin main:main
    git pull origin +main:other
    git pull --force origin other:other

forbid import-force
    git fast-import --force
    git fast-import --quiet --force

forbid exec-path commit
    git --exec-path=/tmp/evil commit -m x
    GIT_EXEC_PATH=/tmp/evil git commit -m x

forbid exec-path
    git --exec-path=/tmp/evil status

forbid git-dir-write
    git diff --output=.git/config
    git log --output .git/hooks/pre-commit
    git show --output=.git/HEAD HEAD

forbid git-dir-write
    git archive -o .git/index HEAD
    git archive --output=.git/config HEAD

forbid git-dir-write objects
    git bundle create .git/packed-refs HEAD
"""
