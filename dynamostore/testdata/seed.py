"""The quota code that a table may have had before Headroom: two conditional updates, as they were published.

Usage: seed.py ENDPOINT. Reads lines of JSON from standard input:

    {"table": "users", "week": "2026-W22", "limit": 200, "writers": [[["subject", 5], ...], ...]}

Each writer is a thread that deducts its costs one after another. Answers each line with one of JSON, who was told what:

    [[true, ...], ...]
"""

import concurrent.futures
import json
import sys

import boto3
from botocore.exceptions import ClientError


def deduct_quota(client, table, user_id, cost, week_key, weekly_limit):
    # Tier 1: try to add to an existing, non-exhausted week.
    if update(
        client,
        TableName=table,
        Key={"userId": {"S": user_id}},
        UpdateExpression="ADD quotaCount :cost",
        ConditionExpression="quotaWeek = :week AND quotaCount <= :headroom",
        ExpressionAttributeValues={
            ":cost": {"N": str(cost)},
            ":week": {"S": week_key},
            ":headroom": {"N": str(weekly_limit - cost)},
        },
    ):
        return True  # deducted
    # Tier 2: try to start a fresh week. Without success it is the same week, and over the limit, or so this code thinks.
    return update(
        client,
        TableName=table,
        Key={"userId": {"S": user_id}},
        UpdateExpression="SET quotaWeek = :week, quotaCount = :cost",
        ConditionExpression="attribute_not_exists(quotaWeek) OR quotaWeek <> :week",
        ExpressionAttributeValues={":week": {"S": week_key}, ":cost": {"N": str(cost)}},
    )


def update(client, **request):
    try:
        client.update_item(**request)
        return True
    except ClientError as e:
        if e.response["Error"]["Code"] == "ConditionalCheckFailedException":
            return False
        raise


def main():
    client = boto3.client(
        "dynamodb",
        endpoint_url=sys.argv[1],
        region_name="eu-central-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    print("ready", flush=True)
    for line in sys.stdin:
        task = json.loads(line)

        def write(costs):
            return [deduct_quota(client, task["table"], user, cost, task["week"], task["limit"]) for user, cost in costs]

        with concurrent.futures.ThreadPoolExecutor(len(task["writers"])) as writers:
            print(json.dumps(list(writers.map(write, task["writers"]))), flush=True)


if __name__ == "__main__":
    main()
