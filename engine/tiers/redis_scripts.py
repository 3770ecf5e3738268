"""The Lua scripts of the Redis tier. Each is atomic; each names its keys by prefix and exact name, never by pattern.

Layout, all under `cs1:`
  e:<key>        HASH  h head, v vector, b body, p partition, n namespace, i entry_id; with the entry's expiry
  p:<partition>  ZSET  key -> seq, of entries with a vector
  n:<namespace>  ZSET  key -> seq
  names          SET   namespaces that held entries
  seq            the last seq used
  control        HASH  r:<record> -> <version>:<value>, n:<namespace> -> 1 (had a record), t -> token

An index expires with the last of its entries, so one that nobody visits any more vanishes by itself. In one that is used, each
put looks at `_SAMPLE` random members and removes those whose entry is gone: at most about one in `_SAMPLE` members is dead.
Scans and catching up remove the dead ones they meet. A member is dead, too, when its key was stored again elsewhere.

On a cluster each of these keys would have a slot of its own, and these scripts would be split in the order entry, then indexes:
an entry without its index is still found by its key, an index member without its entry is removed when met.
"""

from __future__ import annotations

PREFIX = "cs1:"
_SAMPLE = 5

# KEYS: entry, partition index, namespace index, names, seq.
# ARGV: key, partition, namespace, ttl_ms, head, vector, body, entry_id.
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
return seq
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
if ARGV[4] ~= '0' then redis.call('HINCRBY', KEYS[1], 't', ARGV[4]) end
return version + 1
"""

# KEYS: control. ARGV: record, token step, token start.
CONTROL_DELETE = """
local gone = redis.call('HDEL', KEYS[1], 'r:' .. ARGV[1])
redis.call('HSETNX', KEYS[1], 't', ARGV[3])
if gone == 1 and ARGV[2] ~= '0' then redis.call('HINCRBY', KEYS[1], 't', ARGV[2]) end
return gone
"""

# KEYS: control. ARGV: token start.
CONTROL_EPOCH = """
redis.call('HSETNX', KEYS[1], 't', ARGV[1])
return redis.call('HGET', KEYS[1], 't')
"""
