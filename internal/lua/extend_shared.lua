-- extend_shared: extend.lua for n shared holds.
-- KEYS[1]   redlock:node
-- KEYS[2..] n resources
-- ARGV      epoch, n owners, n ttls (ms)
-- returns n integers: 1 confirmed; 0 gone: it has ended, or nobody shares the name
--         2 an exclusive holder has the name, or another program's data is there
--        -1 abstained: the epoch is missing or another
-- atomic as extend.lua: it restores no hold (reseed_shared.lua does), and never shortens a
-- lease. share.lua tells the format. The key's end moves first: after that command a
-- server whose memory is full accepts the member's, as it accepts a plain lock's renewal.
local call, n, out = redis.call, #KEYS - 1, {}
if call('HMGET', KEYS[1], 'epoch')[1] ~= ARGV[1] then
  for i = 1, n do out[i] = -1 end
  return out
end
local time = call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
for i = 1, n do
  local key, owner, ends = KEYS[1 + i], ARGV[1 + i], now + tonumber(ARGV[1 + n + i])
  local mark = redis.pcall('ZRANGE', key, '0', '0')
  if mark[1] ~= 'redlock:shared' then
    out[i] = (mark[1] or mark.err) and 2 or 0
  else
    local ownEnd = tonumber(call('ZSCORE', key, owner) or 0)
    if ownEnd < now then
      out[i] = 0
    else
      local latest = tonumber(call('ZRANGE', key, '-1', '-1', 'WITHSCORES')[2])
      call('PEXPIREAT', key, string.format('%.0f', math.max(latest, ends)))
      call('ZADD', key, string.format('%.0f', math.max(ownEnd, ends)), owner)
      out[i] = 1
    end
  end
end
return out
