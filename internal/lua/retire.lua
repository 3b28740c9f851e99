-- retire: make this node abstain for ever.
-- KEYS[1] redlock:node
-- ARGV    cluster
-- returns 1 retired (now, or earlier); 0 refused: another cluster's node
-- atomic because the epoch, the run and the notice must go together: without the first
-- two this node's votes do not count, without the last no join under way can end.
local rec = redis.call('HMGET', KEYS[1], 'cluster', 'gone')
if rec[2] then return 1 end
if rec[1] and rec[1] ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'gone', 1)
redis.call('HDEL', KEYS[1], 'epoch', 'run', 'nonce', 'nonce_run')
return 1
