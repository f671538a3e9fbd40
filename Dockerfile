# rindices in a container. Linted by hadolint in the gate.
#   docker build -t rindices .                                  (PyTorch as the registry has it, large)
#   docker build -t rindices --build-arg TORCH_INDEX=<the CPU index that PyTorch's install page names> .
#   docker run --rm -v "$PWD":/data rindices fit dlmuse.csv --participants participants.tsv --group diagnosis --out results
FROM python:3.11-slim-bookworm AS build
WORKDIR /source
RUN pip install --no-cache-dir build==1.6.1
COPY pyproject.toml README.md LICENSE CHANGELOG.md CITATION.cff ./
COPY src src
RUN python -m build --wheel --outdir /wheels

FROM python:3.11-slim-bookworm
ARG TORCH_INDEX=""
ENV OMP_NUM_THREADS=1 MPLCONFIGDIR=/tmp/matplotlib
COPY constraints.txt /tmp/constraints.txt
COPY --from=build /wheels /tmp/wheels
# what it takes for a package without version is the option for the index
# hadolint ignore=DL3013
RUN pip install --no-cache-dir ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch==2.13.0 \
    && pip install --no-cache-dir --constraint /tmp/constraints.txt /tmp/wheels/*.whl \
    && rm -rf /tmp/wheels /tmp/constraints.txt \
    && useradd --create-home --uid 1000 person
USER 1000
WORKDIR /data
ENTRYPOINT ["rindices"]
CMD ["--help"]
