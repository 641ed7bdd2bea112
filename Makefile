# Waybill. Type `make` for what it can do.
#
# There are two modules: the product at the root, and test/, which holds the
# lab, the stories and everything else that is not shipped. Most targets work
# on both.

SHELL       := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS   += --no-print-directory

export GOWORK      := off
export GOTOOLCHAIN := local
# gRPC's tracing pages use text/template, for which the linker must keep every
# method of every type: six megabytes of k8s-verify-release. Nothing shows them.
# Cloud Storage is used over HTTP: without its gRPC client waybill has twelve
# megabytes less, and starts faster.
TAGS := grpcnotrace,disable_grpc_modules
export GOFLAGS     := $(strip $(GOFLAGS) -tags=$(TAGS))

GO       ?= go
FUZZTIME ?= 20s
# Flags of bin/waybill-bench, which lists them with -help: `-short` for a quick
# look, `-only bundles` for one part of it, `-json FILE` to keep the record.
BENCH    ?=
# The binaries are static, and the same from every checkout of a commit.
LDFLAGS  := -s -w
STATIC   := CGO_ENABLED=0 $(GO) build -trimpath -ldflags "$(LDFLAGS)"
PLATFORMS ?= darwin/arm64 windows/amd64 linux/arm64
MODULES  := . test
# For recipes of several commands; older versions of make know no .SHELLFLAGS.
STRICT   := set -euo pipefail;

# Tests with these names keep documents and help true.
DOCTESTS := Test(Docs|Readme|Help)

# The most bytes that the downstream verifier may have, stripped.
MAXSIZE := 26000000

# The suites play builds and attacks that take a while on a busy machine.
PATIENT := -timeout 40m
# They start first, so that nothing waits for one of them alone in the end.
LONGEST := ./stories ./faults ./malicious
# Tests that take half a minute or more, or flood what they test, have this in
# their names: make test leaves them to make test-long, and make test-all runs both.
LONG    := ^TestLong
# Packages of the test module that make test runs: all but the suites of peers.
QUICK   = $$($(GO) list ./... | grep -vE '/test/(interop|servers|cluster|simulate)$$')
# How a simulation is built and run: see test/simulate/README.md.
SIMULATE = GODEBUG=asyncpreemptoff=1 $(GO) test $(PATIENT) -vet=off -count=1 -tags=$(TAGS),simulate -ldflags=-checklinkname=0
SEEDS   ?= 1000
# Suites that run built commands, or steps of builds, where a detector sees
# nothing, and those that do not share; some attacks do, and run by themselves.
BUILT   := /(test/(arch|attacks|bench|cluster|faults|interop|lab/kubernetes|legacy|malicious|roots|servers|stories)|pkg/pipeline/doctor/attack)(/|$$)
# Attacks in files that start goroutines: the others ask one question at a time.
SHARED_ATTACKS = ^($$(grep -lE '\bgo func|errgroup|"sync"|"sync/atomic"' attacks/*_test.go | xargs grep -hoE '^func Test[A-Za-z0-9]+' | sed 's/^func //' | paste -s -d '|'))$$
# Packages that start goroutines or lock something; the detector finds nothing in others.
SHARING = $$($(GO) list -f '{{$$d := .Dir}}{{range .GoFiles}}{{$$d}}/{{.}}{{"\n"}}{{end}}' ./... \
	| xargs grep -lE '\bgo (func|[a-z])|errgroup|"sync"|"sync/atomic"' | xargs -n 1 dirname | sort -u | grep -vE '$(BUILT)')

# Tests that read many mangled documents one after the other: the detector makes them ten times as long, and finds nothing.
ALONE := ^(TestArchiveRefusesStreams|TestBounds|TestCompressedFile|TestEmptied|TestMangledBundles|TestMutantsAsTheLibraryReadsThem|TestNestedArchives)$$

LINTER := test/bin/golangci-lint
DEADCODE := test/bin/deadcode
UNREACHED := test/tools/unreached.txt
PEERS  := test/bin/cosign2 test/bin/cosign3
CRANE  := test/bin/crane
SYFT   := test/bin/syft
# Real servers and clients of them, for make servers; the rest are Debian packages.
SERVERS := test/bin/registry test/bin/versitygw test/bin/fakegcs test/bin/dex test/bin/otelcol test/bin/oras test/bin/conformance
# The control plane of Kubernetes, for make test-cluster.
CLUSTER := test/bin/etcd test/bin/kube-apiserver test/bin/kube-controller-manager test/bin/kube-scheduler

##@ Try it
.PHONY: help
help: ## Print this.
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@printf '\nFUZZTIME=%s PLATFORMS="%s" GO=%s can be set on the command line; `make demo KEEP=DIR` keeps its scene, `make bench BENCH=-short` is quick.\n' '$(FUZZTIME)' '$(PLATFORMS)' '$(GO)'

.PHONY: demo
demo: ## Release an example on this machine, then attack it in six ways.
	@printf 'The first run downloads modules and compiles, which takes some minutes; later runs start at once.\n'
	@$(MAKE) build build-lab build-demo PROGRESS=1
	bin/waybill-demo $(if $(KEEP),-keep "$(KEEP)")

.PHONY: release
release: $(PEERS) ## Release this commit twice in a lab, rebuild it twice, and verify all with others' tools (40 minutes).
	@$(MAKE) build build-lab PROGRESS=1
	$(call compile,test,../bin/,./cmd/waybill-release)
	bin/waybill-release $(if $(KEEP),-keep "$(KEEP)")

.PHONY: lock
lock: build ## Pin Go and the modules of our release in release.lock.yaml, after a change of go.mod.
	bin/waybill lock --confirm

##@ Build
.PHONY: build
build: ## Build bin/waybill and bin/k8s-verify-release.
	$(call compile,.,bin/,./cmd/waybill ./cmd/k8s-verify-release)

.PHONY: build-lab
build-lab: ## Build bin/waybill-lab, the whole world of a release on loopback.
	$(call compile,test,../bin/,./cmd/waybill-lab)

.PHONY: docs-pages
docs-pages: ## Write docs/codes.md and docs/reference from their sources.
	WAYBILL_GOLDEN=write $(GO) test -count=1 -run TestPage ./pkg/report/explain ./cmd/waybill

.PHONY: build-demo
build-demo:
	$(call compile,test,../bin/,./cmd/waybill-demo)

.PHONY: cross
cross: ## Compile the commands for PLATFORMS, to see that they still do.
	@$(STRICT) for p in $(PLATFORMS); do \
	  echo "compiling for $$p"; \
	  GOOS=$${p%/*} GOARCH=$${p#*/} $(STATIC) -o /dev/null ./cmd/waybill; \
	  GOOS=$${p%/*} GOARCH=$${p#*/} $(STATIC) -o /dev/null ./cmd/k8s-verify-release; \
	done

.PHONY: size
size: build ## Refuse a downstream verifier larger than 26 MB.
	@$(STRICT) n=$$(wc -c < bin/k8s-verify-release); \
	echo "bin/k8s-verify-release has $$((n)) bytes of at most $(MAXSIZE)"; \
	test "$$n" -le $(MAXSIZE)

##@ Test
.PHONY: test
test: ## Run the tests of both modules, except those that take long (make vet vets).
	@$(STRICT) bad=0; \
	$(GO) test $(PATIENT) -vet=off -skip '$(LONG)' ./... || bad=1; \
	(cd test && $(GO) test $(PATIENT) -vet=off -skip '$(LONG)' $(LONGEST) $(QUICK)) || bad=1; \
	(cd test && $(SIMULATE) ./simulate) || bad=1; \
	test $$bad = 0

.PHONY: test-long
test-long: ## Run the tests that take long: kill sweeps, floods, whole demos.
	@$(STRICT) bad=0; ran=0; for dir in $(call having,^func $(patsubst ^%,%,$(LONG))); do \
	  (cd "$$dir" && $(GO) test $(PATIENT) -count=1 -run '$(LONG)' .) || bad=1; \
	  ran=$$((ran + 1)); \
	done; \
	echo "ran the long tests of $$ran packages"; test $$bad = 0 -a $$ran -gt 0

.PHONY: test-all
test-all: test test-long simulate interop servers cluster test-cluster ## Run every test: make test, test-long, simulate, interop, servers and test-cluster; then try 30 mutants.
	cd test && $(GO) run ./cmd/waybill-mutate -n 30 -seed $$RANDOM

.PHONY: simulate
simulate: ## Run the product in SEEDS simulated worlds, or in SEED=n alone, and check what users would see.
	cd test && SEEDS=$(SEEDS) $(SIMULATE) -v -run TestSeeds ./simulate

.PHONY: race
race: ## Run the tests of code that goroutines share under the race detector (needs a C compiler).
	@$(STRICT) if command -v "$$($(GO) env CC)" > /dev/null; then \
	  export CGO_ENABLED=1 GORACE=atexit_sleep_ms=0; $(GO) test $(PATIENT) -race -skip '$(LONG)|$(ALONE)' $(SHARING); \
	  cd test; $(GO) test $(PATIENT) -race -skip '$(LONG)|$(ALONE)' $$($(GO) list ./... | grep -vE '$(BUILT)'); \
	  $(GO) test $(PATIENT) -race -skip '$(LONG)' -run "$(SHARED_ATTACKS)" ./attacks; \
	elif [ -n "$${CI:-}" ]; then \
	  echo "race: the race detector needs a C compiler, and CI runs it always"; exit 1; \
	else \
	  echo "race: skipped, for the race detector needs a C compiler and there is none"; \
	fi

.PHONY: race-stories
race-stories: ## Run the stories with commands that detect races (needs a C compiler, and about an hour).
	cd test && WAYBILL_RACE=1 $(GO) test -timeout 180m -vet=off -count=1 -skip '$(LONG)' ./stories

.PHONY: fuzz
fuzz: ## Fuzz every target of both modules for FUZZTIME each.
	@$(STRICT) ran=0; work=$$(mktemp -d); trap 'rm -rf "$$work"' EXIT; for dir in $(call having,^func Fuzz); do \
	  cd "$$dir"; $(GO) test -c -fuzz . -o "$$work/fuzz.test" .; \
	  for target in $$("$$work/fuzz.test" -test.list '^Fuzz'); do \
	    echo "fuzzing $$target in $${dir#"$(CURDIR)/"} for $(FUZZTIME)"; \
	    "$$work/fuzz.test" -test.run '^$$' -test.fuzz "^$$target\$$" -test.fuzztime $(FUZZTIME) -test.fuzzminimizetime 50x -test.fuzzcachedir "$$($(GO) env GOCACHE)/fuzz/waybill/$${dir#"$(CURDIR)"}"; \
	    ran=$$((ran + 1)); \
	  done; \
	done; \
	echo "fuzzed $$ran targets"; test "$$ran" -gt 0

.PHONY: peers
peers: $(PEERS) ## Build the pinned cosign v2 and v3, once for each pin.

.PHONY: interop
interop: $(PEERS) ## Verify what Waybill makes with real cosign v2 and v3.
	cd test && WAYBILL_PEERS="$(CURDIR)/test/bin" $(GO) test $(PATIENT) -count=1 -v ./interop/...

.PHONY: servers
servers: $(PEERS) $(CRANE) $(SERVERS) ## Release to real registries, buckets and web servers, and attack what lies there.
	cd test && WAYBILL_PEERS="$(CURDIR)/test/bin" $(GO) test $(PATIENT) -count=1 -v ./servers

.PHONY: cluster
cluster: $(CLUSTER) ## Build the control plane of Kubernetes for make test-cluster, once for each pin (eight minutes of CPU).

.PHONY: test-cluster
test-cluster: ## Run the deploy files on a real control plane, which make cluster builds; not in CI.
	@$(STRICT) for program in $(CLUSTER); do \
	  if ! test -x "$${WAYBILL_PEERS:-test/bin}/$$(basename $$program)"; then echo "test-cluster: NOT RUN, 0 passed: $$program is not built: make cluster"; exit 1; fi; \
	done; \
	cd test && WAYBILL_REQUIRE_CLUSTER=1 $(GO) test $(PATIENT) -count=1 -v ./cluster

.PHONY: strikes
strikes: ## Kill what writes at each system call, and fail each (some hours; make test-long does some).
	cd test && WAYBILL_STRIKES=all $(GO) test -count=1 -v -timeout 300m -run 'AtEveryCall|AtEachWrite|Sweep' ./faults

.PHONY: mutate
mutate: ## Break the product in 600 places drawn at random, and say which no test notices (some hours; MUTATE="-n 30").
	cd test && $(GO) run ./cmd/waybill-mutate $(MUTATE)

.PHONY: bench
bench: $(PEERS) $(CRANE) $(SYFT) test/bin/registry ## Measure against sigstore-go, cosign, crane, syft, openssl and the bare limits, as ratios.
	$(call compile,.,bin/,./cmd/waybill ./cmd/k8s-verify-release)
	$(call compile,test,../bin/,./cmd/waybill-bench)
	bin/waybill-bench -bin bin -cosign test/bin/cosign3 -cosign2 test/bin/cosign2 -crane $(CRANE) -syft $(SYFT) -registry test/bin/registry $(BENCH)

.PHONY: cover
cover: ## Say how much of each module its tests reach.
	@mkdir -p bin
	@$(STRICT) for m in $(MODULES); do \
	  profile="$(CURDIR)/bin/cover-$${m/./product}.out"; \
	  (cd $$m && $(GO) test -coverprofile="$$profile" ./... && $(GO) tool cover -func="$$profile" | tail -n 1); \
	done

##@ Keep it in order
.PHONY: check
check: format vet lint dead tidy arch test ## All that a change must pass: format vet lint dead tidy arch test.

.PHONY: format
format: ## Refuse code that gofmt would change.
	@$(STRICT) out=$$(gofmt -l cmd pkg attestations test); \
	if [ -n "$$out" ]; then printf 'gofmt would change:\n%s\n' "$$out"; exit 1; fi

.PHONY: vet
vet: ## Vet both modules.
	@$(call both,$(GO) vet ./...)
	@$(GO) vet -tags kms ./pkg/produce/sign/keyfile

.PHONY: lint
lint: $(LINTER) ## Lint both modules with the pinned linter.
	@$(call both,"$(CURDIR)/$(LINTER)" run --config "$(CURDIR)/test/tools/golangci.yml" ./...)

# Functions that stay although no command calls them are listed in UNREACHED with
# the reason.
.PHONY: dead
dead: $(DEADCODE) ## Refuse functions of the product that no command can reach.
	@$(STRICT) out=$$("$(CURDIR)/$(DEADCODE)" -tags=$(TAGS) -f '{{range .Funcs}}{{$$.Path}}.{{.Name}} {{.Position}}{{"\n"}}{{end}}' ./cmd/...); \
	awk 'NR == FNR { if (!/^#/ && NF > 1) listed[$$1] = 1; next } \
	  NF && !($$1 in listed) { print "no command reaches " $$1 " (" $$2 "): remove it, move it to the tests, or list it with a reason in $(UNREACHED)"; bad = 1 } \
	  { delete listed[$$1] } \
	  END { for (f in listed) { print "$(UNREACHED) lists " f ", which is reached or gone"; bad = 1 }; exit bad }' \
	  $(UNREACHED) - <<< "$$out"

.PHONY: tidy
tidy: ## Refuse a go.mod of the product that is not tidy.
	$(GO) mod tidy -diff

.PHONY: trust-refresh
trust-refresh: build ## Fetch the public trust root through TUF and embed it anew.
	@$(STRICT) cache=$$(mktemp -d); trap 'rm -rf "$$cache"' EXIT; dir=pkg/judge/trust/embedded; \
	bin/waybill trust update --cache "$$cache"; \
	read -r digest day < <(bin/waybill trust export --cache "$$cache" --output $$dir/trusted_root.json); \
	sed -e "s#^| source |.*#| source | https://tuf-repo-cdn.sigstore.dev through TUF, published from https://github.com/sigstore/root-signing |#" \
	  -e "s/^| date |.*/| date | $$day |/" -e "s/^| digest |.*/| digest | $$digest |/" $$dir/README.md > "$$cache/page"; \
	cat "$$cache/page" > $$dir/README.md; \
	$(GO) test ./pkg/judge/trust

.PHONY: arch
arch: ## Check the layout, the limits and what the verifier carries.
	cd test && $(GO) test -count=1 -run '^TestArch' ./arch

.PHONY: docs
docs: ## Check what the documents and the help say against the code.
	@$(STRICT) ran=0; for dir in $(call having,^func $(DOCTESTS)); do \
	  (cd "$$dir" && $(GO) test -count=1 -v -run '^$(DOCTESTS)' .); \
	  ran=$$((ran + 1)); \
	done; \
	echo "checked the documents of $$ran packages"; test "$$ran" -gt 0

.PHONY: clean
clean: ## Remove what was built here, and nothing else.
	rm -rf bin test/bin

# both COMMAND: runs it in each module, in the second even if the first fails.
both = $(STRICT) bad=0; for m in $(MODULES); do \
	printf '%s: %s\n' "$$m" '$(1)'; (cd $$m && $(1)) || bad=1; done; test $$bad = 0

# having PATTERN: the packages of both modules with a test file that matches.
having = $$(for m in $(MODULES); do \
	(cd $$m && $(GO) list -f '{{$$d := .Dir}}{{range .TestGoFiles}}{{$$d}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$$d}}/{{.}}{{"\n"}}{{end}}' ./... \
	| xargs grep -l -E '$(1)' | xargs -r -n 1 dirname | sort -u); done)

# compile MODULE,OUTPUT,PACKAGES: with PROGRESS, downloads and compilations are
# counted instead of listed; complaints are always shown whole.
define compile
$(if $(PROGRESS),@,)$(if $(PROGRESS),$(STRICT) )cd $(1) && $(STATIC) $(if $(PROGRESS),-v )-o $(2) $(3)$(if $(PROGRESS), 2>&1 | awk '$(count)')
endef

count := /^go: downloading / { if (++d % 25 == 0) { print "  downloaded " d " modules"; fflush() } next } \
	/^[^: ]+$$/ { if (++c % 100 == 0) { print "  compiled " c " packages"; fflush() } next } \
	{ print; fflush() }

# Tools and peers are modules of their own, pinned and built from source, and
# built again only when their pins change.
$(LINTER): test/tools/go.mod test/tools/go.sum
	@echo "building the linter, once for each pin"
	cd test/tools && $(STATIC) -o ../bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(DEADCODE): test/tools/go.mod test/tools/go.sum
	@echo "building deadcode, once for each pin"
	cd test/tools && $(STATIC) -o ../bin/deadcode golang.org/x/tools/cmd/deadcode

test/bin/cosign2: test/peers/cosign2/go.mod test/peers/cosign2/go.sum
	@echo "building cosign v2, once for each pin"
	cd test/peers/cosign2 && $(STATIC) -o ../../bin/cosign2 github.com/sigstore/cosign/v2/cmd/cosign

test/bin/cosign3: test/peers/cosign3/go.mod test/peers/cosign3/go.sum
	@echo "building cosign v3, once for each pin"
	cd test/peers/cosign3 && $(STATIC) -o ../../bin/cosign3 github.com/sigstore/cosign/v3/cmd/cosign

$(CRANE): test/peers/crane/go.mod test/peers/crane/go.sum
	@echo "building crane, once for each pin"
	cd test/peers/crane && $(STATIC) -o ../../bin/crane github.com/google/go-containerregistry/cmd/crane

$(SYFT): test/peers/syft/go.mod test/peers/syft/go.sum
	@echo "building syft, once for each pin"
	cd test/peers/syft && $(STATIC) -o ../../bin/syft github.com/anchore/syft/cmd/syft

test/bin/registry: test/peers/registry/go.mod test/peers/registry/go.sum
	@echo "building the registry of distribution, once for each pin"
	cd test/peers/registry && $(STATIC) -o ../../bin/registry github.com/distribution/distribution/v3/cmd/registry

test/bin/versitygw: test/peers/versitygw/go.mod test/peers/versitygw/go.sum
	@echo "building versitygw, once for each pin"
	cd test/peers/versitygw && $(STATIC) -o ../../bin/versitygw github.com/versity/versitygw/cmd/versitygw

test/bin/fakegcs: test/peers/fakegcs/go.mod test/peers/fakegcs/go.sum
	@echo "building fake-gcs-server, once for each pin"
	cd test/peers/fakegcs && $(STATIC) -o ../../bin/fakegcs github.com/fsouza/fake-gcs-server

test/bin/oras: test/peers/oras/go.mod test/peers/oras/go.sum
	@echo "building oras, once for each pin"
	cd test/peers/oras && $(STATIC) -o ../../bin/oras oras.land/oras/cmd/oras

test/bin/conformance: test/peers/conformance/go.mod test/peers/conformance/go.sum
	@echo "building the conformance tests of the distribution specification, once for each pin"
	cd test/peers/conformance && $(STATIC) -o ../../bin/conformance github.com/opencontainers/distribution-spec/conformance

# These two have a main package here, which holds only what the tests use.
test/bin/dex test/bin/otelcol: test/bin/%: test/peers/%/go.mod test/peers/%/go.sum test/peers/%/main.go
	@echo "building $*, once for each pin"
	cd test/peers/$* && $(STATIC) -o ../../bin/$* .

test/bin/etcd: test/peers/kubernetes/go.mod test/peers/kubernetes/go.sum
	@echo "building etcd, once for each pin"
	cd test/peers/kubernetes && $(STATIC) -o ../../bin/etcd go.etcd.io/etcd/server/v3

test/bin/kube-%: test/peers/kubernetes/go.mod test/peers/kubernetes/go.sum
	@echo "building kube-$*, once for each pin"
	cd test/peers/kubernetes && $(STATIC) -o ../../bin/kube-$* k8s.io/kubernetes/cmd/kube-$*
