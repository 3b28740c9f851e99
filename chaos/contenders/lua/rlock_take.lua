-- Redisson's RLock takes the lock, or tells how long it is taken.
-- KEYS[1]  the lock: a hash of who holds it, and how often
-- ARGV[1]  the lease, in milliseconds
-- ARGV[2]  the client and its thread
-- Returns nil if it is taken now, else the milliseconds that are left of another one's lease.
-- Atomic: nobody takes it between the look and the write.
if (redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1) then
	redis.call('hincrby', KEYS[1], ARGV[2], 1)
	redis.call('pexpire', KEYS[1], ARGV[1])
	return nil
end
return redis.call('pttl', KEYS[1])
