-- Frees a fair lock, whoever holds it, and tells the first living waiter.
-- KEYS  1 lock, 2 queue, 3 deadlines, 4 clients, 5 waiters, 6 amnesty, 7 holder details
-- ARGV  1 dead, 2 java_wait, in ms each, 3 channel, 4 inbox
-- reply 1: it was held; 0: there was nothing to free
--
-- A key of another type is left alone: reading it as a lock raises the server's own error.
local lock, queue, deadlines, clients, waiters, amnesty, details = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local dead, java_wait, channel, inbox = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local held = redis.call('HLEN', lock)
redis.call('DEL', lock, details)
local line = line_of(lock, queue, deadlines, clients, waiters, amnesty, dead, java_wait)
wake_next(line, channel, inbox)
return held > 0 and 1 or 0
