package e2e

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lumcast/headroom/pipeline/onaws"
)

// expanded is the template as CloudFormation sees it after the SAM transform, under parameters.
type expanded struct {
	Resources  map[string]resource
	Outputs    map[string]any
	Parameters []string
	Given      []string // names of the parameters that were set
}

type resource struct {
	Type           string
	Properties     map[string]any
	DeletionPolicy string
}

// asIs is the transformed template under its defaults. Several tests look at it.
var asIs = sync.OnceValues(func() ([]byte, error) { return transform() })

// transform runs the SAM transform.
func transform(params ...string) ([]byte, error) {
	cmd := exec.Command("../.tools/aws/bin/python", append([]string{"transform.py", "../deploy/aws/template.yaml"}, params...)...)
	cmd.Stderr = os.Stderr
	return cmd.Output()
}

func expand(t *testing.T, params ...string) expanded {
	t.Helper()
	do := asIs
	if len(params) > 0 {
		do = func() ([]byte, error) { return transform(params...) }
	}
	out, err := do()
	if err != nil {
		t.Fatal(err)
	}
	var x expanded
	if err := json.Unmarshal(out, &x); err != nil {
		t.Fatal(err)
	}
	for _, p := range params {
		name, _, _ := strings.Cut(p, "=")
		x.Given = append(x.Given, name)
	}
	return x
}

// at looks up a value by the names and the numbers on the way to it.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

// list is a JSON value that may be one string or several.
func list(v any) (all []string) {
	if s, ok := v.(string); ok {
		return []string{s}
	}
	for _, e := range v.([]any) {
		all = append(all, e.(string))
	}
	return all
}

// rights are the actions that a role allows, with their resources: "dynamodb:GetItem Jobs.Arn".
func rights(t *testing.T, role resource) (all []string) {
	t.Helper()
	for key := range role.Properties {
		if key != "AssumeRolePolicyDocument" && key != "Policies" {
			t.Errorf("a role has %s", key)
		}
	}
	for _, policy := range role.Properties["Policies"].([]any) {
		for _, s := range at(policy, "PolicyDocument", "Statement").([]any) {
			if at(s, "Effect") != "Allow" || at(s, "NotAction") != nil || at(s, "NotResource") != nil {
				t.Errorf("statement %v", s)
			}
			for _, action := range list(at(s, "Action")) {
				for _, on := range list(at(s, "Resource")) {
					all = append(all, action+" "+on)
				}
			}
		}
	}
	slices.Sort(all)
	return all
}

const (
	ourMachine = "arn:aws:states:eu-central-1:123456789012:stateMachine:stack-podcast"
	executions = "arn:aws:states:eu-central-1:123456789012:execution:stack-podcast:*"
	usersTable = "arn:aws:dynamodb:eu-central-1:123456789012:table/Users"
)

// onTables are the rights that each handler of jobs needs.
func onTables(more ...string) []string {
	all := append([]string{
		"dynamodb:GetItem " + usersTable, "dynamodb:UpdateItem " + usersTable,
		"dynamodb:GetItem Ledger.Arn", "dynamodb:Query Ledger.Arn", "dynamodb:BatchWriteItem Ledger.Arn",
		"dynamodb:GetItem Jobs.Arn", "dynamodb:UpdateItem Jobs.Arn", "logs:CreateLogStream Logs.Arn", "logs:PutLogEvents Logs.Arn",
	}, more...)
	slices.Sort(all)
	return all
}

// TestNobodyMayMoreThanTheDocumentSays looks at the template after the SAM transform, which may add
// roles and managed policies of its own.
func TestNobodyMayMoreThanTheDocumentSays(t *testing.T) {
	t.Parallel()
	asked := []string{
		"states:DescribeExecution " + executions, "states:GetExecutionHistory " + executions, "sqs:SendMessage EventDeadLetters.Arn",
	}
	want := map[string][]string{
		"ConsumerRole": onTables("states:StartExecution "+ourMachine, "states:DescribeExecution "+executions,
			"sqs:ReceiveMessage Queue.Arn", "sqs:DeleteMessage Queue.Arn", "sqs:GetQueueAttributes Queue.Arn",
			"sqs:GetQueueUrl Queue.Arn", "sqs:SendMessage Queue.Arn"),
		"CallbackRole":  onTables(asked...),
		"ReconcileRole": onTables(append(asked, "dynamodb:Query Jobs/index/open", "dynamodb:DeleteItem Ledger.Arn")...),
		"WorkRole":      {"logs:CreateLogStream Logs.Arn", "logs:PutLogEvents Logs.Arn"},
		"MachineRole":   {"lambda:InvokeFunction Callback.Arn", "lambda:InvokeFunction Work.Arn"},
	}
	for name, r := range expand(t).Resources {
		switch r.Type {
		case "AWS::IAM::Role":
			got := rights(t, r)
			for i, right := range got {
				got[i] = strings.Replace(right, "Jobs.Arn/index", "Jobs/index", 1)
			}
			if !slices.Equal(got, want[name]) {
				t.Errorf("%s may\n%q\nwant\n%q", name, got, want[name])
			}
			delete(want, name)
		case "AWS::IAM::Policy", "AWS::IAM::ManagedPolicy":
			t.Errorf("%s: rights beside those of the roles", name)
		case "AWS::Lambda::Function":
			if r.Properties["Role"] != name+"Role.Arn" {
				t.Errorf("%s runs as %v", name, r.Properties["Role"])
			}
		case "AWS::StepFunctions::StateMachine":
			if r.Properties["RoleArn"] != "MachineRole.Arn" {
				t.Errorf("%s runs as %v", name, r.Properties["RoleArn"])
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("no roles %q", slices.Sorted(maps.Keys(want)))
	}
}

// TestOnlyWhatHasNoResourcesIsAllowedOnAll, and only if a parameter asks for it: to trace, and to
// deliver the state machine's log. Every function may use the key.
func TestOnlyWhatHasNoResourcesIsAllowedOnAll(t *testing.T) {
	t.Parallel()
	const key = "arn:aws:kms:eu-central-1:123456789012:key/k"
	for name, r := range expand(t, "XRay=true", "StateMachineLogs=ERROR", "KmsKeyArn="+key).Resources {
		if r.Type != "AWS::IAM::Role" {
			continue
		}
		all := rights(t, r)
		for _, right := range all {
			action, on, _ := strings.Cut(right, " ")
			logs := name == "MachineRole" && strings.HasPrefix(action, "logs:")
			if on == "*" && !strings.HasPrefix(action, "xray:") && !logs {
				t.Errorf("%s may %s", name, right)
			}
		}
		if may := slices.Contains(all, "kms:Decrypt "+key); may == (name == "MachineRole") {
			t.Errorf("%s may use the key: %t", name, may)
		}
	}
}

// TestEventsThatFailAreKept holds of each function that is called without anybody who waits.
func TestEventsThatFailAreKept(t *testing.T) {
	t.Parallel()
	x := expand(t)
	called := map[string]bool{}
	for name, r := range x.Resources {
		if r.Type != "AWS::Events::Rule" {
			continue
		}
		for _, target := range r.Properties["Targets"].([]any) {
			called[strings.TrimSuffix(at(target, "Arn").(string), ".Arn")] = true
			if name == "StatusChange" && at(target, "DeadLetterConfig", "Arn") != "EventDeadLetters.Arn" {
				t.Errorf("%s: %v", name, target)
			}
		}
	}
	if !maps.Equal(called, map[string]bool{"Callback": true, "Reconcile": true}) {
		t.Errorf("called by events: %v", called)
	}
	for name := range called {
		config := x.Resources[name+"EventInvokeConfig"].Properties
		if at(config, "DestinationConfig", "OnFailure", "Destination") != "EventDeadLetters.Arn" || at(config, "MaximumRetryAttempts") == nil {
			t.Errorf("%s: %v", name, config)
		}
	}
	// The reconciliation comes again by itself.
	if n := at(x.Resources["ReconcileEventInvokeConfig"].Properties, "MaximumRetryAttempts"); n != 0.0 {
		t.Errorf("a reconciliation that failed is repeated %v times", n)
	}
}

// dimension is what an alarm looks at.
func dimension(x expanded, alarm string) any {
	return at(x.Resources[alarm].Properties, "Dimensions", 0, "Value")
}

// TestAlarmsWatchWhatIsUsed: the template's own queue and state machine, or those that exist and
// are named, beside which it makes none.
func TestAlarmsWatchWhatIsUsed(t *testing.T) {
	t.Parallel()
	const (
		queue = "arn:aws:sqs:eu-central-1:123456789012:theirs.fifo"
		dead  = "arn:aws:sqs:eu-central-1:123456789012:their-dead.fifo"
		mine  = "arn:aws:states:eu-central-1:123456789012:stateMachine:mine"
	)
	own, theirs := expand(t), expand(t, "QueueArn="+queue, "DeadLettersArn="+dead, "StateMachineArn="+mine)
	for _, c := range []struct {
		under       expanded
		alarm, want string
	}{
		{own, "DeadLettersAlarm", "DeadLetters.QueueName"}, {own, "OldestMessageAlarm", "Queue.QueueName"},
		{theirs, "DeadLettersAlarm", "their-dead.fifo"}, {theirs, "OldestMessageAlarm", "theirs.fifo"},
		{theirs, "ExecutionsFailedAlarm", mine}, {theirs, "ExecutionsTimedOutAlarm", mine},
	} {
		if got := dimension(c.under, c.alarm); got != c.want {
			t.Errorf("%s watches %v, want %s", c.alarm, got, c.want)
		}
	}
	if got := at(theirs.Resources["ConsumerJobs"].Properties, "EventSourceArn"); got != queue {
		t.Errorf("the consumer reads %v", got)
	}
	if body := at(theirs.Resources["Dashboard"].Properties, "DashboardBody").(string); !strings.Contains(body, `"their-dead.fifo"`) {
		t.Error(body)
	}
	for _, name := range []string{"Queue", "DeadLetters", "Machine", "MachineRole", "Work", "WorkRole"} {
		if _, made := theirs.Resources[name]; made {
			t.Errorf("%s is made beside the one that exists", name)
		}
	}
	// An alarm on a queue that nobody has named cannot be made.
	if _, made := expand(t, "QueueArn="+queue).Resources["DeadLettersAlarm"]; made {
		t.Error("an alarm watches no queue")
	}
}

// TestEachAlarmTellsSomebody, and there is one for each thing that can go wrong.
func TestEachAlarmTellsSomebody(t *testing.T) {
	t.Parallel()
	var alarms []string
	for name, r := range expand(t, "AlarmTopicArn=topic").Resources {
		if r.Type == "AWS::CloudWatch::Alarm" {
			alarms = append(alarms, name)
			if at(r.Properties, "AlarmActions", 0) != "topic" {
				t.Errorf("%s tells nobody", name)
			}
		}
	}
	slices.Sort(alarms)
	if want := []string{
		"CallbackErrorsAlarm", "CallbackThrottlesAlarm", "ConsumerErrorsAlarm", "ConsumerThrottlesAlarm",
		"DeadLettersAlarm", "EventDeadLettersAlarm", "ExecutionsFailedAlarm", "ExecutionsTimedOutAlarm",
		"LatePastTheLimitAlarm", "MessageErrorsAlarm", "NotChargedAlarm", "OldestMessageAlarm", "PastTheLimitAlarm",
		"ReconcileErrorsAlarm", "StillOwedAlarm",
	}; !slices.Equal(alarms, want) {
		t.Errorf("alarms %q", alarms)
	}
}

// TestEachParameterHasItsEffect sets all that go together at once, each to a value of its own.
func TestEachParameterHasItsEffect(t *testing.T) {
	t.Parallel()
	key := "arn:aws:kms:eu-central-1:123456789012:key/k"
	none := expand(t)
	others := expand(t, "UsersTable=people", "Architecture=x86_64")
	all := expand(t,
		"MaximumConcurrency=50", "ItemFormat=1", "OpenShards=32", "KeepJobs=72h", "DescribesPerSecond=25", "WarmWrites=8000", "WarmReads=24000", "LogRetentionDays=90",
		"KmsKeyArn="+key, "XRay=true", "StateMachineLogs=ALL", "WorkFunctionArn=arn:w", "Fifo=true", "OverLimitAlarm=7", "FailedExecutionsAlarm=7",
		"Consume=false", "Mode=hold", "HoldFor=9h", "Over=refuse", "Plan=studio", "ConfigFile=/var/task/headroom.yaml", "OlderThan=4h")
	for _, c := range []struct {
		under    expanded
		resource string
		path     []any
		want     any
	}{
		{all, "ConsumerJobs", []any{"ScalingConfig", "MaximumConcurrency"}, "50"},
		{all, "Consumer", []any{"Environment", "Variables", "HEADROOM_SHARDS"}, "32"},
		{all, "Callback", []any{"Environment", "Variables", "HEADROOM_FORMAT"}, "1"},
		{all, "Callback", []any{"Environment", "Variables", "HEADROOM_KEEP"}, "72h"},
		{all, "Reconcile", []any{"Environment", "Variables", "HEADROOM_DESCRIBES"}, "25"},
		{all, "Jobs", []any{"WarmThroughput", "WriteUnitsPerSecond"}, "8000"},
		{all, "Jobs", []any{"GlobalSecondaryIndexes", 0, "WarmThroughput", "ReadUnitsPerSecond"}, "24000"},
		{none, "Users", []any{"WarmThroughput"}, nil},
		{none, "Jobs", []any{"TimeToLiveSpecification", "AttributeName"}, "expires"},
		{all, "Logs", []any{"RetentionInDays"}, "90"},
		{all, "Users", []any{"SSESpecification", "KMSMasterKeyId"}, key},
		{all, "Ledger", []any{"SSESpecification", "KMSMasterKeyId"}, key},
		{all, "Jobs", []any{"SSESpecification", "KMSMasterKeyId"}, key},
		{all, "Queue", []any{"KmsMasterKeyId"}, key},
		{all, "Queue", []any{"SqsManagedSseEnabled"}, nil},
		{all, "EventDeadLetters", []any{"KmsMasterKeyId"}, key},
		{all, "Logs", []any{"KmsKeyId"}, key},
		{none, "Queue", []any{"SqsManagedSseEnabled"}, true},
		{all, "Consumer", []any{"TracingConfig", "Mode"}, "Active"},
		{all, "Machine", []any{"TracingConfiguration", "Enabled"}, "true"},
		{none, "Callback", []any{"TracingConfig", "Mode"}, "PassThrough"},
		{all, "Machine", []any{"LoggingConfiguration", "Level"}, "ALL"},
		{all, "MachineLog", []any{"LogGroupName"}, "/aws/vendedlogs/states/stack-podcast"},
		{none, "Machine", []any{"LoggingConfiguration"}, nil},
		{all, "Machine", []any{"DefinitionSubstitutions", "WorkFunctionArn"}, "arn:w"},
		{all, "MachineRole", []any{"Policies", 0, "PolicyDocument", "Statement", 0, "Resource", 0}, "arn:w"},
		{all, "Work", nil, nil},
		{none, "Machine", []any{"DefinitionSubstitutions", "WorkFunctionArn"}, "Work.Arn"},
		{all, "Queue", []any{"FifoQueue"}, true},
		{all, "Queue", []any{"QueueName"}, "stack-jobs.fifo"},
		{all, "DeadLetters", []any{"FifoQueue"}, true},
		{none, "Queue", []any{"FifoQueue"}, nil},
		{all, "PastTheLimitAlarm", []any{"Threshold"}, "7"},
		{all, "ExecutionsFailedAlarm", []any{"Threshold"}, "7"},
		{all, "ConsumerJobs", []any{"Enabled"}, "false"},
		{all, "Consumer", []any{"Environment", "Variables", "HEADROOM_MODE"}, "hold"},
		{all, "Consumer", []any{"Environment", "Variables", "HEADROOM_HOLD"}, "9h"},
		{all, "Callback", []any{"Environment", "Variables", "HEADROOM_OVER"}, "refuse"},
		{all, "Callback", []any{"Environment", "Variables", "HEADROOM_PLAN"}, "studio"},
		{others, "Callback", []any{"Environment", "Variables", "HEADROOM_TABLE"}, "people"},
		{all, "Callback", []any{"Environment", "Variables", "HEADROOM_CONFIG"}, "/var/task/headroom.yaml"},
		{all, "Reconcile", []any{"Environment", "Variables", "HEADROOM_OLDER_THAN"}, "4h"},
		{others, "Work", []any{"Architectures", 0}, "x86_64"},
	} {
		var p any = c.under.Resources[c.resource].Properties
		if c.path == nil {
			if p.(map[string]any) != nil {
				t.Errorf("%s is made", c.resource)
			}
		} else if got := at(p, c.path...); got != c.want {
			t.Errorf("%s %v is %v, want %v", c.resource, c.path, got, c.want)
		}
	}
	// Each parameter is one that this test or the one on alarms has changed.
	for _, name := range none.Parameters {
		known := []string{"QueueArn", "DeadLettersArn", "StateMachineArn", "AlarmTopicArn", "UsersTable", "Architecture"}
		if !slices.Contains(known, name) && !slices.Contains(all.Given, name) {
			t.Errorf("what does %s do?", name)
		}
	}
}

// TestWhatHoldsDataStays, unless the stack that was to hold it could not be made.
func TestWhatHoldsDataStays(t *testing.T) {
	t.Parallel()
	for name, r := range expand(t).Resources {
		if r.Type == "AWS::DynamoDB::Table" || r.Type == "AWS::SQS::Queue" {
			if r.DeletionPolicy != "RetainExceptOnCreate" {
				t.Errorf("%s: %s", name, r.DeletionPolicy)
			}
		}
	}
}

// follows checks that each step of a machine leads to one that is there, and that none is left out.
func follows(t *testing.T, name string, machine map[string]any) {
	t.Helper()
	states := machine["States"].(map[string]any)
	met := map[string]bool{}
	var visit func(any)
	visit = func(next any) {
		step, _ := next.(string)
		state, there := states[step].(map[string]any)
		if !there {
			t.Errorf("%s: there is no step %q", name, next)
		}
		if !there || met[step] {
			return
		}
		met[step] = true
		switch {
		case state["Next"] != nil:
			visit(state["Next"])
		case state["Type"] == "Choice":
			visit(state["Default"])
		case state["End"] != true && state["Type"] != "Fail" && state["Type"] != "Succeed":
			t.Errorf("%s: nothing follows on %q", name, step)
		}
		for _, key := range []string{"Catch", "Choices"} {
			branches, _ := state[key].([]any)
			for _, branch := range branches {
				visit(at(branch, "Next"))
			}
		}
	}
	visit(machine["StartAt"])
	if len(met) != len(states) {
		t.Errorf("%s: of %d steps %d can be reached", name, len(states), len(met))
	}
}

// readJSON reads a file with an object.
func readJSON(t *testing.T, path string) (v map[string]any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		t.Fatal(path, err)
	}
	return v
}

// stateMachine reads the template's state machine.
func stateMachine(t *testing.T) map[string]any {
	t.Helper()
	return readJSON(t, "../deploy/aws/statemachine.asl.json")
}

// TestTheWorkMayBeOfAnotherKind puts each example in the place of the work step, and lets the
// linter look at the state machine with it.
func TestTheWorkMayBeOfAnotherKind(t *testing.T) {
	t.Parallel()
	examples, err := filepath.Glob("../deploy/aws/examples/*.asl.json")
	if err != nil || len(examples) != 2 {
		t.Fatal(examples, err)
	}
	for _, example := range examples {
		machine := stateMachine(t)
		states := machine["States"].(map[string]any)
		for name, state := range readJSON(t, example) {
			result := cmp.Or(at(state, "ResultSelector", "result"), at(state, "ResultSelector", "result.$"))
			if _, there := states[name]; !there || at(state, "ResultPath") != "$" || result == nil {
				t.Errorf("%s: %s is no step of the machine, or its result lies elsewhere", example, name)
			}
			if limit, whole := at(state, "TimeoutSeconds").(float64), machine["TimeoutSeconds"].(float64); limit >= whole {
				t.Errorf("%s: the step may take %v seconds of %v", example, limit, whole)
			}
			states[name] = state
		}
		follows(t, example, machine)
		lint(t, example, machine)
	}
}

// lint lets CloudFormation's linter look at a state machine.
func lint(t *testing.T, name string, machine map[string]any) {
	t.Helper()
	properties := map[string]any{
		"RoleArn": "arn:aws:iam::123456789012:role/r", "Definition": machine, "DefinitionSubstitutions": map[string]any{
			"CallbackFunctionArn": "arn:aws:lambda:eu-central-1:123456789012:function:c", "WorkFunctionArn": "w",
			"WorkQueueUrl": "https://q", "WorkStateMachineArn": "arn:aws:states:eu-central-1:123456789012:stateMachine:w",
		},
	}
	text, err := json.Marshal(map[string]any{"Resources": map[string]any{
		"Machine": map[string]any{"Type": "AWS::StepFunctions::StateMachine", "Properties": properties},
	}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "template.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("../.tools/aws/bin/cfn-lint", file).CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", name, err, out)
	}
}

// TestAPermanentErrorIsNotRepeated looks at each step that calls the callback.
func TestAPermanentErrorIsNotRepeated(t *testing.T) {
	machine := stateMachine(t)
	follows(t, "the state machine", machine)
	calls := 0
	for name, state := range machine["States"].(map[string]any) {
		if at(state, "Resource") != "${CallbackFunctionArn}" {
			continue
		}
		calls++
		first := at(state, "Retry", 0)
		if !slices.Equal(list(at(first, "ErrorEquals")), []string{onaws.ErrorPermanent}) || at(first, "MaxAttempts") != 0.0 || at(state, "Retry", 1) == nil {
			t.Errorf("%s repeats a permanent error: %v", name, first)
		}
	}
	if calls != 2 {
		t.Errorf("%d steps call the callback, want 2", calls)
	}
}
