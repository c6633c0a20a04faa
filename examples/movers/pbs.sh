#!/bin/sh
#PBS -q dtn
#PBS -l walltime=12:00:00
#PBS -N run42
#PBS -r y
#PBS -j oe
#PBS -l select=1:ncpus=1
#PBS -l place=scatter:excl
#PBS -J 0-7
#PBS -S /bin/sh

# Any mover takes any shard, so a subjob that is lost or late holds nothing up. The token is in a file that only its
# owner can read: nothing secret is in this script, on a command line or in the environment.
exec /usr/local/bin/tidegate mover --service https://head.example:7118 --token-file /home/me/.tidegate/run42.token
