-- What Redisson's unlock does to the keys, for the comparison.
-- KEYS  1 lock, 2 channel, 3 latch
-- ARGV  1 message, 2 lease in ms, 3 owner, 4 command to publish with, 5 life of the latch in ms
-- reply 1: free; 0: held on; nil: not ours
local done = redis.call('GET', KEYS[3])
if done ~= false then
    return tonumber(done)
end
if redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then
    return nil
end
if redis.call('HINCRBY', KEYS[1], ARGV[3], -1) > 0 then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    redis.call('SET', KEYS[3], 0, 'PX', ARGV[5])
    return 0
end
redis.call('DEL', KEYS[1])
redis.call(ARGV[4], KEYS[2], ARGV[1])
redis.call('SET', KEYS[3], 1, 'PX', ARGV[5])
return 1
