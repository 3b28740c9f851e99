-- Redisson's watchdog renews the lease.
-- KEYS[1]  the lock; ARGV[1]  the lease, in milliseconds; ARGV[2]  the client and its thread
-- Returns 1, or 0 if the lock is not the thread's any more.
-- Atomic: another one's lease is never prolonged.
if redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
	redis.call('pexpire', KEYS[1], ARGV[1])
	return 1
end
return 0
