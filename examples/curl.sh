#!/usr/bin/env bash
# Ask the gateway with curl and show its headers: a miss, an exact hit, no-cache, no-store, a stream.
#   KEY=csk_… examples/curl.sh            (KEY: a tenant key, or the upstream's own key; empty = none)
set -euo pipefail
gateway=${GATEWAY:-http://127.0.0.1:8080}
model=${MODEL:-demo-small}
question=${1:-How long does delivery take?}

ask() { # ask TITLE JSON-EXTRA [curl options]
  local title=$1 extra=$2
  shift 2
  echo "== $title"
  local body
  body=$(mktemp)
  if ! curl --silent --show-error --fail-with-body --dump-header - --output "$body" "$@" \
    ${KEY:+--header "Authorization: Bearer $KEY"} \
    --header 'Content-Type: application/json' \
    --header 'Cachescope-Namespace: examples' \
    --data "{\"model\": \"$model\", \"messages\": [{\"role\": \"user\", \"content\": \"$question\"}]$extra}" \
    "$gateway/v1/chat/completions" | grep -i -E '^(HTTP|cache-status|cachescope-|age|content-type)'; then
    cat "$body" >&2 # says what to do
    rm -f "$body"
    return 1
  fi
  rm -f "$body"
}

ask 'first' ''
ask 'again: served from the cache' ''
ask 'do not serve from the cache, but keep the answer' '' --header 'Cache-Control: no-cache'
ask 'do not keep the answer' ', "temperature": 0.3' --header 'Cache-Control: no-store'
ask 'as a stream' ', "stream": true'
ask 'another temperature is another key' ', "temperature": 0.2'
