"""A real Slurm for a test, on this machine alone: four nodes in a preemptible partition, and another partition whose jobs take them away; in a PID
namespace of its own.

Debian's packages slurmctld, slurmd, slurm-client and munge; for root. Where they are missing, Unavailable says so.
"""
import os
import shutil
import socket
import subprocess

from etcd import free_ports

NODES = 4
CONFIG = """ClusterName=culm
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,sched_min_interval=0,bf_interval=1,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
KillWait=2
SlurmdTimeout=30
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
{nodes}
PartitionName=spot Nodes=n[1-{count}] Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=0
PartitionName=ondemand Nodes=n[1-{count}] PriorityTier=10 PreemptMode=OFF
"""
NODE = "NodeName=n{0} NodeHostname={1} NodeAddr=127.0.0.1 Port={2} CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=512"
# Processes of jobs belong to the namespace, too: all of it ends with the test.
SCRIPT = """set -e
cd "$1"
mkdir state spool
for n in $(seq $2); do mkdir spool/n$n; done
dd if=/dev/urandom of=munge.key bs=128 count=1
chmod 600 munge.key
munged --force --socket="$1/munge.sock" --key-file="$1/munge.key" --pid-file="$1/munged.pid" --log-file="$1/munged.log" --seed-file="$1/munge.seed"
slurmctld -f "$1/slurm.conf" -c
for n in $(seq $2); do slurmd -N n$n -f "$1/slurm.conf"; done
until [ "$(timeout 5 sinfo -h -N -p spot -t idle | wc -l)" = $2 ]; do sleep 0.1; done
echo ready
cat >/dev/null
"""


class Unavailable(Exception):
    """There is no Slurm here."""


class Slurm:
    """Is up until `close`. Jobs are given by `run`."""

    def __init__(self, folder):
        missing = [name for name in ("slurmctld", "slurmd", "sbatch", "srun", "sinfo", "munged") if not shutil.which(name)]
        if missing or os.geteuid() != 0:
            raise Unavailable(f"{missing[0]} is not installed" if missing else "not root")
        os.mkdir(folder)
        host, ports = socket.gethostname().split(".")[0], free_ports(1 + NODES)
        with open(os.path.join(folder, "slurm.conf"), "w", encoding="ascii") as file:
            nodes = "\n".join(NODE.format(1 + number, host, port) for number, port in enumerate(ports[1:]))
            file.write(CONFIG.format(folder=folder, host=host, port=ports[0], nodes=nodes, count=NODES))
        self.folder, self.env = folder, {**os.environ, "SLURM_CONF": os.path.join(folder, "slurm.conf")}
        with open(os.path.join(folder, "up.log"), "wb") as log:
            self.process = subprocess.Popen(["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", SCRIPT, "sh", folder, str(NODES)],
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=self.env)
        if not any(line == "ready\n" for line in self.process.stdout):
            self.close()
            with open(os.path.join(folder, "up.log"), encoding="utf-8", errors="replace") as file:
                raise RuntimeError(f"Slurm does not begin: {file.read()[-500:]}")

    def run(self, *words, env=None, cwd=None):
        """What a command of Slurm prints."""
        ended = subprocess.run(["timeout", "30", *map(str, words)], capture_output=True, text=True, check=False, env={**self.env, **(env or {})}, cwd=cwd)
        if ended.returncode:
            raise RuntimeError(f"{words}: {ended.stderr}")
        return ended.stdout

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
