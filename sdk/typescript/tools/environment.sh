# Sets `environment`, the folder with the tools and libraries of development, and installs them there.
# A2S_SDK_ENV names another folder. Run it in sdk/typescript.
environment="${A2S_SDK_ENV:-../../target/sdk-typescript}"
mkdir -p "$environment"
environment="$(cd "$environment" && pwd)"
if ! cmp -s package-lock.json "$environment/package-lock.json" || [ ! -e "$environment/complete" ]; then
    rm -f "$environment/complete"
    cp package.json package-lock.json .npmrc "$environment"
    (cd "$environment" && npm ci --no-audit --no-fund --loglevel=error > /dev/null)
    touch "$environment/complete"
fi
ln -sfn "$environment/node_modules" node_modules
# The packages find each other as if they were installed.
mkdir -p "$environment/node_modules/@a2s"
ln -sfn "$PWD" "$environment/node_modules/@a2s/core"
for adapter in adapters/*; do
    ln -sfn "$PWD/$adapter" "$environment/node_modules/@a2s/$(basename "$adapter")"
done

# Compiles the packages.
build() {
    rm -rf dist adapters/*/dist build
    npx tsc --project .
    for adapter in adapters/*; do npx tsc --project "$adapter" & done
    wait
}
