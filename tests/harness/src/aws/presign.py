"""Signs a question to STS as `aws eks get-token` does, with botocore's signer.

Arguments: the region, the cluster's name, an access key's id and its secret.
The signed address comes out, and when it was signed in seconds since 1970.
"""

import datetime
import sys
import urllib.parse

import botocore.credentials
import botocore.hooks
import botocore.model
import botocore.signers


def main(region, cluster, key_id, key):
    # The signer itself holds it weakly.
    events = botocore.hooks.HierarchicalEmitter()
    signer = botocore.signers.RequestSigner(
        botocore.model.ServiceId("sts"),
        region,
        "sts",
        "v4",
        botocore.credentials.Credentials(key_id, key),
        events,
    )
    request = {
        "method": "GET",
        "url": f"https://sts.{region}.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15",
        "body": {},
        "headers": {"x-k8s-aws-id": cluster},
        "context": {},
    }
    url = signer.generate_presigned_url(request, region_name=region, expires_in=900, operation_name="")
    signed = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)["X-Amz-Date"][0]
    time = datetime.datetime.strptime(signed, "%Y%m%dT%H%M%S%z")
    print(url, int(time.timestamp()))


main(*sys.argv[1:])
