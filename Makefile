# `make help` lists the targets. `make check` is what CI runs.

SHELL := /bin/bash

# Every module of the tree: the root first, then those with a go.mod of their own.
MODULES := $(shell find . \( -name '.?*' -o -name testdata -o -name node_modules \) -prune -o -name go.mod -print | xargs -n 1 dirname | LC_ALL=C sort)
each = @set -e; for module in $(MODULES); do echo "== $$module"; (cd $$module && $(1)); done

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: check
check: ## everything that must hold before a change lands: what CI runs
	bash .ci/run

.PHONY: test
test: ## the tests of every module, caches allowed
	$(call each,go test ./...)

.PHONY: race
race: ## the tests of every module under the race detector, none from the cache
	$(call each,go test -race -count=1 ./...)

.PHONY: search
search: ## the long model searches and what else `go test` runs a cut of (about a quarter of an hour on two cores)
	REDLOCK_SEARCH=full go test -run "$$(.ci/searches)" -count=1 -timeout 60m -v ./...

.PHONY: chaos
chaos: ## all scenarios of package chaos on server processes, of which `go test` plays a few; CHAOS_COUNT=10: ten times
	REDLOCK_CHAOS_REAL=full REDLOCK_REQUIRE_SERVERS=1 go test -run 'TestScenariosOn|TestLabPlaysEveryScenario' -count=$(or $(CHAOS_COUNT),1) -parallel 4 -timeout 120m -v ./chaos ./cmd/redlock

.PHONY: explore
explore: ## random faults against redlock for FOR (10m), then against every protocol that is broken by hand
	REDLOCK_EXPLORE=$(or $(FOR),10m) go test -run TestExploreSoundAndBroken -count=1 -timeout 0 -v ./chaos/internal/broken

.PHONY: explore-cover
explore-cover: ## functions of the protocol that PLANS (300) random plans do not reach
	REDLOCK_EXPLORE_COVER=$(or $(PLANS),300) go test -run 'TestTheExplorationReachesEveryFunction|TestWhatPlansDoNotReach' -count=1 -timeout 0 -v ./chaos/internal/broken

.PHONY: mutants
mutants: ## the protocol broken by hand, each way seen to fail the test that docs/TESTS.md names
	REDLOCK_MUTANTS=1 REDLOCK_REQUIRE_SERVERS=1 go test -run TestEachMutant -count=1 -timeout 0 -v ./chaos/internal/broken

.PHONY: exec-hundred
exec-hundred: ## `redlock exec` under stopped, cut-off and refusing masters: its command is dead in time, COUNT (100) times
	REDLOCK_TEST_DEAD=$$((($(or $(COUNT),100) + 2) / 3)) REDLOCK_REQUIRE_SERVERS=1 go test -run TestTheCommandIsDead -count=1 -timeout 60m -v ./cmd/redlock

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

.PHONY: cover
cover: ## the root module's statement coverage; the profile goes to .cache/cover.out
	@mkdir -p .cache
	go test -count=1 -coverpkg=./... -coverprofile=.cache/cover.out ./...
	@go tool cover -func=.cache/cover.out | tail -n 1

.PHONY: bench
bench: ## redlock beside its rivals, on five redis-servers that it starts itself
	cd bench && go run .

.PHONY: compare
compare: ## redlock beside etcd, ZooKeeper, databases, memcached and other clients of Redis under failures: a table and a page in OUT (.cache/comparison)
	cd chaos/contenders && go build -o $(CURDIR)/.cache/compare/redlock-compare ./redlock-compare
	PATH=$(CURDIR)/.cache/compare:$$PATH go run ./cmd/redlock lab compare --out $(or $(OUT),$(CURDIR)/.cache/comparison)

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
	nodes=$$(.ci/compose-nodes) && REDLOCK_TEST_NODES=$$nodes go test -race -count=1 ./...
