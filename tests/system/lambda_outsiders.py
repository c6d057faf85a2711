"""What others say of the stand-in for AWS Lambda: AWS's own client (boto3) invokes, AWS's own runtime client (awslambdaric) answers.

usage: lambda_outsiders.py ENDPOINT ACCESS_KEY SECRET_KEY SESSION_TOKEN REGION

Run by gnn_engines.py in a Python that has both; the function there is `handler` below. Ends with 0 if all is as AWS has it.
"""
import json
import sys
import time


def handler(event, context):
    """The function."""
    if event.get("what") == "fail":
        raise ValueError("as was asked")
    if event.get("what") == "sleep":
        time.sleep(60)
    return {"event": event, "function": context.function_name, "left_ms": context.get_remaining_time_in_millis(),
            "id": context.aws_request_id}


def main(endpoint, access, secret, token, region):
    import boto3  # pylint: disable=import-outside-toplevel
    from botocore.config import Config  # pylint: disable=import-outside-toplevel
    from botocore.exceptions import ClientError  # pylint: disable=import-outside-toplevel

    def client(secret_key=secret):
        return boto3.client("lambda", endpoint_url=endpoint, region_name=region, aws_access_key_id=access,
                            aws_secret_access_key=secret_key, aws_session_token=token,
                            config=Config(retries={"max_attempts": 0}, read_timeout=30))

    def invoke(event, **more):
        reply = client().invoke(**{"FunctionName": "worker", "Payload": json.dumps(event).encode(), **more})
        return reply, json.loads(reply["Payload"].read() or b"null")

    def refused(code, call):
        try:
            call()
        except ClientError as error:
            assert error.response["Error"]["Code"] == code, error.response
        else:
            raise AssertionError(f"no {code}")

    for number in range(3):
        reply, answer = invoke({"number": number})
        assert reply["StatusCode"] == 200 and "FunctionError" not in reply, reply
        assert answer["event"] == {"number": number} and answer["function"] == "worker" and answer["left_ms"] > 0, answer
    invoke({}, Qualifier="$LATEST")
    reply, answer = invoke({}, InvocationType="DryRun")
    assert reply["StatusCode"] == 204 and answer is None, reply
    reply, answer = invoke({"what": "fail"})
    assert reply["FunctionError"] == "Unhandled" and answer["errorType"] == "ValueError", (reply, answer)
    reply, answer = invoke({"what": "sleep"})
    assert reply["FunctionError"] == "Unhandled" and "timed out" in answer["errorMessage"], (reply, answer)
    refused("ResourceNotFoundException", lambda: invoke({}, FunctionName="other"))
    refused("RequestTooLargeException", lambda: invoke({"long": "x" * (6 << 20)}))
    refused("InvalidSignatureException", lambda: client("another").invoke(FunctionName="worker", Payload=b"{}"))
    print("ok")


if __name__ == "__main__":
    main(*sys.argv[1:])
