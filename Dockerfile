# syntax=docker/dockerfile:1

# DuckDB's library is linked in statically but needs glibc and libstdc++, so the
# base of the image is distroless "cc", which holds just these, certificates and
# time zones. musl does not work.
ARG BUILDER=golang:1.26-bookworm
ARG RUNTIME=gcr.io/distroless/cc-debian12:nonroot

FROM ${BUILDER} AS build
WORKDIR /src
# `go build` fetches the DuckDB library of its own platform only; `go mod download`
# would fetch those of all five.
COPY . .
ARG VERSION=dev
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=1 go build -trimpath -tags duckdb_arrow -buildvcs=false \
    -ldflags "-s -w -X main.release=${VERSION}" -o /out/outlierd ./cmd/outlierd \
    && mkdir /out/data

FROM ${RUNTIME}
# What a registry and a scanner show. The build passes what it knows; see .github/workflows/image.yml.
ARG RUNTIME
ARG VERSION=dev
ARG REVISION=
ARG CREATED=
ARG SOURCE=
LABEL org.opencontainers.image.title="outlierd" \
      org.opencontainers.image.description="Buys outlier-video data on a schedule, within a budget, into DuckDB and Parquet" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.url="${SOURCE}" \
      org.opencontainers.image.documentation="${SOURCE:+${SOURCE}/blob/main/docs/README.md}" \
      org.opencontainers.image.base.name="${RUNTIME}"
COPY --from=build /out/outlierd /usr/local/bin/outlierd
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
