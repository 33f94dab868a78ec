# One image for every service; the command says which one runs.
FROM rust:1.95-slim-bookworm AS build
RUN apt-get update && apt-get install --no-install-recommends -y gcc g++ libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo build --release --locked --bin a2s

FROM debian:bookworm-slim
RUN apt-get update && apt-get install --no-install-recommends -y ca-certificates && rm -rf /var/lib/apt/lists/* \
    && useradd --system --create-home --home-dir /var/lib/a2s a2s
COPY --from=build /src/target/release/a2s /usr/local/bin/a2s
USER a2s
ENV A2S_DATA_DIR=/var/lib/a2s
VOLUME /var/lib/a2s
ENTRYPOINT ["a2s"]
CMD ["up", "--listen", "0.0.0.0:8740"]
