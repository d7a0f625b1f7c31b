"""Expand the template as CloudFormation does: the SAM transform, then conditions and references under parameters.

    python transform.py TEMPLATE [NAME=VALUE...]

prints the template that is left as JSON. A reference to a resource stays as {"Ref": NAME} or "NAME.ATTRIBUTE".
"""

import json
import os
import re
import sys

os.environ.setdefault("AWS_DEFAULT_REGION", "eu-central-1")

from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse


class NoManagedPolicies:
    def load(self):
        return {}


path, *given = sys.argv[1:]
template = yaml_parse(open(path).read())
for resource in template["Resources"].values():
    for key in ("CodeUri", "DefinitionUri"):
        if key in resource.get("Properties", {}):
            resource["Properties"][key] = "s3://bucket/key"
parameters = {name: p.get("Default", "") for name, p in template["Parameters"].items()}
for pair in given:
    name, value = pair.split("=", 1)
    if name not in parameters:
        sys.exit(f"the template has no parameter {name}")
    parameters[name] = value
pseudo = {"AWS::Region": "eu-central-1", "AWS::AccountId": "123456789012", "AWS::Partition": "aws", "AWS::StackName": "stack"}
out = transform(template, {}, NoManagedPolicies())
nothing = object()


def condition(name):
    return resolve(out["Conditions"][name])


def substitute(text, local):
    def one(match):
        name = match[1]
        for known in (local, parameters, pseudo):
            if name in known:
                return str(known[name])
        return name
    return re.sub(r"\$\{([^}]+)\}", one, text)


def resolve(v):
    if isinstance(v, list):
        return [r for r in map(resolve, v) if r is not nothing]
    if not isinstance(v, dict):
        return v
    if len(v) == 1:
        (key, arg), = v.items()
        if key == "Ref":
            if arg == "AWS::NoValue":
                return nothing
            return parameters.get(arg, pseudo.get(arg, v))
        if key == "Condition" and isinstance(arg, str):
            return condition(arg)
        if key == "Fn::If":
            return resolve(arg[1] if condition(arg[0]) else arg[2])
        if key == "Fn::Equals":
            a, b = resolve(arg)
            return str(a) == str(b)
        if key == "Fn::Not":
            return not resolve(arg[0])
        if key == "Fn::And":
            return all(map(resolve, arg))
        if key == "Fn::Or":
            return any(map(resolve, arg))
        if key == "Fn::GetAtt":
            return ".".join(arg) if isinstance(arg, list) else arg
        if key == "Fn::Sub":
            text, local = (arg[0], resolve(arg[1])) if isinstance(arg, list) else (arg, {})
            return substitute(text, {k: x["Ref"] if isinstance(x, dict) else x for k, x in local.items()})
        if key == "Fn::Split":
            return resolve(arg[1]).split(arg[0])
        if key == "Fn::Select":
            return resolve(arg[1])[int(arg[0])]
    return {k: r for k, r in ((k, resolve(x)) for k, x in v.items()) if r is not nothing}


for part in ("Resources", "Outputs"):
    out[part] = {n: resolve({k: x for k, x in r.items() if k != "Condition"}) for n, r in out[part].items() if "Condition" not in r or condition(r["Condition"])}
print(json.dumps({"Resources": out["Resources"], "Outputs": out["Outputs"], "Parameters": list(parameters)}))
