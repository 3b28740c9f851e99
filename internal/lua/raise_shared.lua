-- raise_shared: lift the generation of a shared name, and the stripe, to a number.
-- KEYS[1] the resource
-- KEYS[2] redlock:node
-- ARGV    owner, stripe, number, epoch
-- returns > 0 the generation's number now; if it is the requested one, it was raised
--           0 refused: the owner does not share the name (any more)
--          -1 abstained: the epoch is missing or another
-- atomic because the owner must still share the name when the stripe moves (raise.lua).
-- The number need not have been granted: any number that is not below the stripe is new
-- to this name here. So a caller that is refused because other names moved the stripe
-- tries again with a larger number.
local call = redis.call
local rec = call('HMGET', KEYS[2], 'epoch', 'base', ARGV[2])
if rec[1] ~= ARGV[4] then return -1 end
local mark = redis.pcall('ZRANGE', KEYS[1], '0', '0', 'WITHSCORES')
if mark[1] ~= 'redlock:shared' then return 0 end
local time = call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
if tonumber(call('ZSCORE', KEYS[1], ARGV[1]) or 0) < now then return 0 end
if math.max(tonumber(rec[2] or 0), tonumber(rec[3] or 0)) > tonumber(ARGV[3]) then return -tonumber(mark[2]) end
call('HSET', KEYS[2], ARGV[2], ARGV[3])
call('ZADD', KEYS[1], '-' .. ARGV[3], 'redlock:shared')
return tonumber(ARGV[3])
