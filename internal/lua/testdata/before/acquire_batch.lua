-- acquire_batch: acquire.lua for n locks, one after another.
-- KEYS[1]        redlock:node
-- KEYS[2..]      n resources, then their n redlock:dead:<owner value>
-- ARGV           epoch, n stripes, n owners, n ttls (ms), n hints
-- returns n integers, each as acquire.lua's
-- atomic as acquire.lua: all reads first, then one HSET of every counter, then
-- the SETs. The same name twice is one granted and one taken; two names on one
-- stripe get different numbers.
-- Nearly always every name is free, every owner alive and nobody waits: one
-- EXISTS says so and spares the values. A hint goes back as it came, because
-- turning a number into a string costs more than a command's look-up.
local call, n = redis.call, (#KEYS - 1) / 2
local rec = call('HMGET', KEYS[1], 'epoch', 'base', unpack(ARGV, 2, n + 1))
if rec[1] ~= ARGV[1] then
  for i = 1, n do rec[i] = 0 end
  return {unpack(rec, 1, n)}
end
KEYS[2 * n + 2] = 'redlock:waiting'
local val = call('EXISTS', unpack(KEYS, 2)) > 0 and call('MGET', unpack(KEYS, 2))
local function kept(key)
  local queue = 'redlock:queue:' .. key
  local head = call('ZRANGE', queue, '0', '0')[1]
  while head do
    if call('EXISTS', 'redlock:live:' .. head) > 0 then return true end
    call('ZREM', queue, head)
    head = call('ZRANGE', queue, '0', '0')[1]
  end
end
local waiting = val and val[2 * n + 1]
local base, hints = tonumber(rec[2] or 0), 1 + 3 * n
local last, mine, counters, won, wanted = {}, {}, {}, {}, 0
for i = 1, n do
  local stripe, hint = ARGV[1 + i], ARGV[hints + i]
  local c, least = last[stripe] or tonumber(rec[2 + i] or 0), tonumber(hint)
  if c < base then c = base end
  local holder = mine[KEYS[1 + i]] or val and val[i]
  if holder then
    c = holder == ARGV[1 + n + i] and c
  elseif val and val[n + i] then
    c = -1
  elseif waiting and kept(KEYS[1 + i]) then
    c = -3
  elseif c >= 9007199254740990 or least >= 9007199254740991 then
    c = -2
  else
    if c < least then
      c = least
    else
      c = c + 1
      hint = c
    end
    counters[2 * wanted + 1], counters[2 * wanted + 2] = stripe, hint
    last[stripe] = c
    wanted = wanted + 1
    won[wanted] = i
    mine[KEYS[1 + i]] = ARGV[1 + n + i]
  end
  rec[2 + i] = c
end
if wanted > 0 then call('HSET', KEYS[1], unpack(counters)) end
for j = 1, wanted do
  local i = won[j]
  if not call('SET', KEYS[1 + i], ARGV[1 + n + i], 'NX', 'PX', ARGV[1 + 2 * n + i]) then rec[2 + i] = false end
end
for i = 1, n do
  if not rec[2 + i] then
    local left = call('PTTL', KEYS[1 + i])
    rec[2 + i] = left < 0 and -9 or -10 - left
  end
end
return {unpack(rec, 3, n + 2)}
