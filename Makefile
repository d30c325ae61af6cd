# What a person or a CI job does with this repository. Everything else is cargo.
CARGO ?= cargo
RELEASE := $${CARGO_TARGET_DIR:-target}/release

help: ## This list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-6s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: tools release ## Show svcplane at work on a real etcd and kube-apiserver, until Ctrl-C (ONCE=1: exit after the demo)
	@exec $(RELEASE)/demo

test: tools ## Run every test
	@$(CARGO) test --workspace --no-run
	@$(CARGO) build --workspace --bin svcplane --bin reaper
	@$(CARGO) test --workspace --quiet

lint: ## Formatting, clippy and documentation, with warnings as errors; each crate checked alone
	@$(CARGO) fmt --all --check
	@$(CARGO) clippy --quiet --workspace --all-targets -- -D warnings
	@RUSTDOCFLAGS="-D warnings" $(CARGO) doc --quiet --workspace --no-deps
	@for crate in $$($(CARGO) tree --workspace --depth 0 --prefix none | cut -d ' ' -f 1 | sort -u); do \
		$(CARGO) check --quiet -p $$crate || exit 1; \
	done

soak: tools release ## Restart, fail-over and relist with 2,000 Services x 10 Pods: writes counted (about 10 minutes)
	@$(RELEASE)/figures restart

bench: tools release ## Resident memory with 10,000 Pods beside kube-controller-manager (about 10 minutes)
	@$(CARGO) build --profile dist -p svcplane
	@SVCPLANE_BIN=$$(realpath $${CARGO_TARGET_DIR:-target}/dist/svcplane) $(RELEASE)/figures memory

release:
	@$(CARGO) build --release -p svcplane -p svcplane-tests --bins

tools: ## Build the real etcd, kube-apiserver, kube-controller-manager and kubectl, once (KUBEBUILDER_ASSETS wins)
	@tests/tools/build

.PHONY: help run test lint soak bench tools release
