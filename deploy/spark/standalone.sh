#!/usr/bin/env bash
# A Spark cluster on this machine, from the pyspark package alone: a master and a worker, until Ctrl-C.
#   deploy/spark/standalone.sh
#   penstock replay FILE --master spark://127.0.0.1:7077 --out DIR
# It listens on 127.0.0.1 only. PYTHON, CORES and MEMORY (of the worker) may be set.
set -euo pipefail
spark=$("${PYTHON:-python3}" -c 'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent)')
work=$(mktemp -d)
export SPARK_LOCAL_IP=127.0.0.1 SPARK_MASTER_WEBUI_PORT=0 SPARK_WORKER_WEBUI_PORT=0
trap 'kill $(jobs -p) 2> "$work/kill"; wait; rm -rf "$work"' EXIT
trap 'exit 0' INT TERM
"$spark/bin/spark-class" org.apache.spark.deploy.master.Master --host 127.0.0.1 --port 7077 &
"$spark/bin/spark-class" org.apache.spark.deploy.worker.Worker --host 127.0.0.1 --work-dir "$work" \
  --cores "${CORES:-2}" --memory "${MEMORY:-2g}" spark://127.0.0.1:7077 &
wait -n
