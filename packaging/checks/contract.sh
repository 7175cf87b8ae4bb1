#!/bin/sh
# Compares what users and scripts rely on with an earlier commit: commands and flags, settings with their defaults,
# exit codes, reasons, metrics with their labels, records with their message IDs, and names of JSON fields.
#
#   packaging/checks/contract.sh [COMMIT]    COMMIT is 1b1d1a5 by default
#
# It prints each difference with its reason from packaging/checks/contract.tsv, and fails for a difference without a
# reason and for a reason without a difference. It builds both programs and starts them only for their help and their
# defaults. It needs the git history, and is no part of make test.
set -eu
cd "$(dirname "$0")/../.."
base=${1:-1b1d1a5}
if ! git cat-file -e "$base^{commit}" 2>/dev/null; then
	echo "make contract compares with the commit $base, which is not here: get the git history (git fetch --unshallow)" >&2
	exit 1
fi
export LC_ALL=C CGO_ENABLED=0
work=$(mktemp -d)
trap 'git worktree remove --force "$work/base" 2>/dev/null; rm -rf "$work"' EXIT
git worktree add --quiet --detach "$work/base" "$base"

# commands PROGRAM [COMMAND...]: the command with its flags, and the commands below it.
commands() (
	program=$1
	shift
	help=$("$program" "$@" --help)
	echo "command orphan-reaper $*"
	echo "$help" | sed -nE "s/^ {2,6}(-[a-z], )?(--[a-z-]+).*/flag $* \2/p"
	for below in $(echo "$help" | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
		commands "$program" "$@" "$below"
	done
)

# contract TREE PROGRAM: one line for each thing that must not change.
contract() {
	(cd "$1" && go build -o "$2" ./cmd/orphan-reaper)
	commands "$2"
	"$2" --help | sed -nE 's/^ +([0-9])  .*/exit code \1/p'
	defaults="config print --config /dev/null --root-dir /var/lib/kubelet"
	# shellcheck disable=SC2086 # words of a command line
	"$2" $defaults | sed 's/ *# .*//' | awk '/^[a-z]/ { key = $1 } { print "setting", key, $0 }'
	# shellcheck disable=SC2086
	"$2" $defaults -o json | awk '/^    "/ { key = $1 } /"reload"/ { print "reload", key, $2 }'
	sed -n 's/^## /reason /p' "$1/docs/reasons.md"
	grep '^| `orphan_reaper_' "$1/docs/metrics.md" | cut -d'|' -f2,3 | sed 's/^/metric/'
	grep -E '^\|.*[0-9a-f]{32}' "$1/docs/journal.md" | cut -d'|' -f2,3 | sed 's/^/record/'
	(cd "$1" && grep -rhoE --include='*.go' --exclude='*_test.go' 'json:"[a-zA-Z0-9_]+' cmd parsers reaper) | sed 's/json:"/field /'
}

contract "$work/base" "$work/old" | sort -u >"$work/before"
contract . "$work/new" | sort -u >"$work/after"
{
	comm -23 "$work/before" "$work/after" | sed 's/^/gone: /'
	comm -13 "$work/before" "$work/after" | sed 's/^/new: /'
} | sed 's/[[:space:]]*$//' >"$work/differences"

# A line of contract.tsv is a difference, a tab and its reason. A difference that ends in * stands for all that begin so.
awk -F'\t' '
	FILENAME == ARGV[1] { if ($0 != "" && $0 !~ /^#/) why[$1] = $2; next }
	{
		found = ""
		for (known in why) {
			stem = substr(known, 1, length(known) - 1)
			if (known == $0 || known == stem "*" && index($0, stem) == 1) found = known
		}
		if (found == "") { print $0 " (no reason in contract.tsv)"; failed = 1; next }
		used[found] = 1
		print $0 " (" why[found] ")"
	}
	END {
		for (known in why) if (!used[known]) { print known " is in contract.tsv and is no difference"; failed = 1 }
		exit failed
	}
' packaging/checks/contract.tsv "$work/differences"
