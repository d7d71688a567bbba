-- Makes a read hold of a write hold, in one step.
-- KEYS  1 lock, 2 channel, 3 hold key of the read hold, 4 holder details (optional)
-- ARGV  1 write field, 2 read field, 3 lease in ms, 4 who it is (with key 4)
-- reply done: how many clients got the message (0 or more); -1: no field is there; -2: another holder is there
--
-- No write field, but the read field: this very call ran before. Otherwise the write field goes and the read hold comes; all
-- who wait are woken, and readers get in. If the read hold cannot be written, the write hold ends all the same. Begins with
-- a write that a full server allows. Details are for people: what cannot be done about them is left out.
local lock, channel, hold, details = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local write, read, lease, who = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if redis.call('HDEL', lock, write) == 0 then
    if redis.call('HEXISTS', lock, read) == 1 then
        return 0
    end
    return -1 - redis.call('EXISTS', lock)
end
local held = redis.pcall('SET', hold, 1, 'PX', lease)
if not held.err then
    redis.call('HSET', lock, read, 1)
end
if details then
    redis.pcall('HDEL', details, write)
    describe(details, read, lease, who)
end
after_write(lock)
local heard = redis.call('PUBLISH', channel, '1')
return held.err and held or heard
