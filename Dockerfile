# syntax=docker/dockerfile:1
# One image for every service; the command says which one runs.
FROM rust:1.95-slim-bookworm AS build
ARG TARGETARCH
WORKDIR /src
COPY . .
# What was downloaded and compiled stays with the builder: a change of ours builds ours alone.
RUN --mount=type=cache,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,target=/src/target,id=a2s-target-$TARGETARCH,sharing=locked \
    cargo build --profile dist --locked --bin a2s \
    && cp target/dist/a2s /usr/local/bin/a2s

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install --no-install-recommends -y ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 a2s \
    && useradd --uid 10001 --gid a2s --create-home --home-dir /var/lib/a2s --shell /usr/sbin/nologin a2s
COPY LICENSE /usr/share/doc/a2s/
COPY --from=build /usr/local/bin/a2s /usr/local/bin/a2s
# By number, so that it can be seen that it is not root.
USER 10001:10001
ENV A2S_DATA_DIR=/var/lib/a2s
WORKDIR /var/lib/a2s
EXPOSE 8740
# Of what the command below starts; whoever starts another one sets A2S_URL to its address.
HEALTHCHECK --interval=10s --timeout=15s --start-period=5m --start-interval=1s CMD ["a2s", "ready"]
ENTRYPOINT ["a2s"]
CMD ["up", "--listen", "0.0.0.0:8740"]
# Last, as they change with every build.
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="A2S" \
    org.opencontainers.image.description="Publish capabilities, find them by intent, run them under a guardian's eyes" \
    org.opencontainers.image.licenses="MIT" \
    org.opencontainers.image.version="$VERSION" \
    org.opencontainers.image.revision="$REVISION"
