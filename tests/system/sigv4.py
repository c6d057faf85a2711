"""What a service of AWS says of the signature of a request, for its stand-ins.

docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html
"""
import calendar
import hashlib
import hmac
import re
import time
import urllib.parse

AUTHORIZATION = re.compile(r"AWS4-HMAC-SHA256 Credential=([^/]+)/([^,]+), ?SignedHeaders=([^,]+), ?Signature=([0-9a-f]{64})")


def keyed(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def signature_of(method, target, headers, signed, body, stamp, scope, secret):
    """What a request with these headers (lower case) is signed with."""
    path, _, query = target.partition("?")
    pairs = sorted(tuple(urllib.parse.quote(urllib.parse.unquote(part), safe="-_.~") for part in (pair + "=").split("=")[:2])
                   for pair in query.split("&") if pair)
    once = scope.split("/")[2] == "s3"  # a path is escaped once there, and twice elsewhere
    canonical = "\n".join([method, path if once else urllib.parse.quote(path, safe="/~-_."),
                           "&".join(f"{name}={value}" for name, value in pairs),
                           *(f"{name}:{' '.join(headers[name].split())}" for name in signed), "", ";".join(signed),
                           hashlib.sha256(body).hexdigest()])
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = ("AWS4" + secret).encode()
    for part in scope.split("/"):
        key = keyed(key, part)
    return keyed(key, text).hex()


def wrong_with(method, target, headers, body, service, valid, expired=(), session=True):
    """None, or what AWS would say. service: region and name; valid: secrets and tokens by id; expired: ids of others."""
    headers = {name.lower(): value for name, value in headers.items()}
    match = AUTHORIZATION.fullmatch(headers.get("authorization", ""))
    if not match:
        return 403, "MissingAuthenticationTokenException", "Missing Authentication Token"
    access, scope, names, got = match.groups()
    signed, stamp = names.split(";"), headers.get("x-amz-date", "")
    must = ["host", "x-amz-date", *(["x-amz-security-token"] if session else []),
            *(["x-amz-content-sha256"] if service[1] == "s3" else [])]
    if access in expired:
        return 403, "ExpiredTokenException", "The security token included in the request is expired"
    secret, token = valid.get(access, (None, None))
    if not secret or (session and headers.get("x-amz-security-token") != token):
        return 403, "UnrecognizedClientException", "The security token included in the request is invalid."
    if scope != f"{stamp[:8]}/{'/'.join(service)}/aws4_request" or signed != sorted(signed) or not set(must) <= set(signed):
        return 403, "InvalidSignatureException", f"Credential should be scoped to a valid region: {scope} {names}"
    if abs(calendar.timegm(time.strptime(stamp, "%Y%m%dT%H%M%SZ")) - time.time()) > 300:
        return 403, "InvalidSignatureException", "Signature expired"
    if not hmac.compare_digest(got, signature_of(method, target, headers, signed, body, stamp, scope, secret)):
        return 403, "InvalidSignatureException", "The request signature we calculated does not match the signature you provided."
    return None
