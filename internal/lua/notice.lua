-- notice: mark the moment from which a joiner waits.
-- KEYS[1] redlock:node
-- ARGV    nonce, claim (empty for a plain notice), the claim that it replaces (may be empty)
-- returns the nonce in force, and the node's identity
-- atomic because the nonce must belong to the server that it names. A nonce written under
-- another identity is replaced. One of this identity stays, so that many joiners wait on
-- one notice; it gets the claim, unless another stands by now than the one that its writer read. FLUSHALL deletes it, and so restarts their wait. A replica gets none: the
-- next synchronization would overwrite it.
local process = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
local replication = redis.call('INFO', 'replication')
local history = string.match(replication, 'master_replid:(%w+)')
if not process or not history then return redis.error_reply('ERR redlock: INFO has no run_id, or no master_replid') end
if not string.find(replication, 'role:master') then return redis.error_reply('READONLY redlock: a replica gets no notice') end
local identity = process .. '.' .. history
local old = redis.call('HMGET', KEYS[1], 'nonce', 'nonce_run', 'claim')
if old[1] and old[2] == identity then
  if ARGV[2] ~= '' and (old[3] or '') == ARGV[3] then redis.call('HSET', KEYS[1], 'claim', ARGV[2]) end
  return {old[1], identity}
end
redis.call('HSET', KEYS[1], 'nonce', ARGV[1], 'nonce_run', identity, 'claim', ARGV[2])
return {ARGV[1], identity}
