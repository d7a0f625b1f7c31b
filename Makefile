# Works with any POSIX sh and with GNU make from 3.81 on.

TOOLS := $(CURDIR)/.tools

# The engines and linters that tests need. Each has a folder of its own with a stamp, which is
# written last, so that an install that was interrupted starts again. A stamp that is older than
# its pins is installed again.
STAMPS := $(addprefix $(TOOLS)/,$(addsuffix /stamp,go dynalite venv aws dynoxide))

# The Lambda functions. Each becomes a zip with the program "bootstrap". They are for arm64 unless
# GOARCH says otherwise. CONFIG=FILE adds plans and prices as headroom.yaml.
LAMBDAS     := $(patsubst cmd/%/main.go,%,$(wildcard cmd/lambda-*/main.go))
LAMBDA_ARCH := $(or $(GOARCH),arm64)

# What make check tests: packages that need no engine.
QUICK := . ./memstore ./embedded ./config ./pipeline ./replay ./whatif ./cmd/headroom

# What make test runs again with the race detector: packages with concurrency of their own. The sizes
# are small, and no engine is asked: dynamostore runs on the DynamoDB in memory of internal/memdynamo.
# On real engines the race detector watches the tests of many writers.
RACES  := . ./memstore ./embedded ./pipeline ./replay ./whatif ./internal/memdynamo
CROWDS := ./dynamostore ./proof/linear ./pipeline/onaws
CROWD  := Concurrent|AtOnce|Linearizable

TEST_TIMEOUT ?= 20m
BENCH        ?= .
OF           ?= ./pipeline ./pipeline/onaws

.DEFAULT_GOAL := help
.PHONY: help have tools build lambdas run static check lint test e2e proof mutants bench clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "make %-7s %s\n", $$1, $$2 }' \
		$(firstword $(MAKEFILE_LIST))

have:
	@sh tools/have.sh go cc cargo npm python3

tools: have $(STAMPS) ## install what lint and test need into .tools/, from the pins in tools/

$(TOOLS)/go/stamp: tools/go.mod tools/go.sum
	@sh tools/have.sh go
	@echo "Installing the Go linters into .tools/go."
	@mkdir -p $(@D)
	cd tools && GOBIN=$(@D) go install tool
	@touch $@

$(TOOLS)/dynalite/stamp: tools/package.json tools/package-lock.json tools/.npmrc
	@sh tools/have.sh npm
	@echo "Installing dynalite, a DynamoDB engine in JavaScript, into .tools/dynalite."
	@mkdir -p $(@D)
	@cp $^ $(@D)
	cd $(@D) && npm ci --no-audit --no-fund
	@touch $@

$(TOOLS)/venv/stamp: tools/requirements.txt
	@sh tools/have.sh python3
	@echo "Installing boto3 into .tools/venv."
	python3 -m venv --clear $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

$(TOOLS)/aws/stamp: tools/requirements-aws.txt
	@sh tools/have.sh python3
	@echo "Installing MiniStack, an emulator of AWS, and cfn-lint into .tools/aws. This takes about a minute."
	python3 -m venv --clear $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

# A quick build matters more for a test engine than a fast one, hence the profile. The crate has no
# program without the feature cli.
$(TOOLS)/dynoxide/stamp: tools/dynoxide.txt
	@sh tools/have.sh cargo cc
	@echo "Building Dynoxide, a DynamoDB engine in Rust, into .tools/dynoxide. Cargo compiles it and"
	@echo "everything it depends on from source. This takes some minutes, but only once."
	@mkdir -p $(@D)
	CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
		cargo install --locked --root $(@D) --target-dir $(@D)/target \
		--no-default-features --features native-sqlite,http-server,cli $$(cat $<)
	@rm -rf $(@D)/target
	@touch $@

build: ## build bin/headroom
	go build -o bin/headroom ./cmd/headroom

# Python packs the zip because its zipfile keeps the mode of the program, and because every machine
# with the tools has Python.
lambdas: ## build bin/lambda-*.zip for deploy/aws
	@set -e; for name in $(LAMBDAS); do \
		mkdir -p bin/$$name; \
		CGO_ENABLED=0 GOOS=linux GOARCH=$(LAMBDA_ARCH) go build -trimpath -tags lambda.norpc \
			-ldflags '-s -w' -o bin/$$name/bootstrap ./cmd/$$name; \
		rm -f bin/$$name/headroom.yaml; $(if $(CONFIG),cp $(CONFIG) bin/$$name/headroom.yaml;) \
		(cd bin/$$name && python3 -m zipfile -c ../$$name.zip *); \
		echo "bin/$$name.zip: $$(($$(wc -c <bin/$$name.zip) / 1024)) KiB"; \
	done

run: build ## replay the real log on an empty embedded store, then run a few jobs through the pipeline
	@store=$$(mktemp -d) && trap 'rm -rf "$$store"' EXIT && trap 'exit 1' INT TERM && set -x && \
		bin/headroom replay examples/nasa-ipsc-1993/usage.csv.gz --store embedded:$$store && \
		bin/headroom pipeline run --store memory: && \
		bin/headroom pipeline run --store memory: --mode hold

static: $(TOOLS)/go/stamp
	@files=$$(find . -name '*.go' -not -path './.*' -exec gofmt -l {} +) && \
		if [ -n "$$files" ]; then echo "not formatted, run gofmt -w on:"; echo "$$files"; exit 1; fi
	go vet ./...
	$(TOOLS)/go/staticcheck ./...
	$(TOOLS)/go/errcheck -ignoretests -exclude tools/errcheck.txt ./...
	go test ./internal/prose

check: static ## the quick loop, under a minute and with Go alone: gofmt, vet, staticcheck, errcheck, width of comments, short tests
	go test -short -timeout $(TEST_TIMEOUT) $(QUICK)

lint: static $(TOOLS)/aws/stamp ## gofmt, go vet, staticcheck, errcheck, width of comments, cfn-lint, govulncheck
	$(TOOLS)/aws/bin/cfn-lint deploy/aws/template.yaml
	@# Govulncheck reads a database on the network. That it cannot be reached is no finding, and no
	@# reason to stop work.
	@echo govulncheck ./...; out=$$($(TOOLS)/go/govulncheck ./... 2>&1) || case $$out in \
		"govulncheck: fetching vulnerabilities"*) out="govulncheck: NOT CHECKED, the vulnerability database cannot be reached";; \
		*) echo "$$out"; exit 1;; esac; echo "$$out"

test: tools lint ## everything that must pass: tools, lint and all tests, those with concurrency under the race detector too
	go test -timeout $(TEST_TIMEOUT) ./...
	go test -timeout $(TEST_TIMEOUT) -race -short $(RACES)
	go test -timeout $(TEST_TIMEOUT) -race -run '$(CROWD)' $(CROWDS)

e2e: tools ## deploy the template to an emulator of AWS and send it 500 jobs in each mode; a part of test
	go test -count=1 -v -timeout $(TEST_TIMEOUT) ./e2e

proof: tools ## the long versions: every interleaving, every fault, fuzzing. Prints a table. PROOF=flags, see go run ./proof -h
	go run ./proof $(PROOF)

# For functions that only other programs call, such as AWS's emulator, MUTANTS='-tests ./e2e,...'
# names the packages whose tests should notice.
mutants: tools ## change the packages OF in small ways, list what no test notices. MUTANTS=flags, see go run ./proof/mutants -h
	go run ./proof/mutants $(MUTANTS) $(OF)

bench: tools ## benchmarks only; BENCH=regexp chooses
	go test -run '^$$' -bench '$(BENCH)' -benchmem ./...

clean: ## remove bin/ and .tools/
	rm -rf bin $(TOOLS)
