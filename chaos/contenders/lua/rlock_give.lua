-- Redisson's RLock gives the lock back, and calls those who wait.
-- KEYS[1]  the lock; KEYS[2]  its channel
-- ARGV[1]  the lease, in milliseconds; ARGV[2]  the client and its thread
-- Returns nil if the lock is not the thread's, 0 if it is held still, 1 if it is free.
-- Atomic: another one's lock is never deleted.
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
	return nil
end
if redis.call('hincrby', KEYS[1], ARGV[2], -1) > 0 then
	redis.call('pexpire', KEYS[1], ARGV[1])
	return 0
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], '0')
return 1
