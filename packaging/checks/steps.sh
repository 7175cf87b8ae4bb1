# shellcheck shell=bash
# The steps of .ci/run and of nightly.sh, which source this file: what failed, and how long each took.
#
#   step NAME COMMAND...    runs a step
#   begin NAME COMMAND...   starts one beside the others
#   join NAME               waits for it
#
# NAME is a word. At the end of the script, also of one that failed, go test's closing lines and a table are printed.
# A failed step ends the script, unless goon is set, also by the caller: then the script ends with 1 after its last step.
set -euo pipefail
goon=${goon:-}
steps=$(mktemp -d)
table=() failures=0
declare -A started=()
trap report EXIT
trap 'exit 1' INT TERM HUP

step() {
	local name=$1 from=$SECONDS code=0
	printf '\n=== %s: %s\n' "$name" "${*:2}"
	"${@:2}" 2>&1 | tee "$steps/$name.log" || code=$?
	ended "$name" $((SECONDS - from)) "$code"
}

# A session of its own, so that all that the step started can be ended with it.
begin() {
	local name=$1
	printf '\n=== %s, beside what follows: %s\n' "$name" "${*:2}"
	# shellcheck disable=SC2016 # the inner shell expands these
	setsid bash -c 'code=0; "${@:2}" || code=$?; echo "$SECONDS $code" >"$1"' bash "$steps/$name.end" "${@:2}" >"$steps/$name.log" 2>&1 &
	started[$name]=$!
}

join() {
	local name=$1 from=$SECONDS seconds code
	wait "${started[$name]}" || true
	unset "started[$name]"
	read -r seconds code <"$steps/$name.end"
	printf '\n=== %s: waited for %d s\n' "$name" $((SECONDS - from))
	if ((code)); then cat "$steps/$name.log"; else tail -n 5 "$steps/$name.log"; fi
	ended "$name" "$seconds" "$code"
}

# ended NAME SECONDS CODE
ended() {
	local result=ok
	if (($3)); then
		result=FAILED
		failures=$((failures + 1))
	fi
	echo "--- $1: $result after $2 s"
	table+=("$(printf '%-18s %6d  %s' "$1" "$2" "$result")")
	[[ $result = ok || -n $goon ]] || exit 1
}

report() {
	local code=$? name
	trap - EXIT
	for name in "${!started[@]}"; do
		if [[ -e $steps/$name.end ]]; then
			goon=1 join "$name"
			continue
		fi
		kill -- -"${started[$name]}" 2>/dev/null || kill "${started[$name]}" 2>/dev/null || true
		table+=("$(printf '%-18s %6s  %s' "$name" - 'not finished')")
	done
	printf '\n=== the tests'"'"' closing lines\n'
	cat "$steps"/*.log 2>/dev/null | grep -E '^(ok|FAIL|panic:)|^ *--- FAIL' || true
	printf '\n%-18s %6s\n' step seconds
	printf '%s\n' "${table[@]}"
	printf '%-18s %6d\n' total "$SECONDS"
	rm -rf "$steps"
	if ((failures)); then code=1; fi
	exit "$code"
}
