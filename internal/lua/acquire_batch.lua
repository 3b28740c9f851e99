-- acquire_batch: acquire.lua for n locks, one after another.
-- KEYS[1]        redlock:node
-- KEYS[2..]      n resources, then their n redlock:dead:<owner value>
-- ARGV           epoch, n stripes, n owners, n ttls (ms), n hints
-- returns n integers, each as acquire.lua's, and behind them the node's TIME, if the user
-- may read it and the epoch is this one
-- atomic as acquire.lua: all reads first, then one HSET of every counter, then
-- the SETs. The same name twice is one granted and one taken; two names on one
-- stripe get different numbers.
-- Nearly always every name is free, every owner alive and nobody waits: one EXISTS says
-- so. Then SET needs no condition, and no value is read. A call with the same name twice,
-- or with two names on one counter, takes the long way. A hint is stored as the string
-- that came, because turning a number into a string costs more than a command's look-up.
-- A shared name gets acquire.lua's reply.
local call, n = redis.call, (#KEYS - 1) / 2
local rec = call('HMGET', KEYS[1], 'epoch', 'base', unpack(ARGV, 2, n + 1))
if rec[1] ~= ARGV[1] then
  for i = 1, n do rec[i] = 0 end
  return {unpack(rec, 1, n)}
end
local base, hints = tonumber(rec[2] or 0), 1 + 3 * n
KEYS[2 * n + 2] = 'redlock:waiting'
local present = call('EXISTS', unpack(KEYS, 2))
if present == 0 then
  local keys, argv, tonumber, counted, counters, out, plain = KEYS, ARGV, tonumber, {}, {}, {}, true
  for i = 1, n do
    local key, stripe, hint = keys[1 + i], argv[1 + i], argv[hints + i]
    local c, least = tonumber(rec[2 + i] or 0), tonumber(hint)
    if c < base then c = base end
    if counted[key] or counted[stripe] or c >= 9007199254740990 or least >= 9007199254740991 then
      plain = false
      break
    end
    if c < least then
      c = least
    else
      c = c + 1
      hint = c
    end
    counted[key], counted[stripe] = true, true
    counters[2 * i - 1], counters[2 * i], out[i] = stripe, hint, c
  end
  if plain then
    call('HSET', keys[1], unpack(counters))
    for i = 1, n do call('SET', keys[1 + i], argv[1 + n + i], 'PX', argv[1 + 2 * n + i]) end
    local time = redis.pcall('TIME')
    out[n + 1], out[n + 2] = time[1], time[2]
    return out
  end
end
local val, waiting, sharing, shared
local function hasWaiter(queue)
  local head = call('ZRANGE', queue, '0', '0')[1]
  while head do
    if call('EXISTS', 'redlock:live:' .. head) > 0 then return true end
    call('ZREM', queue, head)
    head = call('ZRANGE', queue, '0', '0')[1]
  end
end
if present > 0 then
  val = call('MGET', unpack(KEYS, 2))
  waiting = val[2 * n + 1]
  sharing = waiting and call('EXISTS', 'redlock:sharing') > 0
  for i = 1, 2 * n + 1 do
    if val[i] then present = present - 1 end
  end
  shared = present > 0 and {} -- some keys have another type
  for i = 1, shared and n or 0 do
    shared[i] = not val[i] and redis.pcall('ZRANGE', KEYS[1 + i], '0', '0')[1] == 'redlock:shared'
  end
end
local last, granted, counters, won, wanted = {}, {}, {}, {}, 0
for i = 1, n do
  local stripe, hint = ARGV[1 + i], ARGV[hints + i]
  local c, least = last[stripe] or tonumber(rec[2 + i] or 0), tonumber(hint)
  if c < base then c = base end
  local holder = granted[KEYS[1 + i]] or val and val[i]
  if holder then
    c = holder == ARGV[1 + n + i] and c
  elseif shared and shared[i] then
    c = false
  elseif val and val[n + i] then
    c = -1
  elseif waiting and (hasWaiter('redlock:queue:' .. KEYS[1 + i]) or sharing and hasWaiter('redlock:sharers:' .. KEYS[1 + i])) then
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
    granted[KEYS[1 + i]] = ARGV[1 + n + i]
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
local time = redis.pcall('TIME')
rec[n + 3], rec[n + 4] = time[1], time[2]
return {unpack(rec, 3, n + 4)}
