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
# The linker takes libstdc++ from a folder that has the static one alone.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    mkdir -p /static /out/data && ln -s "$(g++ -print-file-name=libstdc++.a)" /static/ \
    && CGO_ENABLED=1 go build -trimpath -tags duckdb_arrow -buildvcs=false \
    -ldflags "-s -w -X outlierd/cmd/outlierd/command.release=${VERSION} -extldflags '-L/static -static-libgcc -Wl,--gc-sections'" \
    -o /out/outlierd ./cmd/outlierd

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
