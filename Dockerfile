# rindices in a container. Linted by hadolint in the gate.
#   docker build -t rindices .
#   docker build -t rindices --build-arg TORCH_INDEX=<the index that PyTorch's install page names> .   (for method surreal-gan)
#   docker run --rm -v "$PWD":/data rindices fit dlmuse.csv --participants participants.tsv --group diagnosis --out results
# The base is named by its tag: its digest is not known where this file is kept. To fix it, ask the registry
# (docker buildx imagetools inspect python:3.11-slim-bookworm) and write python:3.11-slim-bookworm@sha256:... in both lines.
FROM python:3.11-slim-bookworm AS build
WORKDIR /source
COPY constraints.txt constraints-hashes.txt ./
# every package but PyTorch is one of the files whose hashes are known
RUN pip wheel --no-cache-dir --require-hashes --no-deps --wheel-dir /wheels --requirement constraints-hashes.txt \
    && pip install --no-cache-dir --no-index --find-links /wheels build==1.6.1 hatchling==1.33.0 \
    && cp constraints.txt /wheels
COPY pyproject.toml README.md LICENSE CHANGELOG.md CITATION.cff ./
COPY src src
RUN python -m build --wheel --no-isolation --outdir /wheels

FROM python:3.11-slim-bookworm
ARG TORCH_INDEX=""
ENV OMP_NUM_THREADS=1 MPLCONFIGDIR=/tmp/matplotlib
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    if [ -n "$TORCH_INDEX" ]; then pip install --no-cache-dir --index-url "$TORCH_INDEX" torch==2.13.0; fi \
    && pip install --no-cache-dir --no-index --find-links /wheels --constraint /wheels/constraints.txt /wheels/rindices-*.whl \
    && useradd --create-home --uid 1000 person
USER 1000
WORKDIR /data
ENTRYPOINT ["rindices"]
CMD ["--help"]
