# Installs what the scripts need into a folder that is never committed, once for each list of packages.
# Sets `environment`, the folder, and `python`, its interpreter. The working folder is that of the SDK.
environment="${A2S_SDK_ENV:-../../target/sdk-python}"
mkdir -p "$environment"
environment="$(cd "$environment" && pwd)"
python="$environment/env/bin/python"
packages="$(cat requirements.txt constraints.txt | cksum)"
if [ "$(cat "$environment/installed" 2> /dev/null)" != "$packages" ]; then
    python3 -m venv --clear "$environment/env"
    "$python" -m pip install --quiet --disable-pip-version-check -r requirements.txt -c constraints.txt
    echo "$packages" > "$environment/installed"
fi
