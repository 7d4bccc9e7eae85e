#!/bin/sh
# git-agentos: bash reads this (BASH_ENV) when it runs a command below `git agentos guard exec`: after the profile of a
# login shell, which may have set PATH anew, the guard's git is found first again.
#
# A file that BASH_ENV named before is read as it would have been. What git itself starts (hooks, aliases) meets git.
# shellcheck disable=SC1090 # the user's own
if [ -n "${AGENTOS_BASH_ENV-}" ] && [ -r "$AGENTOS_BASH_ENV" ]; then . "$AGENTOS_BASH_ENV"; fi
case :${PATH-}: in
*:@COMMON@/agentos/guard/bin:*)
	if [ -z "${GIT_DIR-}${GIT_INDEX_FILE-}" ] && [ "$(command -v git)" != @COMMON@/agentos/guard/bin/git ]; then
		PATH=@COMMON@/agentos/guard/bin:$PATH
	fi
	;;
*) PATH=@COMMON@/agentos/guard/bin:${PATH-/usr/local/bin:/usr/bin:/bin} ;;
esac
