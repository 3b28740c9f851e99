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

# lock KEY: returns when KEY is held, and sets token, and REDLOCK_TOKEN for what the script
# starts. Descriptor 9 reads what hold says.
# However the script ends, hold ends too: by the trap of EXIT, which not every shell runs
# after a signal without a trap of its own, or by itself where a script was killed. What a killed
# script had started runs on, without the lock; one that lost it ends its current command first.
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
	export REDLOCK_TOKEN="$token"
	# When hold ends by itself, the lock is lost: USR1 ends this script. The new shell's
	# parent is not $$ where this script has ended before, and $$ may be another's.
	(
		while read -r line; do :; done
		exec sh -c '[ "$PPID" != "$0" ] || kill -USR1 "$PPID"' $$
	) <&9 &
	watcher=$!
	trap 'trap - EXIT; echo "$0: the lock was lost" >&2; exit 124' USR1
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	trap 'free || :' EXIT
}

# free: ends hold, and returns when a quorum has released KEY, with the status of hold. The
# watcher goes first. Where it saw hold end, its USR1 is told before hold's number is used,
# which may be another's.
free() {
	kill "$watcher" 2>/dev/null || :
	wait "$watcher" 2>/dev/null || :
	trap - EXIT USR1
	kill -TERM "$holder" 2>/dev/null || :
	exec 9<&-
	wait "$holder"
}

# unlock: as free, but ends this script where hold did not end well.
unlock() {
	free || {
		status=$?
		[ $status != 124 ] || echo "$0: the lock was lost" >&2
		exit $status
	}
}

lock "$key"
echo "holding $key with the token $token"
${WORK:-sleep 1}
unlock
echo "released $key"
