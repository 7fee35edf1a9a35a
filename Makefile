# Each target is a line or two that you can also type. `make help` lists them.

.DEFAULT_GOAL := help
.PHONY: help ready demo test first-test build check dist licences clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | awk -F '\t' '{printf "  make %-11s %s\n", $$1, $$2}'

ready: ## say what a build lacks on this machine
	@.ci/ready

demo: ready ## play four weeks against the built-in simulator, into ./demo, and serve the page
	go run ./cmd/outlierd demo

first-test: ready ## run the tests of the service's interface and of the job file: half a minute
	go test -short ./outlier ./sync/job

test: ready ## run all tests: some eight minutes on 2 cores
	go test ./...

build: ready ## build the official program, with all its parts, as ./outlierd
	.ci/build outlierd

check: ready ## run all that must pass before a change lands: a quarter of an hour
	.ci/run

dist: ready ## build archives and packages into ./dist
	.ci/packages

licences: ## write THIRD_PARTY.md
	cd .ci/tools && go tool thirdparty

clean: ## remove what these targets have written here
	rm -rf outlierd demo dist
