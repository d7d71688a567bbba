-- What Redisson's acquire does to the keys, for the comparison.
-- KEYS  1 lock
-- ARGV  1 lease in ms, 2 owner
-- reply nil: granted; else what the holder's lease still has, in ms
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then
    redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
    redis.call('PEXPIRE', KEYS[1], ARGV[1])
    return nil
end
return redis.call('PTTL', KEYS[1])
