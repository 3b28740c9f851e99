-- raise: lift the stripe to the token that the round settles on.
-- KEYS[1] the resource
-- KEYS[2] redlock:node
-- ARGV    owner, stripe, token, epoch
-- returns 1 raised; 0 refused: the key is not ours
--       > 1 refused: ours, but the stripe is above the token: the stripe
--        -1 abstained: the epoch is missing or another
-- atomic because the key must still be ours when the stripe moves: so a value belongs to
-- one acquisition of a name. A stripe above the token is the lower bound of another raise.
local rec = redis.call('HMGET', KEYS[2], 'epoch', 'base', ARGV[2])
if rec[1] ~= ARGV[4] then return -1 end
if redis.call('MGET', KEYS[1])[1] ~= ARGV[1] then return 0 end
local c = math.max(tonumber(rec[2] or 0), tonumber(rec[3] or 0))
if c > tonumber(ARGV[3]) then return c end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
return 1
