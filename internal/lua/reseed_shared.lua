-- reseed_shared: put n shared holds back on a node that lost them.
-- KEYS[1]   redlock:node
-- KEYS[2..] n resources, then their n redlock:dead:<owner value>
-- ARGV      epoch, n stripes, n owners, n ttls (ms), n tokens
-- returns n integers: 1 done (or there already); 0 refused
--        -1 abstained: the epoch is missing or another
-- atomic as share.lua, which tells the format. It is sent only when reseed.lua would be. It
-- joins the sharers of the name, or begins a generation: with its own token if the counter
-- is below that, else above the counter. With an older number, late calls would restore an
-- old generation, and a new sharer would be numbered below an exclusive hold that has ended.
local call, pcall, n, out = redis.call, redis.pcall, (#KEYS - 1) / 2, {}
local rec = call('HMGET', KEYS[1], 'epoch', 'base', unpack(ARGV, 2, n + 1))
if rec[1] ~= ARGV[1] then
  for i = 1, n do out[i] = -1 end
  return out
end
local time = call('TIME')
local now, stripes = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000), {}
local function whole(number) return string.format('%.0f', number) end

for i = 1, n do
  local key, stripe, owner = KEYS[1 + i], ARGV[1 + i], ARGV[1 + n + i]
  local ends, token = now + tonumber(ARGV[1 + 2 * n + i]), tonumber(ARGV[1 + 3 * n + i])
  local mark = pcall('ZRANGE', key, '0', '0')
  local ours = mark[1] == 'redlock:shared'
  local latest = ours and tonumber(call('ZRANGE', key, '-1', '-1', 'WITHSCORES')[2])
  if ours and tonumber(call('ZSCORE', key, owner) or 0) >= now then
    out[i] = 1
  elseif not ours and (mark[1] or mark.err) or call('EXISTS', KEYS[1 + n + i]) == 1 then
    out[i] = 0
  elseif ours and latest >= now then
    call('ZADD', key, whole(ends), owner)
    call('PEXPIREAT', key, whole(math.max(latest, ends)))
    out[i] = 1
  else
    local c = stripes[stripe] or math.max(tonumber(rec[2] or 0), tonumber(rec[2 + i] or 0))
    c = c < token and token or c + 1
    out[i] = c < 9007199254740991 and 1 or 0
    if out[i] == 1 then
      if ours then call('DEL', key) end
      call('HSET', KEYS[1], stripe, whole(c))
      stripes[stripe] = c
      call('ZADD', key, '-' .. whole(c), 'redlock:shared', whole(ends), owner)
      local ended = pcall('PEXPIREAT', key, whole(ends))
      if type(ended) == 'table' then
        call('DEL', key)
        return ended
      end
    end
  end
end
return out
