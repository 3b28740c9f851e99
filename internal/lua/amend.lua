-- amend: add the cluster's news to a member's record.
-- KEYS[1] redlock:node
-- ARGV    epoch, maxttl (ms; 0: as it is), strict (1, or empty: as it is)
-- returns 1 done (or it stood there already)
--        -1 abstained: the epoch is missing or another
-- atomic because the record must be the one that was read. MaxTTL does not fall, and strict
-- never goes.
-- maxttl_least is the smallest MaxTTL that was raised. A node that voted in a round, forgot and
-- was taken in again before the round's end, in less than the round's TTL, was so by a joiner
-- that read a shorter MaxTTL on N-q+1 others. One of these votes in the round too, and was
-- raised in between. So a round counts for less than maxttl_least, unless each node that votes
-- was seen with the longer MaxTTL before the round began, under the epoch of its vote: within an
-- epoch no MaxTTL falls. That needs no clock, and so the field need not be cleared: it bears on
-- the rounds that were under way when a client first saw the raise.
local rec = redis.call('HMGET', KEYS[1], 'epoch', 'maxttl', 'maxttl_least')
if rec[1] ~= ARGV[1] then return -1 end
local before = tonumber(rec[2] or 0)
local maxttl = math.max(before, tonumber(ARGV[2]))
if maxttl > before then redis.call('HSET', KEYS[1], 'maxttl_least', string.format('%.0f', math.min(before, tonumber(rec[3] or before)))) end
redis.call('HSET', KEYS[1], 'maxttl', string.format('%.0f', maxttl))
if ARGV[3] == '1' then redis.call('HSET', KEYS[1], 'strict', 1) end
return 1
