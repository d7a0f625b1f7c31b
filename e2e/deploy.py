"""Deploy the template to a stack, as "sam deploy" would: upload what it names, then create or update through a change set.

    python deploy.py ENDPOINT REGION STACK ROOT CLOCK [NAME=VALUE...]

prints the stack's outputs as JSON. The template is that of deploy/aws with changes that only a test makes: the clock of the functions, a shorter
timeout of the work step, fewer tries of the charge, which are over after some eight minutes, and one number that the emulator does not read from a parameter.
"""

import json
import pathlib
import re
import sys

import boto3


def client(service):
    return boto3.client(service, endpoint_url=endpoint, region_name=region, aws_access_key_id="test", aws_secret_access_key="test")


endpoint, region, stack, root, clock, *parameters = sys.argv[1:]
aws = pathlib.Path(root) / "deploy" / "aws"
bucket = "artifacts"

s3 = client("s3")
try:
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": region})
except s3.exceptions.BucketAlreadyOwnedByYou:
    pass


def upload(match):
    path = (aws / match[2]).resolve()
    body = path.read_bytes()
    if path.name.endswith(".asl.json"):
        changed = body.replace(b'"TimeoutSeconds": 900', b'"TimeoutSeconds": 15')
        assert changed != body, "the work step has no timeout to shorten"
        body = changed.replace(b'"MaxAttempts": 50', b'"MaxAttempts": 12')
        assert changed != body, "the charge step has no tries to take away"
    key = f"{stack}/{path.name}"
    s3.put_object(Bucket=bucket, Key=key, Body=body)
    return f"{match[1]}s3://{bucket}/{key}"


template = (aws / "template.yaml").read_text()
template = re.sub(r"((?:CodeUri|DefinitionUri): )(\S+)", upload, template)
# Not for the work step: the emulator ends work under way when its function is changed, which AWS does not.
template, n = re.subn(
    r"( +)CodeUri: \S+/lambda-(?:consumer|callback|reconcile)\.zip\n",
    lambda m: f'{m[0]}{m[1]}Environment: {{Variables: {{HEADROOM_TEST_CLOCK: "{clock}"}}}}\n',
    template,
)
assert n == 3, "the template has other functions than those that need the clock"
# CloudFormation makes a number of a parameter of that type, the emulator leaves it a text, which its poller cannot compare.
template, n = re.subn(r"MaximumConcurrency: !Ref MaximumConcurrency", "MaximumConcurrency: 10", template)
assert n == 1, "the consumer's concurrency is no parameter"
s3.put_object(Bucket=bucket, Key=f"{stack}/template.yaml", Body=template.encode())

cloudformation = client("cloudformation")
try:
    cloudformation.describe_stacks(StackName=stack)
    kind = "UPDATE"
except cloudformation.exceptions.ClientError:
    kind = "CREATE"
name = "change-" + re.sub("[^0-9]", "", clock)
cloudformation.create_change_set(
    StackName=stack,
    ChangeSetName=name,
    ChangeSetType=kind,
    TemplateBody=template,
    Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
    Parameters=[dict(zip(("ParameterKey", "ParameterValue"), p.split("=", 1))) for p in parameters],
)
wait = {"Delay": 1, "MaxAttempts": 120}
cloudformation.get_waiter("change_set_create_complete").wait(StackName=stack, ChangeSetName=name, WaiterConfig=wait)
cloudformation.execute_change_set(StackName=stack, ChangeSetName=name)
try:
    cloudformation.get_waiter(f"stack_{kind.lower()}_complete").wait(StackName=stack, WaiterConfig=wait)
except Exception:
    for e in cloudformation.describe_stack_events(StackName=stack)["StackEvents"]:
        if "FAILED" in e["ResourceStatus"]:
            print(e["LogicalResourceId"], e.get("ResourceStatusReason"), file=sys.stderr)
    raise
outputs = cloudformation.describe_stacks(StackName=stack)["Stacks"][0]["Outputs"]
print(json.dumps({o["OutputKey"]: o["OutputValue"] for o in outputs}))
