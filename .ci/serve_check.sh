#!/usr/bin/env bash
# From nothing to a picture on the page: a clone in an empty folder, `make serve`, an example.
set -euo pipefail
here="$(cd "$(dirname "$0")/.." && pwd)"
folder="$(mktemp -d)"
git clone --quiet "$here" "$folder/gibbsdiff"
cd "$folder/gibbsdiff"
setsid make serve 2>"$folder/said" &
server=$!
trap 'kill -- -$server 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
for _ in $(seq 900); do
  address="$(grep -o 'http://127.0.0.1:[0-9]*/' "$folder/said" || true)"
  [ -n "$address" ] && break
  kill -0 $server || { cat "$folder/said"; exit 1; }
  sleep 1
done
python3 - "$address" <<'PY'
import json, sys, time, urllib.request
base, tab = sys.argv[1], ""
def ask(method, path):
    request = urllib.request.Request(base + path, method=method, headers={"X-Gibbsdiff-Tab": tab})
    return urllib.request.urlopen(request).read()
tab = json.loads(ask("POST", "api/tab"))["tab"]
began = time.monotonic()
ask("POST", "api/examples?example=cat,%20blue%20noise")
while (job := json.loads(ask("GET", "api/state"))["jobs"][0])["state"] in ("waiting", "running"):
    time.sleep(0.2)
assert job["state"] == "done", job
name = job["files"][0]["name"]
picture = ask("GET", f"jobs/{job['id']}/files/{name}")
assert picture.startswith(b"\x89PNG")
print(f"{name}: {len(picture)} bytes, {time.monotonic() - began:.0f} s after the click")
PY
