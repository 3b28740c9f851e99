-- notice: mark the moment from which a joiner waits.
-- KEYS[1] redlock:node
-- ARGV    nonce
-- returns the nonce that stands now, and the node's identity
-- atomic because the nonce must be of the server that it names: one that was
-- written under another identity is replaced, one of this one stands, so that many
-- joiners wait on one notice. FLUSHALL takes it, and so restarts their wait. A
-- replica gets none: what is written on it goes with the next synchronization.
local process = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local replication = redis.call('INFO', 'replication')
local history = string.match(replication, 'master_replid:(%w+)')
if not process or not history then return redis.error_reply('ERR redlock: INFO has no run_id, or no master_replid') end
if not string.find(replication, 'role:master') then return redis.error_reply('READONLY redlock: a replica gets no notice') end
local run = process .. '.' .. history
local old = redis.call('HMGET', KEYS[1], 'nonce', 'nonce_run')
if old[1] and old[2] == run then return {old[1], run} end
redis.call('HSET', KEYS[1], 'nonce', ARGV[1], 'nonce_run', run)
return {ARGV[1], run}
