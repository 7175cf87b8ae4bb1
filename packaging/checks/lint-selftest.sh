#!/bin/sh
# Plants a fault for each ban of .golangci.yml in an empty module and checks that the linter finds every one,
# and nothing else: a ban that never fires is useless.
#
#   packaging/checks/lint-selftest.sh GOLANGCI_LINT
set -eu
cd "$(dirname "$0")/../.."
lint=$1
case $lint in /*) ;; *) lint=$PWD/$lint ;; esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
mkdir -p "$tree"
cp go.mod go.sum .golangci.yml "$tree"

# The files of the archive, in txtar's form: "-- name --", then the text.
awk -v tree="$tree" '
	/^-- .* --$/ {
		if (file) close(file)
		file = tree "/" $2
		dir = file; sub("/[^/]*$", "", dir)
		system("mkdir -p " dir)
		next
	}
	file { print > file }
' packaging/checks/lint-faults.txtar

# What must be found, as "file:line linter".
(cd "$tree" && find . -name '*.go' -exec awk '
	function want(line, text,    words, n, i) {
		n = split(text, words, " ")
		for (i = 1; i <= n; i++) print substr(FILENAME, 3) ":" line " " words[i]
	}
	match($0, /\/\/ want .*/) { want(FNR, substr($0, RSTART + 8)) }
	match($0, /want-next .*/) { want(FNR + 1, substr($0, RSTART + 10)) }
	' {} \;) | sort >"$work/wanted"

code=0
(cd "$tree" && "$lint" run --output.text.path stdout --output.text.print-issued-lines=false \
	--output.text.colors=false ./... >"$work/out" 2>"$work/err") || code=$?
if [ "$code" -ne 1 ]; then
	echo "lint-selftest: golangci-lint ended with $code, not with findings" >&2
	cat "$work/out" "$work/err" >&2
	exit 1
fi
sed -nE 's/^([^ :]+\.go:[0-9]+)(:[0-9]+)?: .* \(([a-z]+)\)$/\1 \3/p' "$work/out" | sort >"$work/found"

if ! diff -u "$work/wanted" "$work/found" >"$work/diff"; then
	echo "lint-selftest: - is wanted and not found, + is found and not wanted:" >&2
	sed 1,2d "$work/diff" >&2
	cat "$work/out" >&2
	exit 1
fi
echo "lint-selftest: all $(wc -l <"$work/wanted") planted faults are found"
