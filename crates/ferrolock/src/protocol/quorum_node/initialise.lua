-- A server becomes a node of a quorum at once, however new its data are.
-- KEYS  1 since when the node has its data
-- reply 1
-- stays the node's key: a node that comes back without it has lost its data
--
-- Zero is older than every age that is asked for.
local node = KEYS[1]

redis.call('SET', node, 0)
return 1
