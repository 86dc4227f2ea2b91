# docker run --rm highwater advise --bootstrap b1:9092
# Without a registry, name an image that Docker has: --build-arg BASE=…
ARG BASE=python:3.12-slim
FROM ${BASE}

# A layer with all that Highwater needs: it stays while only Highwater changes.
WORKDIR /opt/highwater
COPY pyproject.toml constraints.txt README.md LICENSE tools/stored_wheels.cfg ./
RUN export DIST_EXTRA_CONFIG="$PWD/stored_wheels.cfg" \
 && mkdir highwater \
 && echo '__version__ = "0"' > highwater/__init__.py \
 && pip install --no-cache-dir --constraint constraints.txt '.[run]' \
 && pip uninstall --yes highwater-kafka \
 && useradd --create-home --uid 1000 highwater
COPY . .
RUN pip install --no-cache-dir --no-deps .

USER 1000
WORKDIR /home/highwater
COPY --chown=1000:1000 docs/examples examples
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
