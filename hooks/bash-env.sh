#!/bin/sh
# git-agentos: bash reads this file (BASH_ENV) when it runs a command below `git agentos guard exec`. It puts the guard's
# git first on PATH again, since the profile of a login shell may have changed PATH.
#
# The file that BASH_ENV named before is read as well. Programs that git itself starts (hooks, aliases) find git directly.
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
