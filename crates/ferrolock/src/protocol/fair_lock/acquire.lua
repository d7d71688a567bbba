-- The first hold of a tenure on a fair lock, or its place in the queue; the same call is the sign of life of its client.
-- KEYS  1 lock, 2 queue, 3 deadlines, 4 clients, 5 waiters, 6 amnesty, 7 holder details (optional)
-- ARGV  1 field of the tenure, 2 lease in ms, 3 mode: `try`, `wait`, or `beat` (wait, and nothing but time has passed),
--       4 its ticket (0: none yet), 5 whether it is the first of its client's waiters (1) or not (0), 6 dead, 7 java_wait,
--       8 reserve, in ms each, 9 channel, 10 inbox, 11 who it is (with key 7)
-- reply nil: granted; else {rest of the lease in ms (-1: it never ends, -2: free), ticket (0: none), head of the queue,
--       whether that is the waiter itself, whether the queue is mixed with Redisson's, whether it lost its place and has it again}
--
-- Field already there: an earlier call of this waiter ran, so it is granted, with a whole lease. Free, and no living waiter
-- is before it: take it. Otherwise it gets a place, and keeps the one it has. Only the first of a client's waiters counts
-- as a sign of life: a process that takes new waiters and serves none is dead. For a waiter that has a ticket the first
-- write is one that a full server allows: it keeps its place there, and gets its turn.
local lock, queue, deadlines, clients, waiters, amnesty, details = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local field, lease, mode, ticket, front, dead, java_wait = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local reserve, channel, inbox, who = tonumber(ARGV[8]), ARGV[9], ARGV[10], ARGV[11]

local function enter(head)
    local failed = take(lock, details, field, lease, who)
    if not failed and head then
        redis.call('LPOP', queue)
    end
    if not failed and (head or ticket ~= '0') then
        redis.call('ZREM', deadlines, field)
        redis.call('HDEL', waiters, field)
    end
    return failed or false
end

local left = redis.call('PTTL', lock)
local held = left ~= -2 and redis.call('HGET', lock, field)
if held then
    set_count(lock, details, field, held, held, lease)
    return false
end
if ticket ~= '0' then
    redis.call('PEXPIRE', waiters, 3600000)
end
local line = line_of(lock, queue, deadlines, clients, waiters, amnesty, dead, java_wait)
local head, removed = redis.call('LINDEX', queue, 0), 0
if head and head ~= field then
    head, removed = skip(line, field)
end
if left == -2 and (not head or head == field) then
    return enter(head)
end
local ask = { head = head, mode = mode, ticket = ticket, is_front = front == '1', reserve = reserve }
local place = stand(line, field, ask)
ticket, head = place.ticket, redis.call('LINDEX', queue, 0)
if left == -2 and head == field then
    return enter(head)
end
local is_mixed = mode ~= 'try' and is_mixed_with(line, head, place.tail)
if left == -2 and (removed > 0 or mode == 'beat') then
    wake(head, channel, inbox)
end
return { left, tonumber(ticket), head or '', head == field and 1 or 0, is_mixed and 1 or 0, place.returned }
