# `make help` lists the targets. `make check` is what CI runs.

SHELL := /bin/bash

# Every module of the tree: the root first, then those with a go.mod of their own.
MODULES := $(shell find . \( -name '.?*' -o -name testdata -o -name node_modules \) -prune -o -name go.mod -print | xargs -n 1 dirname | LC_ALL=C sort)
each = @set -e; for module in $(MODULES); do echo "== $$module"; (cd $$module && $(1)); done

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: check
check: ## what CI runs of a change: the quick and the full tier, and a seventh of the deep one
	bash .ci/run

.PHONY: deep
deep: ## the same with all of the deep tier instead of a seventh
	bash .ci/run deep

.PHONY: test
test: ## the quick tier of the root module
	go test ./...

.PHONY: test-full
test-full: ## the full tier of every module under the race detector, and what it leaves out without
	$(call each,REDLOCK_TEST=full go test -race -count=1 -timeout 30m ./...)
	REDLOCK_TEST=full go test -run "$$(.ci/tests unraced)" -count=1 ./...

.PHONY: search
search: ## the searches and sweeps of the deep tier
	REDLOCK_TEST=deep go test -run "$$(.ci/tests deep)" -count=1 -timeout 60m -v ./...

.PHONY: chaos
chaos: ## all scenarios of package chaos on server processes, of which the full tier plays a few; CHAOS_COUNT=10: ten times
	REDLOCK_TEST=full REDLOCK_CHAOS_REAL=full REDLOCK_REQUIRE_SERVERS=1 go test -run 'TestScenariosOn|TestLabPlaysEveryScenario' -count=$(or $(CHAOS_COUNT),1) -parallel 4 -timeout 120m -v ./chaos ./cmd/redlock-lab

.PHONY: explore
explore: ## random faults against redlock for FOR (10m), then against every protocol that is broken by hand
	REDLOCK_EXPLORE=$(or $(FOR),10m) go test -run TestExploreSoundAndBroken -count=1 -timeout 0 -v ./chaos/internal/broken

.PHONY: explore-cover
explore-cover: ## functions of the protocol that PLANS (300) random plans do not reach
	REDLOCK_EXPLORE_COVER=$(or $(PLANS),300) go test -run 'TestTheExplorationReachesEveryFunction|TestWhatPlansDoNotReach' -count=1 -timeout 0 -v ./chaos/internal/broken

.PHONY: mutants
mutants: ## the protocol broken by hand, each way seen to fail its test; FILES='lock.go renew.go': the ways in these files
	REDLOCK_MUTANTS=$(or $(FILES),all) REDLOCK_REQUIRE_SERVERS=1 go test -run TestEachMutant -count=1 -timeout 0 -v ./chaos/internal/broken

.PHONY: apidiff
apidiff: ## what breaks importers since the newest tag, which CHANGELOG.md must say
	@.ci/apidiff

.PHONY: exec-hundred
exec-hundred: ## `redlock exec` under stopped, cut-off and refusing masters: its command is dead in time, COUNT (100) times
	REDLOCK_TEST=full REDLOCK_TEST_DEAD=$$((($(or $(COUNT),100) + 2) / 3)) REDLOCK_REQUIRE_SERVERS=1 go test -run TestTheCommandIsDead -count=1 -timeout 60m -v ./cmd/redlock

.PHONY: chaos-rate
chaos-rate: ## how many rounds under faults are explored in a minute of real time
	REDLOCK_CHAOS_RATE=1 go test -run TestExplorationRate -v ./chaos

# The first use builds the pinned golangci-lint into .cache. To lint by hand, in
# any module's directory: <root>/.ci/golangci-lint run ./...
.PHONY: lint
lint: ## go vet and golangci-lint over every module
	$(call each,go vet ./... && $(CURDIR)/.ci/golangci-lint run --allow-serial-runners ./...)

.PHONY: fmt
fmt: ## format every Go file: gofumpt, and gci for the imports
	.ci/golangci-lint fmt

.PHONY: tidy
tidy: ## go mod tidy in every module
	$(call each,go mod tidy)

.PHONY: release
release: ## tag VERSION (v0.1.0) of all modules, once a consumer has built each; with --dry-run only try it
	+@.ci/release '$(VERSION)' $(if $(findstring n,$(firstword -$(MAKEFLAGS))),dry-run)

.PHONY: cover
cover: ## the root module's statement coverage; the profile goes to .cache/cover.out
	@mkdir -p .cache
	go test -count=1 -coverpkg=./... -coverprofile=.cache/cover.out ./...
	@go tool cover -func=.cache/cover.out | tail -n 1

.PHONY: bench
bench: ## redlock beside its rivals, on five redis-servers that it starts itself
	cd bench && go run .

.PHONY: compare
compare: ## redlock beside etcd, ZooKeeper, databases, memcached and other clients of Redis under failures: a table and pages in OUT (.cache/comparison)
	cd chaos/contenders && go build -o $(CURDIR)/.cache/compare/redlock-compare ./redlock-compare
	PATH=$(CURDIR)/.cache/compare:$$PATH go run ./cmd/redlock-lab compare --out $(or $(OUT),$(CURDIR)/.cache/comparison)

.PHONY: quickstart
quickstart: ## take a lock over five in-process masters, and lose two of them
	go run ./examples/quickstart

.PHONY: compose-up
compose-up: ## start five masters of docker-compose.yml and wait until they are healthy
	docker compose up --detach --wait

.PHONY: compose-down
compose-down: ## stop them and drop their data
	docker compose down --volumes

.PHONY: compose-test
compose-test: ## run the root module's tests against them
	nodes=$$(.ci/compose-nodes) && REDLOCK_TEST=full REDLOCK_TEST_NODES=$$nodes go test -race -count=1 ./...
