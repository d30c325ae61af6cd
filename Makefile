# What a person or a CI job does with this repository. Everything else is cargo.
CARGO ?= cargo

help: ## This list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-6s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: tools ## Show svcplane at work on a real etcd and kube-apiserver, until Ctrl-C (ONCE=1: exit after the demo)
	@$(CARGO) build --release -p svcplane -p svcplane-tests --bins
	@exec $${CARGO_TARGET_DIR:-target}/release/demo

test: tools ## Run every test
	@$(CARGO) build -p svcplane
	@$(CARGO) test --workspace --no-run
	@$(CARGO) test --workspace --quiet

lint: ## Formatting, clippy and documentation, with warnings as errors; each crate checked alone
	@$(CARGO) fmt --all --check
	@$(CARGO) clippy --quiet --workspace --all-targets -- -D warnings
	@RUSTDOCFLAGS="-D warnings" $(CARGO) doc --quiet --workspace --no-deps
	@for crate in $$($(CARGO) tree --workspace --depth 0 --prefix none | cut -d ' ' -f 1 | sort -u); do \
		$(CARGO) check --quiet -p $$crate || exit 1; \
	done

soak: ## Long tests (none yet)
	@echo "there is no soak test yet"

bench: ## Benchmarks (none yet)
	@echo "there is no benchmark yet"

tools: ## Build the real etcd, kube-apiserver, kube-controller-manager and kubectl, once (KUBEBUILDER_ASSETS wins)
	@tests/tools/build

.PHONY: help run test lint soak bench tools
