-- Who holds a read-write lock. Writes nothing.
-- KEYS  1 lock, 2 holder details
-- reply {rest of the lease in ms (-1: it never ends, -2: free), server time in ms, {field, count, …}, {field, details, …},
--       {rest in ms of the hold of each field in that list, 0 if it is dead or has no hold key, …}}
--
-- Details that cannot be read are none.
local lock, details = KEYS[1], KEYS[2]

local about = redis.pcall('HGETALL', details)
if about['err'] then
    about = {}
end
local fields, holds = redis.call('HGETALL', lock), {}
local base = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
for i = 1, #fields, 2 do
    local longest, count = 0, tonumber(fields[i + 1]) or 0
    for n = 1, math.min(count, 1000) do
        local key = base .. ':' .. fields[i] .. ':rwlock_timeout:' .. string.format('%d', n)
        longest = math.max(longest, redis.call('PTTL', key))
    end
    holds[#holds + 1] = longest
end
local now = redis.call('TIME')
return {
    redis.call('PTTL', lock),
    string.format('%d%03d', now[1], math.floor(now[2] / 1000)),
    fields,
    about,
    holds,
}
