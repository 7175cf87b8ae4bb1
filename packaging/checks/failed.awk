# Prints from a log of go test -v the output of failed tests, and the output outside of a test in a package that
# failed: a build's error, a panic. test.sh calls it, last.
/^=== (RUN|CONT|NAME|PAUSE) / { name = $3; next }
/^ *--- (PASS|SKIP): / { delete text[$3]; name = ""; next }
/^ *--- FAIL: / { text[$3] = text[$3] $0 "\n"; if (!($3 in failed)) { failed[$3]; order[++n] = $3 }; name = $3; next }
/^(ok|\?)[ \t]/ { reset(); next }
/^FAIL[ \t]/ {
	printf "%s", text[""]
	for (i = 1; i <= n; i++) { printf "%s", text[order[i]] }
	print
	reset()
	next
}
/^(PASS|FAIL)$/ { next }
/^panic: / { name = "" }
{ text[name] = text[name] $0 "\n" }

function reset() {
	split("", text)
	split("", failed)
	n = 0
	name = ""
}
