-- acquire_batch: acquire.lua for n locks, one after another.
-- KEYS[1]        redlock:node
-- KEYS[2..]      n resources, then their n redlock:dead:<owner value>
-- ARGV           epoch, n stripes, n owners, n ttls (ms), n hints
-- returns n integers, each as acquire.lua's
-- atomic as acquire.lua: all reads first, then one HSET of every counter, then
-- the SETs. The same name twice is one granted and one taken; two names on one
-- stripe get different numbers.
local n = (#KEYS - 1) / 2
local rec = redis.call('HMGET', KEYS[1], 'epoch', 'base', unpack(ARGV, 2, n + 1))
local out = {}
if rec[1] ~= ARGV[1] then
  for i = 1, n do out[i] = 0 end
  return out
end
local val = redis.call('MGET', unpack(KEYS, 2))
local base = tonumber(rec[2] or 0)
local last, mine, counters, won, wanted = {}, {}, {}, {}, 0
for i = 1, n do
  local key, stripe, owner = KEYS[1 + i], ARGV[1 + i], ARGV[1 + n + i]
  local holder = mine[key] or val[i]
  local c = last[stripe] or math.max(base, tonumber(rec[2 + i] or 0))
  if holder == owner then
    out[i] = c
  elseif holder then
    out[i] = false
  elseif val[n + i] then
    out[i] = -1
  else
    c = math.max(c, tonumber(ARGV[1 + 3 * n + i]) - 1) + 1
    if c >= 9007199254740991 then
      out[i] = -2
    else
      out[i], last[stripe], mine[key] = c, c, owner
      counters[2 * wanted + 1], counters[2 * wanted + 2] = stripe, string.format('%.0f', c)
      wanted = wanted + 1
      won[wanted] = i
    end
  end
end
if wanted > 0 then redis.call('HSET', KEYS[1], unpack(counters)) end
for j = 1, wanted do
  local i = won[j]
  if not redis.call('SET', KEYS[1 + i], ARGV[1 + n + i], 'NX', 'PX', ARGV[1 + 2 * n + i]) then out[i] = false end
end
for i = 1, n do
  if not out[i] then
    local left = redis.call('PTTL', KEYS[1 + i])
    out[i] = left < 0 and -9 or -10 - left
  end
end
return out
