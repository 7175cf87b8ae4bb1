# What TestScriptlets does in a Debian with Debian's policy: 1.0.0 of the RPM is installed, upgraded to 2.0.0 and erased.
set -eu
PATH=/usr/sbin:/usr/bin
force=$(command rpm --force-debian --version >/dev/null 2>&1 && echo --force-debian || true)
# shellcheck disable=SC2086 # none or one word
rpm() { command rpm $force --nodeps --dbpath /var/lib/rpm "$@" 2>/run/said || { cat /run/said; exit 1; }; }
module() { # WANT STEP
	now=$(semodule --list=full | awk '$2 == "orphan-reaper" { print $1, $2, $3 }')
	[ "$now" = "$1" ] || { echo "after the $2 the module is \"$now\""; cat /run/said; exit 1; }
}
printf 'SELINUX=permissive\nSELINUXTYPE=default\n' >/etc/selinux/config
mkdir -p /var/lib/selinux/default
at=/usr/share/selinux/default
semodule -n -X 100 -i $at/base.pp.bz2 -i $at/unconfined.pp.bz2 -i /guest/stubs.cil 2>/run/said || { cat /run/said; exit 1; }
module "" preparation
rpm --install /guest/1.0.0.rpm
module "200 orphan-reaper cil" installation
rpm --upgrade /guest/2.0.0.rpm
module "200 orphan-reaper cil" upgrade
rpm --erase orphan-reaper-selinux
module "" removal
