#!/bin/sh
# Holds a lock over independent Redis masters from inside a shell script, as
#
#   exec 9>lock; flock 9; ...; exec 9>&-
#
# does over a file of one machine. Usage: hold.sh KEY, with REDLOCK_NODES set.
#
# What flock has and this has not: the lock can be lost while the script runs, when no
# quorum of masters confirms it. Then hold ends, and so must the script: the trap below
# ends it, after the command that runs. So give a resource that can check it the token,
# and take `redlock exec KEY -- CMD` where one command does: it kills in time.
set -eu
key=$1
redlock=${REDLOCK:-redlock}

lines=$(mktemp -u)
mkfifo "$lines"

# lock KEY: returns when KEY is held, and sets token. Descriptor 9 reads what hold says.
lock() {
	"$redlock" hold "$1" >"$lines" &
	holder=$!
	exec 9<"$lines"
	rm -f "$lines"
	if ! read -r line <&9; then # it ended before it held anything
		wait "$holder" || exit $?
		exit 1
	fi
	token=${line#*\"token\":}
	token=${token%%[,\}]*}
	# When hold ends by itself, the lock is lost: TERM ends this script.
	(while read -r line; do :; done; kill -TERM $$) <&9 &
	watcher=$!
	trap 'kill "$holder" 2>/dev/null || :; echo "$0: the lock was lost" >&2; exit 124' TERM
}

# unlock: returns when a quorum has released it. The watcher goes first, and the trap only
# after it: where hold has just ended by itself, that is told as a loss, and not as success.
unlock() {
	kill "$watcher" 2>/dev/null || :
	wait "$watcher" 2>/dev/null || :
	trap - TERM
	kill -TERM "$holder" 2>/dev/null || :
	exec 9<&-
	wait "$holder" || ended $?
}

# ended STATUS: ends this script as hold ended.
ended() {
	[ "$1" != 124 ] || echo "$0: the lock was lost" >&2
	exit "$1"
}

lock "$key"
echo "holding $key with the token $token"
${WORK:-sleep 1}
unlock
echo "released $key"
