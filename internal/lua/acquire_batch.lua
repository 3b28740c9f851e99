-- acquire_batch: acquire.lua for n locks, one after another.
-- KEYS[1]        redlock:node
-- KEYS[2..]      n resources
-- ARGV           epoch, whether no two of the names share a stripe (1, or empty), n stripes,
--                n owners, n ttls (ms), n hints
-- returns n integers, each as acquire.lua's
-- atomic as acquire.lua: all reads first, then one HSET of every counter, then
-- the SETs. The same name twice is one granted and one taken; two names on one
-- stripe get different numbers.
-- Nearly always every name is free and has a stripe of its own, and the node has neither
-- tombstones nor waiters: one EXISTS says so. Then SET needs no condition, and no value is
-- read. Any other call takes the long way. A hint is stored as the string that came, because
-- turning a number into a string costs more than a command's look-up.
-- A shared name gets acquire.lua's reply.
local call, n = redis.call, #KEYS - 1
local rec = call('HMGET', KEYS[1], 'epoch', 'base', unpack(ARGV, 3, n + 2))
if rec[1] ~= ARGV[1] then
  for i = 1, n do rec[i] = 0 end
  return {unpack(rec, 1, n)}
end
local base, owners, ttls, hints = (rec[2] or 0) + 0, 2 + n, 2 + 2 * n, 2 + 3 * n
KEYS[n + 2], KEYS[n + 3] = 'redlock:waiting', 'redlock:tombstones'
local present = call('EXISTS', unpack(KEYS, 2))
if present == 0 and ARGV[2] == '1' then
  local keys, argv, counters, out, plain = KEYS, ARGV, {}, {}, true
  for i = 1, n do
    local c, hint = (rec[2 + i] or 0) + 0, argv[hints + i]
    local least = hint + 0
    if c < base then c = base end
    if c < least then
      c = least
    else
      c = c + 1
      hint = c
    end
    if c >= 9007199254740991 then
      plain = false
      break
    end
    counters[2 * i - 1], counters[2 * i], out[i] = argv[2 + i], hint, c
  end
  if plain then
    call('HSET', keys[1], unpack(counters))
    for i = 1, n do call('SET', keys[1 + i], argv[owners + i], 'PX', argv[ttls + i]) end
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
  for i = 1, n do KEYS[n + 3 + i] = 'redlock:dead:' .. ARGV[owners + i] end
  val = call('MGET', unpack(KEYS, 2))
  waiting = val[n + 1]
  sharing = waiting and call('EXISTS', 'redlock:sharing') > 0
  for i = 1, n + 2 do
    if val[i] then present = present - 1 end
  end
  shared = present > 0 and {} -- some keys have another type
  for i = 1, shared and n or 0 do
    shared[i] = not val[i] and redis.pcall('ZRANGE', KEYS[1 + i], '0', '0')[1] == 'redlock:shared'
  end
end
local last, granted, counters, won, wanted = {}, {}, {}, {}, 0
for i = 1, n do
  local stripe, hint = ARGV[2 + i], ARGV[hints + i]
  local c, least = last[stripe] or tonumber(rec[2 + i] or 0), tonumber(hint)
  if c < base then c = base end
  local holder = granted[KEYS[1 + i]] or val and val[i]
  if holder then
    c = holder == ARGV[owners + i] and c
  elseif shared and shared[i] then
    c = false
  elseif val and val[n + 2 + i] then
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
    granted[KEYS[1 + i]] = ARGV[owners + i]
  end
  rec[2 + i] = c
end
if wanted > 0 then call('HSET', KEYS[1], unpack(counters)) end
for j = 1, wanted do
  local i = won[j]
  if not call('SET', KEYS[1 + i], ARGV[owners + i], 'NX', 'PX', ARGV[ttls + i]) then rec[2 + i] = false end
end
for i = 1, n do
  if not rec[2 + i] then
    local left = call('PTTL', KEYS[1 + i])
    rec[2 + i] = left < 0 and -9 or -10 - left
  end
end
return {unpack(rec, 3, n + 2)}
