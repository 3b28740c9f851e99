-- notice: mark the moment from which a joiner waits.
-- KEYS[1] redlock:node
-- ARGV    nonce
-- returns the nonce that stands now, and the run_id
-- atomic because the nonce must be of the process that it names: one that was
-- written under another run_id is replaced, one of this run stands, so that many
-- joiners wait on one notice. FLUSHALL takes it, and so restarts their wait.
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
if not run then return redis.error_reply('ERR redlock: INFO has no run_id') end
local old = redis.call('HMGET', KEYS[1], 'nonce', 'nonce_run')
if old[1] and old[2] == run then return {old[1], run} end
redis.call('HSET', KEYS[1], 'nonce', ARGV[1], 'nonce_run', run)
return {ARGV[1], run}
