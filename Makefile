# Works with any POSIX sh and with GNU make from 3.81 on.

TOOLS := $(CURDIR)/.tools

# The engines and linters that tests need, each in a folder of its own. A stamp is younger than the pins that it was installed from, and is written last:
# an interrupted install is done again.
STAMPS := $(TOOLS)/go/stamp $(TOOLS)/dynalite/stamp $(TOOLS)/venv/stamp $(TOOLS)/aws/stamp $(TOOLS)/dynoxide/stamp

# The Lambda functions, each a zip with the program "bootstrap". GOARCH=amd64 builds for x86_64, else they are for arm64. CONFIG=FILE adds plans and prices as headroom.yaml.
LAMBDAS     := $(patsubst cmd/%/main.go,%,$(wildcard cmd/lambda-*/main.go))
LAMBDA_ARCH := $(or $(GOARCH),arm64)

TEST_TIMEOUT ?= 20m
BENCH        ?= .
OF           ?= ./pipeline ./pipeline/onaws

.DEFAULT_GOAL := help
.PHONY: help tools build lambdas run lint test e2e proof mutants bench clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "make %-7s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

tools: $(STAMPS) ## install what lint and test need into .tools/, from the pins in tools/

$(TOOLS)/go/stamp: tools/go.mod tools/go.sum
	mkdir -p $(@D)
	cd tools && GOBIN=$(@D) go install tool
	touch $@

$(TOOLS)/dynalite/stamp: tools/package.json tools/package-lock.json tools/.npmrc
	mkdir -p $(@D)
	cp $^ $(@D)
	cd $(@D) && npm ci --no-audit --no-fund
	touch $@

$(TOOLS)/venv/stamp: tools/requirements.txt
	python3 -m venv --clear $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	touch $@

$(TOOLS)/aws/stamp: tools/requirements-aws.txt
	python3 -m venv --clear $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	touch $@

# A quick build matters more for a test engine than a fast one, hence the profile. Without the feature cli the crate has no program.
$(TOOLS)/dynoxide/stamp: tools/dynoxide.txt
	mkdir -p $(@D)
	CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
		cargo install --quiet --locked --root $(@D) --target-dir $(@D)/target \
		--no-default-features --features native-sqlite,http-server,cli $$(cat $<)
	rm -rf $(@D)/target
	touch $@

build: ## build bin/headroom
	go build -o bin/headroom ./cmd/headroom

# Python's zipfile keeps the mode of a file, which a function's program needs, and is there wherever the tools are.
lambdas: ## build bin/lambda-*.zip for deploy/aws
	@set -e; for name in $(LAMBDAS); do \
		mkdir -p bin/$$name; \
		CGO_ENABLED=0 GOOS=linux GOARCH=$(LAMBDA_ARCH) go build -trimpath -tags lambda.norpc -ldflags '-s -w' -o bin/$$name/bootstrap ./cmd/$$name; \
		rm -f bin/$$name/headroom.yaml; $(if $(CONFIG),cp $(CONFIG) bin/$$name/headroom.yaml;) \
		(cd bin/$$name && python3 -m zipfile -c ../$$name.zip *); \
		echo "bin/$$name.zip: $$(($$(wc -c <bin/$$name.zip) / 1024)) KiB"; \
	done

run: build ## replay the real log on an empty embedded store, then run a few jobs through the pipeline
	@store=$$(mktemp -d) && trap 'rm -rf "$$store"' EXIT && trap 'exit 1' INT TERM && set -x && \
		bin/headroom replay examples/nasa-ipsc-1993/usage.csv.gz --store embedded:$$store && \
		bin/headroom pipeline run --store memory: && \
		bin/headroom pipeline run --store memory: --mode hold

lint: tools ## gofmt, go vet, staticcheck, govulncheck, cfn-lint
	@files=$$(find . -name '*.go' -not -path './.*' -exec gofmt -l {} +) && \
		if [ -n "$$files" ]; then echo "not formatted, run gofmt -w on:"; echo "$$files"; exit 1; fi
	go vet ./...
	$(TOOLS)/go/staticcheck ./...
	$(TOOLS)/aws/bin/cfn-lint deploy/aws/template.yaml
	@# The database is on the network: not to reach it is no finding, and no reason to stop work.
	@echo govulncheck ./...; out=$$($(TOOLS)/go/govulncheck ./... 2>&1) || case $$out in \
		"govulncheck: fetching vulnerabilities"*) out="govulncheck: NOT CHECKED, the vulnerability database cannot be reached";; \
		*) echo "$$out"; exit 1;; esac; echo "$$out"

test: tools lint ## everything that must pass: tools, lint and all tests, with the race detector
	go test -race -timeout $(TEST_TIMEOUT) ./...

e2e: tools ## deploy the template to an emulator of AWS and send it 500 jobs in each mode; a part of test
	go test -count=1 -v -timeout $(TEST_TIMEOUT) ./e2e

proof: tools ## the long versions: every interleaving, every fault, fuzzing; prints a table. PROOF=flags, see go run ./proof -h
	go run ./proof $(PROOF)

# With a package of functions that only AWS's emulator or other programs call, MUTANTS='-tests ./e2e,...' says whose tests are to notice.
mutants: tools ## small changes of the packages OF, one at a time, that their tests do not notice. MUTANTS=flags, see go run ./proof/mutants -h
	go run ./proof/mutants $(MUTANTS) $(OF)

bench: tools ## benchmarks only; BENCH=regexp chooses
	go test -run '^$$' -bench '$(BENCH)' -benchmem ./...

clean: ## remove bin/ and .tools/
	rm -rf bin $(TOOLS)
