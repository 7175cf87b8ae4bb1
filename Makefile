# Everything that is done to this repository by hand or by CI. make help lists it.
# Nothing here needs more than Go, git and a POSIX shell; the tools come from the
# module files in packaging/checks and packaging.

.DEFAULT_GOAL := help
SHELL := /bin/sh
export CGO_ENABLED ?= 0

# Variables for the caller.
FUZZTIME ?= 60s
BENCH ?= .
COUNT ?= 1
BASE ?= HEAD~1
TESTFLAGS ?=
BIN ?= bin/orphan-reaper
# The program that the demo, the suites and the packages get: a built one, else that of make build.
PROGRAM = $(abspath $(or $(ORPHAN_REAPER_PROGRAM),$(BIN)))

# The version and the commit go into the binary, and nothing else does: no build date, no path, no
# host. Outside a checkout (a source archive) the build works without a commit.
BUILDVCS := $(shell git rev-parse HEAD >/dev/null 2>&1 && echo true || echo false)
# grpcnotrace leaves out gRPC's debug pages, and nethttpomithttp2 net/http's own HTTP/2: HTTP/1.1 is enough for what we ask
# and answer, and gRPC has its own. -s -w leave out the symbols that no panic needs. All make the binary, and the idle
# daemon, smaller.
GOBUILD = go build -trimpath -buildvcs=$(BUILDVCS) -tags=grpcnotrace,nethttpomithttp2 -ldflags='-s -w -X main.stamped=$(shell sh packaging/version.sh)'

# Where packaging/checks/test-deps.sh puts promtool, and where mkfs lives.
export PATH := $(PATH):$(CURDIR)/.cache/debian/usr/bin:/usr/local/sbin:/usr/sbin:/sbin

TOOL = go tool -modfile=packaging/checks/tools.mod
# The linter is built once for its modules and a Go; removing .cache only costs the time.
LINT_MODULE = github.com/golangci/golangci-lint/v2
LINT_VERSION := $(shell sed -n 's|^.*$(LINT_MODULE) \(v[^ ]*\).*|\1|p' packaging/checks/golangci.mod)
LINT_SUM := $(shell cksum <packaging/checks/golangci.sum | cut -d' ' -f1)
LINT = .cache/bin/golangci-lint-$(LINT_VERSION)-$(shell go env GOVERSION)-$(LINT_SUM)
# cyclonedx-gomod, which writes the bills of materials, the same way, in a directory.
TOOLS = .cache/bin/packaging-$(shell go env GOVERSION)-$(shell cksum <packaging/tools/go.sum | cut -d' ' -f1)

# helm the same way, and the tests of the chart.
CHART_CHECKS = packaging/checks/manifests
CHART_SUM := $(shell cksum <$(CHART_CHECKS)/go.sum | cut -d' ' -f1)
HELM_MODULE = helm.sh/helm/v4
HELM = .cache/bin/helm-$(shell sed -n 's|^.*$(HELM_MODULE) \(v[^ ]*\).*|\1|p' $(CHART_CHECKS)/go.mod)-$(shell go env GOVERSION)-$(CHART_SUM)

##@ Build
.PHONY: build
build: ## Build bin/orphan-reaper: static, no paths and no build date inside
	$(GOBUILD) -o $(BIN) ./cmd/orphan-reaper

.PHONY: program
program: $(if $(ORPHAN_REAPER_PROGRAM),,build)

.PHONY: install
install: ## Put the built binary into /usr/local/sbin and the unit into /etc/systemd/system (below DESTDIR)
	install -D -m 0755 bin/orphan-reaper $(DESTDIR)/usr/local/sbin/orphan-reaper
	sed 's|/usr/sbin/|/usr/local/sbin/|' packaging/orphan-reaper.service >bin/orphan-reaper.service
	install -D -m 0644 bin/orphan-reaper.service $(DESTDIR)/etc/systemd/system/orphan-reaper.service

.PHONY: uninstall
uninstall: ## Take away what install put there; state, configuration and quarantine stay
	rm -f $(DESTDIR)/usr/local/sbin/orphan-reaper $(DESTDIR)/etc/systemd/system/orphan-reaper.service

.PHONY: node
node: ## Build bin/node, which makes a node to try things on
	go build -trimpath -buildvcs=false -tags=grpcnotrace,nethttpomithttp2 -o bin/node ./testdata/node

.PHONY: demo
demo: program ## Show the daemon at work on a node made for it, without root
	@sh testdata/demo/run.sh $(PROGRAM)

# The architectures of the packages, the machine's own among them.
ARCHES ?= amd64 arm64
export ARCHES

.PHONY: packages
packages: dated $(TOOLS) ## Make dist/: DEB, RPM, tarball and image for ARCHES (amd64 and arm64), chart, SBOM and checksums
	sh packaging/packages.sh $(TOOLS) dist

.PHONY: packaging-tools
packaging-tools: $(TOOLS) ## Build cyclonedx-gomod, which make packages runs, once

.PHONY: image
image: dated $(TOOLS) ## Make only the container image in dist/: OCI layout for amd64 and arm64, without a registry
	sh packaging/packages.sh $(TOOLS) dist image

# Before the tools are built, which takes minutes.
.PHONY: dated
dated:
	@sh packaging/packages.sh dated

.PHONY: repro
repro: dated $(TOOLS) ## Make the packages of the committed tree twice, in two directories and two caches, and compare
	sh packaging/checks/repro.sh $(CURDIR)/$(TOOLS)

.PHONY: clean
clean: ## Remove what was built; the caches in .cache stay
	rm -rf bin dist coverage

##@ Test
.PHONY: test
test: ## Run all tests that can run here, and say which could not; as root on Debian get what they need
	sh packaging/checks/test.sh $(TESTFLAGS)

# A user, mount and PID namespace in which tests may mount.
OWN = unshare --user --map-root-user --mount --pid --fork --kill-child --mount-proc

.PHONY: test-mounts
test-mounts: ## Run the tests with real mounts in a user and mount namespace, without root
	go test -exec '$(OWN)' ./reaper/...

.PHONY: test-root
test-root: ## Run the tests as root; the compiler stays with you, only the tests go through sudo
	$(if $(filter 0,$(shell id -u)),REQUIRE_ROOT=1 go test ./...,go test -exec 'sudo -n env REQUIRE_ROOT=1 PATH=$(PATH)' ./...)

.PHONY: nightly
nightly: ## Run the suites that .ci/run leaves out: some 90 minutes (root, on Debian)
	bash packaging/checks/nightly.sh

.PHONY: race
race: ## Run all tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 sh packaging/checks/test.sh -race $(TESTFLAGS)

# The kubelets are built once and kept in .cache/e2e; no other target needs them.
E2E_VERSIONS ?= 1.33.13 1.37.2

.PHONY: e2e-runtime
e2e-runtime: ## Get what make e2e needs from Debian: containerd, runc, CNI plugins, promtool
	sh packaging/checks/test-deps.sh
	sh e2e/prepare.sh runtime

.PHONY: e2e-kubelets
e2e-kubelets: ## Build the kubelets that make e2e runs beside, once
	sh e2e/prepare.sh kubelets $(E2E_VERSIONS)

.PHONY: e2e
e2e: e2e-runtime e2e-kubelets ## Run beside real kubelets and a real containerd (root, on Debian; builds the kubelets once)
	cd e2e && E2E_VERSIONS='$(E2E_VERSIONS)' go test -count=1 -parallel 4 -timeout 90m $(TESTFLAGS) .

.PHONY: e2e-short
e2e-short: e2e-runtime ## Run the short scenarios beside the newest kubelet, in some minutes (root, on Debian)
	sh e2e/prepare.sh kubelets $(lastword $(E2E_VERSIONS))
	cd e2e && E2E_VERSIONS='$(lastword $(E2E_VERSIONS))' \
		go test -short -count=1 -timeout 20m -run '^TestBesideKubelets$$' $(TESTFLAGS) .

# A CRI-O that the Go module proxy serves.
CRIO_VERSION ?= 1.34.0

.PHONY: e2e-crio-tools
e2e-crio-tools: ## Build the CRI-O that make e2e-crio runs, once
	sh e2e/prepare.sh crio $(CRIO_VERSION)

.PHONY: e2e-crio
e2e-crio: e2e-runtime e2e-kubelets e2e-crio-tools ## Run those scenarios that need no containerd beside the newest kubelet and a real CRI-O (root, on Debian; builds it once)
	cd e2e && E2E_RUNTIME=crio E2E_VERSIONS='$(lastword $(E2E_VERSIONS))' go test -count=1 -timeout 45m -run '^TestBesideKubelets$$' $(TESTFLAGS) .

# The cluster is of the newest of them, and its nodes run the Debian that this machine is.
CLUSTER_VERSION ?= $(lastword $(E2E_VERSIONS))
CLUSTER_RELEASE ?= $(shell . /etc/os-release && echo $$VERSION_CODENAME)

.PHONY: e2e-cluster-runtime
e2e-cluster-runtime: e2e-runtime ## Get what make e2e-cluster needs from Debian: etcd, and a tree to boot as a node
	sh e2e/prepare.sh guests
	sh e2e/prepare.sh etcd
	sh e2e/packages/trees.sh $(CLUSTER_RELEASE)

.PHONY: e2e-cluster-tools
e2e-cluster-tools: chart-tools ## Build the cluster that make e2e-cluster starts, and helm, once
	sh e2e/prepare.sh kubelets $(CLUSTER_VERSION)
	sh e2e/prepare.sh cluster $(CLUSTER_VERSION)

# unshare(1): with it ends all that the suite has started; its network and its mounts go, too.
.PHONY: e2e-cluster
e2e-cluster: e2e-cluster-runtime e2e-cluster-tools program ## Install the chart in a real cluster of three nodes, half an hour (root, on Debian; builds the cluster once)
	cd e2e/cluster && CLUSTER_BIN=$(CURDIR)/.cache/e2e/$(CLUSTER_VERSION) CLUSTER_TREE=$(CURDIR)/.cache/packages/$(CLUSTER_RELEASE) \
		CLUSTER_HELM=$(CURDIR)/$(HELM) CLUSTER_PROGRAM=$(PROGRAM) \
		go test -exec 'unshare --mount --net --propagation private --pid --fork --kill-child --mount-proc' \
		-count=1 -timeout 40m $(TESTFLAGS)

.PHONY: guest-tools
guest-tools: ## Get what make test-guest boots: qemu, and Debian's cloud kernel
	sh e2e/guest/prepare.sh

# The same node as a virtual machine, with a kernel and cgroups of its own.
.PHONY: test-guest
test-guest: e2e-runtime e2e-kubelets guest-tools packages ## Install the DEB in a virtual machine on cgroup v2, beside a kubelet of each cgroup driver (root, on Debian)
	sh e2e/packages/trees.sh $(CLUSTER_RELEASE)
	cd e2e/guest && GUEST_TREE=$(CURDIR)/.cache/packages/$(CLUSTER_RELEASE) GUEST_KUBELET=$(CURDIR)/.cache/e2e/$(CLUSTER_VERSION)/kubelet \
		GUEST_DEB="$$(ls -t $(CURDIR)/dist/orphan-reaper_*_amd64.deb | head -n 1)" \
		go test -count=1 -v -timeout 40m $(TESTFLAGS) .

# How often make returns starts a static pod; the short form in make e2e does so 80 times.
RETURN_STARTS ?= 600

.PHONY: returns
returns: e2e-runtime e2e-kubelets ## Start static pods again RETURN_STARTS (600) times beside the newest kubelet: half an hour
	cd e2e && E2E_VERSIONS='$(lastword $(E2E_VERSIONS))' RETURN_STARTS='$(RETURN_STARTS)' go test -v -count=1 -timeout 12h -run '^TestReturns$$' $(TESTFLAGS) .

# How many pods end at once in make defaults; the short form in make e2e ends 10.
DEFAULT_PODS ?= 100

.PHONY: defaults
defaults: e2e-runtime e2e-kubelets ## Count how long each kubelet complains of one pod and of DEFAULT_PODS (100), with all settings at their defaults
	cd e2e && E2E_VERSIONS='$(E2E_VERSIONS)' DEFAULT_PODS='$(DEFAULT_PODS)' go test -v -count=1 -timeout 2h -run '^TestDefaults$$' $(TESTFLAGS) .

# The Debian releases that the packages are tried on, each with its own systemd.
RELEASES ?= bookworm trixie

.PHONY: test-packages-trees
test-packages-trees: ## Get what make test-packages boots: a tree of each Debian release, made once
	sh e2e/prepare.sh guests
	sh e2e/packages/trees.sh $(RELEASES)

# unshare(1): with it ends all that the suite has started, and all that it has mounted is gone.
.PHONY: test-packages
test-packages: test-packages-trees packages ## Install the packages on Debian releases that boot in containers (root, on Debian)
	cd packaging/tools && go test -count=1 ./pack
	sh e2e/packages/next.sh $(TOOLS) .cache/packages/next
	cd e2e/packages && PACKAGES_RELEASES='$(RELEASES)' PACKAGES_DIST=$(CURDIR)/dist PACKAGES_NEXT=$(CURDIR)/.cache/packages/next \
		PACKAGES_TREES=$(CURDIR)/.cache/packages \
		go test -exec 'unshare --mount --propagation private --pid --fork --kill-child --mount-proc' \
		-count=1 -parallel 6 -timeout 30m $(TESTFLAGS)

# unshare(1): the same.
.PHONY: test-container
test-container: ## Run make test's tests as a newcomer in a container: what it does not allow is skipped (root, on Debian)
	sh e2e/prepare.sh guests
	sh e2e/packages/trees.sh bookworm
	unshare --mount --propagation private --pid --fork --kill-child --mount-proc \
		sh packaging/checks/container.sh .cache/packages/bookworm

# How many nodes make simulate lives through, and the first seed: any if SEED is empty.
SEEDS ?= 20000
SEED ?=

.PHONY: simulate
simulate: ## Run the loop on SEEDS (20000) simulated nodes, from a SEED of its own: some minutes
	go test -v -count=1 -timeout 24h -run '^TestSimulate$$' $(TESTFLAGS) ./reaper \
		-seeds '$(SEEDS)' -seed '$(or $(SEED),$(shell date +%s))'

# As root the tests run on a machine of their own, for other users as root of a user namespace.
FAULTS ?=

.PHONY: faults
faults: ## Plant the faults that match FAULTS (all), one at a time, and name the test that catches each: some 15 minutes
	$(if $(filter 0,$(shell id -u)),go build -o bin/canary ./testdata/canary)
	cd packaging/tools && go run ./faults -exec '$(if $(filter 0,$(shell id -u)),$(CURDIR)/bin/canary,$(OWN))' -run '$(FAULTS)'

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (60s)
	sh packaging/checks/fuzz.sh $(FUZZTIME)

.PHONY: bench
bench: ## Run the benchmarks that match BENCH (all), COUNT times (1), beside rm: some 10 minutes
	ORPHAN_REAPER_LONG=1 \
		go test -p 1 -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) -timeout 90m ./...

.PHONY: bench-short
bench-short: ## Fail where a short benchmark is slower beside its peer, by a quarter, than the figures in the tree
	sh packaging/checks/bench.sh packaging/checks/bench.tsv
	sh packaging/checks/bench.sh selftest

.PHONY: benchcmp
benchcmp: ## Compare the benchmarks that match BENCH with those of the commit BASE (HEAD~1)
	sh packaging/checks/benchcmp.sh '$(BASE)' '$(BENCH)'

.PHONY: cover
cover: ## Measure coverage over every way the tests can run here: coverage/coverage.html
	sh packaging/checks/cover.sh

.PHONY: generate
generate: ## Write what comes from the program's tables: configuration, manual pages, catalog, reference
	env -u SOURCE_DATE_EPOCH go generate ./cmd/orphan-reaper

##@ Check
.PHONY: check
check: test lint demo ## All that a change must pass; .ci/run runs lint-chart, test-packages and e2e-short, too

# What ./... leaves out: programs below testdata, and other modules. The linter's govet has all that go vet has.
PROGRAMS = $(patsubst %/,./%/...,$(sort $(dir $(wildcard testdata/*/*.go))))
MODULES = e2e packaging/tools $(CHART_CHECKS)

.PHONY: lint
lint: $(LINT) ## Check the layers, the bans and the style
	$(LINT) config verify
	$(LINT) run ./... $(PROGRAMS)
	go fix -diff ./... $(PROGRAMS)
	go mod tidy -diff
	was=$$(git diff packaging docs/reference.md | cksum) && $(MAKE) -s generate && \
		{ [ "$$was" = "$$(git diff packaging docs/reference.md | cksum)" ] || { echo "make generate has changed files: run it with your change" >&2; exit 1; }; }
	go test -run '^TestLayers$$' ./packaging/checks
	cd packaging/tools && go run ./faults -check
	for module in $(MODULES); do (cd $$module && $(CURDIR)/$(LINT) run && go fix -diff ./... && go mod tidy -diff) || exit 1; done

.PHONY: lint-packages
lint-packages: packages ## Have lintian and rpmlint read the packages, and test what makes the image
	cd packaging/tools && go test -count=1 $(TESTFLAGS) ./...
	sh packaging/checks/lint-packages.sh dist

.PHONY: chart-tools
chart-tools: $(HELM) ## Build helm, which make lint-chart runs, once

.PHONY: lint-chart
lint-chart: chart-tools ## Check the Helm chart with helm and Kubernetes' types
	cd $(CHART_CHECKS) && HELM=$(CURDIR)/$(HELM) go test -count=1 $(TESTFLAGS) .

.PHONY: lint-tools
lint-tools: $(LINT) ## Build golangci-lint, which make lint runs, once

# A build of minutes, so it prints a line.
$(LINT):
	@echo "building golangci-lint $(LINT_VERSION), once; this takes some minutes"
	go build -modfile=packaging/checks/golangci.mod -trimpath -buildvcs=false -o $@ $(LINT_MODULE)/cmd/golangci-lint

$(TOOLS):
	@echo "building cyclonedx-gomod, once; this takes a minute or two"
	cd packaging/tools && go build -trimpath -buildvcs=false -o $(CURDIR)/$@.new/ tool
	rm -rf $@ && mv $@.new $@

$(HELM):
	@echo "building $(@F), once; this takes some minutes"
	cd $(CHART_CHECKS) && go build -trimpath -buildvcs=false -ldflags='-s -w' -o $(CURDIR)/$@ $(HELM_MODULE)/cmd/helm

.PHONY: fmt
fmt: ## Format the Go files
	$(TOOL) gofumpt -w -extra=group_params,clothe_returns cmd parsers reaper

.PHONY: fix
fix: ## Bring the code to today's idioms (go fix)
	go fix ./...

.PHONY: vuln
vuln: ## Look for known holes in what we use (asks vuln.go.dev, so no part of check)
	$(TOOL) govulncheck ./...

##@ Help
.PHONY: help
help: ## Show this
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "%s%s\n", n++ ? "\n" : "", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
