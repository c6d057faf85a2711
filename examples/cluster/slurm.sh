#!/bin/sh
# Nodes of a training run of Culm on a preemptible Slurm partition: an array of jobs that know nothing of each other. One that is
# preempted is queued again by Slurm, and comes in as a newcomer; the run goes on meanwhile. Of the end of its time a job is told 40 seconds before, so that
# others can take over what it does (--grace); of a preemption, if the partition has a GraceTime.
#
#     CULM_STORE=etcd://192.0.2.1:2379 CULM_RUN=main CULM_TOKEN_FILE=$HOME/run.token CULM_DATA=$PWD sbatch --export=ALL examples/cluster/slurm.sh
#
#SBATCH --job-name=culm-node
#SBATCH --array=1-8
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=4
#SBATCH --signal=B:TERM@40

: "${CULM_STORE:?where the etcd is, as etcd://HOST:PORT}" "${CULM_RUN:?the name of the run}" "${CULM_TOKEN_FILE:?a file with its token}"
exec culm node --join "$CULM_STORE" --name "$CULM_RUN" --token-file "$CULM_TOKEN_FILE" --workers "${CULM_WORKERS:-1}" \
    --data-dir "${CULM_DATA:-$PWD}" --zone "${SLURM_TOPOLOGY_ADDR:-${SLURM_JOB_PARTITION:-slurm}}"
