-- Who holds a plain lock. Writes nothing.
-- KEYS  1 lock, 2 holder details
-- reply {rest of the lease in ms (-1: it never ends, -2: free), server time in ms, {field, count, …}, {field, details, …}}
--
-- Details that cannot be read are none.
local lock, details = KEYS[1], KEYS[2]

local about = redis.pcall('HGETALL', details)
if about['err'] then
    about = {}
end
local now = redis.call('TIME')
return {
    redis.call('PTTL', lock),
    string.format('%d%03d', now[1], math.floor(now[2] / 1000)),
    redis.call('HGETALL', lock),
    about,
}
