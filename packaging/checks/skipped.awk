# Counts in a log of go test -v the skipped tests, by reason, and prints how to run them: test.sh calls it. root
# is the user's ID, canary and enter are the wrappers of the tests, "" for none; missing lists the packages of
# missing programs.

# skipped counts a test that was skipped under its reason: the last line that it printed, without what differs from test to test.
function skipped(test) {
	why = said[test] == "" ? "no reason given" : said[test]
	gsub(/\/[^ :,)]*[0-9][^ :,)]*/, "PATH", why)
	if (length(why) > 120) { why = substr(why, 1, 117) "..." }
	if (!(why in tests)) { order[++reasons] = why }
	tests[why]++
	count++
}

/^=== (RUN|CONT|NAME)/ { name = $3; next }
/^ *--- SKIP: / { skipped($3); next }
/_test\.go:[0-9]+: / { sub(/^ *[^ ]*_test\.go:[0-9]+: /, ""); said[name] = $0 }

function advise(text) { advice = advice "  " text "\n" }
function counted(n) { return n + 0 (n == 1 ? " test" : " tests") }

END {
	if (!count && (root == 0 ? canary : enter) != "" && missing == "") { exit }
	gsub(/ +/, " ", missing)
	sub(/ $/, "", missing)
	printf "\n%s could not run here%s\n", counted(count), count ? ":" : "."
	for (i = 1; i <= reasons; i++) {
		printf "  %s: %s\n", counted(tests[order[i]]), order[i]
		all = all tolower(order[i]) "\n"
	}
	if (missing != "") { advise("apt-get install " missing " has the programs that tests call; make test as root on Debian gets them") }
	if (root != 0) {
		if (enter == "") { advise("mounts without root: user namespaces (sysctl kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)") }
		advise("all of them: make test as root, on a machine or in a VM")
	} else {
		if (canary == "") { advise("this is root without the right to mount: on a machine, in a VM, or in a container with it (docker run --privileged)") }
		if (all ~ /fuse/) { advise("/dev/fuse: modprobe fuse; a container needs it as a device (docker run --device /dev/fuse)") }
		if (all ~ /landlock/) { advise("Landlock: Linux 5.19 or newer with landlock in /sys/kernel/security/lsm; a container's seccomp profile must let it through") }
		if (all ~ /loop/) { advise("loop devices: modprobe loop; a container needs /dev/loop-control and the devices (docker run --privileged)") }
	}
	if (advice != "") { printf "\nHow they can:\n%s", advice }
}
