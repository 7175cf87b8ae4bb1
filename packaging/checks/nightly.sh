#!/bin/bash
# Runs the suites that .ci/run leaves out: make nightly, as root on Debian, in some 90 minutes on two cores. What is built
# once (kubelets, a cluster, CRI-O) takes half an hour more at the first time. It goes on after a suite that fails.
#
# The lengths are those of a night; make TARGET alone has the long ones. Suites that mostly wait run beside suites
# that compute, and these are nice.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec </dev/null
# shellcheck source=packaging/checks/steps.sh
. packaging/checks/steps.sh
export CI=true DEBIAN_FRONTEND=noninteractive REQUIRE_ROOT=1

step prepare make test-packages-trees e2e-cluster-runtime guest-tools
step build make build
# After prepare, since CRI-O needs packages, and apt has one lock.
step tools make e2e-kubelets e2e-cluster-tools lint-tools packaging-tools e2e-crio-tools
export ORPHAN_REAPER_PROGRAM=$PWD/bin/orphan-reaper
goon=1

# Beside real kubelets one suite at a time runs, since they share a place on the machine. The cluster comes first: a suite that
# makes mount namespaces while scenarios run holds copies of their mounts.
begin cluster make e2e-cluster
begin e2e make e2e TESTFLAGS="-run 'Test(BesideKubelets|CNIStream|FullRange)'"
step long nice env ORPHAN_REAPER_LONG=1 GOFLAGS=-count=1 make test TESTFLAGS='-timeout 30m'
step race nice env GOFLAGS=-count=1 make race TESTFLAGS='-timeout 30m'
step fuzz nice make fuzz FUZZTIME=150s
join e2e

begin crio make e2e-crio
step container nice make test-container
step lint-packages nice make lint-packages
step repro nice make repro
step simulate nice make simulate SEEDS=10000
join crio

begin returns make returns RETURN_STARTS=80
step packages make test-packages
join returns

begin defaults make defaults DEFAULT_PODS=20
step guest make test-guest
join defaults
join cluster
step bench make bench-short
step faults nice make faults
