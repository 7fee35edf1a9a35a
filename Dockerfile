# syntax=docker/dockerfile:1

# DuckDB's library and that of C++ are linked in statically but need glibc, so the base of
# the image is distroless "base-nossl", which holds just that, certificates and time zones.
# musl does not work.
ARG BUILDER=golang:1.26-bookworm
ARG RUNTIME=gcr.io/distroless/base-nossl-debian12:nonroot

FROM ${BUILDER} AS build
WORKDIR /src
# `go build` fetches the DuckDB library of its own platform only; `go mod download`
# would fetch those of all five.
COPY . .
ARG VERSION=dev
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    mkdir -p /out/data && VERSION=${VERSION} .ci/build /out/outlierd

FROM ${RUNTIME}
# What a registry and a scanner show. The build passes what it knows; see .github/workflows/image.yml.
ARG RUNTIME
ARG VERSION=dev
ARG REVISION=
ARG CREATED=
ARG SOURCE=
LABEL org.opencontainers.image.title="outlierd" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.description="Buys outlier-video data on a schedule, within a budget, into DuckDB and Parquet" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.url="${SOURCE}" \
      org.opencontainers.image.documentation="${SOURCE:+${SOURCE}/blob/main/docs/README.md}" \
      org.opencontainers.image.base.name="${RUNTIME}"
COPY --from=build /out/outlierd /usr/local/bin/outlierd
COPY LICENSE NOTICE THIRD_PARTY.md /usr/share/doc/outlierd/
# The job file is mounted at /data/jobs.yaml; everything is written beside it, and nothing
# anywhere else: the root file system may be read-only.
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
WORKDIR /data
VOLUME /data
ENV OUTLIERD_CONFIG=/data/jobs.yaml
STOPSIGNAL SIGTERM
# A start after a power failure may check a large state first, which takes minutes.
HEALTHCHECK --interval=60s --timeout=5s --start-period=10m --retries=3 CMD ["/usr/local/bin/outlierd", "health"]
ENTRYPOINT ["/usr/local/bin/outlierd"]
CMD ["up"]
