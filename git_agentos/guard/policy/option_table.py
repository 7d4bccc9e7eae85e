"""What git's commands take: the options of those that change something, and the files that each command writes.

`SPECS` are options as `git COMMAND -h` and `--git-completion-helper-all` tell them (2.38 to 2.55); of commands that
look, little matters. A word for each option: `q,quiet` (letter and name), `x` (a letter alone), `cached` (a name
alone); `=` behind it takes a value, `?` takes one only in the same word.
"""

from __future__ import annotations

_QUIET = "q,quiet v,verbose progress"
_SIGN = "S,gpg-sign?"
_FILES = "pathspec-from-file= pathspec-file-nul"
_CONTEXT = "U,unified= inter-hunk-context= auto-advance"
_NETWORK = (
    "4,ipv4 6,ipv6 depth= shallow-since= shallow-exclude= deepen= unshallow update-shallow filter= negotiation-tip= "
    "negotiation-restrict= negotiation-include="
)
_TRANSPORT = f"{_NETWORK} upload-pack= o,server-option="
_COMMIT_TEXT = "m,message= F,file= c,reedit-message= C,reuse-message="
_PICK = (
    "quit continue abort skip cleanup= n,no-commit e,edit s,signoff m,mainline= rerere-autoupdate strategy= "
    f"X,strategy-option= {_SIGN} commit r"
)
_SWITCH = (
    f"{_QUIET} guess recurse-submodules? m,merge conflict= d,detach t,track? f,force orphan= overwrite-ignore "
    "ignore-other-worktrees"
)
_NOTES_TEXT = f"{_COMMIT_TEXT} allow-empty separator? stripspace e,edit"

SPECS = {
    "add": f"n,dry-run v,verbose i,interactive p,patch e,edit f,force u,update renormalize N,intent-to-add A,all "
    f"ignore-removal refresh ignore-errors ignore-missing sparse chmod= {_FILES} warn-embedded-repo {_CONTEXT}",
    "am": "i,interactive 3,3way q,quiet s,signoff u,utf8 k,keep keep-non-patch b m,message-id keep-cr no-keep-cr "
    "c,scissors quoted-cr= whitespace= ignore-space-change ignore-whitespace directory= exclude= include= C= p= "
    "patch-format= reject resolvemsg= continue r,resolved skip abort quit show-current-patch? retry allow-empty "
    f"committer-date-is-author-date ignore-date rerere-autoupdate {_SIGN} empty= binary rebasing n,no-verify verify",
    "apply": "exclude= include= p= no-add add stat numstat summary check index N,intent-to-add cached unsafe-paths "
    "apply 3,3way ours theirs union build-fake-ancestor= z C= whitespace= ignore-space-change ignore-whitespace "
    "R,reverse unidiff-zero reject allow-overlap v,verbose q,quiet inaccurate-eof recount directory= allow-empty "
    "allow-binary-replacement binary",
    "archive": "format= prefix= add-file= add-virtual-file= o,output= worktree-attributes v,verbose l,list remote= "
    "exec= mtime=",
    "bisect": "",
    "branch": "v,verbose q,quiet t,track? u,set-upstream-to= unset-upstream color? r,remotes contains= no-contains= "
    "abbrev? a,all d,delete D m,move M c,copy C l,list show-current create-reflog edit-description f,force merged= "
    "no-merged= column? sort= points-at= i,ignore-case recurse-submodules format= omit-empty set-upstream with= "
    "without=",
    "bugreport": "o,output-directory= s,suffix= diagnose? mode=",
    "bundle create": "q,quiet progress all-progress all-progress-implied version=",
    "checkout": f"{_SWITCH} b= B= l overlay no-overlay 2,ours 3,theirs p,patch ignore-skip-worktree-bits {_FILES} "
    f"{_CONTEXT}",
    "checkout-index": "a,all ignore-skip-worktree-bits f,force q,quiet n,no-create create u,index z stdin "
    "temp prefix= stage=",
    "cherry-pick": f"{_PICK} x ff allow-empty allow-empty-message keep-redundant-commits empty=",
    "clean": "q,quiet n,dry-run f,force i,interactive d e,exclude= x X",
    "clone": f"{_QUIET} {_NETWORK} u,upload-pack= server-option= "
    "reject-shallow n,no-checkout checkout bare naked mirror l,local no-hardlinks hardlinks s,shared "
    "recurse-submodules? recursive? j,jobs= template= reference= reference-if-able= dissociate o,origin= b,branch= "
    "revision= single-branch no-tags tags shallow-submodules separate-git-dir= ref-format= c,config= "
    "also-filter-submodules remote-submodules sparse bundle-uri=",
    "commit": f"q,quiet v,verbose author= date= {_COMMIT_TEXT} fixup= squash= reset-author trailer= s,signoff "
    f"t,template= e,edit cleanup= status {_SIGN} a,all i,include interactive p,patch o,only n,no-verify verify dry-run "
    f"short branch ahead-behind porcelain long z,null amend no-post-rewrite post-rewrite u,untracked-files? {_FILES} "
    f"allow-empty allow-empty-message {_CONTEXT}",
    "config": "global system local worktree f,file= blob= get get-all get-regexp get-urlmatch replace-all add unset "
    "unset-all rename-section remove-section l,list fixed-value e,edit get-color get-colorbool t,type= bool int "
    "bool-or-int bool-or-str path expiry-date z,null name-only includes show-origin show-scope default= comment= all "
    "value= regexp url= append show-names",
    "difftool": "g,gui d,dir-diff y,no-prompt prompt symlinks t,tool= tool-help trust-exit-code x,extcmd= no-index "
    "index cached staged rotate-to= skip-to=",
    "fetch": f"{_QUIET} {_TRANSPORT} all set-upstream a,append atomic f,force m,multiple t,tags n,no-tags j,jobs= "
    "prefetch p,prune P,prune-tags recurse-submodules? dry-run porcelain write-fetch-head k,keep u,update-head-ok "
    "refetch refmap= negotiate-only auto-maintenance auto-gc show-forced-updates write-commit-graph stdin "
    "submodule-prefix= recurse-submodules-default=",
    "format-patch": "n,numbered N,no-numbered s,signoff stdout cover-letter numbered-files suffix= start-number= "
    "v,reroll-count= filename-max-length= rfc? cover-from-description= commit-list-format= "
    "description-file= subject-prefix= o,output-directory= output= k,keep-subject binary no-binary zero-commit "
    "ignore-if-in-upstream p,no-stat add-header= to= cc= from? in-reply-to= attach? inline? thread? "
    "signature= base= signature-file= q,quiet progress interdiff= range-diff= creation-factor= "
    "force-in-body-from",
    "gc": "q,quiet skip-foreground-tasks prune? cruft max-cruft-size= aggressive auto detach force keep-largest-pack "
    "expire-to=",
    "grep": "cached index no-index untracked exclude-standard recurse-submodules v,invert-match i,ignore-case "
    "w,word-regexp a,text I textconv r,recursive max-depth= E,extended-regexp G,basic-regexp F,fixed-strings "
    "P,perl-regexp n,line-number column h H full-name l,files-with-matches name-only L,files-without-match z,null "
    "o,only-matching c,count color? break heading C,context= B,before-context= A,after-context= threads= "
    "p,show-function W,function-context f= e= and or not q,quiet all-match O,open-files-in-pager? ext-grep "
    "m,max-count=",
    "history": "dry-run update-refs= reedit-message empty=",
    "init": "template= bare shared? q,quiet separate-git-dir= b,initial-branch= object-format= ref-format=",
    "interpret-trailers": "in-place trim-empty where= if-exists= if-missing= only-trailers only-input unfold parse "
    "no-divider divider trailer=",
    "maintenance run": "auto detach schedule= q,quiet task=",
    "merge": f"n,no-stat stat summary compact-summary log? squash commit e,edit cleanup= ff ff-only rerere-autoupdate "
    f"verify-signatures s,strategy= X,strategy-option= m,message= F,file= into-name= {_QUIET} abort quit continue "
    f"allow-unrelated-histories {_SIGN} autostash overwrite-ignore signoff no-verify verify",
    "merge-file": "p,stdout object-id diff3 zdiff3 ours theirs union marker-size= q,quiet L= diff-algorithm=",
    "mv": "v,verbose n,dry-run f,force k sparse",
    "notes": "ref=",
    "notes add": f"{_NOTES_TEXT} f,force",
    "notes append": _NOTES_TEXT,
    "notes edit": _NOTES_TEXT,
    "notes copy": "f,force stdin for-rewrite=",
    "notes merge": "v,verbose q,quiet s,strategy= commit abort",
    "notes prune": "n,dry-run v,verbose",
    "notes remove": "ignore-missing stdin",
    "prune": "n,dry-run v,verbose progress expire= exclude-promisor-objects",
    "pull": f"{_QUIET} {_TRANSPORT} recurse-submodules? r,rebase? n,no-stat stat compact-summary log? signoff? squash "
    f"commit edit cleanup= ff ff-only verify verify-signatures autostash s,strategy= X,strategy-option= {_SIGN} "
    "allow-unrelated-histories all a,append f,force t,tags p,prune j,jobs? dry-run k,keep refmap= show-forced-updates "
    "set-upstream summary e no-verify",
    "push": "v,verbose q,quiet repo= all branches mirror d,delete tags n,dry-run porcelain f,force force-with-lease? "
    "force-if-includes recurse-submodules= thin receive-pack= exec= u,set-upstream progress prune no-verify verify "
    "follow-tags signed? atomic o,push-option= 4,ipv4 6,ipv6",
    "read-tree": "index-output= empty v,verbose m trivial aggressive reset prefix= u i exclude-per-directory= "
    "n,dry-run no-sparse-checkout sparse-checkout debug-unpack recurse-submodules? q,quiet",
    "rebase": "onto= keep-base no-verify verify q,quiet v,verbose n,no-stat stat signoff trailer= "
    "committer-date-is-author-date reset-author-date ignore-date C= ignore-whitespace whitespace= f,force-rebase no-ff "
    "ff continue skip abort quit edit-todo show-current-patch apply m,merge i,interactive rerere-autoupdate empty= k "
    f"autosquash update-refs {_SIGN} autostash x,exec= r,rebase-merges? p,preserve-merges keep-empty fork-point "
    "s,strategy= X,strategy-option= root reschedule-failed-exec reapply-cherry-picks allow-empty-message",
    "reflog expire": "n,dry-run rewrite updateref v,verbose expire= expire-unreachable= stale-fix all single-worktree",
    "remote": "v,verbose",
    "remote add": "f,fetch tags t,track= m,master= mirror?",
    "remote prune": "n,dry-run",
    "remote update": "p,prune v,verbose",
    "refs migrate": "ref-format= reflog no-reflog dry-run",
    "repack": "a A d f F n q,quiet l,local b,write-bitmap-index i,delta-islands unpack-unreachable= k,keep-unreachable "
    "window= window-memory= depth= threads= max-pack-size= pack-kept-objects keep-pack= g,geometric= m write-midx? "
    "cruft cruft-expiration= max-cruft-size= combine-cruft-below-size= expire-to= filter= filter-to= "
    "name-hash-version= path-walk",
    "replay": "onto= advance= revert= contained ref= ref-action=",
    "replace": "l,list d,delete e,edit g,graft convert-graft-file f,force raw format=",
    "reset": f"q,quiet no-refresh refresh mixed soft hard merge keep recurse-submodules? p,patch N,intent-to-add "
    f"{_FILES} {_CONTEXT} z stdin",
    "restore": f"s,source= S,staged W,worktree ignore-unmerged overlay q,quiet recurse-submodules? progress m,merge "
    f"conflict= 2,ours 3,theirs p,patch ignore-skip-worktree-bits {_FILES} {_CONTEXT}",
    "revert": f"{_PICK} reference",
    "rm": f"n,dry-run q,quiet cached f,force r ignore-unmatch sparse {_FILES}",
    "send-pack": "v,verbose q,quiet receive-pack= exec= remote= all n,dry-run mirror f,force signed? push-option= "
    "progress thin atomic stateless-rpc stdin helper-status force-with-lease? force-if-includes",
    "stash apply": "q,quiet index label-ours= label-theirs= label-base=",
    "stash drop": "q,quiet",
    "stash export": "print to-ref=",
    "stash push": f"k,keep-index S,staged p,patch q,quiet u,include-untracked a,all m,message= {_FILES} {_CONTEXT}",
    "submodule deinit": "q,quiet f,force all",
    "submodule update": "f,force init remote recursive N,no-fetch checkout m,merge r,rebase reference= dissociate "
    "depth= j,jobs= recommend-shallow q,quiet progress require-init single-branch filter= fetch",
    "switch": f"{_SWITCH} c,create= C,force-create= discard-changes",
    "symbolic-ref": "q,quiet d,delete short recurse m=",
    "tag": "l,list n? d,delete v,verify a,annotate m,message= F,file= e,edit s,sign cleanup= u,local-user= f,force "
    "create-reflog column? contains= no-contains= merged= no-merged= sort= points-at= format= color? i,ignore-case "
    "with= without= trailer= omit-empty",
    "update-index": "q ignore-submodules add replace remove unmerged refresh really-refresh cacheinfo= chmod= "
    "assume-unchanged no-assume-unchanged skip-worktree no-skip-worktree ignore-skip-worktree-entries info-only "
    "force-remove z stdin index-info unresolve g,again ignore-missing verbose clear-resolve-undo index-version= "
    "show-index-version split-index untracked-cache test-untracked-cache force-untracked-cache force-write-index "
    "no-fsmonitor fsmonitor fsmonitor-valid no-fsmonitor-valid",
    "update-ref": "m= d no-deref deref z stdin create-reflog 0,batch-updates",
    "worktree add": "f,force d,detach b= B= orphan checkout lock reason= q,quiet track guess-remote relative-paths",
    "worktree prune": "n,dry-run v,verbose expire=",
    "worktree remove": "f,force",
}

# Every command that may show a difference has these options of diff, also some that do not document it (`blame`,
# `stash show`, `bisect view`), so they count for all commands.
EVERYWHERE = "output="
# The files that a command writes because its command line names them: an option with a value (`name=`, `letter=`), `@`
# for all operands, `@1` for the first. A folder that is written into is `name/`: `commands.output` knows the names.
WRITES = {
    "apply": "build-fake-ancestor=",
    "archive": "output= o=",
    "bugreport": "output-directory/ o/",
    "bundle create": "@1",
    "credential-store": "file=",
    "daemon": "pid-file=",
    "diagnose": "output-directory/ o/",
    "fast-export": "export-marks=",
    "fast-import": "export-marks= export-pack-edges=",
    "format-patch": "output-directory/ o/",
    "index-pack": "o= @1.idx @1.rev",
    "interpret-trailers": "@",
    "mailinfo": "@",
    "mailsplit": "o/",
    "merge-file": "@1",
    "read-tree": "index-output=",
}
