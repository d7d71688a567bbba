-- The first hold of a tenure on one node of a quorum, which must have its data for a while.
-- KEYS  1 lock, 2 last fence, 3 since when the node has its data, 4 holder details (optional)
-- ARGV  1 field of the tenure, 2 lease in ms, 3 the largest fence that the client has seen, 4 the age in ms that the node's data
--       must have, 5 who it is (with key 4)
-- reply as that of fenced_lock/acquire; the error FRESH if the node's data are too young
-- stays the last fence: it must grow from holder to holder, however long the lock is free in between; the node's key: a node
--       that comes back without it has lost its data, with holds that may still count elsewhere
--
-- Key 3 absent: the data are new, and their age counts from now on. Younger than that age: refused. Otherwise as the part says.
local lock, last_fence, node, details = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local field, lease, seen, age, who = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local since = tonumber(redis.call('GET', node) or '')
if not since then
    redis.call('SET', node, string.format('%.0f', now))
    since = now
end
if now - since < tonumber(age) then
    return redis.error_reply('FRESH this node has its data for too short a time to take part in a quorum')
end
return grant(lock, last_fence, details, field, lease, seen, who)
