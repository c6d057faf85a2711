"""A real server of S3 for a test: Ceph's radosgw, with one monitor and one OSD in memory, in a PID namespace of their own.

Debian's packages radosgw, ceph-mon, ceph-osd, ceph-mgr and ceph-common; for root. Where they are missing, Unavailable says so.
"""
import os
import shutil
import socket
import subprocess

ACCESS_KEY, SECRET_KEY, REGION, BUCKET = "AKIDRADOSGW", "secret+of/radosgw", "us-east-1", "bucket-of-tests"

CLUSTER, OSD = "7b5d3a52-3c1d-4f0e-9a43-2f0b6d6f7a10", "1f0c7a94-5f1e-4c53-8d4f-6a8e0b7b5c21"

CONFIG = """[global]
fsid = {fsid}
mon host = [v1:127.0.0.1:{mon}]
auth cluster required = none
auth service required = none
auth client required = none
run dir = {folder}/run
log file = {folder}/log/$name.log
admin socket = {folder}/run/$name.asok
osd pool default size = 1
osd pool default min size = 1
osd crush chooseleaf type = 0
osd pool default pg num = 4
osd pool default pgp num = 4
mon allow pool size one = true
mon max pg per osd = 1000
[mon.a]
mon data = {folder}/mon
[osd.0]
osd data = {folder}/osd
osd objectstore = memstore
memstore device bytes = 2147483648
[mgr.x]
mgr data = {folder}/mgr
[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:{port}
"""

# The id of the OSD, which it writes into its folder, must be the one that the monitor expects. A client of Ceph may send its first
# command before it has been told which cluster it is in (the monitor says EPERM: "handle_command on fsid 0", "wrong fsid"), the OSD itself, too;
# to ask again for the same OSD changes nothing.
SCRIPT = """set -e
cd "$1"
mkdir mon osd mgr run log
own="--setuser root --setgroup root"
monmaptool --create --fsid $2 --addv a "[v1:127.0.0.1:$3]" monmap
ceph-mon -c ceph.conf --mkfs -i a --monmap monmap $own
ceph-mon -c ceph.conf -i a $own
ceph-osd -c ceph.conf -i 0 --mkfs --osd-uuid "$9" $own
timeout 60 sh -c 'until ceph -c ceph.conf osd new "$1" 0; do sleep 0.1; done' sh "$9"
timeout 60 sh -c 'until ceph-osd -c ceph.conf -i 0 $0; do sleep 0.1; done' "$own"
ceph-mgr -c ceph.conf -i x $own
timeout 120 radosgw-admin -c ceph.conf -n client.rgw user create --uid=t --display-name=t "--access-key=$5" "--secret-key=$6"
radosgw -c ceph.conf -n client.rgw $own
until curl -s "http://127.0.0.1:$4/" >/dev/null; do sleep 0.1; done
curl -s -f -X PUT --aws-sigv4 "aws:amz:$7:s3" --user "$5:$6" -H "x-amz-content-sha256: UNSIGNED-PAYLOAD" "http://127.0.0.1:$4/$8"
echo ready
cat >/dev/null
"""


class Unavailable(Exception):
    """There is no such server here."""


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Radosgw:
    """Serves BUCKET until `close`."""

    def __init__(self, folder):
        missing = [name for name in ("radosgw", "radosgw-admin", "ceph-mon", "ceph-osd", "ceph-mgr", "ceph", "curl") if not shutil.which(name)]
        if missing or os.geteuid() != 0:
            raise Unavailable(f"{missing[0]} is not installed" if missing else "not root")
        os.mkdir(folder)
        mon, port = free_port(), free_port()
        with open(os.path.join(folder, "ceph.conf"), "w", encoding="ascii") as file:
            file.write(CONFIG.format(fsid=CLUSTER, mon=mon, port=port, folder=folder))
        with open(os.path.join(folder, "up.log"), "wb") as log:
            self.process = subprocess.Popen(
                ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", SCRIPT, "sh", folder, CLUSTER, str(mon), str(port),
                 ACCESS_KEY, SECRET_KEY, REGION, BUCKET, OSD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        self.endpoint = f"http://127.0.0.1:{port}"
        if not any(line == "ready\n" for line in self.process.stdout):
            self.close()
            with open(os.path.join(folder, "up.log"), encoding="utf-8", errors="replace") as file:
                raise RuntimeError(f"radosgw does not begin: {file.read()[-500:]}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
