# Says of a log of go test -v which tests could not run, why, and how they can: test.sh calls
# it. root is the user's ID, canary and enter are what the tests ran by, "" for nothing;
# missing names the packages whose programs are not here.

# skipped takes a test that was skipped: its reason is the last line that it printed.
function skipped(test) {
	why = said[test] == "" ? "it does not say why" : said[test]
	if (!(why in tests)) { order[++reasons] = why }
	count++
	sub(/\/.*/, "", test)
	if (!((why, test) in named)) { tests[why] = tests[why] " " test }
	named[why, test] = 1
}

/^=== (RUN|CONT|NAME)/ { name = $3; next }
/^ *--- SKIP: / { skipped($3); next }
/_test\.go:[0-9]+: / { sub(/^ *[^ ]*_test\.go:[0-9]+: /, ""); said[name] = $0 }

function advise(text) { print "  " text }

END {
	if (!count && (root == 0 ? canary : enter) != "" && missing == "") { exit }
	printf "\n%d tests could not run here.\n", count
	for (i = 1; i <= reasons; i++) {
		print "  " order[i] ":"
		list = tests[order[i]]
		while (length(list) > 90 && match(substr(list, 1, 90), /.* /)) {
			print "   " substr(list, 1, RLENGTH - 1)
			list = substr(list, RLENGTH)
		}
		print "   " list
	}
	print "\nHow they can:"
	if (missing != "") { advise("apt-get install " missing " has the programs that tests call; make test as root on Debian gets them") }
	if (root != 0) {
		if (enter == "") { advise("mounts without root: user namespaces (sysctl kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)") }
		advise("all of them: make test as root, on a machine or in a VM")
		exit
	}
	if (canary == "") { advise("this is root without the right to mount: on a machine, in a VM, or in a container with it (docker run --privileged)") }
	for (i = 1; i <= reasons; i++) { all = all tolower(order[i]) "\n" }
	if (all ~ /fuse/) { advise("/dev/fuse: modprobe fuse; a container needs it as a device (docker run --device /dev/fuse)") }
	if (all ~ /landlock/) { advise("Landlock: Linux 5.19 or newer with landlock in /sys/kernel/security/lsm; a container's seccomp profile must let it through") }
	if (all ~ /loop/) { advise("loop devices: modprobe loop; a container needs /dev/loop-control and the devices (docker run --privileged)") }
}
