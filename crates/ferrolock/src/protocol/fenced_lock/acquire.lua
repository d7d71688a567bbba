-- The first hold of a tenure on a fenced lock, with a fence that is larger than all before it.
-- KEYS  1 lock, 2 last fence, 3 holder details (optional)
-- ARGV  1 field of the tenure, 2 lease in ms, 3 the largest fence that the client has seen, 4 who it is (with key 3)
-- reply a text: granted, with that fence; a number: what the holder's lease still has, in ms (-1: it never ends)
-- stays the last fence: it must grow from holder to holder, however long the lock is free in between
--
-- As the part says.
local lock, last_fence, details = KEYS[1], KEYS[2], KEYS[3]
local field, lease, seen, who = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

return grant(lock, last_fence, details, field, lease, seen, who)
