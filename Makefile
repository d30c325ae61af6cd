# What a person or a CI job does with this repository. Everything else is cargo.
CARGO ?= cargo
RELEASE := $${CARGO_TARGET_DIR:-target}/release
# For commands that run in another directory.
TARGET = $$(realpath -m $${CARGO_TARGET_DIR:-$(CURDIR)/target})

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: tools release-demo ## Show svcplane at work on a real etcd and kube-apiserver, until Ctrl-C (ONCE=1: exit after the demo)
	@exec $(RELEASE)/demo

build: ## The program alone, as a release build: target/release/svcplane
	@$(CARGO) build --release -p svcplane

# An explicit target keeps the flag from build scripts and macros, which must be dynamic.
static: ## The program as the image has it: linked statically, with all optimizations
	@target=$$(rustc -vV | sed -n 's/^host: //p') && RUSTFLAGS="-C target-feature=+crt-static" $(CARGO) build --profile dist --target $$target -p svcplane && \
		ls -l $${CARGO_TARGET_DIR:-target}/$$target/dist/svcplane

test: tools tools-chart tools-metallb ## Run every test
	@$(CARGO) test --workspace --no-run
	@$(CARGO) build --workspace --bin svcplane --bin reaper
	@$(CARGO) test --workspace --quiet --no-fail-fast

lint: ## Formatting, clippy and documentation, with warnings as errors; each crate checked alone
	@$(CARGO) fmt --all --check
	@$(CARGO) clippy --quiet --workspace --all-targets -- -D warnings
	@RUSTDOCFLAGS="-D warnings" $(CARGO) doc --quiet --workspace --no-deps
	@for crate in $$($(CARGO) tree --workspace --depth 0 --prefix none | cut -d ' ' -f 1 | sort -u); do \
		$(CARGO) check --quiet -p $$crate || exit 1; \
	done

handover: tools ## Hand 500 Services of 10 Pods over from kube-controller-manager and back, and count what changes (about 5 minutes)
	@$(CARGO) test --workspace --test coexistence -- --ignored --nocapture

chart-drills: tools tools-chart ## Drain, upgrade, kill and fill a cluster under the chart, with a network of its own (about 6 minutes)
	@$(CARGO) test --workspace --test chart-network -- --include-ignored --nocapture

drills: tools release-drills ## High availability drills with three replicas and with two (about 25 minutes)
	@$(RELEASE)/drills

differential: tools release-differential ## One random stream on svcplane's cluster and on kube-controller-manager's (OPS=3000 SEED=1; CONTROLLERS=endpoints|all; SLICE_LIMIT=100; STATE=DIR goes on from there; REPLAY=FILE)
	@$(RELEASE)/differential --controllers $(or $(CONTROLLERS),all) --max-endpoints-per-slice $(or $(SLICE_LIMIT),100) $(if $(REPLAY),--replay $(REPLAY),--ops $(or $(OPS),3000) --seed $(or $(SEED),1) $(if $(STATE),--state $(STATE)))

differential-proofs: tools release-differential ## Prove that the differential test can fail: controllers off, other limits, rules broken (about 20 minutes)
	@$(RELEASE)/differential --prove --ops $(or $(OPS),600)

soak: tools release-figures release-drills release-differential ## Restarts, fail-over and relists at size, drills, long differential streams, resumable (about 2.5 hours), soak-loadbalancers and soak-allocators
	@$(RELEASE)/figures restart
	@$(RELEASE)/drills
	@for seed in 1 2 3 4 5; do \
		$(RELEASE)/differential --ops 3000 --seed $$seed --state $${CARGO_TARGET_DIR:-target}/soak/seed-$$seed \
			--max-endpoints-per-slice $$([ $$seed = 5 ] && echo 5 || echo 100) || exit 1; \
	done
	@$(RELEASE)/differential --ops 20000 --seed 6 --state $${CARGO_TARGET_DIR:-target}/soak/seed-6
	@$(MAKE) --no-print-directory soak-loadbalancers soak-allocators

promises: tools tools-chart tools-metallb ## Run every test that the tables of docs/loadbalancer.md and docs/acceptance.md name, and see that each ran (about 30 minutes; DOCUMENTS=docs/loadbalancer.md)
	@tests/promised $(or $(DOCUMENTS),docs/loadbalancer.md docs/acceptance.md)

loadbalancer-mutations: tools tools-metallb release-loadbalancer-mutations ## Break ten rules of LoadBalancer addresses, one line each, and see that their tests notice (about 30 minutes; ROWS=10 SEED=1)
	@$(RELEASE)/loadbalancer-mutations

soak-loadbalancers: tools ## A random run of 3,000 steps on a real apiserver, with restarts and lost answers (STEPS=3000 SEED=1)
	@BALANCER_STEPS=$(or $(STEPS),3000) BALANCER_SEED=$(or $(SEED),1) $(CARGO) test --workspace --test balancers -- random --nocapture

# Overflow is checked as in a debug build; the directory of its own keeps other release builds as they are.
SOAK = $(CARGO) test --release --target-dir $(TARGET)/soak-allocators -p svcplane-allocators -p svcplane-webhook --lib \
	--config profile.release.overflow-checks=true --config profile.release.debug-assertions=true --
PARSERS = any_bytes_are_read_or_refused every_address_has_one_text what_an_interval_prints_is_read_back no_bytes_panic no_damaged_review_panics \
	no_text_panics what_the_standard_library_reads_is_read_alike

soak-allocators: ## A million cases for each parser, 20,000 for each other property of allocators and webhook, a run of 100,000 steps (CASES=1000000 MODELS=20000 STEPS=100000)
	@PROPTEST_CASES=$(or $(CASES),1000000) $(SOAK) $(PARSERS)
	@BALANCER_STEPS=$(or $(STEPS),100000) PROPTEST_CASES=$(or $(MODELS),20000) $(SOAK) $(PARSERS:%=--skip %)

bench-controllers: tools release-bench-controllers ## Figures beside kube-controller-manager, into docs/figures (about 75 minutes; CONTROLLERS=endpoints|both; WORKLOADS=w4 SCALE=10 FIGURES=target/figures for a quick try)
	@$(CARGO) build --profile dist -p svcplane
	@SVCPLANE_BIN=$$(realpath $${CARGO_TARGET_DIR:-target}/dist/svcplane) $(RELEASE)/bench-controllers --controllers $(or $(CONTROLLERS),both)

bench-loadbalancers: tools tools-metallb release-bench-loadbalancers ## Addresses of 2,000 and 10,000 LoadBalancer Services beside MetalLB's controller, into docs/figures (about 20 minutes, on a quiet machine; SERVICES=500 ONLY=ours FIGURES=DIRECTORY for a try)
	@$(CARGO) build --profile dist -p svcplane
	@SVCPLANE_BIN=$$(realpath $${CARGO_TARGET_DIR:-target}/dist/svcplane) $(RELEASE)/bench-loadbalancers

bench-allocators: ## Allocation of addresses and nodePorts beside kube-apiserver's own allocators, into docs/figures (about 5 minutes, on a quiet machine; FIGURES=DIRECTORY for a try)
	@$(CARGO) bench --quiet -p svcplane-allocators --bench allocate
	@cd tests/tools && go build -trimpath -buildvcs=false -o $(TARGET)/bench-allocators ./allocators
	@$(TARGET)/bench-allocators -criterion $(TARGET)/criterion -figures $(or $(FIGURES),docs/figures)

# svcplane, and one program of the kit.
release-%:
	@$(CARGO) build --release -p svcplane -p svcplane-tests --bin svcplane --bin reaper --bin $*

tools: ## Build the real etcd, kube-apiserver, kube-controller-manager and kubectl, once (KUBEBUILDER_ASSETS wins)
	@tests/tools/build

tools-chart: ## Build the real Helm 4, Helm 3 and promtool, once: only tests of the chart need them
	@tests/tools/build helm4 helm3 promtool

tools-metallb: ## Build MetalLB's real controller, once: only tests and figures of LoadBalancers need it
	@tests/tools/build metallb

.PHONY: help run build static test lint handover chart-drills drills differential differential-proofs soak soak-allocators soak-loadbalancers promises loadbalancer-mutations bench-controllers bench-loadbalancers bench-allocators tools tools-chart tools-metallb
