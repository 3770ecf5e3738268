"""The Lua scripts of the Redis tier. Each is atomic; each names its keys by prefix and exact name, never by pattern.

Layout, all under `cs1:`
  e:<key>        HASH  h head, v vector, b body, p partition, n namespace, i entry_id; with the entry's expiry
  p:<partition>  ZSET  key -> seq, of entries with a vector
  n:<namespace>  ZSET  key -> seq
  names          SET   namespaces that held entries
  seq            the last seq used
  l:<lease>      held:<owner>, done or void; expires in seconds
  control        HASH  r:<record> -> <version>:<value>, n:<namespace> -> 1 (had a record), t -> token

An index expires with the last of its entries, so one that nobody visits any more vanishes by itself. In one that is used, each
put looks at `_SAMPLE` random members and removes those whose entry is gone: at most about one in `_SAMPLE` members is dead.
Scans and catching up remove the dead ones they meet. A member is dead, too, when its key was stored again elsewhere.
  channel control     a message for each change of a record but a heartbeat

On a cluster each of these keys has a slot of its own, no hash tag binds any two: an operation is split in the order entry, then
indexes. An entry without its index is still found by its key, an index member without its entry is removed when met. Instead
of `seq` each index counts for itself.
"""

from __future__ import annotations

PREFIX = "cs1:"
CONTROL = f"{PREFIX}control"
_SAMPLE = 5

# KEYS: entry, partition index, namespace index, names, seq.
# ARGV: key, partition, namespace, ttl_ms, head, vector, body, entry_id.
# Returns whether it replaced one.
PUT = f"""
local function dead(key, field, name)
  return redis.call('HGET', '{PREFIX}e:' .. key, field) ~= name
end
local function index(zset, field, name, seq, ttl)
  redis.call('ZADD', zset, seq, ARGV[1])
  local left = redis.call('PTTL', zset)
  if left < ttl then redis.call('PEXPIRE', zset, ttl) end
  for _, key in ipairs(redis.call('ZRANDMEMBER', zset, {_SAMPLE})) do
    if dead(key, field, name) then redis.call('ZREM', zset, key) end
  end
end
if redis.call('EXISTS', KEYS[5]) == 0 then
  local time = redis.call('TIME')
  redis.call('SET', KEYS[5], string.format('%.0f', time[1] * 2097152 + time[2] * 2))
end
local seq = string.format('%.0f', redis.call('INCR', KEYS[5]))
local ttl = tonumber(ARGV[4])
local old = redis.call('HMGET', KEYS[1], 'p', 'n')
if old[1] then redis.call('ZREM', '{PREFIX}p:' .. old[1], ARGV[1]) end
if old[2] and old[2] ~= ARGV[3] then redis.call('ZREM', '{PREFIX}n:' .. old[2], ARGV[1]) end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'h', ARGV[5], 'v', ARGV[6], 'b', ARGV[7], 'p', ARGV[2], 'n', ARGV[3], 'i', ARGV[8])
redis.call('PEXPIRE', KEYS[1], ttl)
if #ARGV[6] > 0 then index(KEYS[2], 'p', ARGV[2], seq, ttl) end
index(KEYS[3], 'n', ARGV[3], seq, ttl)
redis.call('SADD', KEYS[4], ARGV[3])
return old[1] and 1 or 0
"""

# ARGV: key, entry_id, key, entry_id, ... (`*` = whatever its id is).
# Returns the heads of those that were there (their expiry is the caller's to judge).
DELETE = f"""
local heads = {{}}
for at = 1, #ARGV, 2 do
  local key, id = ARGV[at], ARGV[at + 1]
  local entry = '{PREFIX}e:' .. key
  local old = redis.call('HMGET', entry, 'p', 'n', 'h', 'i')
  if old[1] and (id == '*' or id == old[4]) then
    redis.call('ZREM', '{PREFIX}p:' .. old[1], key)
    redis.call('ZREM', '{PREFIX}n:' .. old[2], key)
    redis.call('UNLINK', entry)
    heads[#heads + 1] = old[3]
  end
end
return heads
"""

# KEYS: index. ARGV: cursor, limit, field that must equal the name (p or n), name, field to return beside the head ('' = none).
# Returns [cursor of the last member met, number of members met, head, other, head, other, ...].
SINCE = f"""
local met = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ARGV[1], '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[2])
local out = {{ARGV[1], #met / 2}}
for i = 1, #met, 2 do
  local entry = redis.call('HMGET', '{PREFIX}e:' .. met[i], ARGV[3], 'h', ARGV[5])
  if entry[1] == ARGV[4] then
    out[#out + 1] = entry[2]
    out[#out + 1] = entry[3] or ''
  else
    redis.call('ZREM', KEYS[1], met[i])
  end
  out[1] = met[i + 1]
end
return out
"""

# KEYS: names, control. Returns the namespaces that hold entries or had a record.
NAMESPACES = f"""
local out = {{}}
for _, name in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  if redis.call('EXISTS', '{PREFIX}n:' .. name) == 1 then out[#out + 1] = name
  else redis.call('SREM', KEYS[1], name) end
end
for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
  if string.sub(field, 1, 2) == 'n:' then out[#out + 1] = string.sub(field, 3) end
end
return out
"""

# Before a script over control records: a server whose memory is full runs it all the same (Redis 7; 6.2 does not know the line).
WHEN_FULL = "#!lua flags=allow-oom\n"

# KEYS: control.
# ARGV: record, value, expected version ('' = any), token step (0 = leave it), token start, namespace field ('' = none).
# Returns the new version, or 0 when the version was another.
CONTROL_PUT = """
local field = 'r:' .. ARGV[1]
local version = 0
local old = redis.call('HGET', KEYS[1], field)
if old then version = tonumber(string.match(old, '^%d+')) end
if ARGV[3] ~= '' and tonumber(ARGV[3]) ~= version then return 0 end
redis.call('HSET', KEYS[1], field, string.format('%.0f', version + 1) .. ':' .. ARGV[2])
if ARGV[6] ~= '' then redis.call('HSET', KEYS[1], ARGV[6], '1') end
redis.call('HSETNX', KEYS[1], 't', ARGV[5])
if ARGV[4] ~= '0' then
  redis.call('HINCRBY', KEYS[1], 't', ARGV[4])
  redis.call('PUBLISH', KEYS[1], '')
end
return version + 1
"""

# KEYS: control. ARGV: record, token step, token start.
CONTROL_DELETE = """
local gone = redis.call('HDEL', KEYS[1], 'r:' .. ARGV[1])
redis.call('HSETNX', KEYS[1], 't', ARGV[3])
if gone == 1 and ARGV[2] ~= '0' then
  redis.call('HINCRBY', KEYS[1], 't', ARGV[2])
  redis.call('PUBLISH', KEYS[1], '')
end
return gone
"""

# KEYS: lease. ARGV: owner, ttl_ms. Returns mine, held, done or void. A held lease is `held:<owner>`.
LEASE = """
local found = redis.call('GET', KEYS[1])
if found and found ~= 'held:' .. ARGV[1] then return string.match(found, '^%a+') end
redis.call('SET', KEYS[1], 'held:' .. ARGV[1], 'PX', ARGV[2])
return 'mine'
"""

# KEYS: lease. ARGV: owner, state, ttl_ms.
LEASE_END = """
if redis.call('GET', KEYS[1]) ~= 'held:' .. ARGV[1] then return 0 end
if ARGV[2] == 'free' then return redis.call('DEL', KEYS[1]) end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
"""

# KEYS: control. ARGV: token start.
CONTROL_EPOCH = """
redis.call('HSETNX', KEYS[1], 't', ARGV[1])
return redis.call('HGET', KEYS[1], 't')
"""

# On a cluster. KEYS: entry. ARGV: ttl_ms, head, vector, body, partition, namespace, entry_id. Returns the old partition and namespace.
CLUSTER_PUT = """
local old = redis.call('HMGET', KEYS[1], 'p', 'n')
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'h', ARGV[2], 'v', ARGV[3], 'b', ARGV[4], 'p', ARGV[5], 'n', ARGV[6], 'i', ARGV[7])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return old
"""

# KEYS: index. ARGV: key, ttl_ms, whether the member '' keeps the last sequence number.
CLUSTER_INDEX = """
local time = redis.call('TIME')
local seq = time[1] * 2097152 + time[2] * 2
local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
if last[2] and tonumber(last[2]) + 2 > seq then seq = tonumber(last[2]) + 2 end
redis.call('ZADD', KEYS[1], string.format('%.0f', seq), ARGV[1])
if ARGV[3] == '1' then redis.call('ZADD', KEYS[1], string.format('%.0f', seq - 1), '') end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 1
"""

# KEYS: index. ARGV: key, score, key, score, ... Removes those that still have this score: one stored anew has another.
CLUSTER_DROP = """
for at = 1, #ARGV, 2 do
  if redis.call('ZSCORE', KEYS[1], ARGV[at]) == ARGV[at + 1] then redis.call('ZREM', KEYS[1], ARGV[at]) end
end
return 1
"""

# KEYS: entry. ARGV: entry_id, `*` = whatever it is. Returns the head when it was there and is removed.
CLUSTER_DELETE = """
local old = redis.call('HMGET', KEYS[1], 'i', 'h')
if not old[1] or (ARGV[1] ~= '*' and ARGV[1] ~= old[1]) then return false end
redis.call('UNLINK', KEYS[1])
return old[2]
"""
